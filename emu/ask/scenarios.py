"""A scenario run as its file says: each row fitted to its own *before*, then both sides run."""

from __future__ import annotations

import attrs

from emu.ask.calibrate import TOLERANCE, calibrate
from emu.ask.fit import Fit
from emu.ask.trials import Tell
from emu.errors import ConfigError
from emu.io.scenarios import Case, Scenario, Side
from emu.model import checks
from emu.model.published import Published
from emu.model.workloads import RequestResponse
from emu.result.estimate import Estimate, ratio_of
from emu.result.run import RunResult
from emu.timing import Share, part_of, run
from emu.units import format_duration_ps


@attrs.frozen(kw_only=True)
class Setting:
    """Seeds and times of the runs: a scenario's, or others in their place."""

    seed: int = 1
    seeds: int = 1
    duration: str = "50ms"
    warmup: str = "10ms"
    engine: str = "core"
    tolerance: float = TOLERANCE

    @classmethod
    def of(cls, scenario: Scenario, engine: str = "core") -> Setting:
        """What the scenario's file says."""
        return cls(
            seed=scenario.seed,
            seeds=scenario.seeds,
            duration=scenario.duration,
            warmup=scenario.warmup,
            engine=engine,
        )


@attrs.frozen(kw_only=True, eq=False)
class Pair:
    """A case, its fit, and what its two sides measured."""

    case: Case
    fit: Fit | None
    before: RunResult
    after: RunResult

    def ratio(self, metric: str) -> Estimate:
        """After divided by before, seed by seed: of a metric, or of ``"cpu_us_per_message"``."""
        return ratio_of(number(self.before, metric), number(self.after, metric))


def number(result: RunResult, metric: str) -> Estimate:
    """A metric of a result, or its CPU time for one message."""
    return result.headline()[metric]


def published_of(scenario: Scenario, label: str) -> dict[str, Published]:
    """Metric -> published row of one label."""
    return {row.metric: row for row in scenario.published if row.label == label}


def fitted_labels(scenario: Scenario) -> list[str]:
    """Labels whose *before* is fitted, in the order of the cases."""
    if scenario.calibrate is None:
        return []
    if not scenario.calibrate.each:
        return [scenario.cases[0].label]
    return [case.label for case in scenario.cases if published_of(scenario, case.label)]


def fit_label(scenario: Scenario, label: str) -> str:
    """Whose fit a case takes: its own, that of the longest label which its own begins with, or the
    main one's."""
    labels = fitted_labels(scenario)
    own = [other for other in labels if label.startswith(other)]
    return max(own, key=len) if own else labels[0]


def fit_side(
    scenario: Scenario,
    label: str,
    side: Side,
    setting: Setting,
    *,
    start: Fit | None = None,
    progress: Tell | None = None,
) -> Fit:
    """Fit a side to what was published of *before*.

    Args:
        scenario: says which figures are fitted.
        label: whose published rows.
        side: what runs; the label's own *before*, or a variant of it.
        setting: of the trials.
        start: a fit to begin with.
        progress: called with a line about each trial.

    Raises:
        ConfigError: a workload without clients, or a trial in which no message ended.
    """
    rows = published_of(scenario, label)
    return calibrate(
        side.host,
        side.workload,  # type: ignore[arg-type]  # which calibrate refuses if it has no clients
        machine=side.machine,
        how=scenario.calibrate,
        start=start,
        progress=progress,
        redraw_secrets=side.redraw_secrets,
        throughput=figure(rows.get("throughput")),
        cpu=figure(rows.get("cpu")),
        **attrs.asdict(setting),
    )


def figure(row: Published | None) -> float | None:
    """What was published of *before*, in the unit of `RunResult.metric`."""
    return None if row is None else row.before * row.scale


def fit_scenario(
    scenario: Scenario,
    setting: Setting,
    *,
    begin: Tell | None = None,
    progress: Tell | None = None,
) -> dict[str, Fit]:
    """Label -> fit, of the labels that are fitted; none when the scenario says nothing of fits.

    Args:
        scenario: says which figures are fitted.
        setting: of the trials.
        begin: called with each label before its fit begins.
        progress: called with a line about each trial.

    Raises:
        ConfigError: a fit that is not possible: one line that begins with the label.
    """
    fits: dict[str, Fit] = {}
    for case in scenario.cases:
        if case.label not in fitted_labels(scenario):
            continue
        if begin is not None:
            begin(case.label)
        try:
            fits[case.label] = fit_side(
                scenario, case.label, case.before, setting, progress=progress
            )
        except ConfigError as error:
            raise checks.relocate(error, f"{case.label}: {error.where}") from None
    return fits


def run_side(
    side: Side, fit: Fit | None, setting: Setting, *, progress: Share | None = None
) -> RunResult:
    """Run one side with the fitted numbers."""
    workload, factor = side.workload, 1.0
    if fit is not None:
        factor = fit.software_factor
        if "turnaround" in fit.fitted and isinstance(workload, RequestResponse):
            workload = attrs.evolve(
                workload,
                turnaround=format_duration_ps(fit.turnaround_ps),
                turnaround_mean=format_duration_ps(fit.turnaround_mean_ps),
            )
    return run(
        side.host,
        workload,
        machine=side.machine,
        seed=setting.seed,
        seeds=setting.seeds,
        duration=setting.duration,
        warmup=setting.warmup,
        engine=setting.engine,
        software_factor=factor,
        redraw_secrets=side.redraw_secrets,
        progress=progress,
    )


class Runner:
    """Runs sides; the same side with the same fit runs once."""

    def __init__(self, setting: Setting) -> None:
        self.setting = setting
        self.known: dict[tuple[int, int], RunResult] = {}

    def side(self, side: Side, fit: Fit | None, progress: Share | None = None) -> RunResult:
        """The result of one side."""
        key = (id(side), id(fit))
        if key not in self.known:
            self.known[key] = run_side(side, fit, self.setting, progress=progress)
        return self.known[key]

    def pair(self, case: Case, fit: Fit | None, progress: Share | None = None) -> Pair:
        """Both sides of a case."""
        return Pair(
            case=case,
            fit=fit,
            before=self.side(case.before, fit, part_of(progress, 0, 2)),
            after=self.side(case.after, fit, part_of(progress, 1, 2)),
        )
