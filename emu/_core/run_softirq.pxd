"""Softirqs: passes, net_rx_action with its budget and repoll list, kicks (docs/run.md, Softirq).

kernel: kernel/softirq.c, handle_softirqs; net/core/dev.c, net_rx_action, net_rps_send_ipi
"""
from emu._core.run_codes cimport (
    AT_ENTRY,
    AT_FREE,
    COST_IPI_SEND,
    COST_SKB_FREE,
    COST_SOFTIRQ,
    CTX_KSOFTIRQD,
    CTX_SOFTIRQ,
    KIND_BASE,
    LATENCY_SLICE,
    LIMIT_BUDGET_JIFFIES,
    LIMIT_NETDEV_BUDGET,
    LIMIT_SOFTIRQ_JIFFIES,
    STEP_KICK,
)
from emu._core.run_cost cimport begin, charge, jiffy_of, pay, set_ctx
from emu._core.run_go cimport GO_BACKLOG, GO_BACKLOG_POLL, GO_NET_TX, GO_NOWHERE, GO_PASSED, GO_POLL
from emu._core.run_irq cimport napi_append, napi_join, raise_rx, send_ipi
from emu._core.run_state cimport cpu_t, run_t, thread_t
from emu._core.types cimport i32, i64, u32

cdef enum:
    MAX_PASSES = 10


cdef inline bint is_pending(const cpu_t *me) noexcept nogil:
    """Whether a softirq is raised."""
    return me.rx_raised or me.out.head >= 0


cdef inline bint slice_over(const run_t *r, const cpu_t *me, i64 t) noexcept nogil:
    """Whether the current thread's slice has ended and others wait."""
    return me.run_queue.head >= 0 and t - me.slice_begin >= r.latencies[LATENCY_SLICE]


cdef inline bint need_resched(const run_t *r, const cpu_t *me, i64 t) noexcept nogil:
    return me.run_queue.head >= 0 and (me.current < 0 or slice_over(r, me, t))


cdef inline void queue_thread(run_t *r, cpu_t *me, i32 number) noexcept nogil:
    """Put a thread at the end of a CPU's run queue."""
    r.threads[number].next = -1
    if me.run_queue.tail >= 0:
        r.threads[me.run_queue.tail].next = number
    else:
        me.run_queue.head = number
    me.run_queue.tail = number


cdef inline void pay_entry(run_t *r, cpu_t *me) noexcept nogil:
    """The first step of a net_rx_action pays for it."""
    if me.entry_due:
        me.entry_due = 0
        pay(r, me, COST_SOFTIRQ, AT_ENTRY)


cdef inline void kick(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """Send the IPIs that wait."""
    cdef i32 target = me.ipis
    while target >= 0:
        pay(r, me, COST_IPI_SEND, AT_ENTRY)
        send_ipi(r, me, <u32>target, t, True)
        target = r.cpus[target].ipi_next
    me.ipis = -1


cdef inline void free_deferred(run_t *r, cpu_t *me) noexcept nogil:
    """skb_defer_free_flush: what others have read of this CPU's skbs goes."""
    if me.deferred:
        charge(me, AT_FREE, KIND_BASE, r.costs[COST_SKB_FREE] * me.deferred)
        me.deferred = 0


cdef inline u32 close_rx_action(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """Put the lists together; then IPIs and deferred skbs."""
    napi_join(r, &me.taken, &me.poll)
    napi_join(r, &me.taken, &me.repoll)
    me.poll = me.taken
    me.taken.head = me.taken.tail = -1
    me.inside = 0
    if me.poll.head >= 0:
        raise_rx(me)
    if me.ipis < 0 and me.deferred == 0:
        me.entry_due = 0
        return GO_PASSED
    pay_entry(r, me)
    kick(r, me, t)
    free_deferred(r, me)
    begin(r, me, t, STEP_KICK, me.number, GO_PASSED, False)
    return GO_NOWHERE


cdef inline u32 next_napi(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """The next NAPI of the taken list; the end of net_rx_action when there is none."""
    if me.taken.head < 0:
        if me.repoll.head >= 0 or me.poll.head < 0:
            return close_rx_action(r, me, t)
        me.taken = me.poll
        me.poll.head = me.poll.tail = -1
    me.napi = me.taken.head
    me.taken.head = r.napis[me.napi].next
    if me.taken.head < 0:
        me.taken.tail = -1
    return GO_POLL if me.napi < <i32>r.napi_count else GO_BACKLOG


cdef inline u32 begin_rx_action(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """net_rx_action takes the poll list."""
    me.inside = 1
    me.entry_due = 1
    me.budget = r.limits[LIMIT_NETDEV_BUDGET]
    me.rx_jiffy = jiffy_of(r, t)
    me.taken = me.poll
    me.poll.head = me.poll.tail = -1
    return next_napi(r, me, t)


cdef inline u32 end_net_tx(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """Behind NET_TX of a pass comes net_rx_action."""
    return begin_rx_action(r, me, t) if me.pass_rx else GO_PASSED


cdef inline u32 begin_pass(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """Take the pending bits."""
    me.passes += 1
    me.out_taken = me.out
    me.out.head = me.out.tail = -1
    me.pass_rx = me.rx_raised
    me.rx_raised = 0
    return GO_NET_TX if me.out_taken.head >= 0 else end_net_tx(r, me, t)


cdef inline u32 softirq_begin(run_t *r, cpu_t *me, i64 t, u32 go) noexcept nogil:
    """Run what is pending, then go on."""
    cdef bint own = me.current >= <i32>r.thread_count
    me.soft_go = go
    me.passes = 0
    me.soft_jiffy = jiffy_of(r, t)
    # ksoftirqd is never set aside: with it as current every softirq is its own.
    set_ctx(r, me, t, CTX_KSOFTIRQD if own else CTX_SOFTIRQ)
    return begin_pass(r, me, t)


cdef inline u32 end_pass(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """Another pass, or the end; ksoftirqd takes what is left."""
    cdef i32 ksoftirqd = <i32>(r.thread_count + me.number)
    cdef thread_t *thread = &r.threads[ksoftirqd]
    if is_pending(me):
        if (
            me.passes < MAX_PASSES
            and jiffy_of(r, t) < me.soft_jiffy + r.limits[LIMIT_SOFTIRQ_JIFFIES]
            and not need_resched(r, me, t)
        ):
            return begin_pass(r, me, t)
        if thread.asleep:
            thread.asleep = 0
            queue_thread(r, me, ksoftirqd)
    me.fresh = 0
    return me.soft_go


cdef inline u32 end_poll(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """A NAPI has done its work: is there budget for another?"""
    me.budget -= me.work
    if me.again:
        napi_append(r, &me.repoll, me.napi)
    if (
        me.budget <= 0
        or jiffy_of(r, t) >= me.rx_jiffy + r.limits[LIMIT_BUDGET_JIFFIES]
    ):
        me.squeezed += 1
        return close_rx_action(r, me, t)
    return next_napi(r, me, t)


cdef inline u32 begin_backlog(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """process_backlog sends the IPIs that wait first."""
    if me.ipis < 0:
        return GO_BACKLOG_POLL
    pay_entry(r, me)
    kick(r, me, t)
    begin(r, me, t, STEP_KICK, me.number, GO_BACKLOG_POLL, False)
    return GO_NOWHERE
