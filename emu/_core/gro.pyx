"""The door of GRO: one NAPI, or one cpumap kthread, over a packet table."""
import numpy as np

from emu import dtypes
from emu.model.inputs import gro_polls

from emu._core.cpumap cimport DESIGN_NAPI, DESIGN_PLAIN, FLUSH_NONE, FLUSH_OLD, cpumap_step_flush
from emu._core.gro cimport gro_end_poll, gro_init, gro_receive
from emu._core.gro_held cimport gro_deliver, gro_flush
from emu._core.gro_state cimport GRO_MERGED, NO_DESIGN, gro_cfg_t, gro_t, skb_t
from emu._core.types cimport i64, packets_t, u8, u32, u64

from libc.stdlib cimport free, malloc


cdef enum:
    WEIGHT = 64
    STEP = 8


cdef struct arrivals_t:
    # What comes in, packet by packet.
    const packets_t *p
    const u8 *blob
    const u32 *hash
    const u8 *hash_type
    const u8 *sock
    const packets_t *inner
    const u8 *inner_blob
    const i64 *inner_of
    u32 *skb_of
    u8 *result
    i64 next
    u32 rows             # skbs that there are


cdef void enter(
    arrivals_t *a, gro_t *g, const gro_cfg_t *cfg, skb_t *skbs, i64 count, i64 jiffy
) noexcept nogil:
    """The next packets come in."""
    cdef i64 end = a.next + count
    cdef i64 i
    for i in range(a.next, end):
        a.result[i] = gro_receive(
            g, cfg, a.p, a.blob, skbs, i, a.rows, a.hash[i], a.hash_type[i], a.sock[i], a.inner,
            a.inner_blob, a.inner_of[i], jiffy, &a.skb_of[i]
        )
        a.rows += a.result[i] != GRO_MERGED
    a.next = end


cdef void wake_kthread(
    arrivals_t *a, gro_t *g, const gro_cfg_t *cfg, skb_t *skbs, i64 count, i64 jiffy, u32 hz
) noexcept nogil:
    """A kthread finds count frames in its ring: steps of 8 until it is empty."""
    cdef i64 step
    cdef u32 since_flush = 0
    cdef int flush
    while count > 0:
        step = count if count < STEP else STEP
        enter(a, g, cfg, skbs, step, jiffy)
        count -= step
        since_flush += <u32>step
        flush = cpumap_step_flush(cfg.design, since_flush, count == 0, hz)
        if flush != FLUSH_NONE:
            gro_flush(g, skbs, flush == FLUSH_OLD, jiffy)
            if cfg.design == DESIGN_NAPI and count == 0 and since_flush >= WEIGHT:
                # The full poll is followed by one that finds nothing and completes.
                gro_deliver(g, skbs)
                gro_flush(g, skbs, False, jiffy)
            since_flush = 0
        if flush != FLUSH_NONE or cfg.design == DESIGN_PLAIN:
            gro_deliver(g, skbs)


cdef void gro_loop(
    arrivals_t *a, gro_t *g, const gro_cfg_t *cfg, skb_t *skbs, const i64 *poll_counts,
    const i64 *jiffies, Py_ssize_t polls, u32 hz
) noexcept nogil:
    """All polls one behind the other; what is held at the end goes out."""
    cdef Py_ssize_t k
    for k in range(polls):
        if cfg.design != NO_DESIGN:
            wake_kthread(a, g, cfg, skbs, poll_counts[k], jiffies[k], hz)
            continue
        enter(a, g, cfg, skbs, poll_counts[k], jiffies[k])
        gro_end_poll(
            g, cfg, skbs, WEIGHT if poll_counts[k] > WEIGHT else <u32>poll_counts[k], False, hz,
            jiffies[k]
        )
    gro_flush(g, skbs, False, 0)
    gro_deliver(g, skbs)


cdef void delivery_order(
    const u32 *rx_list, u32 rows, const skb_t *skbs, skb_t *ordered, const u32 *row_of,
    u32 *place_of_row, i64 *skb_of, i64 n
) noexcept nogil:
    """Put the skbs in the order they were given up, and let skb_of mean that order."""
    cdef u32 k
    cdef i64 i
    for k in range(rows):
        ordered[k] = skbs[rx_list[k]]
        place_of_row[rx_list[k]] = k
    for i in range(n):
        skb_of[i] = place_of_row[row_of[i]]


cdef const u8 *first_octet(object kept, object blob) except NULL:
    """Address of a blob's first octet; an empty one gets a zero to point at."""
    octets = np.asarray(blob)
    if octets.size == 0:
        octets = np.zeros(1, dtype=np.uint8)
    kept.append(octets)
    cdef const u8[::1] view = octets
    return &view[0]


cdef const packets_t *table(object kept, object packets) except NULL:
    """A table as the core sees it."""
    kept.append(packets)
    cdef const u64[::1] addresses = packets.addresses
    return <const packets_t *> &addresses[0]


def gro_packets(
    packets, poll_counts, jiffies, cfg, hash, hash_type, hz=250, sock=None, inner=None,
    inner_of=None,
):
    """Take every packet through the GRO of one NAPI, poll by poll.

    Args:
        packets: the table.
        poll_counts: int64[k], packets that each poll takes, in the table's order. Of a cpumap's
            kthread: frames in its ring when it wakes.
        jiffies: int64[k], the jiffies counter in each poll.
        cfg: one ``dtypes.GRO_CFG`` record.
        hash: uint32[n], raw hash on each skb.
        hash_type: uint8[n], `HashType`.
        hz: 1000 and more leave young packets held after a full poll of 64 (N-7).
        sock: uint8[n], what a socket lookup here answers: 0 none, or nobody asks; of UDP 1 a
            socket, 2 one with UDP_GRO; of TCP 1 an established one. None: all 0.
        inner: packets that ride in IP in IP (`emu.intake.inner_packets`); None: such go by.
        inner_of: int32[n], the row of it that each packet carries, -1 none.

    Returns:
        ``(skbs, skb_of, result)``: ``SKB[m]`` in delivery order, int64[n] row in it of each packet,
        and uint8[n] `GroResult`.

    Raises:
        ConfigError: an array of another length, or polls that do not take each packet once.
    """
    cdef Py_ssize_t n = len(packets)
    columns = {"hash": hash, "hash_type": hash_type}
    gro_polls(n, poll_counts, jiffies, columns, sock, inner, inner_of)
    if n == 0:
        nothing = np.zeros(0, dtype=np.int64)
        return np.zeros(0, dtype=dtypes.SKB), nothing, nothing.astype(np.uint8)
    # Behind the polls one more to point at: there may be none.
    counts = np.append(np.asarray(poll_counts, dtype=np.int64), 0)
    times = np.append(np.asarray(jiffies, dtype=np.int64), 0)
    none = np.zeros(n, dtype=np.uint8)
    return coalesce(
        packets,
        np.array([cfg], dtype=dtypes.GRO_CFG),
        counts,
        times,
        np.ascontiguousarray(hash, dtype=np.uint32),
        np.ascontiguousarray(hash_type, dtype=np.uint8),
        none if sock is None else np.ascontiguousarray(sock, dtype=np.uint8),
        packets.take(slice(0)) if inner is None else inner,
        np.full(n, -1) if inner_of is None else np.ascontiguousarray(inner_of, dtype=np.int64),
        hz,
    )


cdef coalesce(
    packets, cfg, const i64[::1] counts, const i64[::1] times, const u32[::1] hashes,
    const u8[::1] types, const u8[::1] socks, inner, const i64[::1] riding, u32 hz,
):
    """`gro_packets` on checked arrays of at least one packet; the last poll is none."""
    cdef Py_ssize_t n = len(packets)
    cdef arrivals_t a
    kept = []
    result_array = np.zeros(n, dtype=np.uint8)
    skb_of_array = np.zeros(n, dtype=np.int64)
    skb_rows = np.zeros(n, dtype=dtypes.SKB)
    cdef u64 skbs_at = skb_rows.__array_interface__["data"][0]
    cdef u64 ordered_at
    cdef u32[:, ::1] scratch = np.empty((3, n), dtype=np.uint32)
    cdef u8[::1] result = result_array
    cdef i64[::1] skb_of = skb_of_array
    cdef const u8[::1] cfg_bytes = cfg.view(np.uint8)
    a.p, a.blob = table(kept, packets), first_octet(kept, packets.blob)
    a.inner, a.inner_blob = table(kept, inner), first_octet(kept, inner.blob)
    a.inner_of = &riding[0]
    a.hash, a.hash_type, a.sock = &hashes[0], &types[0], &socks[0]
    a.skb_of, a.result = &scratch[1, 0], &result[0]
    a.next, a.rows = 0, 0
    cdef gro_t *g = <gro_t *> malloc(sizeof(gro_t))
    if g == NULL:
        raise MemoryError
    with nogil:
        gro_init(g, &scratch[0, 0])
        gro_loop(
            &a, g, <const gro_cfg_t *> &cfg_bytes[0], <skb_t *> skbs_at, &counts[0], &times[0],
            counts.shape[0] - 1, hz
        )
        free(g)
    ordered = np.empty(a.rows, dtype=dtypes.SKB)
    ordered_at = ordered.__array_interface__["data"][0]
    with nogil:
        delivery_order(
            &scratch[0, 0], a.rows, <const skb_t *> skbs_at, <skb_t *> ordered_at, &scratch[1, 0],
            &scratch[2, 0], &skb_of[0], n
        )
    return ordered, skb_of_array, result_array
