"""Tx queues, qdiscs' lists for NET_TX, and the records of what is sent."""
from emu._core.run_state cimport cpu_t, qdisc_t, run_t, sent_t, txq_t
from emu._core.types cimport i32, u32


cdef inline i32 new_sent(run_t *r) noexcept nogil:
    """A record for an skb that is sent.

    There is always one: those that have not left answer, or are, rows that are in the host once;
    those that have are descriptors, and every ring's have a record of their own.
    """
    cdef i32 at = r.sent_spare
    r.sent_spare = r.sent[at].next
    return at


cdef inline void free_sent(run_t *r, i32 at) noexcept nogil:
    """The skb is gone: reclaimed, or dropped."""
    cdef sent_t *skb = &r.sent[at]
    if skb.sock >= 0:
        r.socks[skb.sock].sent -= 1
    skb.next = r.sent_spare
    r.sent_spare = at


cdef inline bint has_room(const txq_t *q) noexcept nogil:
    """Whether the ring takes another packet: a descriptor is free, and BQL allows it."""
    return q.room_taken < q.ring and (q.bql_bytes == 0 or q.bytes < q.bql_bytes)


cdef inline void stop_queue(txq_t *q) noexcept nogil:
    if not q.stopped:
        q.stopped = 1
        q.stops += 1


cdef inline void schedule_qdisc(run_t *r, cpu_t *me, u32 number) noexcept nogil:
    """__netif_schedule: NET_TX will run it here, unless some CPU's will anyway."""
    cdef qdisc_t *q = &r.qdiscs[number]
    if q.scheduled:
        return
    q.scheduled = 1
    q.next = -1
    if me.out.tail >= 0:
        r.qdiscs[me.out.tail].next = <i32>number
    else:
        me.out.head = <i32>number
    me.out.tail = <i32>number
    me.fresh = 1


cdef inline bint head_stopped(const run_t *r, const qdisc_t *q) noexcept nogil:
    """Whether the tx queue of the first packet of a qdisc, which has one, is stopped."""
    return r.txqs[r.sent[q.queue.head].txq].stopped
