"""How fast the timing engines are, beside each other and beside SimPy, and on a large host."""

from __future__ import annotations

import resource
from typing import Any

import numpy as np
import pytest

from emu.model.accept import accept
from emu.model.host import Host
from emu.model.lower_run import lower_run
from emu.model.machines_toml import get_machine
from emu.model.masks import CpuSet
from emu.model.nic import Nic
from emu.model.run_plan import RunPlan
from emu.model.sockets import Socket
from emu.model.topology import Topology
from emu.model.workloads import RequestResponse, request_packets
from emu.run_dtypes import Total
from emu.steering import steer
from tests.degenerate import SERVICE_PS, closed_plan
from tests.queueing import repairman_rate
from tests.runs_equal import begin

SERVERS, CLIENTS, THINK = 16, 200, 10  # thinking in services
TRANSACTIONS = {"core": 400_000, "ref": 3_000, "simpy": 20_000}
RUN_PS = {"core": 40 * 10**9, "ref": 10**9}
LARGE = {"cpus": 256, "queues": 128, "flows": 10_000}


def server_plan(cpus: int, queues: int, flows: int, proto: str) -> RunPlan:
    """Event loops on every CPU, two nodes, a transmit queue for each."""
    workload = RequestResponse(
        flows=flows, proto=proto, turnaround="20us", turnaround_mean="100us",
        server_style="event-loop",
    )  # fmt: skip
    per_queue = [
        CpuSet([cpu for cpu in range(cpus) if cpu % queues == queue]) for queue in range(queues)
    ]
    host = Host(
        topology=Topology(cpus=cpus, node_of=[cpu * 2 // cpus for cpu in range(cpus)]),
        nics=[
            Nic(
                name="eth0", rx_queues=queues, tx_queues=queues,
                xps_cpus=per_queue if queues > 1 else (),
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
    packets = request_packets(workload)
    made = steer(host, packets)
    host, served = accept(
        host, packets, made.column("socket"), made.column("app_cpu"), all_served=True
    )
    return lower_run(
        host, packets, machine=get_machine("xeon-2015"), workload=workload, served=served
    )


def timed_run(benchmark: Any, engine: str, plan: RunPlan, until_ps: int, rounds: int = 3) -> Any:
    """Run to a time and note the rates."""
    run = benchmark.pedantic(
        lambda run: (run.advance(until_ps), run)[1],
        setup=lambda: ((begin(engine, plan, trace_rows=0),), {}),
        rounds=rounds,
    )
    counters = run.counters()
    seconds = benchmark.stats["min"]
    benchmark.extra_info |= {
        "steps_per_second": int(counters["steps"].sum() / seconds),
        "transactions_per_second": int(counters["txq"][:, 0].sum() / seconds),
        "simulated_per_wall_second": until_ps / 1e12 / seconds,
    }
    return counters


@pytest.mark.parametrize("engine", ["core", "ref"])
@pytest.mark.parametrize("proto", ["tcp", "udp"])
def test_server(benchmark, engine, proto):
    """16 CPUs, 16 queues, 500 clients: steps and transactions per second of the loop."""
    plan = server_plan(16, 16, 500, proto)

    counters = timed_run(benchmark, engine, plan, RUN_PS[engine])

    assert counters["totals"][Total.READ] > 0


class SimPyNetwork:
    """The closed network in SimPy as its documentation writes one: a process per client."""

    def __init__(self, simpy: Any, seed: int, wanted: int) -> None:
        self.env = simpy.Environment()
        self.servers = simpy.Resource(self.env, capacity=SERVERS)
        self.random = np.random.default_rng(seed)
        self.drawn: list[float] = []
        self.left = wanted
        self.finished = self.env.event()

    def exponential(self) -> float:
        """Mean 1; drawn a thousand at a time, so that drawing is no part of the comparison."""
        if not self.drawn:
            self.drawn = self.random.exponential(size=1000).tolist()
        return self.drawn.pop()

    def client(self) -> Any:
        while True:
            yield self.env.timeout(self.exponential() * THINK)
            with self.servers.request() as turn:
                yield turn
                yield self.env.timeout(self.exponential())
            self.left -= 1
            if self.left == 0:
                self.finished.succeed()

    def run(self) -> None:
        for _ in range(CLIENTS):
            self.env.process(self.client())
        self.env.run(until=self.finished)

    def count_events(self) -> int:
        """Run as before, and count what SimPy's loop took from its heap."""
        for _ in range(CLIENTS):
            self.env.process(self.client())
        events = 0
        while not self.finished.processed:
            self.env.step()
            events += 1
        return events


def test_closed_network_simpy(benchmark):
    """Transactions and events per second of SimPy."""
    simpy = pytest.importorskip("simpy")
    wanted = TRANSACTIONS["simpy"]

    network = benchmark.pedantic(
        lambda network: (network.run(), network)[1],
        setup=lambda: ((SimPyNetwork(simpy, 1, wanted),), {}),
        rounds=3,
    )

    expected = repairman_rate(CLIENTS, THINK, 1.0, SERVERS)
    assert wanted / network.env.now == pytest.approx(expected, rel=0.05)
    events = SimPyNetwork(simpy, 1, wanted).count_events()
    benchmark.extra_info |= {
        "steps_per_second": int(events / benchmark.stats["min"]),
        "transactions_per_second": int(wanted / benchmark.stats["min"]),
    }


@pytest.mark.parametrize("engine", ["core", "ref"])
def test_closed_network(benchmark, engine):
    """The same network on a whole host: interrupts, polls, wake-ups and all."""
    rate = repairman_rate(CLIENTS, THINK, 1.0, SERVERS)
    until_ps = int(TRANSACTIONS[engine] / rate * SERVICE_PS)
    plan = closed_plan(CLIENTS, SERVERS, 1, think_ps=THINK * SERVICE_PS)

    counters = timed_run(benchmark, engine, plan, until_ps)

    assert counters["txq"][:, 0].sum() == pytest.approx(TRANSACTIONS[engine], rel=0.05)


def test_large_host(benchmark):
    """256 CPUs, 128 queues, 10,000 flows, and what they take of memory."""
    plan = server_plan(**LARGE, proto="tcp")

    counters = timed_run(benchmark, "core", plan, 5 * 10**9, rounds=2)

    assert counters["totals"][Total.READ] > 100_000
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    benchmark.extra_info["peak_memory_mb"] = peak_kib // 1024
