"""Sensitivity on a tiny host: what is used moves the fit, what is not used moves nothing."""

from __future__ import annotations

import attrs
import pytest

from emu.ask.scenarios import run_side
from emu.ask.sensitivity import METRICS, sensitivity
from tests.ask.small import SETTING, small_scenario

NAMES = ("costs.tcp_send", "costs.udp_send", "transfer.other_node", "lines.txq")


@pytest.fixture(scope="module")
def scenario():
    """A scenario whose *before* is what it does itself with a factor of 1.5."""
    plain = small_scenario()
    scaled = attrs.evolve(plain.cases[0].before, machine=plain.cases[0].before.machine.scaled(1.5))
    result = run_side(scaled, None, SETTING)
    return small_scenario(
        published=[
            {"metric": "throughput", "unit": "/s", "before": result.throughput.value, "after": 1.0},
            {"metric": "cpu", "unit": "share", "before": result.cpu.value, "after": 1.0},
        ],
        calibrate={"software_factor": "cpu", "turnaround": "throughput"},
    )


def test_rows_that_nothing_uses_move_nothing(scenario) -> None:
    seen: list[str] = []

    answer = sensitivity(scenario, scenario.cases[0], SETTING, names=NAMES, progress=seen.append)

    moved = {row.name: row for row in answer.rows}
    assert seen == list(NAMES)
    assert answer.fit.software_factor == pytest.approx(1.5, rel=0.03)
    assert set(answer.base) == set(METRICS)
    # No UDP, and no other node on one node.
    for name in ("costs.udp_send", "transfer.other_node"):
        assert moved[name].low == moved[name].high == answer.base
        assert moved[name].effect == 0
    assert moved["costs.tcp_send"].low != moved["costs.tcp_send"].high
    effects = [row.effect for row in answer.rows]
    assert effects == sorted(effects, reverse=True)


def test_the_same_question_has_the_same_answer(scenario) -> None:
    first, second = (
        sensitivity(scenario, scenario.cases[0], SETTING, names=NAMES[:1]).to_json()
        for _ in range(2)
    )

    assert first == second
