"""What a CPU does next: its step has ended, another begins (docs/run.md, Order)."""
from emu._core.run_go cimport (
    GO_BACKLOG,
    GO_BACKLOG_POLL,
    GO_BACKLOG_SKB,
    GO_BUSY_HELD,
    GO_COMPLETED,
    GO_ENQUEUE,
    GO_ENQUEUE_END,
    GO_ENQUEUE_HELD,
    GO_FLUSHED,
    GO_FORWARD,
    GO_FRAME,
    GO_IRQ_DONE,
    GO_IRQ_END,
    GO_KSOFTIRQD,
    GO_NET_TX,
    GO_NET_TX_END,
    GO_NET_TX_HELD,
    GO_NOWHERE,
    GO_PASSED,
    GO_POLL,
    GO_QDISC,
    GO_QDISC_END,
    GO_READ,
    GO_READ_END,
    GO_REQDISC,
    GO_RX_DONE,
    GO_SENT,
    GO_THREAD,
    GO_UDP_READ_END,
    GO_UP,
    GO_WAKE,
    GO_WORK,
    GO_XMIT_END,
    GO_XMIT_HELD,
    MODE_BUSY,
)
from emu._core.run_lock cimport count_wait
from emu._core.run_poll cimport (
    backlog_step,
    end_frames,
    next_frame,
    next_of_backlog,
    poll_step,
    rx_done,
)
from emu._core.run_receive cimport enqueue_ask, enqueue_end, enqueue_step, next_up
from emu._core.run_softirq cimport begin_backlog, end_pass, end_poll
from emu._core.run_state cimport cpu_t, run_t
from emu._core.run_thread cimport (
    irq_done,
    irq_end,
    ksoftirqd,
    next_turn,
    read_end,
    read_step,
    schedule,
    send_end,
    udp_read_end,
    work_step,
)
from emu._core.run_transmit cimport (
    busy_held,
    net_tx_end,
    net_tx_step,
    next_net_tx,
    qdisc_end,
    qdisc_step,
    reqdisc_end,
    reqdisc_step,
    transmit,
    xmit_end,
    xmit_step,
)
from emu._core.types cimport i64, u32


cdef inline u32 wake_up(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """The IPI of a wake-up has come to an idle CPU."""
    me.mode = MODE_BUSY
    me.from_idle = 1
    return schedule(r, me, t)


cdef inline u32 follow(run_t *r, cpu_t *me, i64 t, u32 go) noexcept nogil:
    """What comes at the end of a step, or with a lock."""
    if go == GO_WAKE:
        return wake_up(r, me, t)
    elif go == GO_IRQ_END:
        return irq_end(r, me, t)
    elif go == GO_IRQ_DONE:
        return irq_done(r, me, t)
    elif go == GO_NET_TX:
        return next_net_tx(r, me, t)
    elif go == GO_NET_TX_HELD:
        return net_tx_step(r, me, t)
    elif go == GO_NET_TX_END:
        return net_tx_end(r, me, t)
    elif go == GO_PASSED:
        return end_pass(r, me, t)
    elif go == GO_POLL:
        return poll_step(r, me, t)
    elif go == GO_FRAME:
        return next_frame(r, me, t)
    elif go == GO_RX_DONE:
        return rx_done(r, me, t)
    elif go == GO_FLUSHED:
        return end_frames(r, me, t)
    elif go == GO_COMPLETED:
        return end_poll(r, me, t)
    elif go == GO_BACKLOG:
        return begin_backlog(r, me, t)
    elif go == GO_BACKLOG_POLL:
        return backlog_step(r, me, t)
    elif go == GO_BACKLOG_SKB:
        return next_of_backlog(r, me, t)
    elif go == GO_UP:
        return next_up(r, me, t)
    elif go == GO_ENQUEUE:
        return enqueue_ask(r, me, t)
    elif go == GO_ENQUEUE_HELD:
        return enqueue_step(r, me, t)
    elif go == GO_ENQUEUE_END:
        return enqueue_end(r, me, t)
    elif go == GO_KSOFTIRQD:
        return ksoftirqd(r, me, t)
    elif go == GO_THREAD:
        return next_turn(r, me, t)
    elif go == GO_READ:
        return read_step(r, me, t)
    elif go == GO_UDP_READ_END:
        return udp_read_end(r, me, t)
    elif go == GO_WORK:
        return work_step(r, me, t)
    elif go == GO_READ_END:
        return read_end(r, me, t)
    elif go == GO_SENT:
        return send_end(r, me, t)
    elif go == GO_FORWARD:
        return transmit(r, me, t)
    elif go == GO_BUSY_HELD:
        return busy_held(r, me, t)
    elif go == GO_QDISC:
        return qdisc_step(r, me, t)
    elif go == GO_QDISC_END:
        return qdisc_end(r, me, t)
    elif go == GO_XMIT_HELD:
        return xmit_step(r, me, t)
    elif go == GO_XMIT_END:
        return xmit_end(r, me, t)
    elif go == GO_REQDISC:
        return reqdisc_step(r, me, t)
    return reqdisc_end(r, me, t)


cdef inline void cpu_step(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """A CPU's step has ended: choose on, until the next one has begun or none follows."""
    cdef u32 go = me.go
    me.open = 0
    if me.waited:
        count_wait(r, me, t)
    while go != GO_NOWHERE:
        go = follow(r, me, t, go)
