"""The layout law: every column and record that an engine sees, and every code that stands in one.

The core overlays C structs on these (``_core/types.pxd``); ``tests/test_layout.py`` holds both to
the same order and width. Addresses are the network bytes loaded little-endian into ``u32`` words
(SOCK-7), IPv4 in word 0 with the other three zero. Ports and lengths are host integers.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum, IntFlag

import numpy as np
from numpy.typing import NDArray

Column = tuple[str, str, int]

PACKET_COLUMNS: tuple[Column, ...] = (
    # name, dtype, width (entries per packet)
    ("arrival_ps", "i8", 1),  # time since the start of the input
    ("wire_bytes", "u4", 1),  # frame on the wire, link header and padding included, FCS not
    ("nic", "u2", 1),  # index of the NIC (of the capture's interface) it arrived on
    ("reason", "u1", 1),  # Reason: why dissection stopped; 0 = whole
    ("flags", "u2", 1),  # PacketFlag
    ("family", "u1", 1),  # 0 not IP, 4, 6: the outer network header
    ("ip_proto", "u1", 1),  # after the IPv6 extension headers; of the outer packet
    ("ethertype", "u2", 1),  # after the VLAN tags
    ("vlan_tci", "u2", 1),  # outermost tag
    ("vlan_tpid", "u2", 1),  # outermost tag's 0x8100 or 0x88a8; 0 = untagged
    ("saddr", "u4", 4),
    ("daddr", "u4", 4),
    ("sport", "u2", 1),  # 0 without HAS_PORTS
    ("dport", "u2", 1),
    ("flow_label", "u4", 1),  # IPv6, 20 bits
    ("flow_key", "i4", 1),  # row of Packets.flow_keys when the columns are not enough; else -1
    ("mac", "u8", 2),  # 14 bytes of Ethernet header, little-endian, 2 zero bytes behind
    ("l3_off", "u2", 1),  # from the start of the frame
    ("l4_off", "u2", 1),
    ("ip_b0", "u1", 1),  # first byte of the network header: version and, for IPv4, ihl
    ("tos", "u1", 1),  # IPv4 TOS or IPv6 traffic class
    ("ttl", "u1", 1),  # or hop limit
    ("ip_frag", "u2", 1),  # IPv4 flags and offset word; 0 for IPv6
    ("ip_id", "u2", 1),
    ("ip_len", "u2", 1),  # the header's own tot_len or payload_len
    ("seq", "u4", 1),
    ("ack", "u4", 1),
    ("tcp_w12", "u4", 1),  # the 32 bits at TCP offset 12: doff, flags, window
    ("udp_len", "u2", 1),  # the UDP header's own length
    ("payload_bytes", "u4", 1),  # present behind the TCP or UDP header, padding included
    ("opt_off", "i8", 1),  # where the TCP options begin in Packets.blob; -1 without any
    ("ip_summed", "u1", 1),  # IpSummed as the driver hands it up
    ("csum_level", "u1", 1),
    ("skb_hash", "u4", 1),  # hash on the packet before RSS (recorded, or a socket's); 0 = none
    ("hash_type", "u1", 1),  # HashType of skb_hash
    ("frame_off", "i8", 1),  # where the frame begins in Packets.blob; -1 = no bytes kept
    ("cap_bytes", "u4", 1),  # bytes kept; less than wire_bytes when snapped
    ("gso_type", "u4", 1),  # SKB_GSO_* of a packet that came as a GSO one; else 0
    ("gso_size", "u2", 1),  # of such a packet; 0 of all others
    ("gso_segs", "u2", 1),
    ("csum_start", "u2", 1),  # from the start of the frame, where a PARTIAL checksum begins; else 0
    ("csum_off", "u2", 1),  # where it is to be put, from csum_start
)


class Reason(IntEnum):
    """Why a frame could not be dissected to the end. It stays in the table all the same."""

    OK = 0
    EMPTY = 1  # a 0-byte frame
    TRUNCATED_LINK = 2  # shorter than its link header or VLAN tags
    TRUNCATED_L3 = 3  # shorter than its network header
    BAD_VERSION = 4  # the version nibble contradicts the ethertype or link type
    BAD_IHL = 5  # IPv4 ihl below 5
    TRUNCATED_EXT = 6  # an IPv6 extension header (or IPv4 options) runs past the end
    TRUNCATED_L4 = 7  # shorter than the transport header
    BAD_DOFF = 8  # TCP doff below 5 or past the end
    SNAPPED = 9  # the capture cut a header off: the wire had it, the file does not


class PacketFlag(IntFlag):
    """Bits of the ``flags`` column."""

    HAS_PORTS = 1 << 0  # sport and dport are valid (not in fragments, not without a port pair)
    FRAGMENT = 1 << 1  # MF set, offset non-zero, or an IPv6 fragment header
    LATER_FRAGMENT = 1 << 2  # offset non-zero
    IP_CSUM_BAD = 1 << 3  # IPv4 header checksum wrong
    L4_CSUM_BAD = 1 << 4  # TCP or UDP checksum wrong over the bytes present (GRO-A4)
    UDP_CSUM_ZERO = 1 << 5  # UDP checksum field 0
    SNAP_CUT = 1 << 6  # cap_bytes < wire_bytes: checksum counts as good
    VLAN_META = 1 << 7  # the outermost tag is in metadata (accelerated), not in the frame
    EXT_HEADERS = (
        1 << 8
    )  # IPv6 extension headers that GRO walks stand before the transport (GRO-18)
    EXT_BYPASS = 1 << 9  # an IPv6 header that GRO does not walk (fragment, AH, ESP ...) came first
    TUNNEL = 1 << 10  # IPv4 or IPv6 rides directly in IP (protocol 4 or 41), or GRE
    MALFORMED_LEN = 1 << 11  # ip_len contradicts the bytes present
    GSO = 1 << 12  # it came as a GSO packet: gso_size, gso_type and gso_segs hold what it said


class IpSummed(IntEnum):
    """skb->ip_summed."""

    NONE = 0
    UNNECESSARY = 1
    COMPLETE = 2
    PARTIAL = 3


class HashType(IntEnum):
    """What a hash covers.

    Only L4 from hardware, or any from software, counts as skb->hash (receive.md 2.1).
    """

    NONE = 0
    L2 = 1
    L3 = 2
    L4 = 3
    SW = 4  # computed by the stack's flow dissector
    SW_L4 = 5  # the same, ports or a flow label in it


class Direction(IntEnum):
    """Which way a packet goes, by the host's addresses."""

    RECEIVED = 0
    SENT = 1
    FORWARDED = 2
    OTHER = 3  # not IP, multicast to nobody, or undissectable: link-level reception only


class GroResult(IntEnum):
    """What GRO answered (napi_gro_receive)."""

    MERGED = 0
    MERGED_FREE = 1  # never used: told apart from MERGED by memory layout only
    HELD = 2
    NORMAL = 3
    BYPASS = 4  # the packet never met GRO: sent, or dropped before


class Secret(IntFlag):
    """What a decision hangs on that nobody can read from a host. 0 = the decision is exact."""

    FLOW_HASH = 1 << 0  # the SipHash key of skb->hash
    EHASH = 1 << 1  # the jhash secrets of socket hashing
    TXHASH = 1 << 2  # the random hash of a local socket
    THREAD = 1 << 3  # which of several application threads takes it: a stated model, not the kernel
    RSS_KEY = 1 << 4  # the RSS key was not given and is drawn from the seed


class Drop(IntEnum):
    """Why a packet ended without a socket; named as SKB_DROP_REASON_* where the kernel has one."""

    NONE = 0
    NO_SOCKET = 1
    CPUMAP_RING_FULL = 2
    XDP_DROP = 3
    OTHERHOST = 4
    NOT_DISSECTED = 5
    CSUM = 6  # IP_CSUM, TCP_CSUM or UDP_CSUM
    FRAGMENT = 7  # waits for reassembly, which is not modelled
    UNHANDLED_PROTO = 8  # no handler in the model behind IP: counted, not looked up


class TxOf(IntEnum):
    """What the tx_queue column is about."""

    NOTHING = 0
    REPLY = 1
    FORWARD = 2
    SENT = 3
    REDIRECT = 4  # a sockmap egress redirect, sent by the worker


FLOW_KEY = np.dtype(
    [  # one row per packet whose flow-hash input is more than the columns: VLAN, label, tunnel ...
        ("block", "u1", (72,)),  # receive.md 2.2, the hashed bytes after ordering
        ("len", "u1"),  # 40, 44, 48 or 72
        ("l4", "u1"),  # 1 when ports or a flow label stand in it
        ("pad", "u1", (6,)),
    ],
    align=True,
)

# Flow types an RSS field set is chosen by, in this order in RSS["fields"].
RSS_FLOWS = ("tcp4", "udp4", "sctp4", "ip4", "tcp6", "udp6", "sctp6", "ip6")


class RssField(IntFlag):
    """ethtool's rx-flow-hash field bits (receive.md 1.4) that the model hashes."""

    IP_SRC = 1 << 4
    IP_DST = 1 << 5
    L4_B_0_1 = 1 << 6
    L4_B_2_3 = 1 << 7


RSS = np.dtype(
    [  # one row per NIC
        ("fields", "u4", (8,)),  # RssField per RSS_FLOWS entry; 0 = not hashed
        ("xfrm", "u4"),  # 0, 1 SYM_XOR, 2 SYM_OR_XOR
        ("table_off", "u4"),  # into toeplitz tables (u4), 36*256 entries each
        ("indir_off", "u4"),  # into the indirection entries
        ("indir_len", "u4"),  # a power of two, >= 1
    ],
    align=True,
)

SOCKET = np.dtype(
    [  # 120 bytes, one row per socket, in the order the sockets were opened
        ("family", "u1"),  # 4 or 6
        ("proto", "u1"),  # 6 or 17
        ("state", "u1"),  # SockState
        ("v6only", "u1"),
        ("reuseport", "u1"),
        ("prog_kind", "u1"),  # Prog; the program this socket attaches when it is opened
        ("lport", "u2"),
        ("fport", "u2"),
        ("pad0", "u2"),
        ("bound_dev", "i4"),  # 0 none, else ifindex = NIC index + 1
        ("laddr", "u4", (4,)),  # all zero = any
        ("faddr", "u4", (4,)),
        ("incoming_cpu", "i4"),  # SO_INCOMING_CPU, -1 unset
        ("mask_off", "i4"),  # first u8 word of its CPU mask in the plan's masks; -1 none (SOCK-25)
        ("uid", "u4"),
        ("prog_value", "i4"),  # Prog.FIXED: the index; Prog.PAYLOAD: the octet's offset
        ("app_off", "u4"),  # its application threads' CPUs in the plan's app_cpus
        ("app_len", "u4"),
        ("psock_target", "i4"),  # sockmap verdict redirects to this socket's psock; -1 none
        ("psock_cpu", "i4"),  # target_cpu of its own psock; -1 none
        ("has_psock", "u1"),
        ("redirect_ingress", "u1"),
        ("udp_gro", "u1"),  # UDP_GRO is set on it (GRO-37)
        ("pad1", "u1"),
        ("priority", "u4"),  # SO_PRIORITY: chooses the traffic class
        ("pad2", "u1", (32,)),
    ],
    align=True,
)


class SockState(IntEnum):
    """Life of a socket in the model."""

    CLOSED = 0  # declared, not opened yet, or closed
    BOUND = 1  # UDP, unconnected
    LISTEN = 2
    ESTABLISHED = 3  # TCP established, or connected UDP


class Prog(IntEnum):
    """What a group's classic BPF program returns as index."""

    NONE = 0
    FIXED = 1
    CPU = 2
    PAYLOAD = 3  # the payload octet at an offset


class LookupStage(IntEnum):
    """Where a socket lookup ended."""

    NONE = 0  # no socket
    ESTABLISHED = 1  # the TCP table of connections
    EXACT = 2  # the bucket of the packet's address and port
    WILDCARD = 3  # the bucket of the any-address and the port
    PRIMARY = 4  # the chain of the port alone
    HASH4 = 5  # the UDP table of connected sockets (SOCK-72)


LOOKUP_CFG = np.dtype(
    [  # how a kernel looks sockets up, and its secrets (SOCK-9)
        ("tcp4_secret", "u4"),
        ("udp4_secret", "u4"),
        ("tcp6_secret", "u4"),
        ("udp6_secret", "u4"),
        ("tcp6_addr_secret", "u4"),
        ("udp6_addr_secret", "u4"),
        ("hash_mix", "u4"),  # net_hash_mix of the one netns (SOCK-8)
        ("legacy", "u1"),  # 3.9 .. 4.4: chains are scanned and equal scores share (SOCK-79..84)
        ("mask_boost", "u1"),  # a CPU mask adds to the score (SOCK-28), else rejects (SOCK-24)
        ("mask_v6_udp_quirk", "u1"),  # 0 none, 1 primary scan only, 2 hash2 scan only (SOCK-29)
        ("cpu_aware", "u1"),  # SO_INCOMING_CPU counts in a group (SOCK-45), or in 4.4's score
        ("tcp_port_added", "u1"),  # the local TCP port is added outside jhash (SOCK-12)
        ("udp_conn_stays", "u1"),  # 6.12: a connected member stays in its group (SOCK-56)
        ("pad", "u2"),
        ("udp_slots", "u4"),  # slots of the tables by port and address: UDP's two and TCP's lhash2
        ("ncpus", "u4"),
    ],
    align=True,
)


class CpumapDesign(IntEnum):
    """The three consumers (sockets.md 5.2-5.4)."""

    PLAIN = 0
    MERGED_GRO = 1
    NAPI = 2


class CpumapRule(IntEnum):
    """What the XDP program keys the map with."""

    RX_QUEUE = 0
    HASH = 1  # the program's own hash of addresses and ports, in which no secret enters
    SADDR = 2
    FIXED = 3


NIC = np.dtype(
    [  # one row per NIC of a plan
        ("rxq_first", "u4"),  # its rx queues are [rxq_first, rxq_first + rxq_count) of the plan
        ("rxq_count", "u4"),
        ("txq_first", "u4"),
        ("txq_count", "u4"),
        ("forward_nic", "i4"),  # where forwarded packets leave
        ("hw_hash", "u1"),  # the driver reports the RSS hash in the skb
        ("key_secret", "u1"),  # the RSS key was not given
        ("cpumap_design", "u1"),  # CpumapDesign; 255 without a cpumap
        ("cpumap_rule", "u1"),
        ("num_tc", "u4"),  # traffic classes of the tx side (mqprio); 0 none
        ("tc_offset", "u2", (16,)),  # class i has tx queues [offset, offset + count)
        ("tc_count", "u2", (16,)),
        ("prio_tc", "u1", (16,)),  # class of each skb->priority & 15
        ("cpumap_first", "u4"),  # its entries are [first, first + count) of the plan
        ("cpumap_count", "u4"),
        ("cpumap_fixed", "i4"),  # entry number for CpumapRule.FIXED
    ],
    align=True,
)

OP = np.dtype(
    [  # one row per op, in order of time
        ("time_ps", "i8"),
        ("kind", "i4"),  # emu.model.ops.OpKind
        ("target", "i4"),  # NIC index, or socket row
        ("arg0", "i4"),  # queue; CPU; first mask word; socket state; first app_cpus entry
        ("arg1", "i4"),  # row of xps_masks; rps map row; number of threads
    ],
    align=True,
)

SKB = np.dtype(
    [  # 48 bytes, one row per skb that GRO gives to the stack
        ("first", "i8"),  # index of the packet it began with
        ("segs", "u4"),  # packets in it
        ("len_bytes", "u4"),  # skb->len: from the octet behind the link header
        ("gso_size", "u4"),  # payload of the first packet; 0 in an skb that is not GSO
        ("gso_type", "u4"),  # raw SKB_GSO_* bits of the kernel; 0 in an skb that is not GSO
        ("gso_segs", "u4"),  # segments; 0 in an skb that is not GSO
        ("hash", "u4"),  # raw skb hash that it was grouped by
        ("hash_type", "u1"),  # HashType
        ("ip_summed", "u1"),  # IpSummed after GRO
        ("csum_level", "u1"),
        (
            "tcp_flags",
            "u1",
        ),  # flag octet of the first TCP header, FIN and PSH of the joined ones in it
        ("csum_start", "u2"),  # PARTIAL: from the start of the frame; else 0
        ("csum_off", "u2"),  # PARTIAL: where the sum goes, from csum_start; else 0
        ("after", "i8"),  # packets that had entered this NAPI's GRO when it was delivered
    ],
    align=True,
)

GRO_CFG = np.dtype(
    [  # 40 bytes: what the device and the kernel say about GRO
        ("max_size", "u4"),  # gro_max_size: an IPv6 skb stays below it
        ("ipv4_max_size", "u4"),  # gro_ipv4_max_size: every other skb
        ("flush_timeout_ns", "u8"),  # gro_flush_timeout
        ("defer_hard_irqs", "u4"),  # napi_defer_hard_irqs
        ("enabled", "u1"),  # the device's gro feature
        ("udp_forwarding", "u1"),  # rx-udp-gro-forwarding
        ("fraglist", "u1"),  # rx-gro-list
        ("fresh_skb", "u1"),  # a cpumap's kthread: no hash, no checksum state, no VLAN metadata
        ("design", "u1"),  # CpumapDesign of that kthread; 255: a NAPI
        ("vlan_module", "u1"),  # 8021Q is there: tags in the frame have a handler (GRO-6)
        # KernelProfile.gro_*:
        ("fixed_id_needs_df", "u1"),
        ("outer_id_unchecked", "u1"),
        ("cwr_masked", "u1"),
        ("cwr_merges", "u1"),
        ("old_gso_bits", "u1"),
        ("tcp_fraglist", "u1"),
        ("jumbo_header", "u1"),
        ("pad", "u1", (7,)),
    ],
    align=True,
)

SKB_DECISION = np.dtype(
    [  # one row per skb: what the stack decided for it
        ("direction", "u1"),  # Direction
        ("drop", "u1"),  # Drop
        ("tx_of", "u1"),  # TxOf
        ("stage", "u1"),  # LookupStage
        ("secrets", "u1"),  # Secret
        ("pad", "u1", (3,)),
        ("napi_cpu", "i4"),  # interrupt's or kthread's CPU
        ("cpu", "i4"),  # protocol processing, after RPS
        ("socket", "i4"),
        ("app_cpu", "i4"),
        ("backlog_cpu", "i4"),  # where the target psock's worker runs; -1 without a redirect
        ("tx_nic", "i4"),
        ("tx_queue", "i4"),
        ("completion_cpu", "i4"),  # interrupt CPU of that tx queue
        ("scanned", "u4"),  # sockets scored by the lookup
        ("walked", "u4"),  # reuseport members looked at
    ],
    align=True,
)

# Stages whose decisions a steer counts, in the order of its counters.
STEER_STAGES = (
    "rss",
    "cpumap",
    "gro",
    "flow_hash",
    "rps",
    "lookup",
    "reuseport",
    "sockmap",
    "xps",
)

# Limits that more than one file needs.
NAPI_WEIGHT = 64
GRO_BUCKETS = 8
GRO_BUCKET_HELD = 8
GRO_NORMAL_BATCH = 8
TOEPLITZ_BYTES = 36
TOEPLITZ_WORDS = TOEPLITZ_BYTES * 256


def allocate(columns: tuple[Column, ...], rows: int) -> dict[str, NDArray[np.generic]]:
    """Zeroed columns of *rows* entries, by name."""
    return {
        name: np.zeros(rows if width == 1 else (rows, width), dtype=kind)
        for name, kind, width in columns
    }


def addresses(
    columns: tuple[Column, ...], arrays: Mapping[str, NDArray[np.generic]]
) -> NDArray[np.uint64]:
    """The columns' memory addresses in declared order: the core overlays a struct of pointers.

    Raises:
        TypeError: a column has another dtype, width or length than declared, or gaps.
    """
    rows = len(next(iter(arrays.values())))
    out = np.empty(len(columns), dtype=np.uint64)
    for index, (name, kind, width) in enumerate(columns):
        array = arrays[name]
        shape = (rows,) if width == 1 else (rows, width)
        if array.dtype != np.dtype(kind) or array.shape != shape or not array.flags.c_contiguous:
            raise TypeError(
                f"column {name}: {array.dtype}{array.shape} is not a contiguous {kind}{shape}"
            )
        out[index] = array.__array_interface__["data"][0]
    return out
