"""A result moves smoothly with each cost, and by as much as that cost's share.

On one CPU that never idles nothing can hide: a cost that is a share s of what a message takes,
raised by 1 %, takes s % off the throughput. On several CPUs it moves by little and, within noise,
one way only.
"""

from __future__ import annotations

from functools import lru_cache
from math import log

import numpy as np
import pytest

from emu.model.accept import accept
from emu.model.host import Host
from emu.model.lower_run import lower_run
from emu.model.machines_toml import get_machine
from emu.model.masks import CpuSet
from emu.model.nic import Nic, Rss
from emu.model.run_plan import RunPlan
from emu.model.sockets import Socket
from emu.model.topology import Topology
from emu.model.workloads import RequestResponse, request_packets
from emu.run_dtypes import Cost, Ctx, Stage, Total
from emu.steering import steer
from tests.degenerate import with_costs
from tests.runs_equal import begin

WARM_PS, END_PS = 10**9, 26 * 10**9
STEPS_PERCENT = (0, 1, 2, 3, 4, 5)
SEEDS = (1, 2)


@lru_cache
def plan_for(cpus: int, proto: str, qdisc: str, seed: int) -> RunPlan:
    """A busy server: event loops, RPS to every CPU, one transmit queue for each."""
    everyone = CpuSet(range(cpus))
    workload = RequestResponse(
        flows=64 * cpus, request_bytes=64, response_bytes=64, proto=proto, turnaround="5us",
        turnaround_mean="20us", server_style="event-loop", work_cycles=500,
    )  # fmt: skip
    host = Host(
        topology=Topology(cpus=cpus, node_of=[cpu * 2 // cpus for cpu in range(cpus)]),
        nics=[
            Nic(
                name="eth0",
                rx_queues=cpus,
                tx_queues=cpus,
                rss=Rss(key="microsoft"),
                rps_cpus=everyone if cpus > 1 else (),
                qdisc=qdisc,
                rx_usecs=5,
            )
        ],
        sockets=[
            Socket(
                name=f"s{cpu}", proto=proto, bind="0.0.0.0:12865", reuseport=True,
                threads=CpuSet([cpu]),
            )
            for cpu in range(cpus)
        ],
    )  # fmt: skip
    packets = request_packets(workload, seed)
    made = steer(host, packets)
    host, served = accept(
        host, packets, made.column("socket"), made.column("app_cpu"), all_served=True
    )
    machine = get_machine("xeon-2015")
    return lower_run(host, packets, machine=machine, workload=workload, seed=seed, served=served)


def throughput(plan: RunPlan, engine: str = "core", end_ps: int = END_PS) -> float:
    """Responses in a fixed time after the warm-up."""
    run = begin(engine, plan, trace_rows=0)
    run.advance(WARM_PS)
    before = run.counters()["totals"][Total.TX_DONE]
    run.advance(end_ps)
    return float(run.counters()["totals"][Total.TX_DONE] - before)


def mean_throughput(cpus: int, proto: str, qdisc: str, row: Cost, percent: int) -> float:
    """Over the common seeds."""
    plans = (with_costs(plan_for(cpus, proto, qdisc, seed), row, percent) for seed in SEEDS)
    return float(np.mean([throughput(plan) for plan in plans]))


# Charged once for each message, whatever comes in one interrupt.
PER_MESSAGE = (
    Cost.DRIVER_RX,
    Cost.IP_RX,
    Cost.LOOKUP,
    Cost.TCP_RX,
    Cost.TCP_RECV,
    Cost.TCP_SEND,
    Cost.QDISC,
    Cost.DRIVER_TX,
    Cost.TX_COMPLETE,
)


def by_the_clock(plan: RunPlan) -> float:
    """The share of all work that comes with interrupts: as many in a second at any rate."""
    run = begin("core", plan, trace_rows=0)
    run.advance(END_PS)
    counters = run.counters()
    assert counters["busy_ps"][:, Ctx.IDLE].sum() < END_PS // 100
    by_stage = counters["cost"].sum(axis=(0, 1, 3))
    return float(by_stage[[Stage.ENTRY, Stage.NAPI]].sum() / by_stage.sum())


@pytest.mark.parametrize("row", PER_MESSAGE, ids=lambda row: row.name)
def test_on_a_busy_cpu_a_cost_takes_its_share(row):
    """A fifth more of a share s of the messages' work: the rate falls to 1 / (1 + s / 5)."""
    plan = plan_for(1, "tcp", "pfifo_fast", SEEDS[0])
    rate = mean_throughput(1, "tcp", "pfifo_fast", row, 0)
    units = (END_PS - WARM_PS) * plan.ps_den / plan.ps_num * (1 - by_the_clock(plan))
    share = rate * float(plan.costs[row]) / units
    assert share > 0.01

    raised = mean_throughput(1, "tcp", "pfifo_fast", row, 20)

    assert raised / rate == pytest.approx(1 / (1 + share / 5), abs=0.003)


def used(plan: RunPlan) -> list[Cost]:
    """Rows that make a difference: with one a hundred times as high the run is another."""
    start = throughput(plan, end_ps=2 * WARM_PS)
    return [
        row for row in Cost if throughput(with_costs(plan, row, 9900), end_ps=2 * WARM_PS) != start
    ]


@pytest.mark.parametrize("proto", ["tcp", "udp"])
@pytest.mark.parametrize("qdisc", ["pfifo_fast", "htb"])
def test_throughput_moves_by_little_and_one_way(proto, qdisc):
    """Each cost in steps of 1 %: no step changes the rate by more than 1 %, none raises it."""
    rows = used(plan_for(2, proto, qdisc, SEEDS[0]))
    assert len(rows) > 25
    for row in rows:
        rates = [mean_throughput(2, proto, qdisc, row, percent) for percent in STEPS_PERCENT]
        moves = np.diff(np.log(rates))
        assert np.abs(moves).max() < 0.01, f"{row.name}: {rates}"
        assert log(rates[-1] / rates[0]) < 0.005, f"{row.name}: {rates}"
