"""Random numbers that depend on nothing but ``(seed, stream, n)``: any of them can be had alone,
in any order.

Integers only, no libm, so that every platform draws the same. Each function on arrays has a plain
twin.
"""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache
from math import isqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

MASK64 = 2**64 - 1
STEP = 0x9E3779B97F4A7C15  # splitmix64's
STREAM_STEP = 0xD1342543DE82EF95  # odd: streams never meet
MIX1, MIX2 = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
FRACTION_BITS = 31  # of the fixed-point numbers that zipf weights are made of
LOG_BITS = 32


def finish64(value: int) -> int:
    """The splitmix64 finaliser: a bijection of 64 bits."""
    value = ((value ^ (value >> 30)) * MIX1) & MASK64
    value = ((value ^ (value >> 27)) * MIX2) & MASK64
    return value ^ (value >> 31)


def stream_key(seed: int, stream: int) -> int:
    """Where a stream of a seed begins."""
    return finish64((finish64(seed & MASK64) + stream * STREAM_STEP) & MASK64)


def draw(seed: int, stream: int, n: int) -> int:
    """64 bits: value number *n* of stream *stream* of *seed*."""
    return finish64((stream_key(seed, stream) + (n + 1) * STEP) & MASK64)


def draws(seed: int, stream: int, n: ArrayLike) -> NDArray[np.uint64]:
    """`draw` over an array of *n*, uint64 of its shape."""
    value = np.asarray(n).astype(np.uint64) + np.uint64(1)
    value *= np.uint64(STEP)
    value += np.uint64(stream_key(seed, stream))
    value ^= value >> np.uint64(30)
    value *= np.uint64(MIX1)
    value ^= value >> np.uint64(27)
    value *= np.uint64(MIX2)
    value ^= value >> np.uint64(31)
    return value


def below(value: int, bound: int) -> int:
    """Map 64 drawn bits onto [0, bound), bound <= 2**64: the high half of the product."""
    return value * bound >> 64


def all_below(values: NDArray[np.uint64], bound: int) -> NDArray[np.uint64]:
    """`below` over uint64[n], bound < 2**64."""
    low32, half = np.uint64(2**32 - 1), np.uint64(32)
    high, low = np.uint64(bound >> 32), np.uint64(bound & (2**32 - 1))
    v_high, v_low = values >> half, values & low32
    carried = (v_low * low >> half) + v_high * low
    middle = v_low * high + (carried & low32)
    out: NDArray[np.uint64] = v_high * high + (carried >> half) + (middle >> half)
    return out


def thousandths(exponent: float) -> int:
    """An exponent as a whole number of thousandths.

    Raises:
        ValueError: it is not one.
    """
    exact = Fraction(str(exponent)) * 1000
    if exact.denominator != 1:
        raise ValueError("more than three decimals")
    return exact.numerator


@lru_cache(maxsize=1)
def halves() -> tuple[int, ...]:
    """2**-(2**-k) for k = 1..LOG_BITS with FRACTION_BITS binary places, rounded down."""
    extra = 64  # places that keep the repeated square root exact enough
    value, out = 1 << (FRACTION_BITS + extra - 1), []
    for _ in range(LOG_BITS):
        value = isqrt(value << (FRACTION_BITS + extra))
        out.append(value >> extra)
    return tuple(out)


def zipf_weight(rank: int, s_thousandths: int, places: int) -> int:
    """rank**-s in units of 2**-places, at least 1: the weight of the rank-th, from 1."""
    exponent = rank.bit_length() - 1
    square = rank << FRACTION_BITS >> exponent
    log2 = exponent
    for _ in range(LOG_BITS):  # the binary digits of log2(rank), by squaring
        square = square * square >> FRACTION_BITS
        digit = square >> (FRACTION_BITS + 1)
        square >>= digit
        log2 = log2 << 1 | digit
    power = log2 * s_thousandths // 1000
    value = 1 << FRACTION_BITS
    for k, half in enumerate(halves()):
        if power >> (LOG_BITS - 1 - k) & 1:
            value = value * half >> FRACTION_BITS
    shift = (power >> LOG_BITS) + FRACTION_BITS - places
    value = value >> shift if shift >= 0 else value << -shift
    return max(value, 1)


def zipf_weights(count: int, s_thousandths: int, places: int) -> NDArray[np.uint64]:
    """`zipf_weight` of ranks 1..count, uint64[count]; count < 2**31, s <= 10, places <= 62."""
    one, unit = np.uint64(1), np.uint64(FRACTION_BITS)
    rank = np.arange(1, count + 1, dtype=np.uint64)
    log2 = np.zeros(count, dtype=np.uint64)
    for bit in range(1, 32):
        log2 += rank >> np.uint64(bit) != 0
    square = rank << unit >> log2
    for _ in range(LOG_BITS):
        square *= square
        square >>= unit
        digit = square >> np.uint64(FRACTION_BITS + 1)
        square >>= digit
        log2 <<= one
        log2 |= digit
    power = log2 * np.uint64(s_thousandths) // np.uint64(1000)
    value = np.full(count, 1 << FRACTION_BITS, dtype=np.uint64)
    for k, half in enumerate(halves()):
        factor = np.where(power >> np.uint64(LOG_BITS - 1 - k) & one != 0, half, 1 << FRACTION_BITS)
        value *= factor.astype(np.uint64)
        value >>= unit
    shift = (power >> np.uint64(LOG_BITS)).astype(np.int64) + FRACTION_BITS - places
    down = np.minimum(np.maximum(shift, 0), 63).astype(np.uint64)
    up = np.maximum(-shift, 0).astype(np.uint64)
    out: NDArray[np.uint64] = np.maximum((value >> down) << up, one)
    return out


def zipf_places(count: int) -> int:
    """Binary places of weights whose sum over *count* ranks stays below 2**62."""
    return min(40, 61 - count.bit_length())


def permuted(values: NDArray[np.uint64], bits: int, seed: int, stream: int) -> NDArray[np.uint64]:
    """A bijection of [0, 2**bits) that a seed picks, over uint64[n]; bits <= 32."""
    if bits == 0:
        return values.copy()
    mask, fold = np.uint64(2**bits - 1), np.uint64((bits + 1) // 2)
    out = values.copy()
    for turn in range(4):
        key = draw(seed, stream, turn)
        out *= np.uint64(key & 0xFFFFFFFF | 1)
        out += np.uint64(key >> 32)
        out &= mask
        out ^= out >> fold
    return out
