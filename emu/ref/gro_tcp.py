"""GRO of TCP segments (GRO-19..36)."""

from __future__ import annotations

from dataclasses import dataclass

from emu.dtypes import IpSummed, Reason
from emu.ref import bits
from emu.ref.gro_ip import Ipv4, Ipv6, network_allows
from emu.ref.gro_skb import GroConfig, Held, Incoming
from emu.ref.record import Recorder

FIN, SYN, RST, PSH, ACK, URG, ECE, CWR = (1 << bit for bit in range(8))
LEGACY_MAX_SIZE = 65536


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


def verify_checksum(packet: Incoming, rec: Recorder) -> bool:
    """Whether the transport checksum is good (GRO-19); what came with NONE leaves UNNECESSARY."""
    if rec.rule("GRO-A5", packet.soft):
        return True
    skb = packet.skb
    if skb.ip_summed in (IpSummed.UNNECESSARY, IpSummed.PARTIAL):
        return True
    bad = bool(packet.flags & bits.L4_CSUM_BAD)
    if rec.rule("GRO-19", bad):
        return False
    if rec.rule("GRO-A6", skb.ip_summed == IpSummed.NONE):
        skb.ip_summed, skb.csum_level = IpSummed.UNNECESSARY, 0
    return True


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


def fits(held: Held, packet: Incoming, config: GroConfig, rec: Recorder) -> bool:
    """Whether the whole stays below the device's limit (GRO-35)."""
    tcp = isinstance(held.transport, Tcp)
    limit = config.max_size if isinstance(held.network, Ipv6) else config.ipv4_max_size
    total = held.skb.len_bytes + packet.payload_bytes
    too_long = total >= limit or (total >= LEGACY_MAX_SIZE and not tcp)
    return not rec.rule("GRO-35", too_long, total=total, limit=limit)


def may_join(
    held: Held, packet: Incoming, network: Ipv4 | Ipv6, tcp: Tcp, config: GroConfig, rec: Recorder
) -> bool:
    """Whether none of the vetoes holds; each is asked, so that `explain` can name them all."""
    first = held.transport
    assert isinstance(first, Tcp)
    expected_seq = (first.seq + held.payload_bytes) % 2**32
    length, gso_size = packet.payload_bytes, held.skb.gso_size
    other_word = (first.data_offset, first.reserved, first.window) != (
        tcp.data_offset,
        tcp.reserved,
        tcp.window,
    ) or (first.flags | FIN | PSH) != (tcp.flags | FIN | PSH)
    vetoes = (
        rec.rule("GRO-22", other_word, window=tcp.window, flags=tcp.flags),
        rec.rule("GRO-23", bool(tcp.flags & CWR)),
        rec.rule("GRO-24", first.ack_seq != tcp.ack_seq, ack_seq=tcp.ack_seq),
        rec.rule("GRO-25", first.options != tcp.options),
        not rec.rule("GRO-26", tcp.seq == expected_seq, seq=tcp.seq, want=expected_seq),
        not rec.rule("GRO-27", 0 < length <= gso_size, payload_bytes=length, gso_size=gso_size),
        not network_allows(held, network, config, rec),
        packet.soft,
        not fits(held, packet, config, rec),
    )
    return not rec.rule("GRO-28", any(vetoes))


def receive_tcp(
    held: Held | None,
    packet: Incoming,
    network: Ipv4 | Ipv6,
    tcp: Tcp,
    config: GroConfig,
    rec: Recorder,
) -> Outcome:
    """Decide on a segment whose flow has *held* in GRO, or nothing (receive.md 5.5)."""
    outcome = Outcome()
    least = 1
    if held is not None and may_join(held, packet, network, tcp, config, rec):
        outcome.joined, least = True, held.skb.gso_size
        held.skb.tcp_flags |= rec_flags(tcp, rec)
    ends = bool(tcp.flags & (URG | PSH | RST | SYN | FIN)) or packet.payload_bytes < least
    rec.rule("GRO-30", ends, payload_bytes=packet.payload_bytes, at_least=least)
    if held is None:
        rec.rule("GRO-33", ends)
    else:
        outcome.completes = not outcome.joined or ends
        rec.rule("GRO-32" if outcome.joined else "GRO-31", ends)
    outcome.hold = not (outcome.joined or ends or packet.soft)
    return outcome


def rec_flags(tcp: Tcp, rec: Recorder) -> int:
    """FIN and PSH of a joined segment, which its skb takes over (GRO-29)."""
    taken = tcp.flags & (FIN | PSH)
    rec.rule("GRO-29", taken != 0)
    return taken
