"""From the qdisc to the wire (docs/run.md, Transmit).

kernel: net/core/dev.c, __dev_xmit_skb; net/sched/sch_generic.c, __qdisc_run, sch_direct_xmit
"""
from emu._core.run_codes cimport (
    AT_DRIVER_TX,
    AT_QDISC,
    COST_DOORBELL,
    COST_DRIVER_TX,
    COST_LOCK,
    COST_QDISC,
    COST_QDISC_RUN,
    LIMIT_QDISC_LEN,
    LOST_QDISC_DROP,
    QDISC_LOCKLESS,
    QDISC_NOQUEUE,
    STEP_NET_TX,
    STEP_QDISC,
    STEP_REQDISC,
    STEP_XMIT,
    TOTAL_TX_DROPPED,
    TOUCH_DQL,
    TOUCH_QDISC,
    TOUCH_SKB_XMIT,
    TOUCH_TXQ,
    TOUCH_TX_RING,
)
from emu._core.run_complete cimport fill_ring
from emu._core.run_cost cimport begin, pay, touch
from emu._core.run_go cimport (
    GO_BUSY_HELD,
    GO_NET_TX,
    GO_NET_TX_END,
    GO_NET_TX_HELD,
    GO_NOWHERE,
    GO_QDISC,
    GO_QDISC_END,
    GO_REQDISC,
    GO_REQDISC_END,
    GO_XMIT_END,
    GO_XMIT_HELD,
)
from emu._core.run_irq cimport repeat_request
from emu._core.run_lock cimport list_clear, lock_ask, lock_release
from emu._core.run_softirq cimport end_net_tx
from emu._core.run_state cimport cpu_t, list_t, qdisc_t, run_t, sent_t, txq_t
from emu._core.run_txq cimport free_sent, has_room, head_stopped, schedule_qdisc, stop_queue
from emu._core.types cimport i32, i64, u32

cdef enum:
    RUN_QUOTA = 64         # packets that a run of a qdisc sends


cdef inline void drop_sent(run_t *r, i32 number, i32 qdisc, i64 t) noexcept nogil:
    """A packet that is sent is dropped; its client hears nothing and asks again."""
    cdef i32 at = r.sent[number].row
    cdef i32 following
    r.drops[LOST_QDISC_DROP] += 1
    r.totals[TOTAL_TX_DROPPED] += 1
    if qdisc >= 0:
        r.qdiscs[qdisc].dropped += 1
    while at >= 0:
        following = r.packets[at].follows
        repeat_request(r, at, t)
        at = following
    free_sent(r, number)


cdef inline void take_head(run_t *r, list_t *queue, list_t *list) noexcept nogil:
    """Move the first packet of a qdisc to the end of a list."""
    cdef i32 at = queue.head
    queue.head = r.sent[at].next
    if queue.head < 0:
        queue.tail = -1
    r.sent[at].next = -1
    if list.tail >= 0:
        r.sent[list.tail].next = at
    else:
        list.head = at
    list.tail = at


cdef inline void dequeue(run_t *r, cpu_t *me, qdisc_t *q) noexcept nogil:
    """dequeue_skb: one packet; more of a queue of its own while BQL has room for them."""
    cdef txq_t *k = &r.txqs[r.sent[q.queue.head].txq]
    cdef i64 room
    list_clear(&me.list)
    take_head(r, &q.queue, &me.list)
    q.length -= 1
    if q.single or k.bql_bytes == 0:
        return
    room = <i64>k.bql_bytes - k.bytes - r.sent[me.list.tail].bytes
    while room > 0 and q.length:
        take_head(r, &q.queue, &me.list)
        q.length -= 1
        room -= r.sent[me.list.tail].bytes


cdef inline void append_to_qdisc(run_t *r, qdisc_t *q, i32 at) noexcept nogil:
    r.sent[at].next = -1
    if q.queue.tail >= 0:
        r.sent[q.queue.tail].next = at
    else:
        q.queue.head = at
    q.queue.tail = at
    q.length += 1
    q.enqueued += 1


cdef inline void put_back(run_t *r, cpu_t *me, i32 before, i32 at, i64 t) noexcept nogil:
    """What the driver did not take, from at on, is the qdisc's head again."""
    cdef qdisc_t *q
    cdef i32 tail = me.list.tail
    me.list.tail = before
    if before >= 0:
        r.sent[before].next = -1
    else:
        me.list.head = -1
    if r.txqs[me.txq].kind == QDISC_NOQUEUE:
        drop_sent(r, at, me.qdisc, t)
        return
    q = &r.qdiscs[me.qdisc]
    r.sent[tail].next = q.queue.head
    if q.queue.head < 0:
        q.queue.tail = tail
    q.queue.head = at
    while True:
        q.length += 1
        q.requeued += 1
        if at == tail:
            return
        at = r.sent[at].next


cdef inline void pay_xmit(run_t *r, cpu_t *me, txq_t *k) noexcept nogil:
    """The lock, and the lines of the tx queue."""
    cdef u32 proto = r.sent[me.list.head].proto
    pay(r, me, COST_LOCK, AT_DRIVER_TX)
    if me.tx_dequeued:
        me.tx_dequeued = 0
        pay(r, me, COST_QDISC_RUN, AT_QDISC)
        touch(r, me, &r.qdiscs[me.qdisc].touched, TOUCH_QDISC, proto, AT_QDISC)
    touch(r, me, &k.touched, TOUCH_TXQ, proto, AT_DRIVER_TX)
    touch(r, me, &k.ring_touched, TOUCH_TX_RING, proto, AT_DRIVER_TX)
    if k.bql_bytes:
        touch(r, me, &k.dql_touched, TOUCH_DQL, proto, AT_DRIVER_TX)


cdef inline u32 xmit_step(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """The driver takes what its ring has room for."""
    cdef txq_t *k = &r.txqs[me.txq]
    cdef i32 at = me.list.head
    cdef i32 row = r.sent[at].row
    cdef i32 before = -1
    cdef sent_t *skb
    cdef u32 count = 0
    pay_xmit(r, me, k)
    while at >= 0 and has_room(k):
        skb = &r.sent[at]
        pay(r, me, COST_DRIVER_TX, AT_DRIVER_TX)
        touch(r, me, &skb.touched, TOUCH_SKB_XMIT, skb.proto, AT_DRIVER_TX)
        k.room_taken += 1
        k.bytes += skb.bytes
        k.all_bytes += skb.bytes
        count += 1
        before = at
        at = skb.next
    if count:
        pay(r, me, COST_DOORBELL, AT_DRIVER_TX)
        k.doorbells += 1
        k.packets += count
    if at >= 0:
        put_back(r, me, before, at, t)
        stop_queue(k)
    me.run_sent += count
    begin(r, me, t, STEP_XMIT, row, GO_XMIT_END, False)
    return GO_NOWHERE


cdef inline u32 xmit_ask(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """The list goes to the driver."""
    cdef u32 go
    me.txq = r.sent[me.list.head].txq
    go = lock_ask(r, me, &r.txqs[me.txq].lock, t, GO_XMIT_HELD)
    return xmit_step(r, me, t) if go == GO_XMIT_HELD else go


cdef inline u32 qdisc_step(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """Bypass, or enqueue and perhaps run."""
    cdef qdisc_t *q = &r.qdiscs[me.qdisc]
    cdef i32 at = me.tx
    cdef i32 row = r.sent[at].row
    pay(r, me, COST_QDISC, AT_QDISC)
    if not q.lockless:
        pay(r, me, COST_LOCK, AT_QDISC)
    touch(r, me, &q.touched, TOUCH_QDISC, r.sent[at].proto, AT_QDISC)
    me.tx = -1
    list_clear(&me.list)
    if q.length == 0 and q.runner < 0 and not q.single:
        q.runner = <i32>me.number
        q.bypassed += 1
        r.sent[at].next = -1
        me.list.head = me.list.tail = at
    elif q.length >= r.limits[LIMIT_QDISC_LEN]:
        drop_sent(r, at, me.qdisc, t)
    else:
        append_to_qdisc(r, q, at)
        if q.runner < 0 and not head_stopped(r, q):
            q.runner = <i32>me.number
            pay(r, me, COST_QDISC_RUN, AT_QDISC)
            dequeue(r, me, q)
    begin(r, me, t, STEP_QDISC, row, GO_QDISC_END, False)
    return GO_NOWHERE


cdef inline u32 transmit(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """dev_queue_xmit of the packet at hand."""
    cdef txq_t *k = &r.txqs[r.sent[me.tx].txq]
    cdef u32 go = GO_QDISC
    me.qdisc = k.qdisc
    me.tx_dequeued = me.holds_busy = 0
    me.run_sent = 0
    if k.kind == QDISC_NOQUEUE:
        me.list.head = me.list.tail = me.tx
        r.sent[me.tx].next = -1
        me.tx = -1
        return xmit_ask(r, me, t)
    if k.kind != QDISC_LOCKLESS:
        if r.qdiscs[k.qdisc].runner >= 0:
            me.holds_busy = 1
            return lock_ask(r, me, &r.qdiscs[k.qdisc].busy, t, GO_BUSY_HELD)
        go = lock_ask(r, me, &r.qdiscs[k.qdisc].root, t, go)
    return qdisc_step(r, me, t) if go == GO_QDISC else go


cdef inline u32 busy_held(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """One CPU at a time stands behind who runs the qdisc."""
    return lock_ask(r, me, &r.qdiscs[me.qdisc].root, t, GO_QDISC)


cdef inline u32 qdisc_end(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """The root lock, then the busylock go."""
    cdef qdisc_t *q = &r.qdiscs[me.qdisc]
    if not q.lockless:
        lock_release(r, &q.root, t)
        if me.holds_busy:
            me.holds_busy = 0
            lock_release(r, &q.busy, t)
    return xmit_ask(r, me, t) if me.list.head >= 0 else me.tx_go


cdef inline u32 reqdisc_step(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """A locked qdisc's runner is back: more, or it runs no more."""
    cdef qdisc_t *q = &r.qdiscs[me.qdisc]
    cdef u32 proto = r.sent[q.queue.head].proto if q.length else 1
    pay(r, me, COST_LOCK, AT_QDISC)
    touch(r, me, &q.touched, TOUCH_QDISC, proto, AT_QDISC)
    if q.length and me.run_sent < RUN_QUOTA and not head_stopped(r, q):
        pay(r, me, COST_QDISC_RUN, AT_QDISC)
        dequeue(r, me, q)
    else:
        if q.length and me.run_sent >= RUN_QUOTA:
            schedule_qdisc(r, me, <u32>me.qdisc)
        q.runner = -1
    begin(r, me, t, STEP_REQDISC, me.qdisc, GO_REQDISC_END, False)
    return GO_NOWHERE


cdef inline u32 xmit_end(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """The packets are on their way; the lock goes, and the qdisc may have more."""
    cdef txq_t *k = &r.txqs[me.txq]
    cdef qdisc_t *q
    cdef u32 go
    if me.list.head >= 0:
        fill_ring(r, me, k, t)
        list_clear(&me.list)
    if not has_room(k):
        stop_queue(k)
    lock_release(r, &k.lock, t)
    if k.kind == QDISC_NOQUEUE:
        return me.tx_go
    q = &r.qdiscs[me.qdisc]
    if not q.lockless:
        go = lock_ask(r, me, &q.root, t, GO_REQDISC)
        return reqdisc_step(r, me, t) if go == GO_REQDISC else go
    if q.length:
        if me.run_sent >= RUN_QUOTA:
            schedule_qdisc(r, me, <u32>me.qdisc)
        elif not head_stopped(r, q):
            dequeue(r, me, q)
            me.tx_dequeued = 1
            return xmit_ask(r, me, t)
    q.runner = -1
    return me.tx_go


cdef inline u32 reqdisc_end(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    lock_release(r, &r.qdiscs[me.qdisc].root, t)
    return xmit_ask(r, me, t) if me.list.head >= 0 else me.tx_go


cdef inline u32 next_net_tx(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """The next qdisc that was scheduled here; behind the last one net_rx_action."""
    cdef i32 number = me.out_taken.head
    cdef qdisc_t *q
    if number < 0:
        return end_net_tx(r, me, t)
    q = &r.qdiscs[number]
    me.out_taken.head = q.next
    me.qdisc = number
    if q.lockless:
        return GO_NET_TX_HELD
    return lock_ask(r, me, &q.root, t, GO_NET_TX_HELD)


cdef inline u32 net_tx_step(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """net_tx_action runs a qdisc."""
    cdef qdisc_t *q = &r.qdiscs[me.qdisc]
    cdef u32 proto = r.sent[q.queue.head].proto if q.length else 1
    q.scheduled = 0
    if not q.lockless:
        pay(r, me, COST_LOCK, AT_QDISC)
    touch(r, me, &q.touched, TOUCH_QDISC, proto, AT_QDISC)
    list_clear(&me.list)
    me.run_sent = 0
    me.tx_dequeued = me.holds_busy = 0
    me.tx_go = GO_NET_TX
    if q.runner < 0 and q.length and not head_stopped(r, q):
        pay(r, me, COST_QDISC_RUN, AT_QDISC)
        q.runner = <i32>me.number
        dequeue(r, me, q)
    begin(r, me, t, STEP_NET_TX, me.qdisc, GO_NET_TX_END, False)
    return GO_NOWHERE


cdef inline u32 net_tx_end(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    if not r.qdiscs[me.qdisc].lockless:
        lock_release(r, &r.qdiscs[me.qdisc].root, t)
    return xmit_ask(r, me, t) if me.list.head >= 0 else GO_NET_TX
