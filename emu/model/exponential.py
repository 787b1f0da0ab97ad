"""Exponential draws in integers: the same on every platform, in both engines."""

from __future__ import annotations

from decimal import Decimal, localcontext
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

EXP_POINTS = 1024
TABLE_BITS = 32  # binary places of the table
UNIT_BITS = 20  # binary places of a drawn multiple of the mean
MAX_MEAN = 2**42  # keeps products inside 64 bits


@lru_cache(maxsize=1)
def exp_table() -> NDArray[np.int64]:
    """``int64[EXP_POINTS + 1]``: ln(1 + k / EXP_POINTS) with 32 binary places, rounded."""
    with localcontext() as context:
        context.prec = 40
        logs = [(1 + Decimal(k) / EXP_POINTS).ln() * 2**TABLE_BITS for k in range(EXP_POINTS + 1)]
        table = np.array([int(log.to_integral_value()) for log in logs], dtype=np.int64)
    table.setflags(write=False)
    return table


def exponential(value: int, mean: int, table: list[int]) -> int:
    """An exponential number with that mean from 64 drawn bits; 0 <= mean < MAX_MEAN.

    The bits are a uniform number u in (0, 1]; the answer is -ln(u) * mean, rounded down, by linear
    interpolation in *table* (`exp_table` as a list): -ln(u) is off by less than 2**-20.
    """
    zeros = 64 - max(value, 1).bit_length()
    rest = max(value, 1) << zeros & (2**63 - 1)  # u = 2**-(zeros + 1) * (1 + rest / 2**63)
    point, part = rest >> 53, rest >> 21 & (2**32 - 1)
    log = table[point] + ((table[point + 1] - table[point]) * part >> 32)
    unit = ((zeros + 1) * table[EXP_POINTS] - log) >> (TABLE_BITS - UNIT_BITS)
    # mean * unit >> UNIT_BITS in two parts, each inside 64 bits
    whole, rest = mean >> UNIT_BITS, mean & ((1 << UNIT_BITS) - 1)
    return whole * unit + (rest * unit >> UNIT_BITS)
