"""What a publication says beside a run: its figures, and which of them a run may be fitted to."""

from __future__ import annotations

from typing import Any

import attrs

from emu.model import checks

# Units of each metric, and what one of them is in the unit of `RunResult.metric`.
UNITS: dict[str, dict[str, float]] = {
    "throughput": {"/s": 1.0, "K/s": 1e3, "M/s": 1e6},
    "cpu": {"%": 0.01, "share": 1.0},
    **{name: {"us": 1.0, "ms": 1e3, "ns": 1e-3} for name in ("p50", "p90", "p99")},
}


def _figure(instance: Any, attribute: Any, value: Any) -> None:
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not number or not 0 < value < 1e18:
        checks.fail(instance, attribute.name, value, "a number above 0")


@attrs.frozen(kw_only=True)
class Published:
    """One row of a publication's table.

    Attributes:
        label: which pair of runs it is about.
        metric: throughput, cpu, p50, p90 or p99.
        unit: of its figures; which there are follows from the metric.
        before, after: the figures.

    Raises:
        ConfigError: one line naming the field.
    """

    label: str = attrs.field(validator=checks.instance_of(str, "text"))
    metric: str = attrs.field(validator=checks.one_of(*UNITS))
    unit: str = attrs.field()
    before: float = attrs.field(validator=_figure)
    after: float = attrs.field(validator=_figure)

    def __attrs_post_init__(self) -> None:
        units = UNITS[self.metric]
        if not isinstance(self.unit, str) or self.unit not in units:
            allowed = f"{checks.listed(units)} for {self.metric}"
            checks.fail(self, "unit", self.unit, allowed, checks.nearest(self.unit, units))

    @property
    def scale(self) -> float:
        """One of its unit in the unit of `RunResult.metric`."""
        return UNITS[self.metric][self.unit]


@attrs.frozen(kw_only=True)
class Calibration:
    """Which published figures of *before* are fitted; *after* is then a prediction.

    Attributes:
        software_factor: the metric that the factor on base costs of software is fitted to:
            ``"cpu"`` (of a host that is not busy all the time), or ``"throughput"`` (of one that
            is); None: it stays 1.
        turnaround: ``"throughput"``: the clients' pause is fitted to it; None: it stays as given.
        each: each label is fitted to its own rows; else all take what the main one's give.

    Raises:
        ConfigError: one line naming the field.
    """

    software_factor: str | None = attrs.field(
        default=None, validator=checks.optional(checks.one_of("cpu", "throughput"))
    )
    turnaround: str | None = attrs.field(
        default=None, validator=checks.optional(checks.one_of("throughput"))
    )
    each: bool = attrs.field(default=True, validator=checks.boolean)

    def __attrs_post_init__(self) -> None:
        if self.software_factor == self.turnaround:
            if self.turnaround is None:
                checks.fail(self, "software_factor", None, '"cpu" or "throughput"')
            allowed = "another metric than turnaround's: one figure cannot fit both"
            checks.fail(self, "software_factor", self.software_factor, allowed, '"cpu"')

    @property
    def metrics(self) -> tuple[str, ...]:
        """The metrics whose *before* is used."""
        return tuple(name for name in (self.software_factor, self.turnaround) if name)
