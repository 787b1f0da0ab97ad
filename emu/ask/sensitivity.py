"""What a prediction hangs on: each row of the cost model up and down, fitted and predicted anew."""

from __future__ import annotations

import attrs
import numpy as np

from emu.ask.fit import Fit
from emu.ask.scenarios import Pair, Runner, Setting, fit_side, run_side
from emu.ask.trials import Tell
from emu.io.scenarios import Case, Scenario
from emu.result.run import RunResult

CHANGE = 0.3
METRICS = ("throughput", "cpu_us_per_message")


@attrs.frozen(kw_only=True)
class Moved:
    """One row of the cost model, and where the ratios go.

    Attributes:
        name: its full name, ``costs.lock``.
        value, unit, solid: as in the machine.
        low, high: metric -> ratio after / before with the row less, and more; None: no fit.
        base: metric -> ratio with the row as it is; None: nothing was measured.
    """

    name: str
    value: str
    unit: str
    solid: str
    low: dict[str, float | None]
    high: dict[str, float | None]
    base: dict[str, float | None]

    @property
    def effect(self) -> float:
        """The largest move of a ratio, either way."""
        moves = [
            abs(value - base)
            for side in (self.low, self.high)
            for metric, value in side.items()
            if value is not None and (base := self.base[metric]) is not None
        ]
        return max(moves, default=0.0)

    def to_json(self) -> dict[str, object]:
        """docs/bench-json.md, "A cost"."""
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "solid": self.solid,
            "low": self.low,
            "high": self.high,
            "effect": self.effect,
        }


@attrs.frozen(kw_only=True, eq=False)
class Sensitivity:
    """The answer of `sensitivity`: rows by effect, the largest first."""

    label: str
    change: float
    fit: Fit
    base: dict[str, float | None]
    rows: list[Moved]

    def to_json(self) -> dict[str, object]:
        """docs/bench-json.md, "Sensitivity"."""
        return {
            "label": self.label,
            "change": self.change,
            "fit": self.fit.to_json(),
            "base": self.base,
            "rows": [row.to_json() for row in self.rows],
        }


def sensitivity(
    scenario: Scenario,
    case: Case,
    setting: Setting,
    *,
    change: float = CHANGE,
    names: tuple[str, ...] | None = None,
    progress: Tell | None = None,
) -> Sensitivity:
    """Change each row of a machine, fit *before* anew, and predict *after* anew.

    Fitting anew is what a modeller with the other figure would have done: what it moves besides is
    a change of proportion, which is what the prediction hangs on. A row that neither side uses is
    not fitted: its runs are those of the base.

    Args:
        scenario: says what is fitted.
        case: one with published rows.
        setting: of every run; all have the same seeds.
        change: up and down by this share.
        names: rows; by default all (`Machine.names`).
        progress: called with the name of each row.
    """
    fit = fit_side(scenario, case.label, case.before, setting)
    base = Runner(setting).pair(case, fit)
    as_it_is = ratios(base)
    machine = case.before.machine
    by_name = {row.place: row for row in machine.rows}
    rows = []
    for name in names if names is not None else machine.names():
        if progress is not None:
            progress(name)
        low, high = (
            moved(scenario, base, name, factor, setting) for factor in (1 - change, 1 + change)
        )
        row = by_name[name]
        value = row.value
        rows.append(
            Moved(
                name=name,
                value=" / ".join(map(str, value)) if isinstance(value, tuple) else str(value),
                unit=row.unit,
                solid=row.solid,
                low=low,
                high=high,
                base=as_it_is,
            )
        )
    rows.sort(key=lambda row: (-row.effect, row.name))
    return Sensitivity(label=case.label, change=change, fit=fit, base=as_it_is, rows=rows)


def ratios(pair: Pair) -> dict[str, float | None]:
    """Metric -> ratio; None: nothing was measured."""
    return {metric: pair.ratio(metric).value for metric in METRICS}


def moved(
    scenario: Scenario, base: Pair, name: str, factor: float, setting: Setting
) -> dict[str, float | None]:
    """Metric -> ratio with one row changed; None where no fit was found."""
    assert base.fit is not None
    before, after = (
        attrs.evolve(side, machine=side.machine.perturbed(name, factor))
        for side in (base.case.before, base.case.after)
    )
    first = run_side(before, base.fit, setting)
    second = run_side(after, base.fit, setting)
    if same(first, base.before) and same(second, base.after):
        return ratios(base)
    if same(first, base.before):
        fit = base.fit
    else:
        fit = fit_side(scenario, base.case.label, before, setting, start=base.fit)
        if not fit.converged:
            return dict.fromkeys(METRICS)
        first, second = (run_side(side, fit, setting) for side in (before, after))
    return ratios(Pair(case=base.case, fit=fit, before=first, after=second))


def same(left: RunResult, right: RunResult) -> bool:
    """Whether two results have the same counters and samples."""
    for one, other in zip(left.measured, right.measured, strict=True):
        if not np.array_equal(one.samples_ps, other.samples_ps):
            return False
        if any(not np.array_equal(one.counters[key], other.counters[key]) for key in one.counters):
            return False
    return True
