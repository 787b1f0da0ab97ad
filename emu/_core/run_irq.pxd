"""Frames from the wire, interrupts and IPIs, what they do to a CPU (docs/run.md, Interrupts)."""
from emu._core.run_codes cimport (
    AT_ENTRY,
    AT_SCHED,
    CELLS,
    CONTEXTS,
    COST_HARDIRQ,
    COST_IDLE_EXIT,
    COST_IPI_HANDLER,
    CTX_IDLE,
    CTX_IRQ,
    KINDS,
    LATENCY_IPI,
    LATENCY_IRQ_DELAY,
    LATENCY_RTO,
    LOST_RX_RING_FULL,
    STEP_ARRIVE,
    STEP_IPI,
    STEP_IRQ,
    TOTAL_ARRIVED,
    TOTAL_DROPPED,
    TOTAL_REPEATED,
)
from emu._core.run_cost cimport duration, emu_high64, next_draw, note_step, set_ctx
from emu._core.run_counters cimport add_sample
from emu._core.run_go cimport GO_IRQ_END, MODE_BUSY, MODE_IDLE, MODE_WAIT
from emu._core.run_queue cimport NEVER_PS, arrival_pop, coming_push, race_set
from emu._core.run_records cimport run_nic_t
from emu._core.run_state cimport cpu_t, list_t, napi_t, packet_t, run_t
from emu._core.types cimport i32, i64, u32


cdef inline void napi_append(run_t *r, list_t *list, i32 n) noexcept nogil:
    """Put a NAPI at the end of a poll list; it is in none."""
    r.napis[n].next = -1
    if list.tail >= 0:
        r.napis[list.tail].next = n
    else:
        list.head = n
    list.tail = n


cdef inline void napi_join(run_t *r, list_t *list, list_t *more) noexcept nogil:
    """Put a poll list behind another and leave it empty."""
    if more.head < 0:
        return
    if list.tail >= 0:
        r.napis[list.tail].next = more.head
    else:
        list.head = more.head
    list.tail = more.tail
    more.head = more.tail = -1


cdef inline void raise_rx(cpu_t *me) noexcept nogil:
    me.rx_raised = me.fresh = 1


cdef inline void arm(run_t *r, u32 n, i64 event) noexcept nogil:
    """Something happened at a NAPI's queues: its interrupt will come, unless it is off."""
    cdef napi_t *napi = &r.napis[n]
    cdef i64 when
    if napi.masked or r.irq_race.times[n] != NEVER_PS:
        return
    when = event + napi.delay
    if napi.span:
        when += <i64>emu_high64(next_draw(napi.key, &napi.draws), napi.span)
    race_set(&r.irq_race, n, when)


cdef inline void send_ipi(run_t *r, cpu_t *me, u32 target, i64 t, bint backlog) noexcept nogil:
    """Ask for an IPI, to schedule a backlog or to free deferred skbs; one is on its way at most."""
    cdef cpu_t *other = &r.cpus[target]
    me.ipis_sent += 1
    if backlog:
        other.ipi_backlog = 1
    else:
        other.ipi_defer = 1
    if r.ipi_race.times[target] == NEVER_PS:
        race_set(&r.ipi_race, target, t + r.latencies[LATENCY_IPI])


cdef inline void interrupt(
    run_t *r, cpu_t *me, i64 t, u32 row, u32 source, i64 arg, u32 step
) noexcept nogil:
    """An interrupt of a cost row comes to a CPU."""
    cdef i64 *cells = r.cells + (me.number * <u32>CONTEXTS + CTX_IRQ) * <u32>CELLS
    cdef i64 cost = r.costs[row]
    cdef i64 length
    cdef i64 *next_ps = &r.cpu_race.times[me.number]
    cells[AT_ENTRY * KINDS] += cost
    if me.mode == MODE_IDLE:
        cells[AT_SCHED * KINDS] += r.costs[COST_IDLE_EXIT]
        cost += r.costs[COST_IDLE_EXIT]
    length = duration(r, cost)
    note_step(r, t, cost, arg, source, <i32>me.number, step, CTX_IRQ)
    if me.mode == MODE_IDLE or me.open:
        # What runs is set aside; nothing does on an idle CPU, and its wake-up is over.
        if me.open:
            me.aside = 1
            me.aside_ps = next_ps[0] - t
            me.aside_go = me.go
            me.open = 0
        set_ctx(r, me, t, CTX_IRQ)
        me.mode = MODE_BUSY
        me.go = GO_IRQ_END
        me.irq_until = t + length
        race_set(&r.cpu_race, me.number, me.irq_until)
        return
    me.irq_until = (t if t > me.irq_until else me.irq_until) + length
    me.irq_ps += length
    if me.mode != MODE_WAIT:
        race_set(&r.cpu_race, me.number, next_ps[0] + length)


cdef inline void irq_step(run_t *r, u32 n, i64 t) noexcept nogil:
    """The interrupt of a NAPI."""
    cdef napi_t *napi = &r.napis[n]
    cdef cpu_t *me = &r.cpus[napi.cpu]
    race_set(&r.irq_race, n, NEVER_PS)
    napi.masked = 1
    napi.interrupts += 1
    napi_append(r, &me.poll, <i32>n)
    if not me.inside:
        raise_rx(me)
    interrupt(r, me, t, COST_HARDIRQ, r.cpu_count + n, n, STEP_IRQ)


cdef inline void ipi_step(run_t *r, u32 c, i64 t) noexcept nogil:
    """An IPI arrives at a CPU."""
    cdef cpu_t *me = &r.cpus[c]
    race_set(&r.ipi_race, c, NEVER_PS)
    if me.ipi_backlog:
        napi_append(r, &me.poll, <i32>(r.napi_count + c))
        me.received_rps += 1
    if me.ipi_defer or not me.inside:
        raise_rx(me)
    me.ipi_backlog = me.ipi_defer = 0
    interrupt(
        r, me, t, COST_IPI_HANDLER, r.cpu_count + r.napi_count + c, c, STEP_IPI
    )


cdef inline void repeat_request(run_t *r, i64 row, i64 t) noexcept nogil:
    """A closed loop's packet is lost: its client sends it again."""
    if r.workload.closed:
        r.packets[row].repeats = 1
        coming_push(r, row, t + r.latencies[LATENCY_RTO])


cdef inline void begin_message(run_t *r, packet_t *packet, i64 t) noexcept nogil:
    """A packet arrives: its message's clock starts, unless it is a repeat."""
    r.totals[TOTAL_ARRIVED] += 1
    if packet.repeats:
        packet.repeats = 0
        r.totals[TOTAL_REPEATED] += 1
        return
    if r.workload.closed and packet.started >= 0:
        add_sample(r, t - packet.started)
    packet.started = t


cdef inline void arrive_step(run_t *r, i64 t) noexcept nogil:
    """A frame arrives at its NIC and enters the ring of the rx queue that RSS chose."""
    cdef i64 row = arrival_pop(r)
    cdef packet_t *packet = &r.packets[row]
    cdef napi_t *napi = &r.napis[packet.rxq]
    cdef const run_nic_t *nic = &r.nics[napi.nic]
    cdef i64 *free_ps = &r.rx_free[napi.nic]
    cdef i64 ready = t if t > free_ps[0] else free_ps[0]
    cdef u32 source = 2 * r.cpu_count + r.napi_count + <u32>(row if r.workload.closed else 0)
    note_step(r, t, 0, row, source, -1, STEP_ARRIVE, CTX_IDLE)
    begin_message(r, packet, t)
    ready += nic.ps_per_byte * packet.wire
    free_ps[0] = ready
    if napi.waiting >= napi.rx_ring:
        napi.lost += 1
        r.drops[LOST_RX_RING_FULL] += 1
        r.totals[TOTAL_DROPPED] += 1
        repeat_request(r, row, t)
        return
    packet.ready = ready
    packet.next = -1
    if napi.tail >= 0:
        r.packets[napi.tail].next = <i32>row
    else:
        napi.head = <i32>row
    napi.tail = <i32>row
    napi.waiting += 1
    arm(r, <u32>packet.rxq, ready)
    if napi.frames > 0 and not napi.masked and napi.waiting >= <u32>napi.frames:
        ready += r.latencies[LATENCY_IRQ_DELAY]
        if ready < r.irq_race.times[packet.rxq]:
            race_set(&r.irq_race, <u32>packet.rxq, ready)
