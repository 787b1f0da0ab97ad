"""Values of several seeds: means, intervals, ratios."""

from __future__ import annotations

from math import exp, lgamma, pi, sqrt

import numpy as np
import pytest

from emu.result.estimate import STUDENT_T, STUDENT_T_ABOVE, Estimate, mean_of, ratio_of, student_t


def share_inside(quantile: float, freedom: int) -> float:
    """The probability of -quantile..quantile, by summing Student's density."""
    points = (np.arange(200_000) + 0.5) * (quantile / 200_000)
    scale = exp(lgamma((freedom + 1) / 2) - lgamma(freedom / 2)) / sqrt(freedom * pi)
    density = scale * (1 + points**2 / freedom) ** (-(freedom + 1) / 2)
    return 2 * quantile * float(density.mean())


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [*enumerate(STUDENT_T, 1), *STUDENT_T_ABOVE],
)
def test_each_quantile_leaves_five_percent_outside(freedom: int, quantile: float) -> None:
    assert share_inside(quantile, freedom) == pytest.approx(0.95, abs=5e-5)


@pytest.mark.parametrize(("freedom", "row"), [(31, 30), (39, 30), (45, 40), (99, 80), (5000, 100)])
def test_between_rows_the_interval_is_rather_too_wide(freedom: int, row: int) -> None:
    assert student_t(freedom) == student_t(row)
    assert share_inside(student_t(freedom), freedom) >= 0.95


def test_the_interval_of_three_seeds() -> None:
    estimate = mean_of([9.0, 10.0, 11.0])

    assert estimate.value == 10.0
    # Standard deviation 1, over three seeds.
    assert estimate.half_width == pytest.approx(4.303 / sqrt(3))
    assert estimate.interval == pytest.approx((10 - 4.303 / sqrt(3), 10 + 4.303 / sqrt(3)))


def test_one_seed_has_no_interval() -> None:
    assert mean_of([3.0]) == Estimate(3.0, (3.0,))
    assert mean_of([3.0]).interval is None


def test_seeds_without_a_value_are_left_out() -> None:
    assert mean_of([None, 4.0, None]) == Estimate(4.0, (4.0,))
    assert mean_of([None]) == Estimate(None)
    assert mean_of([None]).to_json() == {"value": None, "ci": None, "per_seed": []}


def test_a_ratio_goes_seed_by_seed() -> None:
    """What the seeds have in common leaves the interval."""
    before, after = mean_of([10.0, 20.0, 30.0]), mean_of([20.0, 40.0, 60.0])

    ratio = ratio_of(before, after)

    assert ratio.value == 2.0
    assert ratio.interval == (2.0, 2.0)
    assert ratio_of(mean_of([0.0]), after).value is None
    assert ratio_of(before, mean_of([20.0])) == Estimate(1.0)


def test_another_unit() -> None:
    assert mean_of([1.0, 3.0]).scaled(100) == Estimate(200.0, (100.0, 300.0))
