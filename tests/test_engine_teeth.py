"""Do the comparisons of runs bite? Every number of a plan counts, every planted fault is seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

import attrs
import pytest

from emu.model.run_plan import RunPlan
from emu.run_dtypes import Cost, Latency, Limit, Touch
from tests.choices import Choices, Seeded
from tests.runs_equal import Outcome, difference, long_enough, outcome
from tests.strategies.runs import make_case, plan_of

SEEDS = range(2000, 2150)
ENOUGH = 1500
NAMES = ("right", "wrong")
LOWERED = (
    Limit.SOFTIRQ_JIFFIES,
    Limit.DEFER_FREE,
    Limit.REFCNT_IN_LOOKUP_LINE,
    Limit.WMEM_OOO,
)


@lru_cache(maxsize=len(SEEDS))
def right(seed: int) -> tuple[RunPlan, Outcome, list[int]]:
    """The plan of a seed's case, the core's run of it, and its cuts."""
    plan = plan_of(make_case(Choices(Seeded(seed))))
    _, cuts = long_enough(plan, ENOUGH)
    return plan, outcome("core", plan, cuts), cuts


def changed(plan: RunPlan, array: str, place: Any, by: int) -> RunPlan:
    """The plan with one number a little higher, or lower."""
    values = getattr(plan, array).copy()
    values[place] += by
    return attrs.evolve(plan, **{array: values})


def differs(seed: int, make: Callable[[RunPlan], RunPlan]) -> bool:
    """Whether another plan gives another run; then both engines must agree on it."""
    plan, before, cuts = right(seed)
    other = make(plan)
    ref = outcome("ref", other, cuts)
    if not difference(before, ref, NAMES):
        return False
    found = difference(outcome("core", other, cuts), ref, ("core", "ref"))
    assert not found, found
    return True


def numbers() -> Iterator[tuple[str, Any, int]]:
    """Array, place and change of every number that a run hangs on."""
    for row in Cost:
        yield "costs", int(row), 1
    for distance in (1, 2, 3):
        yield "transfer", distance, 1
        yield "stream", distance, 1
    for touch in Touch:
        # TCP finds its connections, which exist before a run, outside the chains.
        if touch != Touch.CHAIN:
            yield "lines", (int(touch), 0), 1
        yield "lines", (int(touch), 1), 1
    for latency in Latency:
        yield "latencies", int(latency), 10**7 if latency == Latency.JIFFY else 10**6
    for limit in Limit:
        yield "limits", int(limit), -1 if limit in LOWERED else 1
    yield "stream", 0, 1


def name_of(number: tuple[str, Any, int]) -> str:
    """A number's name."""
    array, place, _ = number
    rows = {"costs": Cost, "latencies": Latency, "limits": Limit}
    if array == "lines":
        return f"lines {Touch(place[0]).name} {('TCP', 'UDP')[place[1]]}"
    return f"{array} {rows[array](place).name if array in rows else place}"


@pytest.mark.parametrize("number", list(numbers()), ids=name_of)
def test_every_number_of_a_plan_counts(number):
    array, place, by = number

    def make(plan: RunPlan) -> RunPlan:
        if by < 0 and getattr(plan, array)[place] == 0:
            return plan
        return changed(plan, array, place, by)

    assert any(differs(seed, make) for seed in SEEDS)


class Fault(NamedTuple):
    """One wrong thing: what is replaced in emu.ref, by what is made of the right one."""

    said: str
    where: str  # module.attribute or module.Class.attribute below emu.ref
    break_it: Callable[[Any], Any]


def instead(value: Any) -> Callable[[Any], Any]:
    return lambda right: value


def nothing(right: Any) -> Any:
    return lambda *args, **more: None


def always(answer: object) -> Callable[[Any], Any]:
    return lambda right: lambda *args, **more: answer


def newest_waiter_first(right: Any) -> Any:
    def release(self, run):  # type: ignore[no-untyped-def]
        self.waiters.reverse()
        right(self, run)
        self.waiters.reverse()

    return release


def rest_to_the_end(right: Any) -> Any:
    def give_back(run, txq, rest):  # type: ignore[no-untyped-def]
        before = list(txq.qdisc.packets)
        right(run, txq, rest)
        if before:
            txq.qdisc.packets.rotate(-len(rest))

    return give_back


def oldest_seen(right: Any) -> Any:
    def write(self, line, row, stage, proto):  # type: ignore[no-untyped-def]
        seen = set(line.seen)
        right(self, line, row, stage, proto)
        line.seen |= seen

    return write


def always_raised(right: Any) -> Any:
    def raise_net_rx(self):  # type: ignore[no-untyped-def]
        self.raise_softirq(2)

    return raise_net_rx


def where_it_was(right: Any) -> Any:
    return lambda run, cpu, thread: (
        right(run, cpu, thread) if len(thread.allowed) == 1 else (thread.cpu)
    )


def last_place_touched(right: Any) -> Any:
    def touch(self, line, row, stage, proto):  # type: ignore[no-untyped-def]
        before = line.last
        right(self, line, row, stage, proto)
        line.last = self.number if before < 0 else before

    return touch


FAULTS = (
    Fault("a weight of 63", "run_softirq.NAPI_WEIGHT", instead(63)),
    Fault("two passes", "run_softirq.MAX_PASSES", instead(2)),
    Fault("no ksoftirqd", "run_softirq.ready_ksoftirqd", nothing),
    Fault("the slice never ends", "run_wake.slice_is_over", always(False)),
    Fault("the slice is always over", "run_wake.slice_is_over", always(True)),
    Fault("threads stay where they were", "run_wake.select_cpu", where_it_was),
    Fault("other caches are near", "run_wake.SAME_LLC", instead(3)),
    Fault("more jitter", "run_irq.MODERATION_JITTER", instead(7)),
    Fault("rx_frames is ignored", "run_arrive.hurry", nothing),
    Fault("NET_RX raised inside net_rx_action", "run_state.Cpu.raise_net_rx", always_raised),
    Fault("the newest waiter gets the lock", "run_lock.Lock.release", newest_waiter_first),
    Fault("the rest goes to the end", "run_transmit.give_back", rest_to_the_end),
    Fault("a stopped queue's qdisc is not scheduled", "run_complete.schedule_qdisc", nothing),
    Fault("a quota of 2", "run_transmit.RUN_QUOTA", instead(2)),
    Fault("deferred skbs are told early", "run_thread.DEFER_KICK", instead(1)),
    Fault("few deferred skbs", "run_thread.DEFER_FULL", instead(2)),
    Fault("a written line has been seen", "run_cost.Payer.write", oldest_seen),
    Fault("the first toucher keeps the line", "run_cost.Payer.touch", last_place_touched),
    Fault("lines of 65 bytes", "run_cost.LINE_BYTES", instead(65)),
    Fault("frames of 64 bytes", "run_arrive.MIN_FRAME_BYTES", instead(64)),
    Fault("less between frames", "run_arrive.WIRE_EXTRA_BYTES", instead(23)),
    Fault("skbs are larger", "run_receive.TRUESIZE_BYTES", instead(769)),
    Fault("flows draw from another stream", "run_arrive.FLOW_STREAM", instead(4 << 32)),
    Fault("interrupts draw from another stream", "run_irq.NAPI_STREAM", instead(4 << 32)),
    Fault("threads draw from another stream", "run_thread.THREAD_STREAM", instead(4 << 32)),
    Fault("GRO is never young", "run_softirq.HZ_OF_YOUNG_PACKETS", instead(10**6)),
)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.said)
def test_a_planted_fault_is_seen(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    module, *path, name = fault.where.split(".")
    owner: Any = import_module(f"emu.ref.{module}")
    for step in path:
        owner = getattr(owner, step)
    whole = getattr(owner, name)
    known = [right(seed) for seed in SEEDS]
    monkeypatch.setattr(owner, name, fault.break_it(whole))

    assert any(
        difference(before, outcome("ref", plan, cuts), NAMES) for plan, before, cuts in known
    )
