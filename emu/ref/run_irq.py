"""Interrupts and IPIs: when they come, and what becomes of what they come upon."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.model.draw import below, draw
from emu.ref.run_state import NET_RX, Cpu, Doing, Napi
from emu.run_dtypes import NEVER_PS, Cost, Ctx, Latency, Stage, Step

if TYPE_CHECKING:
    from emu.ref.engine import Run

NAPI_STREAM = 1 << 32
MODERATION_JITTER = 8  # an eighth of the moderation time, at most, is added by chance


def arm(run: Run, napi: Napi, event_ps: int) -> None:
    """The device has something for the NAPI at that time: its interrupt comes after it."""
    source = run.first_irq + napi.number
    if napi.masked or run.next_ps[source] != NEVER_PS:
        return
    span = max(run.latencies[Latency.IRQ_JITTER], napi.usecs_ps // MODERATION_JITTER)
    chance = 0
    if span > 0:
        chance = below(draw(run.plan.seed, NAPI_STREAM | napi.number, napi.draws), span)
        napi.draws += 1
    run.at(source, event_ps + run.latencies[Latency.IRQ_DELAY] + napi.usecs_ps + chance)


def hurry(run: Run, napi: Napi, ready_ps: int) -> None:
    """Enough frames wait: the interrupt that is on its way is not held back further."""
    source = run.first_irq + napi.number
    soon_ps = ready_ps + run.latencies[Latency.IRQ_DELAY]
    if soon_ps < run.next_ps[source]:
        run.at(source, soon_ps)


def interrupt_of_napi(run: Run, napi: Napi) -> None:
    """A NIC's interrupt: it is masked, and its NAPI will be polled."""
    cpu = napi.cpu
    napi.masked = True
    napi.interrupts += 1
    cpu.poll_list.append(napi)
    cpu.raise_net_rx()
    source = run.first_irq + napi.number
    interrupt(run, cpu, source, Step.IRQ, napi.number, Cost.HARDIRQ)


def request_ipi(run: Run, target: Cpu, *, backlog: bool) -> None:
    """Send an IPI for the target's backlog, or for its deferred skbs; one on its way takes both."""
    if backlog:
        target.ipi_for_backlog = True
    else:
        target.ipi_for_deferred = True
    source = run.first_ipi + target.number
    if run.next_ps[source] == NEVER_PS:
        run.at(source, run.now + run.latencies[Latency.IPI])


def arriving_ipi(run: Run, cpu: Cpu) -> None:
    """An IPI is there."""
    if cpu.ipi_for_backlog:
        cpu.poll_list.append(cpu.backlog)
        cpu.counts.received_rps += 1
        cpu.raise_net_rx()
    if cpu.ipi_for_deferred:
        cpu.raise_softirq(NET_RX)
    cpu.ipi_for_backlog = cpu.ipi_for_deferred = False
    source = run.first_ipi + cpu.number
    interrupt(run, cpu, source, Step.IPI, cpu.number, Cost.IPI_HANDLER)


def interrupt(run: Run, cpu: Cpu, source: int, step: Step, arg: int, row: Cost) -> None:
    """Take a CPU away from what it does, for as long as the interrupt costs."""
    idle = cpu.doing in (Doing.IDLE, Doing.WOKEN)
    if idle or cpu.doing == Doing.OPEN:
        cpu.account(run.now)
        cpu.below = cpu.ctx
        duration_ps = pay_interrupt(run, cpu, source, step, arg, row, idle)
        cpu.ctx = int(Ctx.IRQ)
        if not idle:
            cpu.set_aside_ps = cpu.end_ps - run.now
        cpu.doing = Doing.INTERRUPT
        cpu.interrupt_end_ps = cpu.end_ps = run.now + duration_ps
        run.at(cpu.number, cpu.end_ps)
        return
    duration_ps = pay_interrupt(run, cpu, source, step, arg, row, idle)
    cpu.interrupt_ps += duration_ps
    cpu.interrupt_end_ps = max(run.now, cpu.interrupt_end_ps) + duration_ps
    if cpu.doing != Doing.WAITING:
        cpu.end_ps += duration_ps
        run.at(cpu.number, cpu.end_ps)
    elif run.next_ps[cpu.number] != NEVER_PS:  # the lock is its own already
        run.go_on(cpu)


def pay_interrupt(
    run: Run, cpu: Cpu, source: int, step: Step, arg: int, row: Cost, idle: bool
) -> int:
    """Book and note the interrupt's step; answers how long it takes."""
    came_upon, cpu.ctx = cpu.ctx, int(Ctx.IRQ)
    cpu.pay(row, Stage.ENTRY)
    if idle:
        cpu.pay(Cost.IDLE_EXIT, Stage.SCHED)
    run.note(source, step, arg, cpu.number, cpu.ctx, cpu.spent)
    duration_ps = run.duration_ps(cpu.spent)
    cpu.spent, cpu.ctx = 0, came_upon
    return duration_ps
