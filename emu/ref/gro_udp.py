"""GRO of UDP datagrams for forwarding (GRO-38..44).

Sockets with UDP_GRO and fraglists are not modelled.
"""

from __future__ import annotations

from dataclasses import dataclass

from emu.ref import bits
from emu.ref.gro_ip import Ipv4, Ipv6, network_allows
from emu.ref.gro_skb import GroConfig, Held, Incoming
from emu.ref.gro_tcp import Outcome, fits
from emu.ref.record import Recorder

MAX_SEGMENTS = 64


@dataclass(frozen=True, slots=True)
class Udp:
    """A datagram's header fields that GRO looks at."""

    ports: tuple[int, int]
    length: int


def read_udp(packet: Incoming, config: GroConfig, rec: Recorder) -> Udp | None:
    """The header of a datagram that GRO takes; None for all others (GRO-38..40)."""
    view, i = packet.view, packet.index
    if not rec.rule("GRO-38", config.udp_forwarding):
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
    network: Ipv4 | Ipv6,
    udp: Udp,
    config: GroConfig,
    rec: Recorder,
) -> Outcome:
    """Decide on a datagram whose flow has *held* in GRO, or nothing."""
    outcome = Outcome(hold=not packet.soft)
    if held is None:
        return outcome
    first = held.transport
    assert isinstance(first, Udp)
    longer = udp.length > first.length
    if rec.rule("GRO-42", longer or not network_allows(held, network, config, rec), longer=longer):
        outcome.completes = True
        return outcome
    failed = not fits(held, packet, config, rec)
    if rec.rule("GRO-A8", failed or packet.soft, too_long=failed):
        outcome.completes = True
        return outcome
    outcome.joined, outcome.hold = True, False
    last = udp.length != first.length or held.count + 1 >= MAX_SEGMENTS
    outcome.completes = rec.rule("GRO-43", last, segments=held.count + 1)
    return outcome
