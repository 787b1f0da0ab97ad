"""What a step costs and how long it takes; draws (docs/run.md, Cost)."""
from emu._core.mix cimport finish64
from emu._core.run_codes cimport (
    CELLS,
    CONTEXTS,
    CTX_IRQ,
    KINDS,
    KIND_BASE,
    KIND_BYTES,
    KIND_LINES,
    LATENCY_JIFFY,
)
from emu._core.run_records cimport trace_t
from emu._core.run_state cimport cpu_t, run_t
from emu._core.types cimport i32, i64, u8, u32, u64

cdef extern from *:
    """
    #include <stdint.h>

    /* High half of a product of 64 bits. */
    static inline uint64_t emu_high64(uint64_t a, uint64_t b) {
        return (uint64_t)(((unsigned __int128)a * b) >> 64);
    }

    /* ceil(u * num / den), the long way. */
    static inline uint64_t emu_scale_up(uint64_t u, uint64_t num, uint64_t den) {
        return (uint64_t)(((unsigned __int128)u * num + (den - 1)) / den);
    }

    #if defined(__GNUC__)
    #define emu_leading_zeros(u) ((uint64_t)__builtin_clzll(u))
    #else
    /* Of a number that is not 0. */
    static inline uint64_t emu_leading_zeros(uint64_t u) {
        uint64_t zeros = 0;
        while (!(u >> 63)) {
            u <<= 1;
            zeros++;
        }
        return zeros;
    }
    #endif

    /* u * factor >> shift. */
    static inline uint64_t emu_scale_about(uint64_t u, uint64_t factor, unsigned shift) {
        return (uint64_t)(((unsigned __int128)u * factor) >> shift);
    }
    """
    u64 emu_high64(u64 a, u64 b) noexcept nogil
    u64 emu_scale_up(u64 u, u64 num, u64 den) noexcept nogil
    u64 emu_leading_zeros(u64 u) noexcept nogil
    u64 emu_scale_about(u64 u, u64 factor, u32 shift) noexcept nogil

cdef enum:
    DURATION_BITS = 40     # below: the quotient comes from a product
    EXP_POINTS = 1024      # emu.model.exponential
    EXP_SHIFT = 12         # TABLE_BITS - UNIT_BITS
    UNIT_BITS = 20


cdef inline i64 duration(const run_t *r, i64 cost) noexcept nogil:
    """Picoseconds of a cost, rounded up: exact for all costs.

    ps_factor / 2**ps_shift is below ps_num / ps_den by less than 2**-40: the product is the
    quotient or one less. The rest, below twice the divisor, settles it.
    """
    cdef u64 u = <u64>cost
    cdef u64 quotient
    cdef u64 rest
    if r.ps_shift == 0 or u >> DURATION_BITS:
        return <i64>emu_scale_up(u, r.ps_num, r.ps_den)
    quotient = emu_scale_about(u, r.ps_factor, r.ps_shift)
    rest = u * r.ps_num - quotient * r.ps_den
    quotient += (rest > 0) + <u64>(rest > r.ps_den)
    return <i64>quotient


cdef inline u64 stream_key(u64 seed, u64 stream) noexcept nogil:
    """Where a stream begins (emu.model.draw)."""
    return finish64(finish64(seed) + stream * <u64>0xD1342543DE82EF95)


cdef inline u64 next_draw(u64 key, u64 *draws) noexcept nogil:
    """64 bits: the stream's next ones."""
    draws[0] += 1
    return finish64(key + draws[0] * <u64>0x9E3779B97F4A7C15)


cdef inline i64 exponential(u64 value, i64 mean, const i64 *table) noexcept nogil:
    """emu.model.exponential, the same number."""
    cdef u64 drawn = value if value else 1
    cdef u64 zeros = emu_leading_zeros(drawn)
    cdef u64 rest = (drawn << zeros) & <u64>0x7FFFFFFFFFFFFFFF
    cdef u64 point
    cdef u64 part
    cdef i64 log
    cdef u64 unit
    point = rest >> 53
    part = (rest >> 21) & <u64>0xFFFFFFFF
    log = table[point] + <i64>((<u64>(table[point + 1] - table[point]) * part) >> 32)
    unit = <u64>(<i64>(zeros + 1) * table[EXP_POINTS] - log) >> EXP_SHIFT
    # In two halves, for the product may have 68 bits.
    return <i64>(
        (<u64>mean >> UNIT_BITS) * unit + (((<u64>mean & 0xFFFFF) * unit) >> UNIT_BITS)
    )


cdef inline i64 jiffy_of(run_t *r, i64 t) noexcept nogil:
    """jiffy(t). Time never goes back: the next division comes with the next jiffy."""
    if t >= r.jiffy_end:
        r.jiffy = t // r.latencies[LATENCY_JIFFY]
        r.jiffy_end = (r.jiffy + 1) * r.latencies[LATENCY_JIFFY]
    return r.jiffy


cdef inline void charge(cpu_t *me, u32 stage, u32 kind, i64 cost) noexcept nogil:
    """Book a cost of the step that begins."""
    me.cells[stage * KINDS + kind] += cost
    me.charged += cost


cdef inline void pay(run_t *r, cpu_t *me, u32 row, u32 stage) noexcept nogil:
    """A row of the costs, base."""
    charge(me, stage, KIND_BASE, r.costs[row])


cdef inline void pay_bytes(run_t *r, cpu_t *me, u32 row, u32 stage, i64 count) noexcept nogil:
    charge(me, stage, KIND_BYTES, r.costs[row] * count)


cdef inline void pay_lines(
    run_t *r, cpu_t *me, i32 writer, u32 row, u32 proto, u32 stage
) noexcept nogil:
    """Lines of a row come from the CPU that wrote them, another one."""
    cdef i64 count = r.lines[2 * row + proto]
    cdef u8 far = r.distance[<u32>writer * r.cpu_count + me.number]
    charge(me, stage, KIND_LINES, count * r.transfer[far])
    r.transfers[4 * me.number + far] += count


cdef inline void touch(
    run_t *r, cpu_t *me, i32 *touched, u32 row, u32 proto, u32 stage
) noexcept nogil:
    """Use an object that another CPU may have touched last."""
    cdef i32 before = touched[0]
    if before != <i32>me.number:
        if before >= 0:
            pay_lines(r, me, before, row, proto, stage)
        touched[0] = <i32>me.number


cdef inline void book_time(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """Time per context up to now."""
    cdef i64 *busy = r.busy + me.number * <u32>CONTEXTS
    busy[me.ctx] += t - me.since - me.irq_ps
    busy[CTX_IRQ] += me.irq_ps
    me.since = t
    me.irq_ps = 0


cdef inline void set_ctx(run_t *r, cpu_t *me, i64 t, u32 ctx) noexcept nogil:
    """Another context runs from now on."""
    if me.ctx != ctx:
        book_time(r, me, t)
        me.ctx = <u8>ctx
        me.cells = r.cells + (me.number * <u32>CONTEXTS + ctx) * <u32>CELLS


cdef inline void note_step(
    run_t *r, i64 t, i64 cost, i64 arg, u32 source, i32 cpu, u32 step, u32 ctx
) noexcept nogil:
    """Count a step, and trace it while there is room."""
    cdef trace_t *row
    r.steps[step] += 1
    r.taken += 1
    if r.trace_count < r.trace_room:
        row = &r.trace[r.trace_count]
        r.trace_count += 1
        row.time_ps = t
        row.cost = cost
        row.arg = arg
        row.source = <i32>source
        row.cpu = cpu
        row.step = <u8>step
        row.ctx = <u8>ctx


cdef inline void begin(
    run_t *r, cpu_t *me, i64 t, u32 step, i64 arg, u32 go, bint open
) noexcept nogil:
    """The step that was charged begins; go follows it."""
    cdef i64 cost = me.charged
    me.charged = 0
    me.go = go
    me.open = open
    r.cpu_race.times[me.number] = t + duration(r, cost)
    note_step(r, t, cost, arg, me.number, <i32>me.number, step, me.ctx)
