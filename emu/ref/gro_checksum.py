"""GRO and the transport checksum: who is verified, and what the skb says of it afterwards."""

from __future__ import annotations

from emu.dtypes import IpSummed
from emu.ref import bits
from emu.ref.gro_skb import Incoming
from emu.ref.record import Recorder


def verify_checksum(packet: Incoming, rec: Recorder) -> bool:
    """Whether the transport checksum is good (GRO-19); what came with NONE leaves UNNECESSARY.

    A datagram without a checksum counts as good (GRO-C2). The sum covers what is present from the
    transport header to the end of the frame (GRO-A4).
    """
    if rec.rule("GRO-A5", packet.soft):
        return True
    skb = packet.skb
    if skb.ip_summed == IpSummed.UNNECESSARY:
        return True
    if skb.ip_summed == IpSummed.PARTIAL and rec.rule(
        "GRO-19.partial", skb.csum_start >= packet.l4_off, csum_start=skb.csum_start
    ):
        return True
    bad = bool(packet.flags & bits.L4_CSUM_BAD)
    if rec.rule("GRO-19", bad):
        return False
    if rec.rule("GRO-A6", skb.ip_summed == IpSummed.NONE):
        skb.ip_summed, skb.csum_level = IpSummed.UNNECESSARY, 0
    return True


def one_level_higher(skb_summed: int, level: int) -> tuple[int, int]:
    """Checksum state of a fraglist: one more sum is vouched for (GRO-A6)."""
    if skb_summed == IpSummed.UNNECESSARY:
        return skb_summed, min(level + 1, 3)
    if skb_summed == IpSummed.NONE:
        return IpSummed.UNNECESSARY, 0
    return skb_summed, level
