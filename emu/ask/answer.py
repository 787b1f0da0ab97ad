"""A scenario's answer: what was fitted, both sides of every case, published beside emulated."""

from __future__ import annotations

from itertools import count

import attrs

from emu.ask.calibrate import MOST_STEPS
from emu.ask.fit import Fit
from emu.ask.scenarios import (
    Pair,
    Runner,
    Setting,
    fit_label,
    fit_scenario,
    fitted_labels,
    published_of,
)
from emu.ask.trials import Tell
from emu.ask.verdict import Judged, PerMessage, judge, per_message
from emu.io.scenarios import Scenario
from emu.timing import Share


@attrs.frozen(kw_only=True, eq=False)
class Answer:
    """What a scenario gave.

    Attributes:
        scenario: what the file says.
        setting: seeds and times of its runs.
        fits: label -> fit, of the labels that were fitted; empty: nothing was.
        pairs: both sides of every case, in the scenario's order.
        rows: the published rows beside the emulated, in the scenario's order.
        derived: CPU time of one message, of the labels whose rows give it.
    """

    scenario: Scenario
    setting: Setting
    fits: dict[str, Fit]
    pairs: list[Pair]
    rows: list[Judged]
    derived: list[PerMessage]

    def fit_of(self, label: str) -> str | None:
        """The label whose fit a case took; None when nothing was fitted."""
        return fit_label(self.scenario, label) if self.fits else None

    def rows_of(self, label: str) -> list[Judged]:
        """The published rows of one label."""
        return [row for row in self.rows if row.published.label == label]

    def derived_of(self, label: str) -> PerMessage | None:
        """CPU time of one message of one label; None where nothing was published of it."""
        return next((row for row in self.derived if row.label == label), None)

    def published_labels(self) -> list[str]:
        """Labels of which something was published, in the order of the cases."""
        return [pair.case.label for pair in self.pairs if self.rows_of(pair.case.label)]

    def variants(self) -> list[Pair]:
        """Cases of which nothing was published."""
        return [pair for pair in self.pairs if not self.rows_of(pair.case.label)]

    def judged_json(self) -> dict[str, object]:
        """``fits``, ``rows`` and ``derived`` of docs/bench-json.md, "A timed experiment"."""
        return {
            "fits": {label: fit.to_json() for label, fit in self.fits.items()},
            "rows": [row.to_json() for row in self.rows],
            "derived": [row.to_json() for row in self.derived],
        }


def answer_steps(scenario: Scenario, *, fit: bool = True) -> int:
    """How often `answer_scenario` calls ``begin``."""
    return len(scenario.cases) + (len(fitted_labels(scenario)) if fit else 0)


def answer_scenario(
    scenario: Scenario,
    setting: Setting,
    *,
    fit: bool = True,
    begin: Tell | None = None,
    share: Share | None = None,
) -> Answer:
    """Fit what the scenario says is fitted, run every case, judge the published rows.

    Args:
        scenario: hosts, workloads, published rows.
        setting: seeds and times of every run.
        fit: apply the scenario's ``[calibrate]``; otherwise nothing is fitted.
        begin: called with the name of each fit and each case before it begins.
        share: called with the share of the fit or the case that is done, 0 to 1.

    Raises:
        ConfigError: a fit that is not possible.
    """
    say, part = begin or (lambda name: None), share or (lambda done: None)
    fits: dict[str, Fit] = {}
    if fit:
        trials = count()

        def begin_fit(label: str) -> None:
            nonlocal trials
            trials = count(1)
            say(f"fit {label}")

        fits = fit_scenario(
            scenario,
            setting,
            begin=begin_fit,
            progress=lambda line: part(next(trials) / MOST_STEPS),
        )
    runner, pairs = Runner(setting), []
    for case in scenario.cases:
        say(case.label)
        own = fits[fit_label(scenario, case.label)] if fits else None
        pairs.append(runner.pair(case, own, part))
    by_label = {pair.case.label: pair for pair in pairs}
    given = [per_message(published_of(scenario, label), by_label[label]) for label in by_label]
    return Answer(
        scenario=scenario,
        setting=setting,
        fits=fits,
        pairs=pairs,
        rows=[
            judge(row, by_label[row.label], fitted=row.label in fits) for row in scenario.published
        ],
        derived=[one for one in given if one is not None],
    )
