"""Descriptors of tx rings: filled by a transmit, reclaimed by a poll."""
from emu._core.run_codes cimport (
    AT_COMPLETION,
    COST_TX_COMPLETE,
    LATENCY_TURNAROUND,
    LATENCY_TURNAROUND_MEAN,
    LATENCY_WIRE,
    QDISC_NOQUEUE,
    TOTAL_TX_DONE,
    TOUCH_DQL_COMPLETE,
    TOUCH_SKB_COMPLETE,
    TOUCH_TX_RING_COMPLETE,
    TOUCH_WMEM_COMPLETE,
)
from emu._core.run_cost cimport exponential, next_draw, pay, touch
from emu._core.run_counters cimport add_sample
from emu._core.run_irq cimport arm
from emu._core.run_queue cimport coming_push
from emu._core.run_send cimport LINK_GAP
from emu._core.run_state cimport cpu_t, packet_t, run_t, sent_t, txq_t
from emu._core.run_txq cimport free_sent, has_room, schedule_qdisc
from emu._core.types cimport i32, i64, u32


cdef inline void end_message(run_t *r, i64 row, i64 done) noexcept nogil:
    """What was sent for a row has left: its client's next request, or the message's latency."""
    cdef packet_t *packet = &r.packets[row]
    cdef i64 think
    if not r.workload.closed:
        add_sample(r, done - packet.started)
        return
    while row >= 0:
        packet = &r.packets[row]
        think = exponential(
            next_draw(r.flow_keys[row], &packet.draws), r.latencies[LATENCY_TURNAROUND_MEAN],
            r.exp_table,
        )
        think += 2 * r.latencies[LATENCY_WIRE] + r.latencies[LATENCY_TURNAROUND]
        coming_push(r, row, done + think)
        row = packet.follows


cdef inline void fill_ring(run_t *r, cpu_t *me, txq_t *k, i64 t) noexcept nogil:
    """The descriptors are the NIC's: the link sends them one by one."""
    cdef i64 *free_ps = &r.tx_free[k.nic]
    cdef i64 ps_per_byte = r.nics[k.nic].ps_per_byte
    cdef i64 done
    cdef i32 at = me.list.head
    if k.sent.tail >= 0:
        r.sent[k.sent.tail].next = at
    else:
        k.sent.head = at
    k.sent.tail = me.list.tail
    while at >= 0:
        done = t if t > free_ps[0] else free_ps[0]
        done += ps_per_byte * (<i64>r.sent[at].bytes + LINK_GAP)
        free_ps[0] = done
        r.sent[at].done = done
        arm(r, <u32>k.napi, done)
        end_message(r, r.sent[at].row, done)
        at = r.sent[at].next


cdef inline void reclaim(run_t *r, cpu_t *me, u32 k, i64 t) noexcept nogil:
    """Take back the descriptors of a tx queue that the link has sent; start a stopped queue."""
    cdef txq_t *q = &r.txqs[k]
    cdef sent_t *skb
    cdef i32 at = q.sent.head
    cdef u32 first_proto
    if at >= 0 and r.sent[at].done <= t:
        first_proto = r.sent[at].proto
        while at >= 0 and r.sent[at].done <= t:
            skb = &r.sent[at]
            q.sent.head = skb.next
            q.room_taken -= 1
            q.bytes -= skb.bytes
            pay(r, me, COST_TX_COMPLETE, AT_COMPLETION)
            touch(r, me, &skb.touched, TOUCH_SKB_COMPLETE, skb.proto, AT_COMPLETION)
            if skb.sock >= 0:
                touch(
                    r, me, &r.socks[skb.sock].wmem_touched, TOUCH_WMEM_COMPLETE, skb.proto,
                    AT_COMPLETION,
                )
            r.totals[TOTAL_TX_DONE] += 1
            free_sent(r, at)
            at = q.sent.head
        if at < 0:
            q.sent.tail = -1
        touch(r, me, &q.ring_touched, TOUCH_TX_RING_COMPLETE, first_proto, AT_COMPLETION)
        if q.bql_bytes:
            touch(r, me, &q.dql_touched, TOUCH_DQL_COMPLETE, first_proto, AT_COMPLETION)
    if q.stopped and has_room(q):
        q.stopped = 0
        if q.kind != QDISC_NOQUEUE and r.qdiscs[q.qdisc].length:
            schedule_qdisc(r, me, <u32>q.qdisc)
