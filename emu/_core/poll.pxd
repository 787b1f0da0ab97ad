"""One NAPI poll: cpumap or GRO, then skbs go up, then kthreads and workers run (docs/steer.md)."""
from emu._core.cpumap cimport (
    DESIGN_NAPI,
    DESIGN_PLAIN,
    FLUSH_NONE,
    FLUSH_OLD,
    NAPI_BUDGET,
    cpumap_consume,
    cpumap_empty,
    cpumap_enqueue,
    cpumap_flush,
    cpumap_step_flush,
    cpumap_target,
)
from emu._core.deliver cimport deliver_skb, free_row, placed_by_rss_key, take_row
from emu._core.gro cimport gro_receive
from emu._core.gro_held cimport gro_deliver, gro_end_poll, gro_flush
from emu._core.gro_sock cimport gro_sock
from emu._core.gro_state cimport gro_cfg_t, gro_t
from emu._core.lookup cimport emu_prefetch, lookup_prefetch, lookup_prefetch_sock
from emu._core.sockmap cimport psock_run
from emu._core.state cimport (
    COUNT_CPUMAP,
    COUNT_GRO,
    DROP_CPUMAP_RING_FULL,
    NO_CPUMAP,
    SECRET_RSS_KEY,
    nic_t,
    steer_t,
)
from emu._core.types cimport i32, i64, packets_t, u8, u32

cdef enum:
    PREFETCH = 32


cdef inline void prefetch_sockets(steer_t *s, const u32 *rows, u32 n) noexcept nogil:
    """Ask for the slots where the lookups of n skbs begin, then for the sockets that they name."""
    cdef const packets_t *p = s.p
    cdef u32 hashes[PREFETCH]
    cdef i64 first
    cdef i32 sock
    cdef u32 k
    for k in range(n):
        hashes[k] = lookup_prefetch(&s.lookup, p, s.skbs[rows[k]].first)
    for k in range(n):
        first = s.skbs[rows[k]].first
        sock = lookup_prefetch_sock(&s.lookup, p.ip_proto[first], hashes[k])
        if sock >= 0:
            emu_prefetch(&s.rows[sock])
            emu_prefetch(<const u8 *>&s.rows[sock] + 64)
            emu_prefetch(&s.socks[sock])


cdef inline void deliver_list(steer_t *s, gro_t *g, i32 cpu, i32 nic, i32 rxq) noexcept nogil:
    """Everything GRO has given to the stack goes up, in order.

    A lookup among many connections waits for memory twice; asking for a batch early hides that.
    """
    cdef u32 begin = 0
    cdef u32 n
    cdef u32 k
    while begin < g.rx_len:
        n = g.rx_len - begin
        if n > PREFETCH:
            n = PREFETCH
        if s.lookup.established.count or s.lookup.connected.count:
            prefetch_sockets(s, g.rx_list + begin, n)
        for k in range(begin, begin + n):
            deliver_skb(s, g.rx_list[k], cpu, nic, rxq)
        begin += n
    g.rx_len = 0


cdef inline void receive_one(
    steer_t *s, gro_t *g, const gro_cfg_t *cfg, i64 i, u32 hash, u8 hash_type, i64 jiffy, u32 nic,
    u32 cpu
) noexcept nogil:
    """napi_gro_receive for packet i, which a CPU polls from a NIC."""
    cdef u32 row = free_row(s)
    cdef u32 joined = row
    cdef u8 sock = 0
    if cfg.fraglist or s.udp_gro_open:
        sock = gro_sock(s, cfg, i, nic, cpu)
    s.gro_result[i] = gro_receive(
        g, cfg, s.p, s.blob, s.skbs, i, row, hash, hash_type, sock, s.inner, s.inner_blob,
        s.inner_of[i], jiffy, &joined
    )
    if joined == row:
        take_row(s, row)
        s.skb_of[i] = -1
    else:
        s.skb_of[i] = s.last_packet[joined]
    s.last_packet[joined] = <i32>i
    s.counts[COUNT_GRO] += 1


cdef inline void receive_from_queue(
    steer_t *s, gro_t *g, u32 nic, i64 i, i64 jiffy, u32 cpu
) noexcept nogil:
    """A frame of the driver's own poll: with the device's hash when it reports one (R-2.1)."""
    if s.nics[nic].hw_hash:
        receive_one(s, g, &s.nic_gro[nic], i, s.rx_hash[i], s.rx_hash_type[i], jiffy, nic, cpu)
    else:
        receive_one(
            s, g, &s.nic_gro[nic], i, s.p.skb_hash[i], s.p.hash_type[i], jiffy, nic, cpu
        )


cdef inline void run_workers(steer_t *s) noexcept nogil:
    """The psocks scheduled during the poll run to the end (SOCKMAP-14)."""
    cdef u32 k
    for k in range(s.scheduled_count):
        psock_run(&s.psocks[s.scheduled[k]])
    s.scheduled_count = 0


cdef inline void run_kthread(steer_t *s, i32 nic, u32 entry, i64 jiffy) noexcept nogil:
    """A cpumap entry drains its ring, at most 8 frames a step (CPUMAP-11, 15, 20, 21)."""
    cdef gro_t *g = &s.kthreads[entry]
    cdef u8 design = s.nics[nic].cpumap_design
    cdef u32 frames[8]
    cdef u32 n
    cdef u32 k
    cdef u32 since_flush = 0
    cdef bint empty = False
    cdef int flush
    while not empty:
        n = cpumap_consume(&s.cpumap, entry, frames)
        for k in range(n):
            receive_one(
                s, g, &s.kthread_gro[nic], frames[k], 0, 0, jiffy, <u32>nic,
                s.cpumap.entries[entry].cpu,
            )
        since_flush += n
        empty = cpumap_empty(&s.cpumap, entry)
        flush = cpumap_step_flush(design, since_flush, empty, s.hz)
        if flush != FLUSH_NONE:
            gro_flush(g, s.skbs, flush == FLUSH_OLD, jiffy)
            if design == DESIGN_NAPI and empty and since_flush >= NAPI_BUDGET:
                # The full poll is followed by one that finds nothing and completes.
                gro_deliver(g, s.skbs)
                gro_flush(g, s.skbs, False, jiffy)
            since_flush = 0
        if flush != FLUSH_NONE or design == DESIGN_PLAIN:
            gro_deliver(g, s.skbs)
    deliver_list(s, g, <i32>s.cpumap.entries[entry].cpu, nic, -1)


cdef inline void run_cpumap(steer_t *s, i32 nic, u32 producer, i64 jiffy) noexcept nogil:
    """End of the driver's poll: bulks into rings, then every woken kthread runs (CPUMAP-6)."""
    cdef u32 woken = cpumap_flush(&s.cpumap, producer)
    cdef u32 k
    for k in range(s.cpumap.lost_count):
        s.packet_drop[s.cpumap.lost[k]] = DROP_CPUMAP_RING_FULL
        if placed_by_rss_key(s, s.cpumap.lost[k]):
            s.packet_secrets[s.cpumap.lost[k]] = SECRET_RSS_KEY
    s.cpumap.lost_count = 0
    for k in range(woken):
        run_kthread(s, nic, s.cpumap.woken[k], jiffy)


cdef inline i32 redirect_entry(steer_t *s, const nic_t *nic, u32 queue, i64 i) noexcept nogil:
    """The cpumap entry that the NIC's XDP program sends packet i to; -1: it passes."""
    cdef i32 entry
    if nic.cpumap_design == NO_CPUMAP:
        return -1
    s.counts[COUNT_CPUMAP] += 1
    entry = cpumap_target(nic.cpumap_rule, nic.cpumap_count, nic.cpumap_fixed, queue, s.p, i)
    return entry if entry < 0 else <i32>nic.cpumap_first + entry


cdef inline void run_poll(
    steer_t *s, u32 rxq, const i64 *packets, u32 count, bint complete, i64 jiffy
) noexcept nogil:
    """One poll of rx queue rxq of the plan: takes count packets."""
    cdef gro_t *g = &s.napis[rxq]
    cdef i32 cpu = s.rxq_irq_cpu[rxq]
    cdef u32 number = s.queue_nic[rxq]
    cdef const nic_t *nic = &s.nics[number]
    cdef u32 queue = rxq - nic.rxq_first
    cdef i32 entry
    cdef u32 k
    for k in range(count):
        entry = redirect_entry(s, nic, queue, packets[k])
        if entry >= 0:
            cpumap_enqueue(&s.cpumap, <u32>cpu, <u32>entry, <u32>packets[k])
        else:
            receive_from_queue(s, g, number, packets[k], jiffy, <u32>cpu)
    gro_end_poll(g, &s.nic_gro[number], s.skbs, count, complete, s.hz, jiffy)
    deliver_list(s, g, cpu, <i32>number, <i32>queue)
    if nic.cpumap_design != NO_CPUMAP:
        run_cpumap(s, <i32>number, <u32>cpu, jiffy)
    run_workers(s)
