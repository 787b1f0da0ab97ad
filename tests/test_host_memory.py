"""The memory that a steer and a run have in common."""

from __future__ import annotations

import numpy as np
from emu._core.steer import Steering, arrive

from emu._core.engine import Run
from emu._core.host_memory import HostMemory
from tests.small_runs import small_plan


def test_it_is_the_base_of_both() -> None:
    assert issubclass(Run, HostMemory)
    assert issubclass(Steering, HostMemory)


def test_alone_it_holds_nothing() -> None:
    HostMemory()


def test_a_steer_and_a_run_of_one_plan_do_not_share_state() -> None:
    """What one remembers of sockets and masks the other does not see, whichever comes first."""
    plan = small_plan()
    arrived = arrive(plan.base)
    first = Run(plan, arrived)
    first.advance(10**8)
    Steering(plan.base, arrived, 64)
    second = Run(plan, arrived)
    second.advance(10**8)

    for name, counts in first.counters().items():
        assert np.array_equal(counts, second.counters()[name]), name
