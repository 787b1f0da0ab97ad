"""XPS maps: the tx queues of each CPU or rx queue, in the order of writing (transmit.md 3)."""
from libc.stdlib cimport calloc, free, realloc
from libc.string cimport memset

from emu._core.types cimport i32, u8, u16, u32, u64

cdef enum:
    XPS_CPUS = 0
    XPS_RXQS = 1
    XPS_MIN_ALLOC = 20     # what is left of a cache line behind the list's header, on 64-bit
    XPS_TCS = 16           # TC_MAX_QUEUE
    XPS_EINVAL = -22
    XPS_NO_MEMORY = -1

cdef struct xps_list_t:
    # The tx queues of one (id, class). len 0: there is no list, and alloc is 0.
    u16 *queues
    u32 len
    u32 alloc        # 20 * 2**k
    i32 home_node    # NUMA node it was placed on; -1 anywhere

cdef struct xps_map_t:
    # One per device and type. Not present: lists is NULL.
    xps_list_t *lists  # nr_ids * num_tc, slot = id * num_tc + tc
    u32 *users         # per tx queue, how many lists hold it: with none there is nothing to search
    u32 nr_ids
    u32 num_tc
    u32 live           # lists that exist
    u8 present

cdef struct xps_dev_t:
    xps_map_t cpus
    xps_map_t rxqs
    i32 *queue_node    # per tx queue, NUMA node of its CPUs when they share one; -1 none
    u32 num_tx         # allocated
    u32 num_rx
    u32 ncpus
    u32 real_num_tx_queues
    i32 num_tc         # 0 no classes; negative: a subordinate device
    u16 tc_offset[16]
    u16 tc_count[16]
    u8 prio_tc_map[16]


cdef inline int xps_init(xps_dev_t *d, u32 num_tx, u32 num_rx, u32 ncpus) noexcept nogil:
    """A device without maps and classes, all tx queues in use; -1 when memory ran out."""
    cdef u32 k
    memset(d, 0, sizeof(xps_dev_t))
    d.num_tx = d.real_num_tx_queues = num_tx
    d.num_rx = num_rx
    d.ncpus = ncpus
    d.queue_node = <i32 *>calloc(num_tx, sizeof(i32))
    d.cpus.users = <u32 *>calloc(num_tx, sizeof(u32))
    d.rxqs.users = <u32 *>calloc(num_tx, sizeof(u32))
    if d.queue_node == NULL or d.cpus.users == NULL or d.rxqs.users == NULL:
        xps_free(d)
        return XPS_NO_MEMORY
    for k in range(num_tx):
        d.queue_node[k] = -1
    return 0


cdef inline void xps_free(xps_dev_t *d) noexcept nogil:
    """Give the memory back; the struct may be initialised again."""
    xps_drop_map(&d.cpus, d.num_tx)
    xps_drop_map(&d.rxqs, d.num_tx)
    free(d.cpus.users)
    free(d.rxqs.users)
    free(d.queue_node)
    memset(d, 0, sizeof(xps_dev_t))


cdef inline void xps_drop_map(xps_map_t *m, u32 num_tx) noexcept nogil:
    """No map of this type any more: lookups are skipped."""
    cdef u32 slot
    if m.present:
        for slot in range(m.nr_ids * m.num_tc):
            free(m.lists[slot].queues)
        free(m.lists)
        memset(m.users, 0, num_tx * sizeof(u32))
    m.lists = NULL
    m.live = 0
    m.present = 0


cdef inline i32 xps_place(const xps_list_t *l, u32 queue) noexcept nogil:
    """Where the queue stands in the list; -1 when it does not."""
    cdef u32 k
    for k in range(l.len):
        if l.queues[k] == queue:
            return <i32>k
    return -1


cdef inline bint xps_wanted(const u64 *mask, const u8 *online, u32 nr_ids, u32 id) noexcept nogil:
    """Whether the write counts for this id: not for an offline CPU (XPS-18); rx queues: NULL."""
    if not (mask[id >> 6] >> (id & 63)) & 1:
        return False
    return online == NULL or nr_ids <= 1 or online[id] != 0


cdef inline int xps_reserve(xps_list_t *l, i32 home_node) noexcept nogil:
    """Room for one more: 20 at first, then twice as many, on this node (XPS-16, XPS-21)."""
    cdef u32 alloc = l.alloc * 2 if l.alloc else <u32>XPS_MIN_ALLOC
    cdef u16 *grown
    if l.len < l.alloc:
        return 0
    grown = <u16 *>realloc(l.queues, alloc * sizeof(u16))
    if grown == NULL:
        return XPS_NO_MEMORY
    l.queues = grown
    l.alloc = alloc
    l.home_node = home_node
    return 0


cdef inline void xps_remove(xps_map_t *m, u32 slot, u32 queue) noexcept nogil:
    """Take the queue out of one list: the last one takes its place, an empty list goes (XPS-14)."""
    cdef xps_list_t *l = &m.lists[slot]
    cdef i32 place = xps_place(l, queue)
    if place < 0:
        return
    l.len -= 1
    l.queues[place] = l.queues[l.len]
    m.users[queue] -= 1
    if l.len == 0:
        free(l.queues)
        l.queues = NULL
        l.alloc = 0
        m.live -= 1


cdef inline i32 xps_class_of_queue(const xps_dev_t *d, u32 queue) noexcept nogil:
    """First class whose range holds the queue; -1 none; 0 without classes (XPS-23)."""
    cdef u32 tc
    if d.num_tc == 0:
        return 0
    for tc in range(<u32>XPS_TCS):
        if queue - d.tc_offset[tc] < d.tc_count[tc]:
            return <i32>tc
    return -1


cdef inline void xps_drop_empty(xps_map_t *m) noexcept nogil:
    """Give back the room of lists that nothing has joined yet."""
    cdef u32 slot
    for slot in range(m.nr_ids * m.num_tc):
        if m.lists[slot].len == 0:
            free(m.lists[slot].queues)
            m.lists[slot].queues = NULL
            m.lists[slot].alloc = 0


cdef inline int xps_grow_lists(
    xps_map_t *m, u32 tc, u32 queue, const u64 *mask, const u8 *online, const i32 *node_of
) noexcept nogil:
    """Room for the queue in every list it is about to join; on -1 only room has changed."""
    cdef u32 id
    cdef u32 slot
    cdef bint known = m.users[queue] != 0
    for id in range(m.nr_ids):
        slot = id * m.num_tc + tc
        if not xps_wanted(mask, online, m.nr_ids, id):
            continue
        if known and xps_place(&m.lists[slot], queue) >= 0:
            continue
        if xps_reserve(&m.lists[slot], node_of[id] if node_of != NULL else -1) < 0:
            xps_drop_empty(m)
            return XPS_NO_MEMORY
    return 0


cdef inline int xps_join(
    xps_map_t *m, u32 tc, u32 queue, const u64 *mask, const u8 *online, const i32 *node_of
) noexcept nogil:
    """The queue goes to the end of the named ids' lists and out of all others (XPS-11, XPS-13)."""
    cdef u32 id
    cdef u32 other
    cdef bint known = m.users[queue] != 0
    cdef xps_list_t *l
    if xps_grow_lists(m, tc, queue, mask, online, node_of) < 0:
        return XPS_NO_MEMORY
    for id in range(m.nr_ids):
        if not xps_wanted(mask, online, m.nr_ids, id):
            continue
        l = &m.lists[id * m.num_tc + tc]
        if known and xps_place(l, queue) >= 0:
            continue
        m.live += l.len == 0
        l.queues[l.len] = <u16>queue
        l.len += 1
        m.users[queue] += 1
    if known:
        for id in range(m.nr_ids):
            for other in range(m.num_tc):
                if other != tc or not xps_wanted(mask, online, m.nr_ids, id):
                    xps_remove(m, id * m.num_tc + other, queue)
    return 0


cdef inline int xps_write(
    xps_map_t *m, u32 num_tx, u32 nr_ids, u32 num_tc, u32 tc, u32 queue,
    const u64 *mask, const u8 *online, const i32 *node_of
) noexcept nogil:
    """A write that names an id. A map of another shape is not carried over (XPS-25)."""
    cdef xps_map_t fresh
    if m.present and m.nr_ids == nr_ids and m.num_tc == num_tc:
        return xps_join(m, tc, queue, mask, online, node_of)
    fresh.nr_ids = nr_ids
    fresh.num_tc = num_tc
    fresh.live = 0
    fresh.present = 1
    fresh.lists = <xps_list_t *>calloc(<size_t>nr_ids * num_tc, sizeof(xps_list_t))
    fresh.users = <u32 *>calloc(num_tx, sizeof(u32))
    if (
        fresh.lists == NULL or fresh.users == NULL
        or xps_join(&fresh, tc, queue, mask, online, node_of) < 0
    ):
        free(fresh.lists)
        free(fresh.users)
        return XPS_NO_MEMORY
    xps_drop_map(m, num_tx)
    free(m.users)
    m[0] = fresh
    return 0


cdef inline void xps_forget_queue(xps_map_t *m, u32 num_tx, u32 queue) noexcept nogil:
    """Take the queue out of every list of every class; a map without lists goes (XPS-17)."""
    cdef u32 slot
    if not m.present or m.users[queue] == 0:
        return
    for slot in range(m.nr_ids * m.num_tc):
        xps_remove(m, slot, queue)
    if m.live == 0:
        xps_drop_map(m, num_tx)


cdef inline i32 xps_node_of_mask(
    const u64 *mask, const u8 *online, const i32 *node_of, u32 nr_ids
) noexcept nogil:
    """The node that all CPUs of the write share; -1 when there is none (XPS-20)."""
    cdef i32 node = -2
    cdef u32 id
    for id in range(nr_ids):
        if xps_wanted(mask, online, nr_ids, id):
            if node == -2:
                node = node_of[id]
            elif node != node_of[id]:
                return -1
    return node if node >= 0 else -1


cdef inline int xps_set(
    xps_dev_t *d, u8 type, u32 queue, const u64 *mask, const u8 *online, const i32 *node_of
) noexcept nogil:
    """tx-<queue>/xps_cpus or xps_rxqs is written (__netif_set_xps_queue).

    Answers 0, -1 no memory, -22 EINVAL. mask: bits of CPUs or rx queues, those beyond the device's
    are not read. online, node_of: per CPU.
    """
    cdef xps_map_t *m = &d.rxqs if type == XPS_RXQS else &d.cpus
    cdef u32 nr_ids = d.num_rx if type == XPS_RXQS else d.ncpus
    cdef u32 num_tc = <u32>d.num_tc if d.num_tc > 0 else 1
    cdef i32 tc
    cdef u32 id
    cdef bint named = False
    if queue >= d.num_tx or d.num_tc < 0:
        return XPS_EINVAL
    tc = xps_class_of_queue(d, queue)
    if tc < 0:
        return XPS_EINVAL
    if type == XPS_RXQS:
        online = NULL
        node_of = NULL
    for id in range(nr_ids):
        if xps_wanted(mask, online, nr_ids, id):
            named = True
            break
    if named:
        if xps_write(m, d.num_tx, nr_ids, num_tc, <u32>tc, queue, mask, online, node_of) < 0:
            return XPS_NO_MEMORY
    else:
        xps_forget_queue(m, d.num_tx, queue)
    if type == XPS_CPUS:
        d.queue_node[queue] = xps_node_of_mask(mask, online, node_of, nr_ids)
    return 0


cdef inline void xps_reset_queues(xps_dev_t *d, u32 first, u32 count) noexcept nogil:
    """Take a range of queues out of both maps, lowest first (netif_reset_xps_queues)."""
    cdef u32 queue
    for queue in range(first, first + count if first + count < d.num_tx else d.num_tx):
        xps_forget_queue(&d.rxqs, d.num_tx, queue)
        xps_forget_queue(&d.cpus, d.num_tx, queue)
        d.queue_node[queue] = -1


cdef inline int xps_set_num_tc(xps_dev_t *d, i32 num_tc) noexcept nogil:
    """Another number of classes, without ranges yet: both maps go (XPS-24); 0 or -22."""
    if num_tc > XPS_TCS or (num_tc < 0 and d.num_tx > 1):
        return XPS_EINVAL
    xps_reset_queues(d, 0, d.num_tx)
    d.num_tc = num_tc
    memset(d.tc_offset, 0, sizeof(d.tc_offset))
    memset(d.tc_count, 0, sizeof(d.tc_count))
    memset(d.prio_tc_map, 0, sizeof(d.prio_tc_map))
    return 0


cdef inline int xps_set_tc_queue(xps_dev_t *d, u32 tc, u32 count, u32 offset) noexcept nogil:
    """A class gets its range of queues: they leave the maps (XPS-24); 0 or -22."""
    if d.num_tc <= 0 or tc >= <u32>d.num_tc or offset + count > d.num_tx:
        return XPS_EINVAL
    xps_reset_queues(d, offset, count)
    d.tc_offset[tc] = <u16>offset
    d.tc_count[tc] = <u16>count
    return 0


cdef inline int xps_set_real_num_tx(xps_dev_t *d, u32 count) noexcept nogil:
    """Use only the first queues: the others leave the maps for good (XPS-26); 0 or -22.

    Without class 0 there are no classes; priorities of others that do not fit go to class 0.
    """
    cdef u32 prio
    cdef u32 tc
    if count < 1 or count > d.num_tx:
        return XPS_EINVAL
    if d.num_tc > 0:
        if d.tc_offset[0] + <u32>d.tc_count[0] > count:
            d.num_tc = 0
        else:
            for prio in range(1, <u32>XPS_TCS):
                tc = d.prio_tc_map[prio]
                if d.tc_offset[tc] + <u32>d.tc_count[tc] > count:
                    d.prio_tc_map[prio] = 0
    if count < d.real_num_tx_queues:
        d.real_num_tx_queues = count
        xps_reset_queues(d, count, d.num_tx - count)
    d.real_num_tx_queues = count
    return 0
