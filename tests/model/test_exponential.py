"""Exponential draws: against the logarithm, their moments, their ends."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.model.draw import draws
from emu.model.exponential import EXP_POINTS, MAX_MEAN, exp_table, exponential

TABLE = exp_table().tolist()
ERROR = 2**-20  # of -ln(u), as the docstring says
ROUNDED = 2**-20  # one unit of UNIT_BITS, and the mean's own rounding down


def minus_log(value):
    """-ln of the uniform number that 64 drawn bits stand for."""
    return 64 * math.log(2) - math.log(max(value, 1))


def test_the_table_is_the_logarithm():
    assert len(TABLE) == EXP_POINTS + 1
    for point, entry in enumerate(TABLE):
        assert abs(entry - math.log1p(point / EXP_POINTS) * 2**32) < 1, point
    assert TABLE[0] == 0
    assert exp_table() is exp_table()
    assert not exp_table().flags.writeable


@given(st.integers(0, 2**64 - 1), st.integers(0, MAX_MEAN - 1))
def test_it_is_minus_the_logarithm(value, mean):
    exact = minus_log(value) * mean
    assert abs(exponential(value, mean, TABLE) - exact) <= mean * (ERROR + ROUNDED) + 1


@pytest.mark.parametrize("bits", range(65))
def test_around_every_power_of_two(bits):
    """The pieces meet: no step down, no jump."""
    mean = MAX_MEAN - 1
    around = [value for value in range(2**bits - 3, 2**bits + 4) if 0 <= value < 2**64]
    found = [exponential(value, mean, TABLE) for value in around]
    for value, number in zip(around, found, strict=True):
        assert abs(number - minus_log(value) * mean) <= mean * (ERROR + ROUNDED) + 1, value
    assert found == sorted(found, reverse=True), around


@given(st.integers(1, 2**64 - 1), st.integers(1, 2**64 - 1))
def test_more_bits_never_give_more(one, other):
    low, high = sorted((one, other))
    assert exponential(high, 10**9, TABLE) <= exponential(low, 10**9, TABLE)


def test_the_ends():
    assert exponential(2**64 - 1, MAX_MEAN - 1, TABLE) <= MAX_MEAN * ERROR
    assert exponential(0, 1000, TABLE) == exponential(1, 1000, TABLE) == 44361  # 64 ln 2
    assert [exponential(value, 0, TABLE) for value in (0, 1, 2**63, 2**64 - 1)] == [0] * 4
    unit = exponential(1, 2**20, TABLE)  # the largest multiple of the mean, in 2**-20
    assert exponential(1, MAX_MEAN - 1, TABLE) == (MAX_MEAN - 1) * unit >> 20 < 2**48
    assert max(2**20 * unit, (MAX_MEAN >> 20) * unit) < 2**63  # a core's products


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_mean_variance_and_tail(seed):
    count, mean = 40_000, 10**7
    found = np.array(
        [exponential(value, mean, TABLE) for value in draws(seed, 7, np.arange(count)).tolist()]
    )
    deviation = mean / math.sqrt(count)
    assert abs(found.mean() - mean) < 4 * deviation, seed
    # The variance of a sample variance of an exponential number is 8 mean**4 / count.
    assert abs(found.var() - mean**2) < 4 * math.sqrt(8 / count) * mean**2, seed
    for multiple in (0.1, 1, 3):
        share = math.exp(-multiple)
        error = math.sqrt(share * (1 - share) / count)
        assert abs((found > multiple * mean).mean() - share) < 4 * error, (seed, multiple)
