"""The root finder: exact on lines, bounded, the same each time, and it says when it failed."""

from __future__ import annotations

from itertools import pairwise
from math import exp

import numpy as np
import pytest

from emu.ask.roots import Box, solve

WIDE = Box(low=[-10.0], high=[10.0], step=[5.0])


@pytest.mark.parametrize("guess", [0.3, 1.0, 4.0])
def test_one_dimension_whatever_the_guessed_slope(guess: float) -> None:
    found = solve(
        lambda at: (exp(at[0]) - 2.0,),
        [0.0],
        slopes=[[guess]],
        box=WIDE,
        tolerance=1e-6,
        most_steps=20,
    )

    assert found.converged
    assert found.best.at[0] == pytest.approx(0.6931472, abs=1e-6)
    assert len(found.steps) < 15


def test_two_dimensions_that_hang_together() -> None:
    matrix = np.array([[0.7, -0.2], [0.5, 0.8]])
    target = np.array([1.0, -2.0])

    found = solve(
        lambda at: tuple((matrix @ (np.array(at) - target)).tolist()),
        [0.0, 0.0],
        slopes=[[0.8, 0.0], [0.3, 1.0]],
        box=Box(low=[-5, -5], high=[5, 5], step=[2, 2]),
        tolerance=1e-6,
        most_steps=20,
    )

    assert found.converged
    assert found.best.at == pytest.approx((1.0, -2.0), abs=1e-5)


def test_no_step_leaves_the_box_or_goes_too_far() -> None:
    box = Box(low=[-1.0], high=[1.0], step=[0.4])

    found = solve(
        lambda at: (at[0] - 50.0,), [0.0], slopes=[[1.0]], box=box, tolerance=0.1, most_steps=20
    )

    places = [point.at[0] for point in found.steps]
    assert not found.converged
    assert found.best.at == (1.0,)
    assert max(abs(new - old) for old, new in pairwise(places)) < 0.4 + 1e-9
    assert len(found.steps) < 20, "it stayed in the corner"


def test_a_bracket_is_not_left() -> None:
    """A step function whose secants point far away."""
    found = solve(
        lambda at: (1.0 if at[0] > 0.3 else -1e-3,),
        [0.0],
        slopes=[[0.001]],
        box=WIDE,
        tolerance=1e-9,
        most_steps=12,
    )

    below = max(point.at[0] for point in found.steps if point.error[0] < 0)
    above = min(point.at[0] for point in found.steps if point.error[0] > 0)
    assert not found.converged
    assert 0 <= below <= 0.3 < above < 0.35, "bisection closed in on the jump"


def test_the_same_question_takes_the_same_steps() -> None:
    def ask() -> object:
        return solve(
            lambda at: (at[0] ** 3 - 2.0,),
            [0.5],
            slopes=[[1.0]],
            box=WIDE,
            tolerance=1e-9,
            most_steps=9,
        )

    assert ask() == ask()
