"""Hosts on which almost everything is free: what is left is a network that theory knows.

Every cost is 1/1024 cycle, at 1 GHz 1 ps, unless it is named; nothing is held back, jittered or
limited. A service takes 100 us: a message's thirty free steps are less than a millionth of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np

from emu.model.accept import accept
from emu.model.connections import connections
from emu.model.generate import generate
from emu.model.host import Host
from emu.model.lower_run import lower_run
from emu.model.masks import CpuSet
from emu.model.nic import Nic, Rss
from emu.model.packets import Packets
from emu.model.run_plan import RunPlan
from emu.model.sockets import Socket
from emu.model.topology import Topology
from emu.model.workloads import OpenLoop, RequestResponse, Workload, request_packets
from emu.run_dtypes import COST_ONE, Cost, Touch
from emu.steering import steer

CYCLE_PS = 1000
SERVICE_PS = 10**8
SERVICE_CYCLES = SERVICE_PS // CYCLE_PS
ENDPOINT = "10.0.0.1:12865"
ROOM_BYTES = 2**31 - 1
RING = 65536
LONG_PS = 10**15


def free_machine(costs: Mapping[Cost, int]) -> Any:
    """A machine that charges for what is named, in cycles, and 1/1024 cycle for all else."""
    all_costs = np.ones(len(Cost), dtype=np.int64)
    for row, cycles in costs.items():
        all_costs[row] = cycles * COST_ONE
    return SimpleNamespace(
        khz=10**9 // CYCLE_PS,
        costs=all_costs,
        transfer=np.zeros(4, dtype=np.int64),
        stream=np.zeros(4, dtype=np.int64),
        lines=np.zeros((len(Touch), 2), dtype=np.int32),
        irq_delay_ps=0,
        irq_jitter_ps=0,
        ipi_ps=0,
        slice_ps=LONG_PS,
        map_residency_ps=LONG_PS,
    )


def free_host(cpus: int, *, qdisc: str = "noqueue", sockets: bool = True) -> Host:
    """Applications on CPUs 0 to *cpus* - 1 with one UDP socket; interrupts on one more CPU.

    With one CPU the interrupts come there, and split what the application does.
    """
    apps = CpuSet(range(cpus))
    irq_cpu = cpus if cpus > 1 else 0
    socket = Socket(
        name="server", proto="udp", bind=ENDPOINT, threads=apps, rcvbuf_bytes=ROOM_BYTES
    )
    return Host(
        topology=Topology(cpus=irq_cpu + 1),
        nics=[
            Nic(
                name="eth0",
                rss=Rss(key="microsoft"),
                irq_cpus=[irq_cpu],
                rx_usecs=0,
                rx_ring=RING,
                tx_ring=RING,
                qdisc=qdisc,
            )
        ],
        sockets=[socket] if sockets else (),
        netdev_budget=10**6,
        netdev_budget_jiffies=10**6,
    )


def plan_for(
    host: Host, packets: Packets, workload: Workload, seed: int, costs: Mapping[Cost, int]
) -> RunPlan:
    """What an engine sees."""
    closed = isinstance(workload, RequestResponse)
    made = steer(host, packets)
    sockets, cpus = made.column("socket"), made.column("app_cpu")
    host, served = accept(host, packets, sockets, cpus, all_served=closed)
    return lower_run(
        host, packets, machine=free_machine(costs), workload=workload, seed=seed, served=served
    )


def style(servers: int) -> str:
    """One thread, or a pool of them."""
    return "pool" if servers > 1 else "processes"


def open_plan(
    arrivals_ps: Any, servers: int, seed: int, *, work_cycles: int, fixed: bool = False,
    costs: Mapping[Cost, int] | None = None,
) -> RunPlan:  # fmt: skip
    """Messages at those times, served in order of arrival by a number of threads.

    The work takes *work_cycles*, or is drawn with that mean.
    """
    count = len(arrivals_ps)
    packets = generate(
        packets=count, flows=64, pattern="uniform", proto="udp", local=ENDPOINT, payload_bytes=1
    ).replace(arrival_ps=np.asarray(arrivals_ps, dtype=np.int64))
    workload = OpenLoop(
        packets=packets,
        work_cycles=work_cycles,
        work_exponential=not fixed,
        server_style=style(servers),
    )
    return plan_for(free_host(servers), packets, workload, seed, costs or {})


def closed_plan(
    clients: int, servers: int, seed: int, *, think_ps: int, work_cycles: int = SERVICE_CYCLES,
    fixed: bool = False,
) -> RunPlan:  # fmt: skip
    """Clients that think (exponential) and are served by one of some threads."""
    workload = RequestResponse(
        flows=clients,
        proto="udp",
        turnaround="0us",
        turnaround_mean=f"{think_ps // 10**6}us",
        wire="0us",
        rto="1s",
        spread="0us",
        work_cycles=work_cycles,
        work_exponential=not fixed,
        server_style=style(servers),
    )
    return plan_for(free_host(servers), request_packets(workload, seed), workload, seed, {})


def senders_plan(
    cpus: int, seed: int, *, qdisc: str, think_cycles: int, costs: Mapping[Cost, int]
) -> RunPlan:
    """Each CPU has a client of its own that asks again at once: it thinks (WORK) and sends."""
    workload = RequestResponse(
        flows=cpus,
        proto="udp",
        turnaround="0us",
        wire="0us",
        rto="1s",
        spread="0us",
        work_cycles=think_cycles,
        work_exponential=True,
    )
    packets = request_packets(workload, seed)
    host = free_host(cpus, qdisc=qdisc, sockets=False)
    host = host.replace(connections=connections(packets, threads=range(cpus)))
    return plan_for(host, packets, workload, seed, costs)


def poisson_ps(seed: int, count: int, mean_ps: float) -> Any:
    """int64[count]: times with exponential gaps."""
    gaps = np.random.default_rng(seed).exponential(mean_ps, count)
    return np.cumsum(gaps).astype(np.int64)


def with_costs(plan: RunPlan, row: Cost, percent: int) -> RunPlan:
    """The same plan, one cost raised by so many percent."""
    costs = plan.costs.copy()
    costs[row] += costs[row] * percent // 100
    return attrs.evolve(plan, costs=costs)
