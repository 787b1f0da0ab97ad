"""What the core takes up front for a run, and the plans that it refuses."""

from __future__ import annotations

import gc
import os
import resource

import attrs
import numpy as np
import pytest

from emu._core.run_setup import check_indexes
from emu.model.run_plan import RunPlan
from emu.model.workloads import RequestResponse
from emu.run_dtypes import NEVER_PS, Cost, Step
from emu.timing import prepare
from tests.runs_equal import begin
from tests.small_runs import HOST, MACHINE, small_plan


@pytest.fixture(scope="module")
def plan() -> RunPlan:
    return small_plan()


def test_a_plan_that_points_nowhere_else_is_taken(plan: RunPlan) -> None:
    check_indexes(plan)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("napi_cpu", -1),
        ("napi_cpu", 4),
        ("txq_napi", 99),
        ("txq_nic", 1),
        ("txq_qdisc", 99),
        ("thread_cpus", 4),
        ("sock_threads", 10_000),
        ("distance", 4),
    ],
)
def test_an_index_outside_is_refused(plan: RunPlan, field: str, value: int) -> None:
    array = getattr(plan, field).astype(np.int64)
    array.reshape(-1)[-1] = value

    with pytest.raises(ValueError, match=f"^{field} points outside the plan$"):
        check_indexes(attrs.evolve(plan, **{field: array}))


@pytest.mark.parametrize(
    ("field", "column", "name"),
    [
        ("threads", "allow_len", "allowed"),
        ("sockets", "thread_off", "readers"),
        ("sockets", "chain_len", "members"),
        ("nics", "qdisc", "nics"),
    ],
)
def test_a_record_that_points_outside_is_refused(
    plan: RunPlan, field: str, column: str, name: str
) -> None:
    rows = getattr(plan, field).copy()
    rows[column][-1] = 2**31

    with pytest.raises(ValueError, match=f"^{name} points outside the plan$"):
        begin("core", attrs.evolve(plan, **{field: rows}))


@pytest.mark.parametrize("field", ["sockets", "nics", "lines", "txq_napi", "napi_cpu"])
def test_an_array_that_is_too_short_is_refused(plan: RunPlan, field: str) -> None:
    short = attrs.evolve(plan, **{field: getattr(plan, field)[:-1]})

    with pytest.raises(ValueError, match=r"^(sockets|nics|lines|txq_nic|txq_napi|napi_cpu)"):
        begin("core", short)


def test_a_thread_of_two_pools_is_refused(plan: RunPlan) -> None:
    """Its sleepers' list could hold it once only."""
    sockets = plan.sockets.copy()
    assert len(sockets) > 1
    sockets["thread_off"], sockets["thread_len"] = 0, 2

    with pytest.raises(ValueError, match="two pools"):
        begin("core", attrs.evolve(plan, sockets=sockets))


@pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""), reason="ASan keeps freed memory in quarantine"
)
def test_runs_give_their_memory_back(plan: RunPlan) -> None:
    """Thousands of runs one after the other take no more than a few."""

    def take(count: int) -> int:
        for _ in range(count):
            begin("core", plan, trace_rows=1000).advance(10**8)
        gc.collect()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    before = take(50)

    assert take(1000) - before < 20_000, "KiB more"


@pytest.mark.parametrize(
    ("num", "den"), [(1, 1), (1, 2**40), (999_983, 7), (2**40 + 1, 3), (1, 3), (2**62, 2**61 - 1)]
)
def test_durations_are_exact(num: int, den: int) -> None:
    """Of every size of cost and every machine's speed: rounded up once, never through a float."""
    plan = prepare(HOST, RequestResponse(flows=1), machine=MACHINE, seed=1, engine="core")
    seed = num % 1000
    random = np.random.default_rng(seed)
    drawn = [int(random.integers(1, 2**bits)) for bits in range(1, 41)]
    nothing = np.zeros_like(plan.costs)
    for cost in [*drawn, 2**40, 2**40 - 1, 2**41 + 1, den % 2**40, 2 * den % 2**40]:
        expected = -(-cost * num // den)
        if expected > NEVER_PS // 4:
            continue
        costs = nothing.copy()
        costs[Cost.HARDIRQ] = cost
        run = begin("core", attrs.evolve(plan, costs=costs, ps_num=num, ps_den=den), trace_rows=3)
        until = 0
        while len(run.trace()) < 2:
            until += 10**6
            run.advance(until)
        irq = run.trace()[1]
        run.advance(int(irq["time_ps"]) + expected + 1)

        poll = run.trace()[2]
        assert (irq["step"], poll["step"]) == (Step.IRQ, Step.POLL)
        took = int(poll["time_ps"] - irq["time_ps"])
        assert took == expected, f"cost {cost}, {num} / {den}, seed {seed}: {took}"
