"""Queueing theory: hosts on which almost everything is free are networks whose mean is known.

The core runs long enough that luck is well below the 2 % that are allowed: each test says how much
one standard error is. The reference runs a few thousand messages, whose luck is taken off: the same
network is walked with the very same draws (`tests.queueing.Station`), and the theory is corrected
by as much as the walk missed it. That walk alone is near enough to the theory (below).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from emu.run_dtypes import Cost, Lock
from tests import degenerate as bare
from tests.degenerate import SERVICE_CYCLES, SERVICE_PS
from tests.queueing import (
    Station,
    lock_rate,
    md1_time,
    mm1_time,
    mmc_time,
    repairman_rate,
    walk_closed,
    walk_lock,
    walk_open,
)
from tests.runs_equal import begin

ALLOWED = 0.02
SEEDS = {"core": range(4), "ref": range(1)}
LONG_PS = 10**17


class Open(NamedTuple):
    """An open network: servers, load of each, whether services are fixed, the theory's time."""

    servers: int
    load: float
    fixed: bool
    theory: Callable[[float, float, int], float]
    messages: int  # of the core, for each seed

    @property
    def mean_gap_ps(self) -> float:
        return SERVICE_PS / (self.load * self.servers)

    @property
    def expected_ps(self) -> float:
        return self.theory(1 / self.mean_gap_ps, SERVICE_PS, self.servers)


class Closed(NamedTuple):
    """A closed network: clients, servers, thinking in services."""

    clients: int
    servers: int
    think: int

    @property
    def think_ps(self) -> int:
        return self.think * SERVICE_PS

    @property
    def expected(self) -> float:
        """Messages in one service time."""
        return repairman_rate(self.clients, self.think, 1.0, self.servers)


# Standard errors of the core's means, over twelve seeds: 0.4, 0.5, 0.4, 0.5 %.
OPEN = {
    "M/M/1 half loaded": Open(1, 0.5, False, lambda a, s, _: mm1_time(a, s), 100_000),
    "M/M/1": Open(1, 0.7, False, lambda a, s, _: mm1_time(a, s), 200_000),
    "M/D/1": Open(1, 0.7, True, lambda a, s, _: md1_time(a, s), 100_000),
    "M/M/4": Open(4, 0.75, False, mmc_time, 300_000),
}
# Of a rate: 0.1 %.
CLOSED = {
    "1 server, 6 clients": Closed(6, 1, 8),
    "1 server, 20 clients": Closed(20, 1, 4),
    "16 servers, 40 clients": Closed(40, 16, 2),
}


def waits_of(network: Open, engine: str, seed: int, messages: int) -> tuple[Any, Any]:
    """The latencies of a run, and of the walk through the same network; picoseconds."""
    arrivals = bare.poisson_ps(seed, messages, network.mean_gap_ps)
    plan = bare.open_plan(
        arrivals, network.servers, seed, work_cycles=SERVICE_CYCLES, fixed=network.fixed
    )
    run = begin(engine, plan, trace_rows=0)
    run.advance(LONG_PS)
    station = Station(seed, network.servers, SERVICE_PS, messages, network.fixed)
    return run.take_samples(), np.array(walk_open(station, arrivals))


@pytest.mark.parametrize("name", OPEN)
def test_an_open_network_waits_as_theory_says(name, engine):
    network = OPEN[name]
    messages = network.messages if engine.name == "core" else 8000
    runs = [waits_of(network, engine.name, seed, messages) for seed in SEEDS[engine.name]]

    for measured, walked in runs:
        assert len(measured) == messages
        assert measured.mean() == pytest.approx(walked.mean(), rel=1e-3)
    if engine.name == "core":
        mean = np.mean([measured.mean() for measured, _ in runs])
        assert mean == pytest.approx(network.expected_ps, rel=ALLOWED)


@pytest.mark.parametrize("name", OPEN)
def test_the_walk_waits_as_theory_says(name):
    network = OPEN[name]
    arrivals = bare.poisson_ps(77, 400_000, network.mean_gap_ps)
    station = Station(77, network.servers, SERVICE_PS, len(arrivals), network.fixed)

    assert np.mean(walk_open(station, arrivals)) == pytest.approx(network.expected_ps, rel=0.015)


def test_single_messages_wait_as_long_as_in_the_walk(engine):
    """Not only the mean: each message of M/M/1, in the order in which they leave."""
    measured, walked = waits_of(OPEN["M/M/1"], engine.name, 3, 1000)

    np.testing.assert_allclose(measured, walked, atol=SERVICE_PS * 1e-3)


@pytest.mark.parametrize("name", CLOSED)
def test_a_closed_network_serves_as_theory_says(name, engine):
    network = CLOSED[name]
    services = {"core": 150_000 // network.servers, "ref": 8000 // network.servers}[engine.name]
    until_ps = services * SERVICE_PS
    measured, walked = 0, 0
    for seed in SEEDS[engine.name]:
        plan = bare.closed_plan(network.clients, network.servers, seed, think_ps=network.think_ps)
        run = begin(engine.name, plan, trace_rows=0)
        run.advance(until_ps)
        measured += int(run.counters()["txq"][:, 0].sum())
        station = Station(seed, network.servers, SERVICE_PS, services * 4, False)
        starts = [0.0] * network.clients
        walked += len(walk_closed(station, seed, starts, network.think_ps, until_ps))

    assert measured == pytest.approx(walked, rel=5e-3)
    if engine.name == "core":
        rate = measured / services / len(SEEDS["core"])
        assert rate == pytest.approx(network.expected, rel=ALLOWED)


def sends(engine: str, plan: Any, until_ps: int) -> tuple[int, Any]:
    """Responses sent, and the lock counters."""
    run = begin(engine, plan, trace_rows=0)
    run.advance(until_ps)
    counters = run.counters()
    return int(counters["txq"][:, 0].sum()), counters["locks"]


@pytest.mark.parametrize("cpus", [2, 8])
@pytest.mark.parametrize("think", [1, 8])
def test_a_contended_tx_lock_is_a_repairman(engine, cpus, think):
    """noqueue: each CPU holds the tx queue's lock for a fixed time, then thinks: M/D/1//N.

    One standard error of the core's rate is below 0.4 %.
    """
    until_ps = {"core": 60_000, "ref": 5000}[engine.name] * SERVICE_PS
    measured = 0
    for seed in SEEDS[engine.name]:
        plan = bare.senders_plan(
            cpus, seed, qdisc="noqueue", think_cycles=think * SERVICE_CYCLES,
            costs={Cost.DRIVER_TX: SERVICE_CYCLES},
        )  # fmt: skip
        sent, locks = sends(engine.name, plan, until_ps)
        walked = walk_lock(seed, cpus, think * SERVICE_PS, SERVICE_PS, until_ps)
        assert sent == pytest.approx(walked, rel=5e-3)
        assert locks[Lock.TX, 1] > 0
        measured += sent

    if engine.name == "core":
        rate = measured / until_ps / len(SEEDS["core"]) * SERVICE_PS
        assert rate == pytest.approx(lock_rate(cpus, think, 1.0), rel=ALLOWED)


@pytest.mark.parametrize("think", [1, 8])
def test_the_walk_to_a_lock_is_as_theory_says(think):
    until = 300_000.0
    rate = walk_lock(5, 4, think, 1.0, until) / until

    assert rate == pytest.approx(lock_rate(4, think, 1.0), rel=0.01)


@pytest.mark.parametrize("cpus", [4, 16])
def test_a_saturated_root_qdisc_sends_one_packet_a_hold(engine, cpus):
    """htb: whoever enqueues holds the root lock, and 1/hold is all that passes."""
    holds = {"core": 20_000, "ref": 2000}[engine.name]
    plan = bare.senders_plan(
        cpus, 1, qdisc="htb", think_cycles=SERVICE_CYCLES // 10,
        costs={Cost.QDISC: SERVICE_CYCLES},
    )  # fmt: skip

    sent, locks = sends(engine.name, plan, holds * SERVICE_PS)

    assert sent / holds == pytest.approx(1.0, rel=ALLOWED)
    assert locks[Lock.ROOT, 1] > 0
    assert locks[Lock.BUSY, 1] > 0
