"""What holds of every run in either engine: no packet, no time, no flow's order is lost."""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any

import attrs
import numpy as np
import pytest

from emu.dtypes import Direction
from emu.engines import stage
from emu.model.run_plan import RunPlan
from emu.run_dtypes import Ctx, Lock, RunDrop, Step, Total
from tests.choices import Choices, Seeded
from tests.runs_equal import (
    FIRST_CUT_PS,
    Outcome,
    begin,
    difference,
    go_on,
    odd_cuts,
    outcome,
)
from tests.strategies.runs import make_case, plan_of

CASES = {"core": 200, "ref": 50}
END_PS = 150 * FIRST_CUT_PS
LONG_PS = 10**12
RX_DROPS = [reason for reason in range(32) if reason != RunDrop.QDISC_DROP]
# Where a message's skb is in front of the stack, of a protocol, of a reader.
IN_ORDER = (Step.RX, Step.PROTO, Step.ENQUEUE, Step.READ)


@lru_cache(maxsize=256)
def plan_number(seed: int) -> RunPlan:
    """The plan of a seed's case."""
    return plan_of(make_case(Choices(Seeded(1000 + seed))))


@pytest.fixture
def plans(engine: Any) -> list[RunPlan]:
    """As many plans as the engine has time for."""
    return [plan_number(seed) for seed in range(CASES[engine.name])]


def check_packets(plan: RunPlan, counters: dict[str, Any]) -> None:
    """Nothing gets lost, and two who count the same agree."""
    totals, drops = counters["totals"], counters["drops"]
    ended = totals[Total.READ] + totals[Total.FORWARDED] + totals[Total.DROPPED]
    assert totals[Total.ARRIVED] == ended + totals[Total.INSIDE]
    sent = totals[Total.TX_DROPPED] + totals[Total.TX_DONE] + totals[Total.TX_INSIDE]
    assert totals[Total.SENT] == sent
    assert totals[Total.DROPPED] == drops[RX_DROPS].sum()
    assert totals[Total.TX_DROPPED] == drops[RunDrop.QDISC_DROP]
    assert drops[0] == 0
    assert counters["rxq"][:, 1].sum() == drops[RunDrop.RX_RING_FULL]
    assert counters["rxq"][:, 0].sum() == counters["steps"][Step.RX]
    assert counters["softnet"][:, 0].sum() == counters["steps"][Step.PROTO]
    enqueued, refused, read = counters["sockets"].sum(axis=0)
    assert enqueued + refused == counters["steps"][Step.ENQUEUE]
    waiting = read - counters["steps"][Step.READ]  # for the socket's lock, message in hand
    assert 0 <= waiting <= plan.base.ncpus
    assert read <= enqueued
    assert counters["napi"][:, 0].sum() == counters["steps"][Step.IRQ]
    assert counters["qdisc"][:, 3].sum() == drops[RunDrop.QDISC_DROP]
    assert all((column >= 0).all() for column in counters.values())


def check_time(plan: RunPlan, counters: dict[str, Any], until_ps: int) -> None:
    """Each CPU does one thing at a time, all the time; one that is offline does nothing."""
    busy = counters["busy_ps"]
    assert (busy >= 0).all()
    assert (busy.sum(axis=1) == until_ps).all()
    offline = plan.base.online == 0
    assert (busy[offline, Ctx.IDLE] == until_ps).all()
    assert not counters["cost"][offline].any()
    for lock in Lock:
        acquired, waited, wait_ps = counters["locks"][lock].tolist()
        assert waited <= acquired + plan.base.ncpus
        assert wait_ps >= 0
        assert waited or not wait_ps


def check_trace(plan: RunPlan, outcome: Outcome) -> None:
    """Time never goes back; the trace, the step counters and the cost cells are one story."""
    trace, counters = outcome.trace, outcome.counters
    assert (np.diff(trace["time_ps"]) >= 0).all()
    counted = np.bincount(trace["step"], minlength=len(Step))
    assert counted.tolist() == counters["steps"].tolist()
    for ctx in Ctx:
        mine = trace["ctx"] == ctx
        assert int(trace["cost"][mine].sum()) == int(counters["cost"][:, ctx].sum())
    cpus = trace["cpu"]
    assert (plan.base.online[cpus[cpus >= 0]] == 1).all()


def test_packets_and_time_are_conserved_at_every_cut(plans, engine):
    for plan in plans:
        run = begin(engine.name, plan)
        for cut in odd_cuts(END_PS):
            run.advance(cut)
            counters = run.counters()
            check_packets(plan, counters)
            check_time(plan, counters, cut)


def test_time_never_goes_back_and_every_cost_is_booked(plans, engine):
    for plan in plans:
        check_trace(plan, outcome(engine.name, plan, [END_PS]))


def test_a_cpu_is_busy_for_as_long_as_its_steps_cost(plans, engine):
    """Open loop, until nothing is left to do: no step's time is lost or spent twice.

    Waiting for a lock is busy time, too; an interrupt may come meanwhile.
    """
    exact = waited = 0
    for plan in plans:
        if plan.workload["closed"][0]:
            continue
        found = outcome(engine.name, plan, [LONG_PS])
        units = found.trace["cost"]
        lasted_ps = int((-(-units * plan.ps_num // plan.ps_den)).sum())
        wait_ps = int(found.counters["locks"][:, 2].sum())
        busy = found.counters["busy_ps"]
        busy_ps = int(busy.sum() - busy[:, Ctx.IDLE].sum())
        if wait_ps:
            assert lasted_ps < busy_ps <= lasted_ps + wait_ps
            waited += 1
        else:
            assert busy_ps == lasted_ps
            exact += 1
    assert exact
    assert waited


def flows_of(plan: RunPlan) -> Any:
    """int[n]: a number for the flow of each row of the packets."""
    columns = plan.base.packets
    words = np.column_stack(
        [columns.nic, columns.ip_proto, columns.saddr, columns.daddr, columns.sport, columns.dport]
    )
    return np.unique(words, axis=0, return_inverse=True)[1].ravel()


def test_a_flow_keeps_its_order(plans, engine):
    """Open loop: at each stage the rows of a flow come by in the order in which they arrived."""
    seen = 0
    for plan in plans:
        if plan.workload["closed"][0]:
            continue
        trace = outcome(engine.name, plan, [END_PS]).trace
        flow = flows_of(plan)
        for step in IN_ORDER:
            rows = trace["arg"][trace["step"] == step]
            order = np.argsort(flow[rows], kind="stable")
            same = np.diff(flow[rows][order]) == 0
            assert (np.diff(rows[order])[same] > 0).all(), f"{step.name} out of order"
            seen += int(same.sum())
    assert seen > 100


def test_what_is_forwarded_keeps_its_order(plans, engine):
    """From the choice of a tx queue to the wire: by qdiscs, requeues and stops."""
    seen = 0
    for plan in plans:
        arrived = stage("ref", "steer").arrive(plan.base)
        if not (arrived["direction"] == Direction.FORWARDED).any():
            continue
        found = outcome(engine.name, plan, [END_PS])
        flow = flows_of(plan)
        last: dict[int, int] = defaultdict(lambda: -1)
        forwarded = arrived["direction"] == Direction.FORWARDED
        for row in found.trace["arg"][found.trace["step"] == Step.XMIT].tolist():
            if forwarded[row]:
                assert row >= last[flow[row]]  # a head that went back is tried again
                last[flow[row]] = row
                seen += 1
    assert seen > 100


def test_equal_seeds_give_equal_runs_and_others_others(engine):
    other = 0
    for seed in range(6):
        plan = plan_number(seed)
        first, again = (outcome(engine.name, plan, [END_PS]) for _ in range(2))
        assert not difference(again, first, ("again", "first"))
        reseeded = attrs.evolve(plan, seed=plan.seed + 1)
        other += bool(difference(outcome(engine.name, reseeded, [END_PS]), first, ("a", "b")))
    assert other >= 3


def test_threads_do_not_change_a_run():
    """The core lets other threads run: the same and different runs side by side."""
    plans = [plan_number(seed % 4) for seed in range(16)]
    alone = [outcome("core", plan, [END_PS]) for plan in plans[:4]]

    def in_parts(plan: RunPlan) -> Outcome:
        return go_on(begin("core", plan), odd_cuts(END_PS))

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(in_parts, plans))

    for number, found in enumerate(together):
        assert not difference(found, alone[number % 4], ("in a thread", "alone"))


def test_a_run_leaves_its_plan_alone(engine):
    plan = plan_number(3)
    before = {
        field.name: np.copy(getattr(plan, field.name))
        for field in attrs.fields(RunPlan)
        if isinstance(getattr(plan, field.name), np.ndarray)
    }

    outcome(engine.name, plan, [END_PS])

    for name, array in before.items():
        np.testing.assert_array_equal(getattr(plan, name), array)
