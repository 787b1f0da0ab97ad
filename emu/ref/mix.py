"""A mix of a flow's addresses and ports without a secret: the model's own choices draw from it.

It stands for what a host does not tell (which of several threads takes a flow) and seeds what a
kernel draws at random per socket (txhash). It is not a kernel hash.
"""

from __future__ import annotations

from functools import lru_cache

from emu.model.draw import MASK64, STEP, finish64


@lru_cache(maxsize=1 << 16)
def flow_mix(saddr: bytes, daddr: bytes, sport: int, dport: int) -> int:
    """64 bits of (source, destination) address and port; addresses are 4 or 16 network bytes."""
    words = []
    for address in (saddr, daddr):
        padded = address.ljust(16, b"\0")
        words += [int.from_bytes(padded[at : at + 4], "little") for at in (0, 4, 8, 12)]
    words.append(sport << 16 | dport)
    total = sum(word * ((2 * place + 1) * STEP) for place, word in enumerate(words))
    return finish64(total & MASK64)


def txhash(seed: int, mix: int) -> int:
    """The random hash of a local socket (sk_txhash): drawn from its flow, never 0."""
    return finish64((seed ^ mix) & MASK64) & 0xFFFFFFFF or 1
