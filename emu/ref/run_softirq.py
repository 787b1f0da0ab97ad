"""Softirqs: passes, net_rx_action and its polls (docs/run.md, "Softirq"; N-3 to N-8, N-12)."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import TYPE_CHECKING

from emu.dtypes import NAPI_WEIGHT, GroResult
from emu.ref.gro import HZ_OF_YOUNG_PACKETS
from emu.ref.poll import carried_by, driver_hash
from emu.ref.run_complete import next_event_ps, reclaim
from emu.ref.run_cost import NOT_AT_HAND, Line
from emu.ref.run_irq import arm, request_ipi
from emu.ref.run_receive import skb_goes_up
from emu.ref.run_state import NET_RX, NET_TX, Backlog, Cpu, Napi, RxSkb, Steps
from emu.ref.run_transmit import net_tx
from emu.ref.run_wake import need_resched, ready_ksoftirqd
from emu.run_dtypes import Cost, Ctx, Limit, Stage, Step, Touch

if TYPE_CHECKING:
    from emu.ref.engine import Run

Poll = Generator[None, None, tuple[int, bool]]  # answers: work, and whether it asks for a repoll
MAX_PASSES = 10


def softirqs_after_interrupt(run: Run, cpu: Cpu) -> Steps:
    """Softirqs at the end of an interrupt."""
    cpu.ctx = int(Ctx.SOFTIRQ)
    yield from softirqs(run, cpu)


def softirqs_of_thread(run: Run, cpu: Cpu) -> Steps:
    """User code turns bottom halves on again: softirqs raised meanwhile run first."""
    if cpu.pending and cpu.fresh:
        cpu.ctx = int(Ctx.SOFTIRQ)
        yield from softirqs(run, cpu)
        cpu.ctx = int(Ctx.USER)


def softirqs(run: Run, cpu: Cpu) -> Steps:
    """Passes over what is pending, until nothing is or ksoftirqd has to take over (N-12)."""
    start_ps, passes = run.now, 0
    while cpu.pending:
        late = run.jiffy(run.now) >= run.jiffy(start_ps) + run.limit(Limit.SOFTIRQ_JIFFIES)
        if passes and (passes == MAX_PASSES or late or need_resched(run, cpu)):
            ready_ksoftirqd(cpu)
            break
        passes += 1
        pending, cpu.pending = cpu.pending, 0
        if pending & NET_TX:
            qdiscs, cpu.scheduled_qdiscs = cpu.scheduled_qdiscs, deque()
            for qdisc in qdiscs:
                yield from net_tx(run, cpu, qdisc)
        if pending & NET_RX:
            yield from net_rx_action(run, cpu)
    cpu.fresh = False


def net_rx_action(run: Run, cpu: Cpu) -> Steps:
    """Poll the NAPIs on the list, within a budget (N-3 to N-6)."""
    budget, start_ps = run.limit(Limit.NETDEV_BUDGET), run.now
    cpu.in_net_rx_action = cpu.entry_due = True
    taken, cpu.poll_list = cpu.poll_list, deque()
    repoll: list[Napi | Backlog] = []
    while True:
        if not taken:
            if repoll or not cpu.poll_list:
                break
            taken, cpu.poll_list = cpu.poll_list, deque()
        napi = taken.popleft()
        if isinstance(napi, Backlog):
            work, again = yield from poll_backlog(run, cpu, napi)
        else:
            work, again = yield from poll_napi(run, cpu, napi)
        if again:
            repoll.append(napi)
        budget -= work
        late = run.jiffy(run.now) >= run.jiffy(start_ps) + run.limit(Limit.BUDGET_JIFFIES)
        if budget <= 0 or late:
            cpu.counts.time_squeeze += 1
            break
    cpu.poll_list = deque([*taken, *cpu.poll_list, *repoll])
    cpu.in_net_rx_action = False
    if cpu.poll_list:
        cpu.raise_softirq(NET_RX)
    if cpu.ipis or cpu.deferred:
        yield from kick(run, cpu, with_deferred=True)
    cpu.entry_due = False


def pay_entry(cpu: Cpu) -> None:
    """The first step of a net_rx_action pays for all that is around its polls."""
    if cpu.entry_due:
        cpu.entry_due = False
        cpu.pay(Cost.SOFTIRQ, Stage.ENTRY)


def kick(run: Run, cpu: Cpu, *, with_deferred: bool) -> Steps:
    """Send the IPIs that wait; free the skbs that others have read."""
    pay_entry(cpu)
    while cpu.ipis:
        cpu.pay(Cost.IPI_SEND, Stage.ENTRY)
        cpu.counts.ipis += 1
        request_ipi(run, cpu.ipis.popleft(), backlog=True)
    if with_deferred:
        free_deferred(cpu)
    run.step(cpu, Step.KICK, cpu.number)
    yield


def free_deferred(cpu: Cpu) -> None:
    """skb_defer_free_flush: what others have read of this CPU's skbs goes."""
    if cpu.deferred:
        cpu.pay(Cost.SKB_FREE, Stage.FREE, times=cpu.deferred)
        cpu.deferred = 0


def poll_napi(run: Run, cpu: Cpu, napi: Napi) -> Poll:
    """A driver's poll: completions, then frames, then GRO's flush (N-7, N-8)."""
    napi.polls += 1
    pay_entry(cpu)
    free_deferred(cpu)
    cpu.pay(Cost.NAPI_POLL, Stage.NAPI)
    for txq in napi.txqs:
        reclaim(run, cpu, txq)
    run.step(cpu, Step.POLL, napi.number)
    yield
    work = 0
    while work < NAPI_WEIGHT and napi.ring and napi.ring[0].ready_ps <= run.now:
        work += 1
        yield from receive_frame(run, cpu, napi)
        yield from hand_up(run, cpu, napi)
    full = work == NAPI_WEIGHT
    napi.full_polls += full
    if napi.gro is not None:
        old_only = full and run.hz >= HZ_OF_YOUNG_PACKETS
        napi.gro.flush(old_only, run.jiffy(run.now))
        napi.gro.deliver()
        yield from hand_up(run, cpu, napi)
    if not full:
        cpu.pay(Cost.NAPI_COMPLETE, Stage.NAPI)
        napi.masked = False
        event_ps = next_event_ps(napi)
        if event_ps is not None:
            arm(run, napi, max(event_ps, run.now))
        run.step(cpu, Step.COMPLETE, napi.number)
        yield
    return work, full


def receive_frame(run: Run, cpu: Cpu, napi: Napi) -> Steps:
    """A frame leaves the ring: the driver makes an skb, and GRO looks at it."""
    assert napi.gro is not None
    assert napi.link is not None
    row = napi.ring.popleft().row
    napi.received += 1
    cpu.pay(Cost.DRIVER_RX, Stage.DRIVER_RX)
    hash_value, hash_type = driver_hash(run.host, napi.link.steer, row)
    result, _ = napi.gro.receive(
        run.view, row, hash_value, hash_type, run.jiffy(run.now), 0, carried_by(run.host, row)
    )
    if napi.gro.config.enabled:
        merged = result == GroResult.MERGED
        cpu.pay(Cost.GRO_MERGE if merged else Cost.GRO_PASS, Stage.GRO)
    run.step(cpu, Step.RX, row)
    yield


def hand_up(run: Run, cpu: Cpu, napi: Napi) -> Steps:
    """What GRO has delivered goes up; what waits for a full batch stays."""
    gro = napi.gro
    assert gro is not None
    assert napi.link is not None
    ready = len(gro.rx_list) - len(gro.waiting)
    if not ready:
        return
    skbs, gro.rx_list = gro.rx_list[:ready], gro.rx_list[ready:]
    run.skbs += ready
    for skb in skbs:
        proto = run.proto_of[skb.first]
        cpu.going_up.append(
            RxSkb(
                skb=skb,
                home=cpu.number,
                nic=napi.link.index,
                queue=napi.queue,
                rxq=napi.number,
                proto=proto,
                line=Line(cpu.number),
            )
        )
    while cpu.going_up:
        cpu.hand = cpu.going_up.popleft()
        yield from skb_goes_up(run, cpu, cpu.hand)


def poll_backlog(run: Run, cpu: Cpu, backlog: Backlog) -> Poll:
    """process_backlog: what other CPUs, or this one, put into this CPU's backlog."""
    if cpu.ipis:
        yield from kick(run, cpu, with_deferred=False)
    pay_entry(cpu)
    free_deferred(cpu)
    cpu.pay(Cost.NAPI_POLL, Stage.NAPI)
    if not backlog.process:
        splice(cpu, backlog)
    run.step(cpu, Step.POLL, len(run.napis) + cpu.number)
    yield
    work = 0
    while work < NAPI_WEIGHT and (backlog.process or backlog.input):
        if not backlog.process:
            splice(cpu, backlog)
        work += 1
        cpu.hand = backlog.process.popleft()
        cpu.pay(Cost.BACKLOG, Stage.RPS)
        yield from skb_goes_up(run, cpu, cpu.hand)
    run.backlog_heads[cpu.number] += work
    if work == NAPI_WEIGHT:
        return work, True
    backlog.scheduled = False
    return work, False


def splice(cpu: Cpu, backlog: Backlog) -> None:
    """Take the input queue whole."""
    backlog.process, backlog.input = backlog.input, backlog.process
    proto = backlog.process[0].proto if backlog.process else NOT_AT_HAND
    cpu.touch(backlog.line, Touch.BACKLOG_SPLICE, Stage.RPS, proto)
