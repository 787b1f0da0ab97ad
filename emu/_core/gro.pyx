"""The door of GRO: one NAPI over a packet table."""
import numpy as np

from emu import dtypes
from emu.model.inputs import gro_polls

from emu._core.gro cimport gro_cfg_t, gro_deliver, gro_flush, gro_init, gro_receive, gro_t, skb_t
from emu._core.types cimport i64, packets_t, u8, u32, u64

from libc.stdlib cimport free, malloc


cdef enum:
    WEIGHT = 64
    GRO_MERGED = 0


cdef u32 gro_loop(
    gro_t *g, const gro_cfg_t *cfg, const packets_t *p, const u8 *blob, skb_t *skbs,
    const i64 *poll_counts, const i64 *jiffies, Py_ssize_t polls, const u32 *hash,
    const u8 *hash_type, bint old_only, u32 *skb_of, u8 *result
) noexcept nogil:
    """All polls one behind the other; answers how many skbs there are."""
    cdef i64 i = 0
    cdef i64 end
    cdef Py_ssize_t k
    cdef u32 rows = 0
    for k in range(polls):
        end = i + poll_counts[k]
        while i < end:
            result[i] = gro_receive(
                g, cfg, p, blob, skbs, i, rows, hash[i], hash_type[i], jiffies[k], &skb_of[i]
            )
            rows += result[i] != GRO_MERGED
            i += 1
        gro_flush(g, skbs, old_only and poll_counts[k] >= WEIGHT, jiffies[k])
        gro_deliver(g, skbs)
    gro_flush(g, skbs, False, 0)
    gro_deliver(g, skbs)
    return rows


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


def gro_packets(packets, poll_counts, jiffies, cfg, hash, hash_type, hz=250):
    """Take every packet through the GRO of one NAPI, poll by poll.

    Args:
        packets: the table.
        poll_counts: int64[k], packets that each poll takes, in the table's order.
        jiffies: int64[k], the jiffies counter in each poll.
        cfg: one ``dtypes.GRO_CFG`` record.
        hash: uint32[n], raw hash on each skb.
        hash_type: uint8[n], `HashType`.
        hz: 1000 and more leave young packets held after a full poll of 64 (N-7).

    Returns:
        ``(skbs, skb_of, result)``: ``SKB[m]`` in delivery order, int64[n] row in it of each packet,
        and uint8[n] `GroResult`.

    Raises:
        ConfigError: an array of another length, or polls that do not take each packet once.
    """
    cdef Py_ssize_t n = len(packets)
    gro_polls(n, poll_counts, jiffies, {"hash": hash, "hash_type": hash_type})
    result_array = np.zeros(n, dtype=np.uint8)
    skb_of_array = np.zeros(n, dtype=np.int64)
    if n == 0:
        return np.zeros(0, dtype=dtypes.SKB), skb_of_array, result_array
    cdef const u64[::1] addresses = packets.addresses
    cdef const packets_t *p = <const packets_t *> &addresses[0]
    cdef u8 nothing = 0
    cdef const u8[::1] blob = packets.blob
    cdef const u8 *octets = &blob[0] if blob.shape[0] else &nothing
    cdef const u8[::1] cfg_bytes = np.array([cfg], dtype=dtypes.GRO_CFG).view(np.uint8)
    cdef const gro_cfg_t *settings = <const gro_cfg_t *> &cfg_bytes[0]
    cdef const i64[::1] counts = np.ascontiguousarray(poll_counts, dtype=np.int64)
    cdef const i64[::1] times = np.ascontiguousarray(jiffies, dtype=np.int64)
    cdef const u32[::1] hashes = np.ascontiguousarray(hash, dtype=np.uint32)
    cdef const u8[::1] types = np.ascontiguousarray(hash_type, dtype=np.uint8)
    cdef u32[:, ::1] scratch = np.empty((3, n), dtype=np.uint32)
    skb_rows = np.zeros(n, dtype=dtypes.SKB)
    cdef u64 skbs_at = skb_rows.__array_interface__["data"][0]
    cdef u8[::1] result = result_array
    cdef i64[::1] skb_of = skb_of_array
    cdef bint old_only = hz >= 1000
    cdef u32 rows
    cdef u64 ordered_at
    cdef gro_t *g = <gro_t *> malloc(sizeof(gro_t))
    if g == NULL:
        raise MemoryError
    with nogil:
        gro_init(g, &scratch[0, 0])
        rows = gro_loop(
            g, settings, p, octets, <skb_t *> skbs_at, &counts[0], &times[0], counts.shape[0],
            &hashes[0], &types[0], old_only, &scratch[1, 0], &result[0]
        )
        free(g)
    ordered = np.empty(rows, dtype=dtypes.SKB)
    ordered_at = ordered.__array_interface__["data"][0]
    with nogil:
        delivery_order(
            &scratch[0, 0], rows, <const skb_t *> skbs_at, <skb_t *> ordered_at, &scratch[1, 0],
            &scratch[2, 0], &skb_of[0], n
        )
    return ordered, skb_of_array, result_array
