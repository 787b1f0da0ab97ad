"""Threads on a CPU: dispatch, ksoftirqd, and applications that read and answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from emu.model.draw import draw
from emu.model.exponential import exponential
from emu.ref.run_arrive import message_read
from emu.ref.run_irq import request_ipi
from emu.ref.run_receive import TRUESIZE_BYTES
from emu.ref.run_send import record_flow, send
from emu.ref.run_softirq import softirqs, softirqs_of_thread
from emu.ref.run_state import Cpu, Doing, RxSkb, Socket, Steps, Thread
from emu.ref.run_transmit import transmit
from emu.ref.run_wake import need_resched
from emu.run_dtypes import Cost, Ctx, Limit, Stage, Step, Touch

if TYPE_CHECKING:
    from emu.ref.engine import Run

THREAD_STREAM = 3 << 32
DEFER_FULL = 64  # skb_defer_max: the skb that would be the 64th at one home is not deferred
DEFER_KICK = 32  # behind so many its home is told


def run_threads(run: Run, cpu: Cpu) -> Steps:
    """What a CPU does besides interrupts and their softirqs: its threads, or nothing."""
    while True:
        while not cpu.run_queue:
            cpu.doing, cpu.ctx = Doing.IDLE, int(Ctx.IDLE)
            yield
        thread = cpu.run_queue.popleft()
        cpu.current = thread
        cpu.ctx = int(Ctx.KSOFTIRQD if thread.is_ksoftirqd else Ctx.USER)
        if cpu.doing == Doing.WOKEN:
            cpu.pay(Cost.IDLE_EXIT, Stage.SCHED)
        cpu.pay(Cost.CTX_SWITCH, Stage.SCHED)
        cpu.counts.switches += 1
        run.step(cpu, Step.DISPATCH, thread.number)
        thread.slice_start_ps = cpu.end_ps  # however short, a slice is not used up by the switch
        yield
        yield from (ksoftirqd if thread.is_ksoftirqd else application)(run, cpu, thread)
        cpu.current = None


def gives_way(run: Run, cpu: Cpu, thread: Thread) -> bool:
    """Whether others wait and the thread's slice is over: then it waits behind them."""
    if not need_resched(run, cpu):
        return False
    cpu.run_queue.append(thread)
    return True


def ksoftirqd(run: Run, cpu: Cpu, thread: Thread) -> Steps:
    """Softirqs in a thread, as long as some are pending."""
    while cpu.pending:
        if gives_way(run, cpu, thread):
            return
        yield from softirqs(run, cpu)
    thread.asleep = True


def application(run: Run, cpu: Cpu, thread: Thread) -> Steps:
    """Read a message, work, answer; sleep when there is none."""
    while True:
        yield from softirqs_of_thread(run, cpu)
        if gives_way(run, cpu, thread):
            return
        message = next_message(run, thread)
        if message is None:
            thread.asleep = True
            if thread.pool is not None:
                thread.pool.sleepers.append(thread)
            return
        socket, skb = message
        yield from read_message(run, cpu, thread, socket, skb)
        if run.response_bytes < 0:
            message_read(run, skb.row)
            continue
        packet = send(run, cpu, socket, skb)
        yield
        yield from transmit(run, cpu, packet)


def next_message(run: Run, thread: Thread) -> tuple[Socket, RxSkb] | None:
    """The oldest message of the thread's first ready socket, or of its pool's socket."""
    if thread.pool is not None:
        socket = thread.pool
        if not socket.queue:
            return None
    elif thread.ready:
        socket = thread.ready.popleft()
        if len(socket.queue) > 1:
            thread.ready.append(socket)
        else:
            socket.is_ready = False
    else:
        return None
    skb = socket.queue.popleft()
    socket.queued_bytes -= skb.skb.len_bytes + TRUESIZE_BYTES
    socket.read += 1
    run.read += len(skb.skb.members)
    return socket, skb


def read_message(run: Run, cpu: Cpu, thread: Thread, socket: Socket, skb: RxSkb) -> Steps:
    """recvmsg, and the application's work."""
    udp = socket.is_udp
    if udp:
        yield from socket.lock.take(run, cpu)
        cpu.pay(Cost.LOCK, Stage.SOCKET)
    if thread.event_loop and thread.just_woken:
        cpu.pay(Cost.EPOLL_WAIT, Stage.SCHED)
    thread.just_woken = False
    cpu.pay(Cost.UDP_RECV if udp else Cost.TCP_RECV, Stage.SOCKET)
    cpu.touch(socket.rx_line, Touch.SOCK_RX_READ, Stage.SOCKET, skb.proto)
    record_flow(run, cpu, socket)
    if udp:
        run.step(cpu, Step.READ, skb.row)
        yield
        socket.lock.release(run)
        yield from softirqs_of_thread(run, cpu)
    copy_and_free(run, cpu, skb)
    cpu.pay_cost(work_cost(run, thread), Stage.WORK)
    run.step(cpu, Step.WORK if udp else Step.READ, skb.row, Doing.OPEN)
    yield


def copy_and_free(run: Run, cpu: Cpu, skb: RxSkb) -> None:
    """The payload goes to the application; the skb goes where it came from."""
    payload_bytes = sum(run.view.payload_bytes[row] for row in skb.skb.members)
    cpu.touch(skb.line, Touch.SKB_READ, Stage.SOCKET, skb.proto)
    cpu.pay_bytes(Cost.RECV_BYTE, Stage.COPY, payload_bytes)
    cpu.stream(skb.home, payload_bytes, Stage.COPY)
    home = run.cpus[skb.home]
    if home is cpu:
        cpu.pay(Cost.SKB_FREE, Stage.FREE)
    elif run.limit(Limit.DEFER_FREE) and home.deferred + 1 < DEFER_FULL:
        cpu.pay(Cost.DEFER_FREE, Stage.FREE)
        cpu.touch(home.defer_line, Touch.DEFER, Stage.FREE, skb.proto)
        home.deferred += 1
        if home.deferred == DEFER_KICK + 1:
            cpu.pay(Cost.IPI_SEND, Stage.ENTRY)
            cpu.counts.ipis += 1
            request_ipi(run, home, backlog=False)
    else:
        cpu.pay(Cost.SKB_FREE, Stage.FREE)
        cpu.fetch(skb.home, Touch.SKB_FREE, Stage.FREE, skb.proto)


def work_cost(run: Run, thread: Thread) -> int:
    """What the application's own work on a message costs."""
    if not run.work_exponential:
        return run.work
    value = draw(run.plan.seed, THREAD_STREAM | thread.number, thread.draws)
    thread.draws += 1
    return exponential(value, run.work, run.exp_table)
