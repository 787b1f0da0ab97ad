"""Calibration finds the factor and the pause that a *before* row was made with."""

from __future__ import annotations

import attrs
import pytest

from emu.ask.calibrate import calibrate
from emu.ask.scenarios import Setting, fit_label, fit_scenario, fitted_labels
from emu.errors import ConfigError
from emu.io.scenarios import Side
from emu.model.published import Calibration
from emu.model.workloads import RequestResponse
from emu.result.run import RunResult
from emu.timing import run
from tests.ask.small import SETTING, small_scenario

FACTOR = 1.7


def side() -> Side:
    return small_scenario().cases[0].before


def known(factor: float, **workload: object) -> tuple[Side, RunResult]:
    """A side, and what it does with that factor and that pause."""
    one = side()
    assert isinstance(one.workload, RequestResponse)
    result = run(
        one.host,
        attrs.evolve(one.workload, **workload),
        machine=one.machine,
        software_factor=factor,
        **times(SETTING),
    )
    return one, result


def times(setting: Setting) -> dict[str, object]:
    out = attrs.asdict(setting)
    del out["tolerance"]
    return out


def test_factor_and_pause_of_an_emulated_row_come_back() -> None:
    one, truth = known(FACTOR, turnaround="60us", turnaround_mean="20us")
    assert truth.cpu.value is not None
    assert truth.cpu.value < 0.9, "a saturated host would not test the pause"

    fit = calibrate(
        one.host,
        one.workload,
        machine=one.machine,
        throughput=truth.throughput.value,
        cpu=truth.cpu.value,
        **attrs.asdict(SETTING),
    )

    assert fit.converged, fit.numbers()
    assert fit.software_factor == pytest.approx(FACTOR, rel=0.02)
    assert fit.turnaround_ps + fit.turnaround_mean_ps == pytest.approx(80e6, rel=0.02)
    assert fit.turnaround_ps == pytest.approx(3 * fit.turnaround_mean_ps, rel=0.001)
    assert fit.fitted == {"software_factor": "cpu", "turnaround": "throughput"}
    assert fit.residual == fit.trials[-1].error <= SETTING.tolerance


def test_a_busy_host_is_fitted_by_its_rate_and_keeps_its_pause() -> None:
    busy = {"flows": 40, "turnaround": "0us", "turnaround_mean": "0us"}
    one, truth = known(FACTOR, **busy)
    assert truth.cpu.value == pytest.approx(1.0, abs=0.02)

    fit = calibrate(
        one.host,
        attrs.evolve(one.workload, **busy),
        machine=one.machine,
        throughput=truth.throughput.value,
        cpu=1.0,
        **attrs.asdict(SETTING),
    )

    assert fit.converged
    assert fit.software_factor == pytest.approx(FACTOR, rel=0.02)
    assert (fit.turnaround_ps, fit.turnaround_mean_ps) == (0, 0)
    assert fit.fitted == {"software_factor": "throughput"}


def test_the_same_question_has_the_same_answer() -> None:
    one, truth = known(1.3)

    def ask() -> dict[str, object]:
        return calibrate(
            one.host,
            one.workload,
            machine=one.machine,
            throughput=truth.throughput.value,
            cpu=truth.cpu.value,
            **attrs.asdict(SETTING),
        ).to_json()

    assert ask() == ask()


def test_a_rate_that_no_pause_gives_is_said() -> None:
    one, truth = known(1.0, turnaround="0us", turnaround_mean="0us")
    assert truth.throughput.value is not None

    fit = calibrate(
        one.host,
        one.workload,
        machine=one.machine,
        throughput=3 * truth.throughput.value,
        how=Calibration(turnaround="throughput"),
        most_steps=6,
        **attrs.asdict(SETTING),
    )

    assert not fit.converged
    assert "even without a pause" in fit.note


@pytest.mark.parametrize(
    ("figures", "message"),
    [
        ({}, "nothing to fit to"),
        ({"cpu": 1.0}, "busy all the time"),
        ({"cpu": 83}, "try 0.83"),
        ({"throughput": 0}, "above 0"),
        ({"throughput": float("nan")}, "above 0"),
        ({"throughput": 1.0, "how": Calibration(software_factor="cpu")}, "no cpu"),
        ({"throughput": 1e-300}, "at least .*: no client pauses for longer than an hour"),
        ({"throughput": 10**5000}, "thousands of digits"),
        ({"cpu": 10**400}, "cpu: got 1000.*; allowed: a number above 0, at most 1$"),
        ({"cpu": 500}, "at most 1$"),
        ({"cpu": 0}, "at most 1$"),
        ({"throughput": 1.0, "how": "cpu"}, "how: got 'cpu'; allowed: a Calibration"),
        ({"throughput": 1.0, "start": 1.5}, "start: got 1.5; allowed: a Fit"),
        ({"throughput": 1.0, "most_steps": 0}, "most_steps: got 0; allowed: a whole number, 1"),
        ({"throughput": 1.0, "tolerance": float("nan")}, "tolerance: got nan"),
        ({"throughput": 1.0, "tolerance": -1}, "tolerance: got -1"),
        ({"throughput": 1.0, "progress": 1}, "progress: got 1; allowed: a function"),
    ],
)
def test_what_nothing_can_be_fitted_to_is_one_line(
    figures: dict[str, object], message: str
) -> None:
    one = side()

    with pytest.raises(ConfigError, match=message) as caught:
        calibrate(one.host, one.workload, machine=one.machine, **figures)
    assert "\n" not in str(caught.value)


def test_a_time_in_which_no_message_ends_is_one_line() -> None:
    one = side()

    with pytest.raises(ConfigError, match="messages end"):
        calibrate(
            one.host,
            one.workload,
            machine=one.machine,
            throughput=1e5,
            duration="1ns",
            warmup="0us",
            engine="ref",
        )


ROWS = [
    {"metric": "throughput", "unit": "/s", "before": 50_000, "after": 60_000},
    {"metric": "cpu", "unit": "%", "before": 50, "after": 60},
]


def test_each_label_has_its_own_fit_and_variants_take_the_nearest() -> None:
    scenario = small_scenario(
        label="UDP",
        published=ROWS + [{**row, "label": "UDP IPv4", "before": 40} for row in ROWS],
        calibrate={"software_factor": "cpu", "turnaround": "throughput"},
        also=[
            {"label": "UDP IPv4"},
            {"label": "UDP IPv4, new"},
            {"label": "UDP IPv6"},
            {"label": "x"},
        ],
    )

    assert fitted_labels(scenario) == ["UDP", "UDP IPv4"]
    own = {case.label: fit_label(scenario, case.label) for case in scenario.cases}
    assert own == {
        "UDP": "UDP",
        "UDP IPv4": "UDP IPv4",
        "UDP IPv4, new": "UDP IPv4",
        "UDP IPv6": "UDP",
        "x": "UDP",
    }


def test_a_scenario_without_calibration_has_no_fits() -> None:
    assert fit_scenario(small_scenario(), SETTING) == {}
