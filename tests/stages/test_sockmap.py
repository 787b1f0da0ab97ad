"""The CPU of a psock's worker (sockets.md 6.2, 6.3, 8.6)."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from emu._core import sockmap as core
from emu.errors import ConfigError
from emu.ref import sockmap as ref

CPUS = st.integers(0, 7)
NAMED = st.integers(-1, 7)


def test_sockmap_10_without_a_name_the_worker_runs_on_the_schedulers_cpu(engine):
    assert engine("sockmap").Psock().schedule(3) == 3


def test_sockmap_24_a_named_cpu_is_where_it_runs(engine):
    psock = engine("sockmap").Psock(5)

    assert psock.schedule(3) == 5
    psock.run()
    assert psock.schedule(2) == 5


def test_sockmap_11_while_pending_the_first_schedule_stands(engine):
    psock = engine("sockmap").Psock()

    assert [psock.schedule(cpu) for cpu in (3, 1, 2)] == [3, 3, 3]
    psock.start()
    assert (psock.pending, psock.running_on) == (False, 3)
    psock.done()
    assert psock.schedule(1) == 1


def test_sockmap_12_a_running_worker_is_queued_where_it_runs(engine):
    psock = engine("sockmap").Psock()
    psock.schedule(3)
    psock.start()
    psock.target_cpu = 6

    assert psock.schedule(1) == 3
    psock.done()
    psock.start()
    assert psock.running_on == 3


def test_sockmap_13_under_load_the_worker_stays(engine):
    """There is always new work before it is done: arrivals from everywhere never move it."""
    psock = engine("sockmap").Psock()
    psock.schedule(2)
    for cpu in (5, 1, 7, 0):
        psock.start()
        assert psock.schedule(cpu) == 2
        psock.done()


def test_sockmap_26_a_new_name_waits_until_the_worker_is_idle(engine):
    psock = engine("sockmap").Psock(4)
    psock.schedule(0)
    psock.target_cpu = 6

    assert psock.schedule(0) == 4
    psock.run()
    assert psock.schedule(0) == 6


def test_misuse_is_refused(engine):
    sockmap = engine("sockmap")
    psock = sockmap.Psock()
    for wrong in (psock.start, psock.done):
        with pytest.raises(ConfigError, match="psock"):
            wrong()
    with pytest.raises(ConfigError, match="target_cpu"):
        sockmap.Psock(-2)
    with pytest.raises(ConfigError, match="cpu_now"):
        psock.schedule(-1)
    psock.schedule(0)
    psock.start()
    psock.schedule(0)
    with pytest.raises(ConfigError, match="does not run"):
        psock.start()


@pytest.mark.parametrize(
    ("named", "which", "now", "burst"),
    [([0], [1], [0], 1), ([0], [0], [0, 1], 1), ([0], [0], [0], 0), ([-2], [0], [0], 1)],
)
def test_columns_that_do_not_fit_are_refused(engine, named, which, now, burst):
    with pytest.raises(ConfigError, match="psock_cpus"):
        engine("sockmap").psock_cpus(
            np.array(named, np.int32), np.array(which, np.uint32), np.array(now, np.int32), burst
        )


@given(
    named=st.lists(NAMED, min_size=1, max_size=5),
    schedules=st.lists(st.tuples(st.integers(0, 4), CPUS), max_size=40),
    burst=st.integers(1, 9),
)
def test_core_and_reference_agree(named, schedules, burst):
    which = np.array([number % len(named) for number, _ in schedules], dtype=np.uint32)
    now = np.array([cpu for _, cpu in schedules], dtype=np.int32)
    names = np.array(named, dtype=np.int32)

    answer = core.psock_cpus(names, which, now, burst)

    assert answer.dtype == np.int32
    assert answer.tolist() == ref.psock_cpus(names, which, now, burst).tolist()


class PsockMachine(RuleBasedStateMachine):
    """Both engines against per-CPU worker pools, as sockets.md 8.6 draws them."""

    @initialize(named=NAMED)
    def begin(self, named):
        self.both = core.Psock(named), ref.Psock(named)
        self.named = named
        self.pools = [deque() for _ in range(8)]
        self.running = None

    @property
    def queued(self):
        return [cpu for cpu, pool in enumerate(self.pools) if pool]

    @rule(cpu=CPUS)
    def schedule(self, cpu):
        if not self.queued:
            wanted = cpu if self.named == -1 else self.named
            self.pools[wanted if self.running is None else self.running].append("work")

        assert [psock.schedule(cpu) for psock in self.both] == self.queued * 2

    @rule(named=NAMED)
    def name(self, named):
        self.named = named
        for psock in self.both:
            psock.target_cpu = named

    @precondition(lambda self: self.queued and self.running is None)
    @rule()
    def start(self):
        self.running = self.queued[0]
        self.pools[self.running].clear()
        for psock in self.both:
            psock.start()
            assert (psock.running_on, psock.pending) == (self.running, False)

    @precondition(lambda self: self.running is not None)
    @rule()
    def done(self):
        self.running = None
        for psock in self.both:
            psock.done()
            assert psock.running_on == -1
            assert psock.pending == bool(self.queued)


TestPsockMachine = PsockMachine.TestCase
