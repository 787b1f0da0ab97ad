"""One NAPI poll: frames to the cpumap or to GRO, then the skbs go up, then kthreads and workers (docs/steer.md)."""
from emu._core.cpumap cimport cpumap_consume, cpumap_enqueue, cpumap_flush, cpumap_step_flush, cpumap_target
from emu._core.deliver cimport deliver_skb, new_decision
from emu._core.gro cimport gro_cfg_t, gro_deliver, gro_flush, gro_receive, gro_t
from emu._core.lookup cimport lookup_prefetch
from emu._core.sockmap cimport psock_run
from emu._core.state cimport (
    COUNT_CPUMAP,
    COUNT_GRO,
    DROP_CPUMAP_RING_FULL,
    GRO_BYPASS,
    HASH_NONE,
    NO_CPUMAP,
    nic_t,
    steer_t,
)
from emu._core.types cimport i32, i64, u8, u32


cdef enum:
    WEIGHT = 64
    DESIGN_PLAIN = 0


cdef inline void deliver_list(steer_t *s, gro_t *g, i32 cpu, i32 nic, i32 rxq) noexcept nogil:
    """Everything GRO has given to the stack goes up, in order."""
    cdef u32 k
    for k in range(g.rx_len):
        lookup_prefetch(&s.lookup, s.p, s.skbs[g.rx_list[k]].first)
    for k in range(g.rx_len):
        deliver_skb(s, g.rx_list[k], cpu, nic, rxq)
    g.rx_len = 0


cdef inline void receive_one(
    steer_t *s, gro_t *g, const gro_cfg_t *cfg, i64 i, u32 hash, u8 hash_type, i64 jiffy
) noexcept nogil:
    """napi_gro_receive for packet i."""
    cdef u32 row = s.skb_rows
    cdef u32 joined = row
    s.gro_result[i] = gro_receive(g, cfg, s.p, s.blob, s.skbs, i, row, hash, hash_type, jiffy, &joined)
    s.skb_of[i] = <i32>joined
    if joined == row:
        s.skb_rows += 1
    s.counts[COUNT_GRO] += 1


cdef inline void receive_from_queue(steer_t *s, gro_t *g, u32 nic, i64 i, i64 jiffy) noexcept nogil:
    """A frame of the driver's own poll: with the device's hash when it reports one (receive.md 2.1)."""
    if s.nics[nic].hw_hash:
        receive_one(s, g, &s.nic_gro[nic], i, s.rx_hash[i], s.rx_hash_type[i], jiffy)
    else:
        receive_one(s, g, &s.nic_gro[nic], i, s.p.skb_hash[i], s.p.hash_type[i], jiffy)


cdef inline void close_poll(steer_t *s, gro_t *g, u32 count, bint complete, i64 jiffy) noexcept nogil:
    """What napi_poll does after the driver's work (N-7, N-8): flush and hand over."""
    if count >= WEIGHT:
        gro_flush(g, s.skbs, s.hz >= 1000, jiffy)
        gro_deliver(g, s.skbs)
    if count < WEIGHT or complete:
        gro_flush(g, s.skbs, False, jiffy)
        gro_deliver(g, s.skbs)


cdef inline void run_workers(steer_t *s) noexcept nogil:
    """The psocks scheduled during the poll run to the end (SOCKMAP-14)."""
    cdef u32 k
    for k in range(s.scheduled_count):
        psock_run(&s.psocks[s.scheduled[k]])
    s.scheduled_count = 0
