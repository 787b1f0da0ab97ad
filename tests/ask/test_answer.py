"""A scenario's answer: what is fitted to what, whose fit a case takes, what is judged."""

from __future__ import annotations

import pytest

from emu.ask.answer import Answer, answer_scenario, answer_steps
from emu.ask.scenarios import run_side
from emu.io.scenarios import Scenario
from tests.ask.small import SETTING, small_scenario

ROWS = [
    {"metric": "throughput", "unit": "K/s", "before": 100, "after": 110},
    {"metric": "cpu", "unit": "%", "before": 30, "after": 29},
]
UDP = {"proto": "udp"}
ALSO = [
    {"label": "UDP", "both": {"workload": UDP, "socket": {"server": UDP}}},
    {"label": "UDP, one queue", "before": {"nic": {"eth0": {"rx_queues": 1}}}},
    {"label": "other"},
]


def scenario_of(**calibrate: object) -> Scenario:
    """Two labels with rows, two variants."""
    more = [{**ROWS[0], "label": "UDP", "before": 90}, {**ROWS[1], "label": "UDP"}]
    return small_scenario(published=ROWS + more, calibrate=calibrate, also=ALSO)


def answered(scenario: Scenario, **options: bool) -> tuple[Answer, list[str]]:
    """The answer, and the steps that it told."""
    told: list[str] = []
    return answer_scenario(scenario, SETTING, begin=told.append, **options), told


def test_each_label_is_fitted_to_its_own_before() -> None:
    scenario = scenario_of(software_factor="cpu", turnaround="throughput")

    answer, told = answered(scenario)

    assert told == ["fit main", "fit UDP", "main", "UDP", "UDP, one queue", "other"]
    assert len(told) == answer_steps(scenario)
    assert [answer.fit_of(pair.case.label) for pair in answer.pairs] == [
        "main",
        "UDP",
        "UDP",
        "main",
    ]
    for row in answer.rows:
        assert row.calibrated
        assert row.before == pytest.approx(row.published.before, rel=0.01)
    assert answer.published_labels() == ["main", "UDP"]
    assert [pair.case.label for pair in answer.variants()] == ["UDP, one queue", "other"]
    # each pair ran with the numbers of its fit
    for pair in answer.pairs:
        assert pair.fit is answer.fits[answer.fit_of(pair.case.label) or ""]
        again = run_side(pair.case.after, pair.fit, SETTING)
        assert again.throughput == pair.after.throughput


def test_one_fit_for_all_marks_its_own_rows_only() -> None:
    answer, _ = answered(scenario_of(turnaround="throughput", each=False))

    assert list(answer.fits) == ["main"]
    assert answer.fit_of("UDP") == "main"
    marked = [(row.published.label, row.published.metric) for row in answer.rows if row.calibrated]
    assert marked == [("main", "throughput")]


def test_without_a_fit_nothing_is_marked_and_all_is_judged() -> None:
    scenario = scenario_of(software_factor="cpu", turnaround="throughput")

    answer, told = answered(scenario, fit=False)

    assert told == ["main", "UDP", "UDP, one queue", "other"]
    assert len(told) == answer_steps(scenario, fit=False)
    assert answer.fits == {}
    assert answer.fit_of("main") is None
    assert all(pair.fit is None for pair in answer.pairs)
    assert [row.calibrated for row in answer.rows] == [()] * 4
    assert all(row.verdict for row in answer.rows)
    assert answer.pairs[0].before.software_factor == 1


def test_it_tells_how_far_it_is() -> None:
    told: list[str | float] = []

    answer = answer_scenario(
        scenario_of(turnaround="throughput"), SETTING, begin=told.append, share=told.append
    )

    fitted = told[told.index("fit UDP") + 1 : told.index("main")]
    assert len(fitted) == len(answer.fits["UDP"].trials)
    assert fitted == sorted(fitted)
    ran = told[told.index("main") + 1 : told.index("UDP")]
    assert ran[-1] == 1
    assert all(0 < share <= 1 for share in told if isinstance(share, float))


def test_cpu_per_message_needs_both_rows() -> None:
    both, _ = answered(scenario_of(turnaround="throughput"), fit=False)
    one, _ = answered(small_scenario(published=ROWS[:1]))

    assert [derived.label for derived in both.derived] == ["main", "UDP"]
    derived = both.derived_of("main")
    assert derived is not None
    assert derived.published == pytest.approx(29 / 30 / 1.1)
    ratio = both.pairs[0].ratio("cpu_us_per_message").value
    assert derived.ratio.value == ratio
    assert one.derived == []
    assert one.derived_of("main") is None
