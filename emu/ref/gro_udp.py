"""GRO of UDP datagrams: for UDP_GRO sockets, for forwarding, as fraglists (GRO-37..46)."""

from __future__ import annotations

from dataclasses import dataclass

from emu.ref import bits
from emu.ref.gro_ip import Ipv4, Ipv6, networks_allow
from emu.ref.gro_size import fits, fits_fraglist
from emu.ref.gro_skb import GroConfig, Held, Incoming
from emu.ref.gro_tcp import Outcome
from emu.ref.record import Recorder

MAX_SEGMENTS = 64
NO_SOCKET, PLAIN_SOCKET, GRO_SOCKET = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Udp:
    """A datagram's header fields that GRO looks at."""

    ports: tuple[int, int]
    length: int


def read_udp(packet: Incoming, config: GroConfig, rec: Recorder) -> Udp | None:
    """The header of a datagram that GRO takes; None for all others (GRO-38..40)."""
    view, i = packet.view, packet.index
    rec.rule("GRO-37", packet.sock != NO_SOCKET, sock=packet.sock)
    packet.is_flist = config.fraglist and packet.sock != GRO_SOCKET
    wanted = packet.sock == GRO_SOCKET or (config.udp_forwarding and packet.sock == NO_SOCKET)
    if not rec.rule("GRO-38", wanted or packet.is_flist, fraglist=packet.is_flist):
        return None
    if rec.rule("GRO-39", bool(packet.flags & bits.UDP_CSUM_ZERO)):
        return None
    length = view.udp_len[i]
    whole = length > 8 and length == 8 + packet.payload_bytes
    if not rec.rule("GRO-40", whole, length=length):
        return None
    return Udp(ports=(view.sport[i], view.dport[i]), length=length)


def receive_udp(
    held: Held | None,
    packet: Incoming,
    networks: tuple[Ipv4 | Ipv6, ...],
    udp: Udp,
    config: GroConfig,
    rec: Recorder,
) -> Outcome:
    """Decide on a datagram whose flow has *held* in GRO, or nothing."""
    if held is None:
        return Outcome(hold=not packet.soft)
    if rec.rule("GRO-41", held.is_flist != packet.is_flist, fraglist=packet.is_flist):
        return Outcome(completes=True)
    first = held.transport
    assert isinstance(first, Udp)
    longer = udp.length > first.length
    if rec.rule("GRO-42", longer or not networks_allow(held, networks, config, rec), longer=longer):
        return Outcome(completes=True, hold=not packet.soft)
    if packet.is_flist:
        skb = packet.skb
        state = (skb.ip_summed, skb.csum_level) != (held.skb.ip_summed, held.skb.csum_level)
        if rec.rule("GRO-C6", state, ip_summed=skb.ip_summed):
            return Outcome()
        failed = not fits_fraglist(held, packet, rec)
    else:
        failed = not fits(held, packet, config, rec)
    if rec.rule("GRO-A8", failed or packet.soft, too_long=failed):
        return Outcome(completes=True, hold=not packet.soft)
    last = udp.length != first.length or held.count + packet.segments >= MAX_SEGMENTS
    return Outcome(joined=True, completes=rec.rule("GRO-43", last, segments=held.count))
