"""Transmit: qdiscs with their locks, the driver's xmit, doorbells (docs/run.md, "Transmit")."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

from emu.ref.run_arrive import lose, message_left, sent_ps
from emu.ref.run_cost import NOT_AT_HAND
from emu.ref.run_irq import arm
from emu.ref.run_state import NET_TX, Cpu, QdiscState, Steps, TxQueue, TxSkb
from emu.run_dtypes import Cost, Limit, Qdisc, RunDrop, Stage, Step, Touch

if TYPE_CHECKING:
    from emu.ref.engine import Run

Sent = Generator[None, None, int]  # answers: packets that went out
RUN_QUOTA = 64  # dev_tx_weight: packets of one qdisc run


def transmit(run: Run, cpu: Cpu, packet: TxSkb) -> Steps:
    """dev_queue_xmit of a packet whose tx queue is chosen."""
    qdisc = packet.txq.qdisc
    if qdisc.kind == Qdisc.NOQUEUE:
        yield from xmit(run, cpu, [packet])
        return
    locked = not qdisc.is_lockless
    busy = locked and qdisc.running
    if busy:
        yield from qdisc.busy.take(run, cpu)
    if locked:
        yield from qdisc.root.take(run, cpu)
        cpu.pay(Cost.LOCK, Stage.QDISC)
    cpu.pay(Cost.QDISC, Stage.QDISC)
    cpu.touch(qdisc.line, Touch.QDISC, Stage.QDISC, packet.proto)
    batch = enqueue(run, cpu, qdisc, packet)
    run.step(cpu, Step.QDISC, packet.row)
    yield
    if locked:
        qdisc.root.release(run)
    if busy:
        qdisc.busy.release(run)
    if batch:
        yield from run_qdisc(run, cpu, qdisc, batch)


def enqueue(run: Run, cpu: Cpu, qdisc: QdiscState, packet: TxSkb) -> list[TxSkb]:
    """Into the qdisc, or past it; what this CPU has to send now, if it runs the qdisc."""
    # HTB sets no TCQ_F_CAN_BYPASS: what it shapes always passes through it.
    if not qdisc.packets and not qdisc.running and qdisc.kind != Qdisc.SINGLE:
        qdisc.bypassed += 1
        qdisc.running = True
        return [packet]
    if len(qdisc.packets) >= run.limit(Limit.QDISC_LEN):
        drop_packet(run, packet)
        return []
    qdisc.enqueued += 1
    qdisc.packets.append(packet)
    run.sending.discard(packet)
    if qdisc.running or not qdisc.can_run:
        return []
    return start_run(run, cpu, qdisc)


def start_run(run: Run, cpu: Cpu, qdisc: QdiscState) -> list[TxSkb]:
    """The CPU runs the qdisc from now on, and takes the first list out."""
    qdisc.running = True
    cpu.pay(Cost.QDISC_RUN, Stage.QDISC)
    return dequeue(run, qdisc)


def dequeue(run: Run, qdisc: QdiscState) -> list[TxSkb]:
    """The next packet; of a tx queue's own qdisc more, as far as BQL lets them."""
    batch = [qdisc.packets.popleft()]
    txq = batch[0].txq
    if txq.link.bql and qdisc.kind != Qdisc.SINGLE:
        left = txq.link.bql_bytes - txq.ring_bytes - batch[0].frame_bytes
        while qdisc.packets and left > 0:
            batch.append(qdisc.packets.popleft())
            left -= batch[-1].frame_bytes
    run.sending.update(batch)
    return batch


def schedule_qdisc(cpu: Cpu, qdisc: QdiscState) -> None:
    """__netif_schedule: the qdisc is run from this CPU's NET_TX."""
    if not qdisc.scheduled:
        qdisc.scheduled = True
        cpu.scheduled_qdiscs.append(qdisc)
        cpu.raise_softirq(NET_TX)


def stop_run(cpu: Cpu, qdisc: QdiscState, sent: int) -> None:
    """The CPU runs the qdisc no more; after a full quota NET_TX goes on."""
    qdisc.running = False
    if sent >= RUN_QUOTA and qdisc.packets:
        schedule_qdisc(cpu, qdisc)


def run_qdisc(run: Run, cpu: Cpu, qdisc: QdiscState, batch: list[TxSkb]) -> Steps:
    """__qdisc_run: send lists until the qdisc is empty, stopped, or the quota is full."""
    run_on = run_lockless if qdisc.is_lockless else run_locked
    yield from run_on(run, cpu, qdisc, batch)


def run_lockless(run: Run, cpu: Cpu, qdisc: QdiscState, batch: list[TxSkb]) -> Steps:
    """The same of NOLOCK pfifo_fast: what the next list costs is a part of its XMIT."""
    sent = yield from xmit(run, cpu, batch)
    while qdisc.can_run and sent < RUN_QUOTA:
        batch = dequeue(run, qdisc)
        cpu.pay(Cost.QDISC_RUN, Stage.QDISC)
        cpu.touch(qdisc.line, Touch.QDISC, Stage.QDISC, batch[0].proto)
        sent += yield from xmit(run, cpu, batch)
    stop_run(cpu, qdisc, sent)


def run_locked(run: Run, cpu: Cpu, qdisc: QdiscState, batch: list[TxSkb]) -> Steps:
    """The same under ROOT, which is taken anew after each list (REQDISC)."""
    sent = yield from xmit(run, cpu, batch)
    while True:
        yield from qdisc.root.take(run, cpu)
        cpu.pay(Cost.LOCK, Stage.QDISC)
        cpu.touch(qdisc.line, Touch.QDISC, Stage.QDISC, head_proto(qdisc))
        goes_on = qdisc.can_run and sent < RUN_QUOTA
        if goes_on:
            cpu.pay(Cost.QDISC_RUN, Stage.QDISC)
            batch = dequeue(run, qdisc)
        else:
            stop_run(cpu, qdisc, sent)
        run.step(cpu, Step.REQDISC, qdisc.number)
        yield
        qdisc.root.release(run)
        if not goes_on:
            return
        sent += yield from xmit(run, cpu, batch)


def head_proto(qdisc: QdiscState) -> int:
    """Column of the line table for work on a qdisc without a packet in hand."""
    return qdisc.packets[0].proto if qdisc.packets else NOT_AT_HAND


def net_tx(run: Run, cpu: Cpu, qdisc: QdiscState) -> Steps:
    """A scheduled qdisc is run, if nobody runs it and it can."""
    if not qdisc.is_lockless:
        yield from qdisc.root.take(run, cpu)
        cpu.pay(Cost.LOCK, Stage.QDISC)
    qdisc.scheduled = False
    cpu.touch(qdisc.line, Touch.QDISC, Stage.QDISC, head_proto(qdisc))
    batch: list[TxSkb] = []
    if not qdisc.running and qdisc.can_run:
        batch = start_run(run, cpu, qdisc)
    run.step(cpu, Step.NET_TX, qdisc.number)
    yield
    if not qdisc.is_lockless:
        qdisc.root.release(run)
    if batch:
        yield from run_qdisc(run, cpu, qdisc, batch)


def xmit(run: Run, cpu: Cpu, batch: list[TxSkb]) -> Sent:
    """dev_hard_start_xmit: the list goes into the tx queue's ring, as far as it has room."""
    txq, proto = batch[0].txq, batch[0].proto
    yield from txq.lock.take(run, cpu)
    cpu.pay(Cost.LOCK, Stage.DRIVER_TX)
    cpu.touch(txq.line, Touch.TXQ, Stage.DRIVER_TX, proto)
    cpu.touch(txq.ring_line, Touch.TX_RING, Stage.DRIVER_TX, proto)
    if txq.link.bql:
        cpu.touch(txq.dql_line, Touch.DQL, Stage.DRIVER_TX, proto)
    fill_ring(run, cpu, txq, batch)
    run.step(cpu, Step.XMIT, batch[0].row)
    yield
    going, txq.entering = txq.entering, []
    for packet in going:
        packet.done_ps = sent_ps(txq.link, run.now, packet.frame_bytes)
        txq.ring.append(packet)
        arm(run, txq.napi, packet.done_ps)
        message_left(run, packet)
    if not txq.has_room:
        txq.stop()
    txq.lock.release(run)
    return len(going)


def fill_ring(run: Run, cpu: Cpu, txq: TxQueue, batch: list[TxSkb]) -> None:
    """Which of the list get a descriptor; the rest goes back, and the queue is stopped."""
    noqueue = txq.qdisc.kind == Qdisc.NOQUEUE
    for place, packet in enumerate(batch):
        if not txq.has_room or (noqueue and txq.stopped):
            give_back(run, txq, batch[place:])
            break
        run.sending.discard(packet)
        txq.entering.append(packet)
        txq.ring_bytes += packet.frame_bytes
        txq.packets += 1
        txq.bytes += packet.frame_bytes
        cpu.pay(Cost.DRIVER_TX, Stage.DRIVER_TX)
        cpu.touch(packet.line, Touch.SKB_XMIT, Stage.DRIVER_TX, packet.proto)
    if txq.entering:
        txq.doorbells += 1
        cpu.pay(Cost.DOORBELL, Stage.DRIVER_TX)


def give_back(run: Run, txq: TxQueue, rest: list[TxSkb]) -> None:
    """No room: the rest of a list goes back to the head of its qdisc; without one it is lost."""
    if txq.qdisc.kind == Qdisc.NOQUEUE:
        for packet in rest:
            drop_packet(run, packet)
    else:
        txq.qdisc.packets.extendleft(reversed(rest))
        txq.qdisc.requeued += len(rest)
        run.sending.difference_update(rest)
    txq.stop()


def drop_packet(run: Run, packet: TxSkb) -> None:
    """A packet that is sent ends before the wire."""
    run.sending.discard(packet)
    run.drops[RunDrop.QDISC_DROP] += 1
    run.tx_dropped += 1
    packet.txq.qdisc.dropped += 1
    if packet.socket is not None:
        packet.socket.in_transmit -= 1
    lose(run, packet.rows)
