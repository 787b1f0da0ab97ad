"""One number measured with several seeds: its value, and how far the seeds stand apart."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import attrs

# Two-sided 95 % quantiles of Student's t for 1, 2, 3 ... degrees of freedom, as the NIST/SEMATECH
# e-Handbook of Statistical Methods prints them (1.3.6.7.2, column 0.975).
STUDENT_T = (
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086,
    2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
)  # fmt: skip
# Beyond, the next smaller printed row: an interval that is a little too wide.
STUDENT_T_ABOVE = ((40, 2.021), (50, 2.009), (60, 2.000), (80, 1.990), (100, 1.984))


def student_t(freedom: int) -> float:
    """The two-sided 95 % quantile for that many degrees of freedom, at least 1."""
    if freedom <= len(STUDENT_T):
        return STUDENT_T[freedom - 1]
    value = STUDENT_T[-1]
    for least, quantile in STUDENT_T_ABOVE:
        if freedom >= least:
            value = quantile
    return value


@attrs.frozen
class Estimate:
    """A measured number.

    Attributes:
        value: the number over all seeds; None when nothing was there to be measured.
        per_seed: the number of each seed that had one.
    """

    value: float | None
    per_seed: tuple[float, ...] = ()

    @property
    def half_width(self) -> float | None:
        """Half of the 95 % confidence interval of the mean (Student's t); None for one seed."""
        count = len(self.per_seed)
        if count < 2:
            return None
        mean = sum(self.per_seed) / count
        variance = sum((value - mean) ** 2 for value in self.per_seed) / (count - 1)
        return student_t(count - 1) * sqrt(variance / count)

    @property
    def interval(self) -> tuple[float, float] | None:
        """Both ends of the 95 % confidence interval; None for one seed."""
        half = self.half_width
        if half is None or self.value is None:
            return None
        return self.value - half, self.value + half

    def scaled(self, factor: float) -> Estimate:
        """The same in another unit."""
        value = None if self.value is None else self.value * factor
        return Estimate(value, tuple(one * factor for one in self.per_seed))

    def to_json(self) -> dict[str, object]:
        """``value``, ``ci`` (two ends, or null), ``per_seed``."""
        ends = self.interval
        return {
            "value": self.value,
            "ci": None if ends is None else list(ends),
            "per_seed": list(self.per_seed),
        }


def mean_of(values: Sequence[float | None]) -> Estimate:
    """The mean of the seeds that have a value."""
    known = tuple(float(value) for value in values if value is not None)
    return Estimate(sum(known) / len(known) if known else None, known)


def ratio_of(before: Estimate, after: Estimate) -> Estimate:
    """After divided by before; seed by seed where both have the same seeds."""
    if not before.value or after.value is None:
        return Estimate(None)
    pairs = list(zip(before.per_seed, after.per_seed, strict=False))
    paired = len(before.per_seed) == len(after.per_seed) and all(old for old, _ in pairs)
    each = tuple(new / old for old, new in pairs) if paired else ()
    return Estimate(after.value / before.value, each)
