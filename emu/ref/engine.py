"""The reference of a run: one step at a time, in the order of docs/run.md.

`Run` keeps the order: one heap of (time, source). What a CPU does is written as generators, one for
each context (run_thread, run_softirq, run_receive, run_transmit): at every ``yield`` a step is
under way, or the CPU waits for a lock.
"""

from __future__ import annotations

from heapq import heappop, heappush

import numpy as np

from emu.model.plan import Array
from emu.model.run_plan import RunPlan
from emu.ref import run_arrive, run_counters, run_irq
from emu.ref.run_setup import World
from emu.ref.run_softirq import softirqs_after_interrupt
from emu.ref.run_state import Cpu, Doing, Steps
from emu.ref.run_thread import run_threads
from emu.run_dtypes import NEVER_PS, TRACE, Ctx, Step

ENDED = True  # what `next` answers for a context that has ended; a step is None


class Run(World):
    """A run of a plan.

    Attributes:
        now: time of the step that is taken, picoseconds.
        next_ps: per source, when its next step comes; NEVER_PS: it has none.
    """

    def __init__(
        self, plan: RunPlan, arrived: dict[str, Array], *, run_ahead: int = -1, trace_rows: int = 0
    ) -> None:
        """A host on which nothing has happened, at time 0.

        Args:
            arrived: what `emu.ref.steer.arrive` answered for ``plan.base``.
            run_ahead: without effect here.
            trace_rows: most rows of the trace that are kept, the first ones.
        """
        super().__init__(plan, arrived)
        self.now = 0
        self.until_ps = 0
        self.trace_rows = trace_rows
        self.traced: list[tuple[int, ...]] = []
        self.steps = [0] * len(Step)
        self.samples: list[int] = []
        cpus, napis = len(self.cpus), len(self.napis)
        self.first_irq, self.first_ipi = cpus, cpus + napis
        self.first_flow = self.first_ipi + cpus
        self.next_ps = [NEVER_PS] * (self.first_flow + max(len(self.flows), 1))
        self.heap: list[tuple[int, int]] = []
        for cpu in self.cpus:
            cpu.threads = run_threads(self, cpu)
            next(cpu.threads)
        run_arrive.begin(self)

    def advance(self, until_ps: int) -> int:
        """Take every step that begins before *until_ps*; answers how many there were."""
        before = sum(self.steps)
        heap, next_ps = self.heap, self.next_ps
        while heap and heap[0][0] < until_ps:
            time_ps, source = heappop(heap)
            if next_ps[source] != time_ps:
                continue  # it was put off
            next_ps[source] = NEVER_PS
            self.now = time_ps
            if source < self.first_irq:
                self.continue_cpu(self.cpus[source])
            elif source < self.first_ipi:
                run_irq.interrupt_of_napi(self, self.napis[source - self.first_irq])
            elif source < self.first_flow:
                run_irq.arriving_ipi(self, self.cpus[source - self.first_ipi])
            else:
                run_arrive.arrive(self, source - self.first_flow)
        self.until_ps = max(self.until_ps, until_ps)
        return sum(self.steps) - before

    def counters(self) -> dict[str, Array]:
        """Everything that was counted since the start, accounted up to the last ``until_ps``."""
        return run_counters.counters(self)

    def take_samples(self) -> Array:
        """Latencies in ps recorded since the last call: int64[n]."""
        samples, self.samples = self.samples, []
        return np.array(samples, dtype=np.int64)

    def trace(self) -> Array:
        """``TRACE[n]``, the first steps."""
        names = [name for name in TRACE.names or () if name != "pad"]
        out = np.zeros(len(self.traced), dtype=TRACE)
        for name, column in zip(names, zip(*self.traced, strict=True), strict=False):
            out[name] = column
        return out

    # Time.

    def at(self, source: int, time_ps: int) -> None:
        """The source's next step comes then."""
        self.next_ps[source] = time_ps
        heappush(self.heap, (time_ps, source))

    def duration_ps(self, cost: int) -> int:
        """What a cost takes."""
        return -(-cost * self.plan.ps_num // self.plan.ps_den)

    def note(self, source: int, step: Step, arg: int, cpu: int, ctx: int, cost: int) -> None:
        """A step begins: count it, and write it down."""
        self.steps[step] += 1
        if len(self.traced) < self.trace_rows:
            self.traced.append((self.now, cost, arg, source, cpu, step, ctx))

    # What contexts do with their CPU before they yield.

    def step(self, cpu: Cpu, step: Step, arg: int, doing: Doing = Doing.CLOSED) -> None:
        """What was paid is a step that begins now; the context goes on when it has ended."""
        self.note(cpu.number, step, arg, cpu.number, cpu.ctx, cpu.spent)
        cpu.end_ps = self.now + self.duration_ps(cpu.spent)
        cpu.spent = 0
        cpu.doing = doing
        self.at(cpu.number, cpu.end_ps)

    def wait(self, cpu: Cpu) -> None:
        """The CPU waits for a lock; it goes on when the lock passes to it."""
        cpu.doing = Doing.WAITING

    def go_on(self, cpu: Cpu) -> None:
        """The lock that the CPU waited for is its own: it goes on when interrupts let it."""
        self.at(cpu.number, max(self.now, cpu.interrupt_end_ps))

    def continue_cpu(self, cpu: Cpu) -> None:
        """What ran on a CPU has ended: its context takes its next step."""
        cpu.account(self.now)
        if cpu.doing == Doing.INTERRUPT and cpu.pending:
            cpu.softirq = softirqs_after_interrupt(self, cpu)
        if cpu.softirq is not None:
            if proceeds(cpu.softirq):
                return
            cpu.softirq = None
        elif cpu.doing != Doing.INTERRUPT:
            next(cpu.threads)
            return
        self.return_from_interrupt(cpu)

    def return_from_interrupt(self, cpu: Cpu) -> None:
        """The interrupt and its softirqs are over: what they came upon goes on."""
        cpu.ctx = cpu.below
        if cpu.set_aside_ps is None:
            assert cpu.ctx == Ctx.IDLE
            next(cpu.threads)
            return
        cpu.doing = Doing.OPEN
        cpu.end_ps = self.now + cpu.set_aside_ps
        cpu.set_aside_ps = None
        self.at(cpu.number, cpu.end_ps)


def proceeds(context: Steps) -> bool:
    """Let a context take its next step; False when it had none left."""
    return next(context, ENDED) is not ENDED
