"""Threads: who runs, what it reads and sends (docs/run.md, Threads)."""
from emu._core.run_codes cimport (
    AT_COPY,
    AT_ENTRY,
    AT_FREE,
    AT_SCHED,
    AT_SOCKET,
    AT_WORK,
    COST_CTX_SWITCH,
    COST_DEFER_FREE,
    COST_EPOLL_WAIT,
    COST_IDLE_EXIT,
    COST_IPI_SEND,
    COST_LOCK,
    COST_RECV_BYTE,
    COST_SKB_FREE,
    COST_TCP_RECV,
    COST_UDP_RECV,
    CTX_IDLE,
    CTX_KSOFTIRQD,
    CTX_USER,
    KIND_BASE,
    KIND_LINES,
    LIMIT_DEFER_FREE,
    STEP_DISPATCH,
    STEP_READ,
    STEP_WORK,
    TOTAL_READ,
    TOUCH_DEFER,
    TOUCH_SKB_FREE,
    TOUCH_SKB_READ,
    TOUCH_SOCK_RX_READ,
)
from emu._core.run_cost cimport (
    begin,
    charge,
    exponential,
    next_draw,
    pay,
    pay_bytes,
    pay_lines,
    set_ctx,
    touch,
)
from emu._core.run_counters cimport add_sample
from emu._core.run_go cimport (
    GO_IRQ_DONE,
    GO_KSOFTIRQD,
    GO_NOWHERE,
    GO_READ,
    GO_READ_END,
    GO_THREAD,
    GO_UDP_READ_END,
    GO_WORK,
    MODE_IDLE,
)
from emu._core.run_irq cimport send_ipi
from emu._core.run_lock cimport lock_ask, lock_release
from emu._core.run_queue cimport NEVER_PS
from emu._core.run_receive cimport SKB_TRUESIZE
from emu._core.run_send cimport record_flow, send_step
from emu._core.run_softirq cimport is_pending, queue_thread, slice_over, softirq_begin
from emu._core.run_state cimport cpu_t, packet_t, run_sock_t, run_t, thread_t
from emu._core.run_transmit cimport transmit
from emu._core.state cimport SOCK_ESTABLISHED
from emu._core.types cimport i32, i64, u8, u32

cdef enum:
    DEFER_MAX = 64         # skb_defer_max: the skb that would be the 64th is not deferred
    DEFER_KICK = 32        # this many before: the home CPU is told
    LINE_BYTES = 64


cdef inline u32 schedule(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """Nobody is current: the first of the run queue is, or the CPU idles."""
    cdef i32 number = me.run_queue.head
    cdef bint is_ksoftirqd = number >= <i32>r.thread_count
    if number < 0:
        set_ctx(r, me, t, CTX_IDLE)
        me.mode = MODE_IDLE
        r.cpu_race.times[me.number] = NEVER_PS
        return GO_NOWHERE
    me.run_queue.head = r.threads[number].next
    if me.run_queue.head < 0:
        me.run_queue.tail = -1
    me.current = number
    me.switches += 1
    set_ctx(r, me, t, CTX_KSOFTIRQD if is_ksoftirqd else CTX_USER)
    pay(r, me, COST_CTX_SWITCH, AT_SCHED)
    if me.from_idle:
        me.from_idle = 0
        pay(r, me, COST_IDLE_EXIT, AT_SCHED)
    begin(r, me, t, STEP_DISPATCH, number, GO_KSOFTIRQD if is_ksoftirqd else GO_THREAD, False)
    me.slice_begin = r.cpu_race.times[me.number]  # however short, the switch does not use it up
    return GO_NOWHERE


cdef inline u32 irq_done(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """Take up the user step that was set aside, if one was."""
    if not me.aside:
        return schedule(r, me, t)
    set_ctx(r, me, t, CTX_USER)
    me.aside = 0
    me.open = 1
    me.go = me.aside_go
    r.cpu_race.times[me.number] = t + me.aside_ps
    return GO_NOWHERE


cdef inline u32 irq_end(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """An interrupt that ran by itself is over: softirqs, then what was before."""
    if is_pending(me):
        return softirq_begin(r, me, t, GO_IRQ_DONE)
    return irq_done(r, me, t)


cdef inline u32 yield_cpu(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """The current thread goes to the end of the run queue."""
    queue_thread(r, me, me.current)
    me.current = -1
    return schedule(r, me, t)


cdef inline u32 ksoftirqd(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """ksoftirqd runs what is pending, as long as its slice lasts or nobody waits; or it sleeps."""
    if is_pending(me):
        if slice_over(r, me, t):
            return yield_cpu(r, me, t)
        return softirq_begin(r, me, t, GO_KSOFTIRQD)
    r.threads[me.current].asleep = 1
    me.current = -1
    return schedule(r, me, t)


cdef inline u32 go_to_sleep(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """Nothing to read."""
    cdef thread_t *thread = &r.threads[me.current]
    cdef run_sock_t *sock
    thread.asleep = 1
    if thread.pool >= 0:
        sock = &r.socks[thread.pool]
        thread.next = -1
        if sock.sleepers.tail >= 0:
            r.threads[sock.sleepers.tail].next = me.current
        else:
            sock.sleepers.head = me.current
        sock.sleepers.tail = me.current
    me.current = -1
    return schedule(r, me, t)


cdef inline void leave_ready(run_t *r, thread_t *thread, i32 number) noexcept nogil:
    """The first socket of the ready list was read: it goes to the end if it holds more."""
    cdef run_sock_t *sock = &r.socks[number]
    if sock.queue.head >= 0 and thread.ready.tail == number:
        return
    thread.ready.head = sock.ready_next
    if thread.ready.head < 0:
        thread.ready.tail = -1
    if sock.queue.head < 0:
        sock.ready = 0
        return
    sock.ready_next = -1
    r.socks[thread.ready.tail].ready_next = number
    thread.ready.tail = number


cdef inline void free_skb(run_t *r, cpu_t *me, packet_t *packet, i64 t) noexcept nogil:
    """skb_attempt_defer_free: freed here, or left for the CPU that made it."""
    cdef cpu_t *home = &r.cpus[packet.home]
    if home == me:
        pay(r, me, COST_SKB_FREE, AT_FREE)
        return
    if not r.limits[LIMIT_DEFER_FREE] or home.deferred + 1 >= DEFER_MAX:
        pay(r, me, COST_SKB_FREE, AT_FREE)
        pay_lines(r, me, packet.home, TOUCH_SKB_FREE, packet.proto, AT_FREE)
        return
    pay(r, me, COST_DEFER_FREE, AT_FREE)
    touch(r, me, &home.defer_touched, TOUCH_DEFER, packet.proto, AT_FREE)
    home.deferred += 1
    if home.deferred == DEFER_KICK + 1:
        pay(r, me, COST_IPI_SEND, AT_ENTRY)
        send_ipi(r, me, home.number, t, False)


cdef inline void consume_skb(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """The copy to the reader, the skb's end, and the application's work."""
    cdef packet_t *packet = &r.packets[me.message]
    cdef thread_t *thread = &r.threads[me.current]
    cdef u8 far = r.distance[<u32>packet.home * r.cpu_count + me.number]
    cdef i64 count = (<i64>packet.payload + LINE_BYTES - 1) // LINE_BYTES
    cdef i64 work = r.workload.work
    touch(r, me, &packet.touched, TOUCH_SKB_READ, packet.proto, AT_SOCKET)
    pay_bytes(r, me, COST_RECV_BYTE, AT_COPY, packet.payload)
    charge(me, AT_COPY, KIND_LINES, count * r.stream[far])
    if packet.home != <i32>me.number:
        r.transfers[4 * me.number + far] += count
    free_skb(r, me, packet, t)
    if r.workload.work_exponential:
        work = exponential(next_draw(thread.key, &thread.draws), work, r.exp_table)
    charge(me, AT_WORK, KIND_BASE, work)


cdef inline u32 read_step(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """recvmsg."""
    cdef thread_t *thread = &r.threads[me.current]
    cdef run_sock_t *sock = &r.socks[me.message_sock]
    cdef u32 proto = r.packets[me.message].proto
    if thread.awoken:
        thread.awoken = 0
        pay(r, me, COST_EPOLL_WAIT, AT_SCHED)
    if sock.proto:
        pay(r, me, COST_LOCK, AT_SOCKET)
    pay(r, me, COST_UDP_RECV if sock.proto else COST_TCP_RECV, AT_SOCKET)
    touch(r, me, &sock.rx_touched, TOUCH_SOCK_RX_READ, proto, AT_SOCKET)
    record_flow(r, me, sock)
    if sock.proto:
        begin(r, me, t, STEP_READ, me.message, GO_UDP_READ_END, False)
    else:
        consume_skb(r, me, t)
        begin(r, me, t, STEP_READ, me.message, GO_READ_END, True)
    return GO_NOWHERE


cdef inline u32 next_message(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """The next message leaves its queue. It outlives softirqs, which have skbs of their own."""
    cdef thread_t *thread = &r.threads[me.current]
    cdef i32 number = thread.pool if thread.pool >= 0 else thread.ready.head
    cdef run_sock_t *sock
    cdef u32 go = GO_READ
    if number < 0 or r.socks[number].queue.head < 0:
        return go_to_sleep(r, me, t)
    sock = &r.socks[number]
    me.message_sock = number
    me.message = sock.queue.head
    sock.queue.head = r.packets[me.message].next
    if sock.queue.head < 0:
        sock.queue.tail = -1
    sock.queued_bytes -= <i64>r.s.skbs[me.message].len_bytes + SKB_TRUESIZE
    sock.read += 1
    r.totals[TOTAL_READ] += r.s.skbs[me.message].segs
    if thread.pool < 0:
        leave_ready(r, thread, number)
    if sock.proto:
        go = lock_ask(r, me, &sock.lock, t, go)
    return read_step(r, me, t) if go == GO_READ else go


cdef inline u32 next_turn(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """Before each message: softirqs that were raised meanwhile, and the end of the slice."""
    if me.fresh and is_pending(me):
        return softirq_begin(r, me, t, GO_THREAD)
    set_ctx(r, me, t, CTX_USER)
    if slice_over(r, me, t):
        return yield_cpu(r, me, t)
    return next_message(r, me, t)


cdef inline u32 work_step(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """The rest of UDP's recvmsg, without the lock."""
    set_ctx(r, me, t, CTX_USER)
    consume_skb(r, me, t)
    begin(r, me, t, STEP_WORK, me.message, GO_READ_END, True)
    return GO_NOWHERE


cdef inline u32 udp_read_end(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """The receive queue's lock goes, and bottom halves are on again."""
    lock_release(r, &r.socks[me.message_sock].lock, t)
    if me.fresh and is_pending(me):
        return softirq_begin(r, me, t, GO_WORK)
    return work_step(r, me, t)


cdef inline u32 read_end(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """The message is read: it is answered, or this was its end."""
    if r.workload.response_bytes >= 0:
        return send_step(r, me, t)
    if not r.workload.closed:
        add_sample(r, t - r.packets[me.message].started)
    return next_turn(r, me, t)


cdef inline u32 send_end(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """Bottom halves are off from here to the end of the transmit."""
    me.tx = me.user_tx
    me.user_tx = -1
    me.tx_go = GO_THREAD
    return transmit(r, me, t)
