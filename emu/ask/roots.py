"""Finding where one or two functions are zero, with few and costly evaluations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import attrs
import numpy as np
from numpy.typing import NDArray

Vector = NDArray[np.float64]
Evaluate = Callable[[tuple[float, ...]], tuple[float, ...]]


@attrs.frozen(kw_only=True)
class Point:
    """One evaluation: where, and how far each function was from zero."""

    at: tuple[float, ...]
    error: tuple[float, ...]

    @property
    def size(self) -> float:
        """The largest error."""
        return max(abs(error) for error in self.error)


@attrs.frozen(kw_only=True)
class Found:
    """The answer of `solve`.

    Attributes:
        best: the evaluation with the smallest error.
        steps: every evaluation, in order.
        converged: the best is within the tolerance.
    """

    best: Point
    steps: tuple[Point, ...]
    converged: bool


@attrs.frozen(kw_only=True)
class Box:
    """Where `solve` may look, and how far it goes in one step, by dimension."""

    low: Sequence[float]
    high: Sequence[float]
    step: Sequence[float]


def solve(
    evaluate: Evaluate,
    start: Sequence[float],
    *,
    slopes: Sequence[Sequence[float]],
    box: Box,
    tolerance: float,
    most_steps: int,
) -> Found:
    """Find a common zero of n functions of n numbers: Broyden's method, a secant when n is 1.

    Each step stays in the box and is bounded. With one dimension a step also stays between a point
    with a negative and one with a positive error as soon as there are both: it is a bisection where
    the secant leads out of them. Nothing is drawn: the same functions give the same steps.

    Args:
        evaluate: n numbers -> n errors.
        start: the first guess.
        slopes: a guess of the derivatives: ``slopes[i][j]`` of error i by number j.
        box: bounds.
        tolerance: it stops when no error is larger.
        most_steps: evaluations at most.
    """
    guess: Vector = np.array(slopes, dtype=np.float64)
    slope = guess.copy()
    at = clipped(np.array(start, dtype=np.float64), box)
    points: list[Point] = []
    while True:
        errors = evaluate(tuple(at.tolist()))
        points.append(Point(at=tuple(at.tolist()), error=tuple(errors)))
        best = min(points, key=lambda point: point.size)
        if best.size <= tolerance or len(points) == most_steps:
            break
        slope = updated(slope, guess, points)
        to = next_point(slope, points[-1], box)
        if len(at) == 1:
            to = bracketed(to, points)
        if np.array_equal(to, at):  # in a corner of the box: nowhere to go
            break
        at = to
    return Found(best=best, steps=tuple(points), converged=best.size <= tolerance)


def clipped(at: Vector, box: Box) -> Vector:
    """The nearest place in the box."""
    inside: Vector = np.clip(at, box.low, box.high)
    return inside


def updated(slope: Vector, guess: Vector, points: list[Point]) -> Vector:
    """The slopes after the last evaluation (Broyden's rank-one change); the guess if they break."""
    if len(points) < 2:
        return slope
    old, new = points[-2], points[-1]
    moved = np.subtract(new.at, old.at)
    length = float(moved @ moved)
    if length == 0:
        return slope
    surprise = np.subtract(new.error, old.error) - slope @ moved
    changed: Vector = slope + np.outer(surprise, moved) / length
    # Noise over a short step can turn a slope round, or blow it up: then the guess is better.
    sane = changed / np.where(guess == 0, np.inf, guess)
    diagonal = np.diag(sane)
    if (diagonal < 0.1).any() or (diagonal > 10).any():
        return guess.copy()
    return changed


def next_point(slope: Vector, point: Point, box: Box) -> Vector:
    """Where the errors would be zero if the slopes were right; no further than allowed."""
    try:
        move = np.linalg.solve(slope, -np.array(point.error))
    except np.linalg.LinAlgError:
        move = -np.array(point.error) / np.diag(slope)
    over = float(np.max(np.abs(move) / np.array(box.step)))
    if over > 1:
        move = move / over
    return clipped(np.array(point.at) + move, box)


def bracketed(to: Vector, points: list[Point]) -> Vector:
    """The same place, or the middle of the bracket that it has left."""
    below = [point.at[0] for point in points if point.error[0] < 0]
    above = [point.at[0] for point in points if point.error[0] > 0]
    pairs = [(min(pair), max(pair)) for pair in product(below, above)]
    if not pairs:
        return to
    low, high = min(pairs, key=lambda pair: pair[1] - pair[0])
    return to if low < to[0] < high else np.array([(low + high) / 2])
