"""Quantities with a unit, as people write them: "10us", "1.5ms", "64KiB"."""

from __future__ import annotations

import re
from fractions import Fraction

from emu.errors import ConfigError

PS_PER_SECOND = 10**12
_PS = {"ps": 1, "ns": 10**3, "us": 10**6, "ms": 10**9, "s": 10**12}
_DURATION = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(ps|ns|us|ms|s)\s*")
_MOST_CHARS = 40  # of a duration; any that is taken has a spelling half as long


def parse_duration_ps(text: str, where: str = "duration") -> int:
    """Picoseconds of a duration such as ``"10us"``.

    Raises:
        ConfigError: no number with a unit of ps, ns, us, ms, s; no whole number of picoseconds.
    """
    if len(text) > _MOST_CHARS:
        given = f"{text[:_MOST_CHARS]!r}..."
        raise ConfigError(where, given, f"at most {_MOST_CHARS} characters", '"10us"')
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ConfigError(where, repr(text), "a number and a unit (ps, ns, us, ms, s)", '"10us"')
    picoseconds = Fraction(match[1]) * _PS[match[2]]  # exact, however many digits
    if picoseconds != int(picoseconds):
        raise ConfigError(where, repr(text), "a whole number of picoseconds", '"1ps" or more')
    if picoseconds >= 2**62:
        raise ConfigError(where, repr(text), "below 2**62 ps (about 53 days)")
    return int(picoseconds)


def format_duration_ps(picoseconds: int) -> str:
    """The shortest exact form: ``format_duration_ps(10_000_000) == "10us"``."""
    for unit in ("s", "ms", "us", "ns"):
        if picoseconds and picoseconds % _PS[unit] == 0:
            return f"{picoseconds // _PS[unit]}{unit}"
    return f"{picoseconds}ps"
