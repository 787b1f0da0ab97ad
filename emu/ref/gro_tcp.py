"""GRO of TCP segments (GRO-19..36, and GRO-45 of fraglists)."""

from __future__ import annotations

from dataclasses import dataclass

from emu.dtypes import Reason
from emu.ref.gro_ip import Ipv4, Ipv6, networks_allow
from emu.ref.gro_size import fits, fits_fraglist
from emu.ref.gro_skb import GroConfig, Held, Incoming
from emu.ref.record import Recorder

FIN, SYN, RST, PSH, ACK, URG, ECE, CWR = (1 << bit for bit in range(8))
MAX_FRAGLIST = 64


@dataclass(frozen=True, slots=True)
class Tcp:
    """A segment's header fields that GRO looks at."""

    ports: tuple[int, int]
    seq: int
    ack_seq: int
    data_offset: int
    reserved: int  # the four bits before CWR, AE among them
    flags: int
    window: int
    options: bytes


@dataclass(slots=True)
class Outcome:
    """What becomes of the packet, and whether the held one is finished."""

    joined: bool = False
    hold: bool = False
    completes: bool = False


def read_tcp(packet: Incoming, rec: Recorder) -> Tcp | None:
    """The header, or None when it is not whole (GRO-20)."""
    view, i = packet.view, packet.index
    word = view.tcp_w12[i]
    options_bytes = 4 * (word >> 28) - 20
    missing = options_bytes > 0 and view.opt_off[i] < 0
    broken = view.reason[i] == Reason.BAD_DOFF or options_bytes < 0 or missing
    if rec.rule("GRO-20", broken, doff=word >> 28):
        return None
    options = b""
    if options_bytes:
        at = view.opt_off[i]
        options = view.packets.blob[at : at + options_bytes].tobytes()
    return Tcp(
        ports=(view.sport[i], view.dport[i]),
        seq=view.seq[i],
        ack_seq=view.ack[i],
        data_offset=word >> 28,
        reserved=word >> 24 & 0xF,
        flags=word >> 16 & 0xFF,
        window=word & 0xFFFF,
        options=options,
    )


def joins_fraglist(held: Held | None, packet: Incoming, config: GroConfig, rec: Recorder) -> bool:
    """Whether a segment is for a fraglist: as its held packet is, else without a socket here."""
    if not (config.fraglist and config.tcp_fraglist):
        return False
    if rec.rule("GRO-45.held", held is not None) and held is not None:
        return held.is_flist
    return not rec.rule("GRO-45.socket", packet.sock != 0)


def differs(first: Tcp, tcp: Tcp, config: GroConfig) -> bool:
    """Whether the word of data offset, flags and window differs, FIN and PSH apart (GRO-22)."""
    ignored = FIN | PSH | (CWR if config.cwr_masked else 0)
    fields = (first.data_offset, first.reserved, first.window)
    return fields != (tcp.data_offset, tcp.reserved, tcp.window) or (first.flags | ignored) != (
        tcp.flags | ignored
    )


def may_join(
    held: Held,
    packet: Incoming,
    networks: tuple[Ipv4 | Ipv6, ...],
    tcp: Tcp,
    config: GroConfig,
    rec: Recorder,
) -> bool:
    """Whether none of the vetoes holds; each is asked, so that `explain` can name them all."""
    first = held.transport
    assert isinstance(first, Tcp)
    expected_seq = (first.seq + held.payload_bytes) % 2**32
    length = packet.payload_bytes
    if rec.rule("GRO-27.gso", packet.gso):
        fitting = packet.skb.gso_size == held.gso_size
    else:
        fitting = rec.rule("GRO-27", 0 < length <= held.gso_size, payload_bytes=length)
    forbidden = bool(tcp.flags & CWR) and not config.cwr_merges
    vetoes = [
        rec.rule("GRO-22", differs(first, tcp, config), window=tcp.window, flags=tcp.flags),
        rec.rule("GRO-23", forbidden),
        rec.rule("GRO-24", first.ack_seq != tcp.ack_seq, ack_seq=tcp.ack_seq),
        rec.rule("GRO-25", first.options != tcp.options),
        not rec.rule("GRO-26", tcp.seq == expected_seq, seq=tcp.seq, want=expected_seq),
        not fitting,
        not networks_allow(held, networks, config, rec),
        packet.soft,
    ]
    if packet.is_flist:
        vetoes += [fraglist_differs(held, packet, tcp, rec), not fits_fraglist(held, packet, rec)]
    else:
        vetoes += [not fits(held, packet, config, rec)]
    return not rec.rule("GRO-28", any(vetoes))


def fraglist_differs(held: Held, packet: Incoming, tcp: Tcp, rec: Recorder) -> bool:
    """What else keeps a segment out of a fraglist (GRO-45)."""
    first = held.transport
    assert isinstance(first, Tcp)
    skb = packet.skb
    state = (skb.ip_summed, skb.csum_level) != (held.skb.ip_summed, held.skb.csum_level)
    return any(
        (
            rec.rule("GRO-45.flags", first.flags != tcp.flags, flags=tcp.flags),
            rec.rule("GRO-45.state", state, ip_summed=skb.ip_summed),
            rec.rule("GRO-45.count", held.count >= MAX_FRAGLIST, segments=held.count),
        )
    )


def receive_tcp(
    held: Held | None,
    packet: Incoming,
    networks: tuple[Ipv4 | Ipv6, ...],
    tcp: Tcp,
    config: GroConfig,
    rec: Recorder,
) -> Outcome:
    """Decide on a segment whose flow has *held* in GRO, or nothing (receive.md 5.5)."""
    outcome = Outcome()
    least = 1
    packet.is_flist = joins_fraglist(held, packet, config, rec)
    if held is not None and may_join(held, packet, networks, tcp, config, rec):
        outcome.joined, least = True, held.gso_size
        if not packet.is_flist:
            held.skb.tcp_flags |= joined_flags(tcp, rec)
    short = packet.payload_bytes < least
    if packet.gso:
        short = packet.payload_bytes != packet.segments * packet.skb.gso_size
    ends = bool(tcp.flags & (URG | PSH | RST | SYN | FIN)) or short
    ends = rec.rule("GRO-30", ends, payload_bytes=packet.payload_bytes, at_least=least)
    if held is None:
        rec.rule("GRO-33", ends)
    else:
        outcome.completes = not outcome.joined or ends
        rec.rule("GRO-32" if outcome.joined else "GRO-31", ends)
    outcome.hold = not (outcome.joined or ends or packet.soft)
    return outcome


def joined_flags(tcp: Tcp, rec: Recorder) -> int:
    """FIN and PSH of a joined segment, which its skb takes over (GRO-29)."""
    taken = tcp.flags & (FIN | PSH)
    return taken if rec.rule("GRO-29", taken != 0) else 0
