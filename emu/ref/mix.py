"""A mix of a flow's addresses and ports without a secret: the model's own choices draw from it.

It stands for what a host does not tell (which of several threads takes a flow) and seeds what a
kernel draws at random per socket (txhash). It is not a kernel hash.
"""

from __future__ import annotations

from functools import lru_cache

MASK64 = 2**64 - 1
STEP = 0x9E3779B97F4A7C15


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


def finish64(value: int) -> int:
    """The splitmix64 finaliser."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & MASK64
    return value ^ (value >> 31)


def txhash(seed: int, mix: int) -> int:
    """The random hash of a local socket (sk_txhash): drawn from its flow, never 0."""
    return finish64((seed ^ mix) & MASK64) & 0xFFFFFFFF or 1
