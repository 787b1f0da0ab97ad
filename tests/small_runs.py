"""Small runs whose counters a test writes by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from emu.model.host import Host
from emu.model.machines_toml import get_machine
from emu.model.masks import CpuSet
from emu.model.nic import Nic, Rss
from emu.model.run_plan import RunPlan
from emu.model.sockets import Socket
from emu.model.topology import Topology
from emu.model.workloads import RequestResponse
from emu.result.run import Measured, RunResult
from emu.run_dtypes import DROPS, Ctx, Kind, Lock, Stage, Step, Total
from emu.timing import prepare

HOST = Host(
    topology=Topology(cpus=4, node_of=(0, 0, 1, 1), online=(True, True, True, False)),
    nics=[Nic(name="eth0", rx_queues=2, tx_queues=2, irq_cpus=(0, 1), rss=Rss(key="microsoft"))],
    sockets=[Socket(name="server", bind="0.0.0.0:12865", threads=CpuSet([0, 1]))],
    addresses=["10.0.0.1"],
)
LOAD = RequestResponse(flows=3)
MACHINE = get_machine("xeon-2015")
DURATION_PS = 10**9  # 1 ms


def small_plan(seed: int = 1) -> RunPlan:
    """The plan of HOST under LOAD."""
    return prepare(HOST, LOAD, machine=MACHINE, seed=seed, engine="ref")


def no_counts(plan: RunPlan) -> dict[str, NDArray[Any]]:
    """Counters of the right shapes that have counted nothing."""
    cpus = plan.base.ncpus
    shapes = {
        "busy_ps": (cpus, len(Ctx)),
        "cost": (cpus, len(Ctx), len(Stage), len(Kind)),
        "transfers": (cpus, 4),
        "softnet": (cpus, 5),
        "sched": (cpus, 3),
        "napi": (len(plan.napi_cpu), 3),
        "rxq": (len(plan.base.rxq_irq_cpu), 2),
        "txq": (len(plan.txq_nic), 4),
        "qdisc": (plan.qdiscs, 4),
        "locks": (len(Lock), 3),
        "sockets": (len(plan.sockets), 3),
        "drops": (DROPS,),
        "totals": (len(Total),),
        "steps": (len(Step),),
    }
    return {name: np.zeros(shape, dtype=np.int64) for name, shape in shapes.items()}


def idle_counts(plan: RunPlan) -> dict[str, NDArray[Any]]:
    """The same, with every CPU idle for the whole time."""
    out = no_counts(plan)
    out["busy_ps"][:, Ctx.IDLE] = DURATION_PS
    return out


def result_of(plan: RunPlan, *measured: Measured) -> RunResult:
    """A result with those seeds."""
    return RunResult(
        host=HOST,
        plan=plan,
        machine="xeon-2015",
        engine="ref",
        software_factor=1.0,
        duration_ps=DURATION_PS,
        warmup_ps=0,
        measured=measured,
    )


def measured(
    counters: dict[str, NDArray[Any]], samples_us: list[int], *, seed: int = 1
) -> Measured:
    """One seed with those latencies."""
    return Measured(
        seed=seed,
        counters=counters,
        whole=counters["totals"],
        samples_ps=np.sort(np.array(samples_us, dtype=np.int64) * 10**6),
    )
