"""What GRO works on: the skb that it builds, the packet that comes in, the device's settings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from emu.dtypes import HashType, IpSummed
from emu.ref import bits
from emu.ref.packet import PacketView

LINK_BYTES = 14
IPPROTO_TCP, IPPROTO_UDP = 6, 17
GSO_TCPV4, GSO_DODGY, GSO_TCPV6 = 1 << 0, 1 << 1, 1 << 4


@dataclass(frozen=True, slots=True)
class GroConfig:
    """What the device and the kernel say about GRO (``dtypes.GRO_CFG``)."""

    max_size: int = 65536
    ipv4_max_size: int = 65536
    flush_timeout_ns: int = 0
    defer_hard_irqs: int = 0
    enabled: bool = True
    udp_forwarding: bool = False
    fraglist: bool = False
    fresh_skb: bool = False  # a cpumap's kthread: no hash, no checksum state, no VLAN metadata
    design: int = 255  # CpumapDesign of that kthread; 255: a NAPI
    vlan_module: bool = False
    fixed_id_needs_df: bool = False
    outer_id_unchecked: bool = False
    cwr_masked: bool = False
    cwr_merges: bool = False
    old_gso_bits: bool = False
    tcp_fraglist: bool = True
    jumbo_header: bool = True


@dataclass(slots=True, eq=False)
class Skb:
    """One skb: a packet, or what GRO made of several."""

    first: int
    members: list[int]
    len_bytes: int
    hash: int
    hash_type: int
    ip_summed: int
    csum_level: int
    tcp_flags: int
    gso_size: int = 0
    gso_type: int = 0
    gso_segs: int = 0
    csum_start: int = 0
    csum_off: int = 0
    after: int = 0  # packets that had entered this GRO when it was delivered


@dataclass(frozen=True, slots=True)
class Link:
    """All outside the network header that packets of one flow share (GRO-1, GRO-2, GRO-6)."""

    hash: int
    nic: int
    vlan: tuple[int, int] | None  # TPID and TCI of a tag in metadata
    tags: bytes = b""  # tags in the frame, between the Ethernet and the network header


@dataclass(slots=True, eq=False)
class Incoming:
    """The packet at hand: where it is, and what GRO has found out about it.

    Of IP in IP, *view* and *index* are the inner packet's once the outer header is read.
    """

    view: PacketView
    index: int
    skb: Skb
    link: Link
    mac: tuple[int, ...]
    base: int = 0  # where the inner packet's network header lies, from where its own row says
    sock: int = 0  # what a socket lookup answered (docs of `gro_packets`)
    soft: bool = False  # the kernel's flush: it may not stay, but ends what it belongs to
    segments: int = 1
    gso: bool = False
    is_flist: bool = False

    @property
    def flags(self) -> int:
        return self.view.flags[self.index]

    @property
    def payload_bytes(self) -> int:
        return self.view.payload_bytes[self.index]

    @property
    def l4_off(self) -> int:
        """Where the transport header lies, from the start of the whole frame."""
        return self.view.l4_off[self.index] + self.base

    def enter(self, view: PacketView, index: int) -> None:
        """Go on with the packet that rides in this one."""
        self.base = self.l4_off - LINK_BYTES
        self.view, self.index = view, index


@dataclass(slots=True, eq=False)
class Held:
    """A held packet: what later ones are compared with, and the skb that grows."""

    skb: Skb
    link: Link
    networks: tuple[object, ...]  # gro_ip.Ipv4 or Ipv6 of the first packet, outermost first
    transport: object  # gro_tcp.Tcp or gro_udp.Udp of the first packet
    mac: tuple[int, ...]
    age: int
    l4_off: int
    payload_bytes: int  # of all its packets
    gso_size: int
    count: int  # segments
    is_flist: bool
    fixed_ids: list[bool]  # by network header, outermost first


def incoming(
    view: PacketView, index: int, hash_value: int, hash_type: int, fresh_skb: bool
) -> Incoming:
    """The packet as the driver, or a cpumap's kthread, hands it to GRO."""
    wire_bytes, header_bytes = view.wire_bytes[index], min(view.l3_off[index], LINK_BYTES)
    tagged = view.flags[index] & bits.VLAN_META and view.vlan_tpid[index]
    vlan = (view.vlan_tpid[index], view.vlan_tci[index]) if tagged else None
    skb = Skb(
        first=index,
        members=[index],
        len_bytes=max(wire_bytes - header_bytes, 0),
        hash=hash_value,
        hash_type=hash_type,
        ip_summed=view.ip_summed[index],
        csum_level=view.csum_level[index],
        tcp_flags=view.tcp_w12[index] >> 16 & 0xFF,
    )
    if fresh_skb:
        skb.hash, skb.hash_type, vlan = 0, HashType.NONE, None
        skb.ip_summed, skb.csum_level = IpSummed.NONE, 0
    link = Link(skb.hash, view.nic[index], vlan)
    mac = tuple(cast("list[int]", view.mac[index]))
    packet = Incoming(view, index, skb, link, mac)
    if skb.ip_summed == IpSummed.PARTIAL:
        skb.csum_start, skb.csum_off = view.csum_start[index], view.csum_off[index]
    if view.flags[index] & bits.GSO and not fresh_skb:
        packet.gso = True
        packet.segments = view.gso_segs[index] or 1
        skb.gso_size, skb.gso_type = view.gso_size[index], view.gso_type[index]
        skb.gso_segs = view.gso_segs[index]
    return packet
