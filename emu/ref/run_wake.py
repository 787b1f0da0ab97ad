"""Which CPU a thread that wakes up runs on, and what an idle CPU hears of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.ref.run_state import Cpu, Doing, Thread
from emu.run_dtypes import Cost, Latency, Stage

if TYPE_CHECKING:
    from emu.ref.engine import Run

SAME_LLC = 1  # place in DISTANCES


def wake(run: Run, cpu: Cpu, thread: Thread) -> None:
    """try_to_wake_up: *cpu* lets a thread run."""
    cpu.pay(Cost.WAKE, Stage.SCHED)
    cpu.counts.wakes += 1
    thread.asleep, thread.just_woken = False, True
    target = run.cpus[select_cpu(run, cpu, thread)]
    thread.cpu = target.number
    target.run_queue.append(thread)
    if target.doing == Doing.IDLE:
        cpu.pay(Cost.IPI_SEND, Stage.SCHED)
        cpu.counts.ipis += 1
        target.doing = Doing.WOKEN
        run.at(target.number, run.now + run.latencies[Latency.IPI])


def select_cpu(run: Run, cpu: Cpu, thread: Thread) -> int:
    """Where a thread goes: where it was, to the waker, near where it was, if one is free."""
    was, allowed = thread.cpu, thread.allowed
    if len(allowed) == 1:
        return allowed[0]
    if run.cpus[was].is_free:
        return was
    if cpu.number in allowed and cpu.is_free:
        return cpu.number
    distance, cpus = cpu.prices.distance[was], len(run.cpus)
    for step in range(1, cpus):
        other = (was + step) % cpus
        if distance[other] <= SAME_LLC and other in allowed and run.cpus[other].is_free:
            return other
    return was


def slice_is_over(run: Run, cpu: Cpu) -> bool:
    """Whether the current thread has had its time."""
    assert cpu.current is not None
    return run.now - cpu.current.slice_start_ps >= run.latencies[Latency.SLICE]


def need_resched(run: Run, cpu: Cpu) -> bool:
    """Whether a thread that waits should run instead of softirqs."""
    return bool(cpu.run_queue) and (cpu.current is None or slice_is_over(run, cpu))


def ready_ksoftirqd(cpu: Cpu) -> None:
    """The CPU's ksoftirqd takes over what softirqs have left, when its turn comes (N-12)."""
    if cpu.ksoftirqd.asleep:
        cpu.ksoftirqd.asleep = False
        cpu.run_queue.append(cpu.ksoftirqd)
