"""GRO at the network header: who is taken, who is of the same flow, who may join (GRO-8..18)."""

from __future__ import annotations

from dataclasses import dataclass, replace

from emu.dtypes import Reason
from emu.ref import bits
from emu.ref.gro_skb import LINK_BYTES, GroConfig, Held, Incoming
from emu.ref.record import Recorder

TCP, UDP, IPIP, IPV6 = 6, 17, 4, 41
HANDLERS = (TCP, UDP, IPIP, IPV6)
TUNNELS = (IPIP, IPV6)
READABLE = (Reason.OK, Reason.BAD_VERSION, Reason.BAD_DOFF)


@dataclass(frozen=True, slots=True)
class Ipv4:
    """The fields of an IPv4 header that GRO looks at."""

    saddr: bytes
    daddr: bytes
    protocol: int
    tos: int
    ttl: int
    dont_fragment: bool
    ident: int

    def flow(self) -> tuple[object, ...]:
        return 4, self.saddr, self.daddr, self.protocol


@dataclass(frozen=True, slots=True)
class Ipv6:
    """The fields of an IPv6 header that GRO looks at, and the extension headers behind it."""

    saddr: bytes
    daddr: bytes
    protocol: int
    version: int
    flow_label: int
    traffic_class: int
    hop_limit: int
    extensions: bytes  # the fixed header's next-header octet, then the chain; empty without one

    def flow(self) -> tuple[object, ...]:
        return 6, self.version, self.flow_label, self.saddr, self.daddr, self.protocol


def read_network(packet: Incoming, config: GroConfig, rec: Recorder) -> Ipv4 | Ipv6 | None:
    """The network header, or None when the packet goes by everything held (GRO-8, GRO-18)."""
    view, i = packet.view, packet.index
    if not rec.rule("GRO-A3", view.reason[i] in READABLE, reason=view.reason[i]):
        return None
    in_frame = view.vlan_tpid[i] != 0 and (
        not packet.flags & bits.VLAN_META or view.l3_off[i] > LINK_BYTES
    )
    if in_frame and not rec.rule("GRO-6", takes_tags(packet, config), tpid=view.vlan_tpid[i]):
        return None
    if not rec.rule("GRO-A1", view.ip_proto[i] in HANDLERS, protocol=view.ip_proto[i]):
        return None
    if view.family[i] == 4:
        return read_ipv4(packet, rec)
    return read_ipv6(packet, rec) if view.family[i] == 6 else None


def takes_tags(packet: Incoming, config: GroConfig) -> bool:
    """Whether tags in the frame have a handler; then they are part of what is compared."""
    if not config.vlan_module:
        return False
    begin, end = LINK_BYTES, packet.view.l3_off[packet.index]
    frame = packet.view.packets.frame(packet.index)
    if len(frame) < end:
        return False
    packet.link = replace(packet.link, tags=frame[begin:end])
    return True


def read_ipv4(packet: Incoming, rec: Recorder) -> Ipv4 | None:
    """An IPv4 header without options, fragment or bad sum."""
    view, i = packet.view, packet.index
    plain = view.ip_b0[i] == 0x45
    broken = packet.flags & (bits.FRAGMENT | bits.IP_CSUM_BAD)
    if rec.rule("GRO-8", not plain or bool(broken), first_octet=view.ip_b0[i], flags=broken):
        return None
    other_length = bool(packet.flags & bits.MALFORMED_LEN)
    evil = bool(view.ip_frag[i] & 0x8000)
    packet.soft |= rec.rule("GRO-9", other_length or evil, tot_len=view.ip_len[i])
    return Ipv4(
        saddr=view.saddr_bytes[i],
        daddr=view.daddr_bytes[i],
        protocol=view.ip_proto[i],
        tos=view.tos[i],
        ttl=view.ttl[i],
        dont_fragment=bool(view.ip_frag[i] & 0x4000),
        ident=view.ip_id[i],
    )


def read_ipv6(packet: Incoming, rec: Recorder) -> Ipv6 | None:
    """An IPv6 header with none but the extension headers that GRO walks."""
    view, i = packet.view, packet.index
    extensions: bytes | None = b""
    if packet.flags & bits.EXT_HEADERS:
        extensions = extension_octets(packet)
    stopped = bool(packet.flags & (bits.EXT_BYPASS | bits.FRAGMENT))
    if rec.rule("GRO-18", stopped or extensions is None, not_walked=stopped):
        return None
    assert extensions is not None
    other_length = bool(packet.flags & bits.MALFORMED_LEN)
    packet.soft |= rec.rule("GRO-17", other_length, payload_len=view.ip_len[i])
    return Ipv6(
        saddr=view.saddr_bytes[i],
        daddr=view.daddr_bytes[i],
        protocol=view.ip_proto[i],
        version=view.ip_b0[i] >> 4,
        flow_label=view.flow_label[i],
        traffic_class=view.tos[i],
        hop_limit=view.ttl[i],
        extensions=extensions,
    )


def extension_octets(packet: Incoming) -> bytes | None:
    """Next-header octet and extension headers; None when the table has not kept them."""
    view, i = packet.view, packet.index
    begin, end = view.l3_off[i] + 40, view.l4_off[i]
    frame = view.packets.frame(i)
    if view.frame_off[i] < 0 or not begin <= end <= len(frame):
        return None
    return frame[begin - 34 : begin - 33] + frame[begin:end]


def same_network_flow(held: object, arrived: Ipv4 | Ipv6, rec: Recorder) -> bool:
    """Whether both are of one flow so far; if not, the held packet stays as it is (GRO-4)."""
    if isinstance(arrived, Ipv4):
        return rec.rule("GRO-10", isinstance(held, Ipv4) and held.flow() == arrived.flow())
    if not rec.rule("GRO-15", isinstance(held, Ipv6) and held.flow() == arrived.flow()):
        return False
    assert isinstance(held, Ipv6)
    return rec.rule("GRO-18.same", held.extensions == arrived.extensions)


def networks_allow(
    held: Held, arrived: tuple[Ipv4 | Ipv6, ...], config: GroConfig, rec: Recorder
) -> bool:
    """Whether the network headers let the packet join; each is asked (GRO-11, 12, 14, 16)."""
    answers = []
    for level, header in enumerate(arrived):
        if isinstance(header, Ipv4):
            outer = level + 1 < len(arrived)
            answers.append(ipv4_allows(held, level, header, outer, config, rec))
        else:
            answers.append(ipv6_allows(held.networks[level], header, rec))
    return all(answers)


def ipv6_allows(first: object, arrived: Ipv6, rec: Recorder) -> bool:
    """Traffic class and hop limit as in the first packet."""
    assert isinstance(first, Ipv6)
    equal = first.traffic_class == arrived.traffic_class and first.hop_limit == arrived.hop_limit
    return not rec.rule("GRO-16", not equal, hop_limit=arrived.hop_limit)


def ipv4_allows(
    held: Held, level: int, arrived: Ipv4, outer: bool, config: GroConfig, rec: Recorder
) -> bool:
    """TTL, TOS and DF as in the first packet, and an ID that stands still or rises by one."""
    first = held.networks[level]
    assert isinstance(first, Ipv4)
    equal = (first.ttl, first.tos, first.dont_fragment) == (
        arrived.ttl,
        arrived.tos,
        arrived.dont_fragment,
    )
    if rec.rule("GRO-11", not equal, ttl=arrived.ttl, tos=arrived.tos):
        return False
    unchecked = outer and config.outer_id_unchecked and arrived.dont_fragment
    if rec.rule("GRO-14.outer", unchecked):
        return True
    step = (arrived.ident - first.ident) % 65536
    may_be_fixed = arrived.dont_fragment or not config.fixed_id_needs_df
    if rec.rule("GRO-12.fixed", held.count == 1 and step == 0 and may_be_fixed):
        held.fixed_ids[level] = True
    wanted = 0 if held.fixed_ids[level] else held.count % 65536
    return rec.rule("GRO-12", step == wanted, step=step, wanted=wanted)
