"""What a run counts and samples, and what is inside a host, counted by a walk through it."""
from libc.stdlib cimport realloc

from emu._core.gro_state cimport BUCKETS, gro_t
from emu._core.run_codes cimport TOTAL_DROPPED, TOTAL_SAMPLES
from emu._core.run_state cimport cpu_t, run_t
from emu._core.types cimport i32, i64, u32


cdef inline void add_sample(run_t *r, i64 latency) noexcept nogil:
    """Keep a latency. When memory runs out the run fails after this step."""
    cdef i64 room
    cdef i64 *larger
    if r.sample_count == r.sample_room:
        room = 2 * r.sample_room if r.sample_room else 4096
        larger = <i64 *>realloc(r.samples, <size_t>room * sizeof(i64))
        if larger == NULL:
            r.failed = 1
            return
        r.samples = larger
        r.sample_room = room
    r.samples[r.sample_count] = latency
    r.sample_count += 1
    r.totals[TOTAL_SAMPLES] += 1


cdef inline void count_drop(run_t *r, u32 reason, i64 packets) noexcept nogil:
    """Received packets end without a reader."""
    r.drops[reason] += packets
    r.totals[TOTAL_DROPPED] += packets


cdef inline i64 segments_of_list(const run_t *r, i32 row) noexcept nogil:
    """Packets in the skbs of a list."""
    cdef i64 total = 0
    while row >= 0:
        total += r.s.skbs[row].segs
        row = r.packets[row].next
    return total


cdef inline i64 packets_of_gro(const run_t *r, const gro_t *g) noexcept nogil:
    """Packets that GRO holds, and those that wait for their batch to be full."""
    cdef i64 total = 0
    cdef u32 b
    cdef u32 k
    for b in range(<u32>BUCKETS):
        for k in range(g.buckets[b].count):
            total += g.buckets[b].held[g.buckets[b].slot[k]].count
    for k in range(g.rx_len):
        total += r.s.skbs[g.rx_list[k]].segs
    return total


cdef inline i64 packets_inside(const run_t *r) noexcept nogil:
    """Received packets in rings, GRO, backlogs, on their way up and in sockets' queues."""
    cdef i64 total = 0
    cdef const cpu_t *cpu
    cdef i32 row
    cdef u32 k
    for k in range(r.rxq_count):
        row = r.napis[k].head
        while row >= 0:
            total += 1
            row = r.packets[row].next
        total += packets_of_gro(r, &r.s.napis[k])
    for k in range(r.cpu_count):
        cpu = &r.cpus[k]
        total += segments_of_list(r, cpu.up.head)
        total += segments_of_list(r, cpu.input.head) + segments_of_list(r, cpu.process.head)
        if cpu.hand >= 0:
            total += r.s.skbs[cpu.hand].segs
    for k in range(r.s.socket_count):
        total += segments_of_list(r, r.socks[k].queue.head)
    return total


cdef inline i64 length_of_list(const run_t *r, i32 at) noexcept nogil:
    cdef i64 total = 0
    while at >= 0:
        total += 1
        at = r.sent[at].next
    return total


cdef inline i64 sent_inside(const run_t *r) noexcept nogil:
    """Skbs that are sent: on their way to a qdisc or a ring, in qdiscs, in rings."""
    cdef i64 total = 0
    cdef const cpu_t *cpu
    cdef u32 k
    for k in range(r.cpu_count):
        cpu = &r.cpus[k]
        total += (cpu.tx >= 0) + (cpu.user_tx >= 0) + length_of_list(r, cpu.list.head)
    for k in range(r.qdisc_count):
        total += length_of_list(r, r.qdiscs[k].queue.head)
    for k in range(r.txq_count):
        total += length_of_list(r, r.txqs[k].sent.head)
    return total
