"""Choices that make a random case: drawn by hypothesis, from a seed, or said again from a list.

A case is a function of its choices. Whoever draws them, they are written down, so that a case can
be made again from a line of text.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Protocol, TypeVar

T = TypeVar("T")


class Source(Protocol):
    """Where numbers come from."""

    def below(self, bound: int) -> int:
        """A number in [0, bound)."""


class Seeded:
    """Numbers of a seed."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def below(self, bound: int) -> int:
        return self.random.randrange(bound)


class Said:
    """Numbers that were drawn before; 0 behind their end."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = list(numbers)[::-1]

    def below(self, bound: int) -> int:
        return self.numbers.pop() % bound if self.numbers else 0


class Choices:
    """Takes choices from a source and writes them down. The first of everything is the plainest."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.made: list[int] = []

    def below(self, bound: int) -> int:
        """A number in [0, bound)."""
        number = self.source.below(bound)
        self.made.append(number)
        return number

    def between(self, low: int, high: int) -> int:
        """A number in [low, high]."""
        return low + self.below(high - low + 1)

    def of(self, *values: T) -> T:
        """One of the values."""
        return values[self.below(len(values))]

    def chance(self, one_in: int) -> bool:
        """True once in so many times; 0 said means no."""
        return self.below(one_in) == one_in - 1

    def some(self, values: Sequence[T], least: int = 0) -> list[T]:
        """A part of the values, in their order, at least so many of them."""
        chosen = {index for index in range(len(values)) if self.below(2)}
        chosen |= set(range(max(0, least - len(chosen))))
        return [value for index, value in enumerate(values) if index in chosen]

    def text(self) -> str:
        """What was chosen, as one word."""
        return ".".join(f"{number:x}" for number in self.made)


def said_again(text: str) -> Choices:
    """The choices of such a word."""
    return Choices(Said([int(number, 16) for number in text.split(".") if number]))
