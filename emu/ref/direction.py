"""Which way a packet goes, by the host's addresses (docs/steer.md)."""

from __future__ import annotations

from emu.dtypes import Direction, Reason

# Where dissection stopped before the addresses were whole.
NO_ADDRESSES = frozenset(
    {Reason.EMPTY, Reason.TRUNCATED_LINK, Reason.TRUNCATED_L3, Reason.BAD_VERSION, Reason.BAD_IHL}
)
ALL_ONES = b"\xff\xff\xff\xff"


class Addresses:
    """The host's own addresses: network bytes, 4 or 16 of them."""

    def __init__(self, own: set[bytes], *, forwarding: bool) -> None:
        self.own = own
        self.forwarding = forwarding

    def direction(self, family: int, reason: int, saddr: bytes, daddr: bytes) -> Direction:
        """The way of a packet; *saddr*, *daddr* are 4 or 16 network bytes."""
        if family == 0 or reason in NO_ADDRESSES:
            return Direction.OTHER
        if not self.own or daddr in self.own:
            return Direction.RECEIVED
        if saddr in self.own:
            return Direction.SENT
        if is_group(family, daddr):
            return Direction.RECEIVED
        return Direction.FORWARDED if self.forwarding else Direction.OTHER


def is_group(family: int, daddr: bytes) -> bool:
    """Whether an address is multicast, or IPv4's broadcast."""
    if family == 4:
        return 224 <= daddr[0] <= 239 or daddr == ALL_ONES
    return daddr[0] == 0xFF
