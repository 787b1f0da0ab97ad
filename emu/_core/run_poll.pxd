"""Polls: a driver's NAPI with GRO and its tx completions, the backlog (docs/run.md, Softirq)."""
from emu._core.gro cimport gro_receive
from emu._core.gro_held cimport gro_deliver, gro_flush
from emu._core.gro_state cimport GRO_HELD, GRO_MERGED, gro_t
from emu._core.run_codes cimport (
    AT_DRIVER_RX,
    AT_GRO,
    AT_NAPI,
    AT_RPS,
    COST_DRIVER_RX,
    COST_GRO_MERGE,
    COST_GRO_PASS,
    COST_NAPI_COMPLETE,
    COST_NAPI_POLL,
    STEP_COMPLETE,
    STEP_POLL,
    STEP_RX,
    TOTAL_SKBS,
    TOUCH_BACKLOG_SPLICE,
)
from emu._core.run_complete cimport reclaim
from emu._core.run_cost cimport begin, jiffy_of, pay, touch
from emu._core.run_go cimport (
    GO_BACKLOG_SKB,
    GO_COMPLETED,
    GO_FLUSHED,
    GO_FRAME,
    GO_NOWHERE,
    GO_RX_DONE,
)
from emu._core.run_irq cimport arm
from emu._core.run_queue cimport NEVER_PS
from emu._core.run_receive cimport next_up, proto_step
from emu._core.run_softirq cimport end_poll, free_deferred, pay_entry
from emu._core.run_state cimport cpu_t, napi_t, packet_t, run_t
from emu._core.types cimport i32, i64, u8, u32

cdef enum:
    WEIGHT = 64


cdef inline u32 poll_step(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """A driver's poll begins with what the link has sent."""
    cdef napi_t *napi = &r.napis[me.napi]
    cdef i32 k = napi.first_txq
    pay_entry(r, me)
    free_deferred(r, me)
    pay(r, me, COST_NAPI_POLL, AT_NAPI)
    while k >= 0:
        reclaim(r, me, <u32>k, t)
        k = r.txqs[k].of_napi
    napi.polls += 1
    me.work = 0
    begin(r, me, t, STEP_POLL, me.napi, GO_FRAME, False)
    return GO_NOWHERE


cdef inline void join_skb(run_t *r, i64 first, i64 row) noexcept nogil:
    """A packet has become part of the skb of another."""
    cdef packet_t *skb = &r.packets[first]
    r.packets[skb.last].follows = <i32>row
    skb.last = <i32>row
    skb.payload += r.s.p.payload_bytes[row]


cdef inline void receive_frame(run_t *r, cpu_t *me, i64 row, i64 t) noexcept nogil:
    """napi_gro_receive; what GRO keeps is this row's skb, or becomes part of another's."""
    cdef packet_t *packet = &r.packets[row]
    cdef u32 joined = <u32>row
    cdef u32 nic = packet.nic
    cdef i64 jiffy = jiffy_of(r, t)
    cdef gro_t *g = &r.s.napis[me.napi]
    cdef u8 answer
    packet.follows = -1
    packet.last = <i32>row
    packet.payload = r.s.p.payload_bytes[row]
    packet.home = packet.touched = <i32>me.number
    if r.s.nics[nic].hw_hash:
        answer = gro_receive(
            g, &r.s.nic_gro[nic], r.s.p, r.s.blob, r.s.skbs, row, <u32>row, r.s.rx_hash[row],
            r.s.rx_hash_type[row], 0, r.s.inner, r.s.inner_blob, r.s.inner_of[row],
            jiffy, &joined,
        )
    else:
        answer = gro_receive(
            g, &r.s.nic_gro[nic], r.s.p, r.s.blob, r.s.skbs, row, <u32>row, r.s.p.skb_hash[row],
            r.s.p.hash_type[row], 0, r.s.inner, r.s.inner_blob, r.s.inner_of[row],
            jiffy, &joined,
        )
    if joined != <u32>row:
        join_skb(r, joined, row)
    if answer == GRO_HELD:
        r.napis[me.napi].holds = 1
    if packet.nic_gro:
        pay(r, me, COST_GRO_MERGE if answer == GRO_MERGED else COST_GRO_PASS, AT_GRO)


cdef inline void take_delivered(run_t *r, cpu_t *me, gro_t *g) noexcept nogil:
    """What GRO has delivered goes up; what waits for its batch to be full stays on its list."""
    cdef u32 count = g.rx_len - g.rx_pending
    cdef u32 k
    cdef i32 row
    for k in range(count):
        row = <i32>g.rx_list[k]
        r.packets[row].next = -1
        if me.up.tail >= 0:
            r.packets[me.up.tail].next = row
        else:
            me.up.head = row
        me.up.tail = row
    for k in range(g.rx_pending):
        g.rx_list[k] = g.rx_list[count + k]
    g.rx_len = g.rx_pending
    r.totals[TOTAL_SKBS] += count


cdef inline u32 next_frame(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """The next frame that is ready; else the poll ends with GRO's flush."""
    cdef napi_t *napi = &r.napis[me.napi]
    cdef gro_t *g
    cdef i32 row = napi.head
    if row >= 0 and me.work < WEIGHT and r.packets[row].ready <= t:
        napi.head = r.packets[row].next
        if napi.head < 0:
            napi.tail = -1
        napi.waiting -= 1
        napi.polled += 1
        me.work += 1
        pay(r, me, COST_DRIVER_RX, AT_DRIVER_RX)
        receive_frame(r, me, row, t)
        begin(r, me, t, STEP_RX, row, GO_RX_DONE, False)
        return GO_NOWHERE
    me.up_go = GO_FLUSHED
    if me.napi >= <i32>r.rxq_count:
        return end_frames(r, me, t)
    g = &r.s.napis[me.napi]
    if me.work == WEIGHT:
        napi.full_polls += 1
        gro_flush(g, r.s.skbs, r.s.hz >= 1000, jiffy_of(r, t))
    elif napi.holds:
        gro_flush(g, r.s.skbs, False, 0)
        napi.holds = 0
    gro_deliver(g, r.s.skbs)
    if g.rx_len == 0:
        return end_frames(r, me, t)
    take_delivered(r, me, g)
    return next_up(r, me, t)


cdef inline u32 rx_done(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """Behind a frame: a batch that is full goes up before the next."""
    cdef gro_t *g = &r.s.napis[me.napi]
    if g.rx_len == g.rx_pending:
        return next_frame(r, me, t)
    take_delivered(r, me, g)
    me.up_go = GO_FRAME
    return next_up(r, me, t)


cdef inline u32 end_frames(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """All skbs of a poll are up: repoll, or the interrupt is unmasked."""
    cdef napi_t *napi = &r.napis[me.napi]
    cdef i64 event = NEVER_PS
    cdef i32 k = napi.first_txq
    if me.work == WEIGHT:
        me.again = 1
        return end_poll(r, me, t)
    napi.masked = 0
    if napi.head >= 0:
        event = r.packets[napi.head].ready
    while k >= 0:
        if r.txqs[k].sent.head >= 0 and r.sent[r.txqs[k].sent.head].done < event:
            event = r.sent[r.txqs[k].sent.head].done
        k = r.txqs[k].of_napi
    if event != NEVER_PS:
        arm(r, <u32>me.napi, event if event > t else t)
    me.again = 0
    pay(r, me, COST_NAPI_COMPLETE, AT_NAPI)
    begin(r, me, t, STEP_COMPLETE, me.napi, GO_COMPLETED, False)
    return GO_NOWHERE


cdef inline void splice(cpu_t *me) noexcept nogil:
    """process_backlog takes the input queue whole."""
    me.process = me.input
    me.input.head = me.input.tail = -1
    me.input_length = 0


cdef inline void touch_backlog(run_t *r, cpu_t *me) noexcept nogil:
    """The splice's touch, for the first skb of the queue; 1 stands for none."""
    cdef u32 proto = r.packets[me.process.head].proto if me.process.head >= 0 else 1
    touch(r, me, &me.backlog_touched, TOUCH_BACKLOG_SPLICE, proto, AT_RPS)


cdef inline u32 backlog_step(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """process_backlog begins."""
    pay_entry(r, me)
    free_deferred(r, me)
    pay(r, me, COST_NAPI_POLL, AT_NAPI)
    if me.process.head < 0:
        splice(me)
        touch_backlog(r, me)
    me.work = 0
    begin(r, me, t, STEP_POLL, me.napi, GO_BACKLOG_SKB, False)
    return GO_NOWHERE


cdef inline u32 next_of_backlog(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """The backlog's next skb; else the poll ends."""
    me.splice = 0
    me.again = me.work == WEIGHT
    if not me.again and me.process.head < 0:
        if me.input.head >= 0:
            splice(me)
            me.splice = 1
        else:
            me.backlog_scheduled = 0
    if me.again or me.process.head < 0:
        r.heads[me.number] += me.work
        return end_poll(r, me, t)
    me.work += 1
    me.skb = me.process.head
    me.process.head = r.packets[me.skb].next
    if me.process.head < 0:
        me.process.tail = -1
    me.behind = 1
    me.skb_go = GO_BACKLOG_SKB
    return proto_step(r, me, t)
