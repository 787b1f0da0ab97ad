"""What GRO works on: the skb that it builds, the packet that comes in, the device's settings."""

from __future__ import annotations

from dataclasses import dataclass, field

from emu.dtypes import HashType, IpSummed
from emu.ref import bits
from emu.ref.packet import PacketView

LINK_BYTES = 14


@dataclass(frozen=True, slots=True)
class GroConfig:
    """What the device and the kernel say about GRO (``dtypes.GRO_CFG``)."""

    max_size: int = 65536
    ipv4_max_size: int = 65536
    enabled: bool = True
    udp_forwarding: bool = False
    fresh_skb: bool = False  # a cpumap's kthread: no hash, no checksum state, no VLAN metadata
    fixed_id_needs_df: bool = False


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
    after: int = 0  # packets that had entered this GRO when it was delivered


@dataclass(frozen=True, slots=True)
class Link:
    """All outside the network header that packets of one flow share (GRO-1, GRO-2)."""

    hash: int
    nic: int
    vlan: tuple[int, int] | None  # TPID and TCI of a tag in metadata


@dataclass(slots=True, eq=False)
class Incoming:
    """The packet at hand: where it is, and what GRO has found out about it."""

    view: PacketView
    index: int
    skb: Skb
    link: Link
    soft: bool = False  # the kernel's flush: it may not stay, but ends what it belongs to

    @property
    def flags(self) -> int:
        return self.view.flags[self.index]

    @property
    def payload_bytes(self) -> int:
        return self.view.payload_bytes[self.index]


@dataclass(slots=True, eq=False)
class Held:
    """A held packet: what later ones are compared with, and the skb that grows."""

    skb: Skb
    link: Link
    network: object  # gro_ip.Ipv4 or gro_ip.Ipv6 of the first packet
    transport: object  # gro_tcp.Tcp or gro_udp.Udp of the first packet
    mac: tuple[int, ...]
    age: int
    fixed_id: bool = False
    payload_bytes: int = field(default=0)  # of all its packets

    @property
    def count(self) -> int:
        return len(self.skb.members)


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
    return Incoming(view, index, skb, Link(skb.hash, view.nic[index], vlan))
