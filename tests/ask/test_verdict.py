"""The words for a prediction: each of them, from ratios alone."""

from __future__ import annotations

import pytest

from emu.ask.scenarios import Pair, Runner
from emu.ask.verdict import judge, verdict
from emu.model.published import Published
from emu.result.estimate import Estimate
from tests.ask.small import SETTING, small_scenario


def ratio(value: float, spread: float = 0.001) -> Estimate:
    """An estimate whose seeds stand that far apart."""
    return Estimate(value, (value - spread, value + spread))


@pytest.mark.parametrize(
    ("metric", "published", "emulated", "words"),
    [
        ("throughput", 1.24, ratio(1.22), "right sign, half to twice; within 5 %"),
        ("throughput", 1.24, ratio(1.15), "right sign, half to twice"),
        ("throughput", 1.24, ratio(1.07), "right sign, less than half"),
        ("throughput", 1.24, ratio(1.11), "right sign, less than half"),
        ("throughput", 1.24, ratio(1.13), "right sign, half to twice"),
        ("throughput", 1.24, ratio(1.47), "right sign, half to twice"),
        ("throughput", 1.24, ratio(1.49), "right sign, more than twice"),
        ("throughput", 1.24, ratio(1.60), "right sign, more than twice"),
        ("throughput", 1.24, ratio(1.02, 0.05), "sign unclear"),
        ("throughput", 1.24, ratio(0.90), "wrong sign"),
        ("throughput", 1.02, ratio(0.98), "wrong sign; within 5 %"),
        ("throughput", 0.80, ratio(1.10), "not explained"),
        ("cpu", 0.93, ratio(0.92), "right sign, half to twice; within 5 %"),
        ("cpu", 0.93, ratio(1.08), "wrong sign"),
        ("cpu", 1.08, ratio(0.95), "not explained"),
        ("p50", 1.23, ratio(1.00, 0.05), "not explained"),
        ("p50", 1.23, ratio(1.20), "right sign, half to twice; within 5 %"),
        ("cpu", 1.00, ratio(1.001), "as published; within 5 %"),
        ("cpu", 1.00, ratio(0.90), "a change too many"),
        ("p99", 0.67, Estimate(None), "nothing measured"),
    ],
)
def test_words(metric: str, published: float, emulated: Estimate, words: str) -> None:
    assert verdict(metric, published, emulated) == words


def test_a_judged_row_is_in_its_own_unit() -> None:
    scenario = small_scenario()
    pair: Pair = Runner(SETTING).pair(scenario.cases[0], None)
    row = Published(label="main", metric="throughput", unit="K/s", before=100, after=110)

    judged = judge(row, pair)

    assert judged.before == pytest.approx(pair.before.throughput.value / 1000)
    assert judged.after == pytest.approx(pair.after.throughput.value / 1000)
    assert judged.ratio.value == pytest.approx(judged.after / judged.before)
    assert judged.error == pytest.approx(judged.ratio.value / 1.1 - 1)
    assert judged.to_json()["emulated"] == {
        "before": judged.before,
        "after": judged.after,
        "ci": None,
    }
