"""The tx queue of a packet: the socket's own, or by XPS, by rx queue, by hash (transmit.md 6)."""
from emu._core.types cimport i32, reciprocal_scale, u8, u32
from emu._core.xps_map cimport (
    xps_dev_t,
    xps_free,
    xps_init,
    xps_list_t,
    xps_map_t,
    xps_set,
    xps_set_real_num_tx,
)


cdef inline i32 xps_map_queue(
    const xps_dev_t *d, const xps_map_t *m, i32 id, u32 tc, u32 hash, u8 *used_hash
) noexcept nogil:
    """What one map says for an id: a queue in use, or -1."""
    cdef const xps_list_t *l
    cdef u32 queue
    if not m.present or id < 0 or tc >= m.num_tc or <u32>id >= m.nr_ids:
        return -1
    l = &m.lists[<u32>id * m.num_tc + tc]
    if l.len == 0:
        return -1
    if l.len == 1:
        queue = l.queues[0]
    else:
        used_hash[0] = 1
        queue = l.queues[reciprocal_scale(hash, l.len)]
    return <i32>queue if queue < d.real_num_tx_queues else -1


cdef inline i32 xps_queue(
    const xps_dev_t *d, i32 rx_id, i32 cpu, u32 prio, u32 hash, u8 *used_hash
) noexcept nogil:
    """get_xps_queue: the maps' answer, -1 none.

    used_hash becomes 1 when another hash could have changed it, and is never cleared.
    rx_id: rx queue that the socket recorded, -1 none. cpu: where the packet was first transmitted.
    """
    cdef u32 tc = d.prio_tc_map[prio & 15]
    cdef i32 queue = xps_map_queue(d, &d.rxqs, rx_id, tc, hash, used_hash)
    if queue >= 0:
        return queue
    return xps_map_queue(d, &d.cpus, cpu, tc, hash, used_hash)


cdef inline i32 tx_hash(
    const xps_dev_t *d, u32 prio, i32 recorded_rx, u32 hash, u8 *used_hash
) noexcept nogil:
    """skb_tx_hash: over the class's queues, by the packet's rx queue (forwarding) or by hash."""
    cdef u32 offset = 0
    cdef u32 count = d.real_num_tx_queues
    cdef u32 tc
    cdef u32 place
    if d.num_tc > 0:
        tc = d.prio_tc_map[prio & 15]
        if d.tc_count[tc]:
            offset = d.tc_offset[tc]
            count = d.tc_count[tc]
    if recorded_rx >= 0:
        place = <u32>recorded_rx
        if place >= offset:
            place -= offset
        return <i32>(offset + place % count)
    if count > 1:
        used_hash[0] = 1
    return <i32>(offset + reciprocal_scale(hash, count))


cdef inline i32 pick_tx(
    const xps_dev_t *d, i32 *cached, u8 ooo_okay, u8 can_store, i32 sk_rx, i32 recorded_rx,
    i32 cpu, u32 prio, u32 hash, u8 *used_hash
) noexcept nogil:
    """netdev_pick_tx: the packet's tx queue.

    cached: the socket's queue, -1 none; replaced when another is chosen and can_store, that is for
    a full socket with a route. ooo_okay: nothing of the flow is under way, so it may move.
    sk_rx: the socket's rx queue; recorded_rx: the packet's; -1 none.
    """
    cdef i32 queue
    if d.real_num_tx_queues == 1:
        return 0
    if cached[0] >= 0 and not ooo_okay and <u32>cached[0] < d.real_num_tx_queues:
        return cached[0]
    queue = xps_queue(d, sk_rx, cpu, prio, hash, used_hash)
    if queue < 0:
        queue = tx_hash(d, prio, recorded_rx, hash, used_hash)
    if can_store and queue != cached[0]:
        cached[0] = queue
    return queue if <u32>queue < d.real_num_tx_queues else 0
