"""What holds in every run, whatever the host: read from its trace and its counters alone."""

from __future__ import annotations

from typing import Any

from emu.model.run_plan import RunPlan
from emu.run_dtypes import Ctx, Step, Total

OPEN = (Step.WORK, Step.SEND)
INTERRUPTS = (Step.IRQ, Step.IPI)
TCP = 6


def broken_law(plan: RunPlan, trace: Any, counters: Any, until_ps: int) -> str:
    """The first law that a run breaks; "" when it keeps all. The trace is a whole one."""
    laws = (
        packets_are_somewhere(counters["totals"]),
        time_is_accounted(counters["busy_ps"], until_ps),
        time_goes_forward(trace),
        cost_is_booked(trace, counters["cost"]),
        "" if len(trace) < int(counters["steps"].sum()) else one_context(plan, trace, until_ps),
        locks_add_up(counters["locks"]),
    )
    return next((law for law in laws if law), "")


def packets_are_somewhere(totals: Any) -> str:
    """In = read + forwarded + dropped + inside, and the same of what is sent."""
    count = {which: int(totals[which]) for which in Total}
    ends = (Total.READ, Total.FORWARDED, Total.DROPPED, Total.INSIDE)
    if count[Total.ARRIVED] != sum(count[end] for end in ends):
        return f"received packets: {count}"
    ends = (Total.TX_DROPPED, Total.TX_DONE, Total.TX_INSIDE)
    if count[Total.SENT] != sum(count[end] for end in ends):
        return f"sent skbs: {count}"
    return ""


def time_is_accounted(busy_ps: Any, until_ps: int) -> str:
    """Busy and idle are all the time there was, on each CPU."""
    if (busy_ps < 0).any() or (busy_ps.sum(axis=1) != until_ps).any():
        return f"time of {until_ps} ps: {busy_ps.tolist()}"
    return ""


def time_goes_forward(trace: Any) -> str:
    times = trace["time_ps"]
    return "time goes back" if (times[1:] < times[:-1]).any() else ""


def cost_is_booked(trace: Any, cells: Any) -> str:
    """Each step's cost is booked on its CPU and in its context."""
    for cpu in range(len(cells)):
        for ctx in Ctx:
            steps = trace["cost"][(trace["cpu"] == cpu) & (trace["ctx"] == ctx)]
            if int(steps.sum()) != int(cells[cpu, ctx].sum()):
                return f"cost of CPU {cpu} in {ctx.name}: {steps.sum()}, {cells[cpu, ctx].sum()}"
    return ""


def locks_add_up(locks: Any) -> str:
    acquired, contended, wait_ps = locks.T
    if (contended > acquired).any() or (wait_ps < 0).any():
        return f"locks: {locks.tolist()}"
    return ""


def one_context(plan: RunPlan, trace: Any, until_ps: int) -> str:
    """A CPU does one thing at a time: a step begins when what was before it has ended."""
    for cpu in range(plan.base.ncpus):
        clock = Clock(plan)
        for row in trace[trace["cpu"] == cpu]:
            wrong = clock.begin(row)
            if wrong:
                return f"CPU {cpu}: {wrong}"
    return ""


class Clock:
    """When a CPU is free again, from the steps that it took."""

    def __init__(self, plan: RunPlan) -> None:
        self.plan = plan
        self.free_ps = 0
        self.aside_ps = 0  # left of a user's step that an interrupt has split
        self.is_open = False

    def begin(self, row: Any) -> str:
        """A step begins; what is wrong about it, or nothing."""
        now_ps, cost, step = int(row["time_ps"]), int(row["cost"]), Step(row["step"])
        duration_ps = -(-cost * self.plan.ps_num // self.plan.ps_den)
        if step in INTERRUPTS:
            self.interrupt(now_ps, duration_ps)
            return ""
        if self.aside_ps and row["ctx"] in (Ctx.USER, Ctx.KSOFTIRQD):
            self.free_ps += self.aside_ps
            self.aside_ps = 0
        if now_ps < self.free_ps:
            return f"{step.name} begins at {now_ps}, the CPU is free at {self.free_ps}"
        self.free_ps = now_ps + duration_ps
        self.is_open = row["ctx"] == Ctx.USER and self.splits(step, int(row["arg"]))
        return ""

    def interrupt(self, now_ps: int, duration_ps: int) -> None:
        """An interrupt comes upon the CPU."""
        if now_ps < self.free_ps and not self.is_open:  # it lengthens what runs
            self.free_ps += duration_ps
            return
        left_ps = self.aside_ps
        if self.is_open:
            left_ps, self.is_open = self.free_ps - now_ps, False
        elif left_ps:  # what was set aside goes on since free_ps, and is split again
            left_ps -= now_ps - self.free_ps
        self.aside_ps = max(left_ps, 0)
        self.free_ps = now_ps + duration_ps

    def splits(self, step: Step, arg: int) -> bool:
        """Whether an interrupt splits a user's step."""
        if step == Step.READ:
            return int(self.plan.base.packets.ip_proto[arg]) == TCP
        return step in OPEN
