"""XPS: a device whose maps are written, and the tx queues of many packets."""
import numpy as np

from emu.errors import ConfigError

from emu._core.types cimport i32, u8, u32, u64
from emu._core.xps cimport (
    pick_tx,
    xps_dev_t,
    xps_free,
    xps_init,
    xps_list_t,
    xps_map_t,
    xps_queue,
    xps_set,
)
from emu._core.xps_map cimport (
    XPS_EINVAL,
    XPS_NO_MEMORY,
    XPS_RXQS,
    xps_class_of_queue,
    xps_place,
    xps_set_num_tc,
    xps_set_real_num_tx,
    xps_set_tc_queue,
)

MAX_QUEUES = 65535


cdef class XpsDevice:
    """One device's XPS maps, traffic classes and queues, like `emu.ref.xps.XpsDevice`."""

    cdef xps_dev_t device
    cdef object online_array
    cdef object node_array
    cdef const u8[::1] online_view
    cdef const i32[::1] node_view

    def __init__(self, num_tx, num_rx, ncpus, online=None, node_of=None):
        check_range("xps: num_tx", num_tx, 1, MAX_QUEUES)
        check_range("xps: num_rx", num_rx, 1, MAX_QUEUES)
        check_range("xps: ncpus", ncpus, 1, MAX_QUEUES)
        online = np.ones(ncpus) if online is None else np.array(online)
        self.online_array = (online != 0).astype(np.uint8)
        node_of = np.zeros(ncpus) if node_of is None else np.array(node_of)
        self.node_array = node_of.astype(np.int32)
        for name, array in (("online", self.online_array), ("node_of", self.node_array)):
            if array.shape != (ncpus,):
                allowed = f"{ncpus} entries, one per CPU"
                raise ConfigError(f"xps: {name}", f"shape {array.shape}", allowed)
        self.online_view, self.node_view = self.online_array, self.node_array
        xps_free(&self.device)
        if xps_init(&self.device, num_tx, num_rx, ncpus) < 0:
            raise MemoryError

    def __dealloc__(self):
        xps_free(&self.device)

    @property
    def real_num_tx_queues(self):
        """Tx queues in use."""
        return self.device.real_num_tx_queues

    @property
    def num_tc(self):
        """Traffic classes; 0 none."""
        return self.device.num_tc

    @property
    def live_maps(self):
        """Maps that exist: this device's share of the kernel's "XPS needed" counter (XPS-17)."""
        return self.device.cpus.present + self.device.rxqs.present

    def set(self, kind, queue, mask):
        """Write a queue's mask (uint64 words), kind 0 xps_cpus, 1 xps_rxqs: 0 or -22 (EINVAL)."""
        check_range("xps: kind", kind, 0, 1)
        check_range("xps: queue", queue, 0, self.device.num_tx - 1)
        cdef const u64[::1] words = np.ascontiguousarray(mask, dtype=np.uint64)
        ids = self.device.num_rx if kind == XPS_RXQS else self.device.ncpus
        if words.shape[0] < (ids + 63) // 64:
            allowed = f"{(ids + 63) // 64} words for {ids} ids"
            raise ConfigError("xps: mask", f"{words.shape[0]} words", allowed)
        error = xps_set(
            &self.device, kind, queue, &words[0], &self.online_view[0], &self.node_view[0]
        )
        if error == XPS_NO_MEMORY:
            raise MemoryError
        return error

    def mask(self, kind, queue):
        """What a read of the file gives: uint64 words, the ids that may use the queue (XPS-19)."""
        check_range("xps: kind", kind, 0, 1)
        check_range("xps: queue", queue, 0, self.device.num_tx - 1)
        cdef xps_map_t *m = &self.device.rxqs if kind == XPS_RXQS else &self.device.cpus
        ids = self.device.num_rx if kind == XPS_RXQS else self.device.ncpus
        out = np.zeros((ids + 63) // 64, dtype=np.uint64)
        cdef u64[::1] words = out
        cdef i32 tc = xps_class_of_queue(&self.device, queue)
        if tc < 0 or self.device.num_tc < 0:
            raise ConfigError("xps: queue", queue, "a queue of some traffic class (EINVAL)")
        cdef u32 id
        if m.present and <u32>tc < m.num_tc:
            for id in range(min(m.nr_ids, ids)):
                if xps_place(&m.lists[id * m.num_tc + tc], queue) >= 0:
                    words[id >> 6] |= <u64>1 << (id & 63)
        return out

    def lists(self, kind):
        """Queues of each (id, class) that has a list, in their order: dict."""
        return {place: queues for place, (queues, _, _, _) in self.slots(kind).items()}

    def slots(self, kind):
        """The same with more: (id, class) -> (queues, capacity, home node, slot index)."""
        check_range("xps: kind", kind, 0, 1)
        cdef xps_map_t *m = &self.device.rxqs if kind == XPS_RXQS else &self.device.cpus
        cdef xps_list_t *l
        cdef u32 slot
        cdef u32 k
        out = {}
        if m.present:
            for slot in range(m.nr_ids * m.num_tc):
                l = &m.lists[slot]
                if l.len:
                    queues = [l.queues[k] for k in range(l.len)]
                    out[slot // m.num_tc, slot % m.num_tc] = (queues, l.alloc, l.home_node, slot)
        return out

    def queue_node(self, queue):
        """NUMA node of a tx queue, -1 none (XPS-20)."""
        check_range("xps: queue", queue, 0, self.device.num_tx - 1)
        return self.device.queue_node[queue]

    def set_online(self, cpu, online):
        """A CPU comes or goes: only later writes see it."""
        check_range("xps: cpu", cpu, 0, self.device.ncpus - 1)
        self.online_array[cpu] = bool(online)

    def set_num_rx(self, num_rx):
        """Another number of allocated rx queues: what xps_rxqs is as wide as (XPS-25)."""
        check_range("xps: num_rx", num_rx, 1, MAX_QUEUES)
        self.device.num_rx = num_rx

    def set_real_num_tx(self, count):
        """``ethtool -L``: use the first *count* queues; 0 or -22."""
        return xps_set_real_num_tx(&self.device, max(0, min(count, MAX_QUEUES + 1)))

    def set_num_tc(self, num_tc):
        """Another number of traffic classes; negative: a subordinate device; 0 or -22."""
        return xps_set_num_tc(&self.device, num_tc)

    def set_tc_queue(self, tc, count, offset):
        """A class gets *count* queues from *offset* on; 0 or -22."""
        check_range("xps: tc", tc, 0, 15)
        check_range("xps: count", count, 0, MAX_QUEUES)
        check_range("xps: offset", offset, 0, MAX_QUEUES)
        return xps_set_tc_queue(&self.device, tc, count, offset)

    def set_prio_tc(self, prio, tc):
        """Priority -> class; 0 or -22."""
        check_range("xps: prio", prio, 0, 15)
        check_range("xps: tc", tc, 0, 15)
        if self.device.num_tc <= 0 or tc >= self.device.num_tc:
            return XPS_EINVAL
        self.device.prio_tc_map[prio] = tc
        return 0

    def queue(self, rx_id, cpu, prio=0, hash=0):
        """What the maps say: (queue or -1, whether the hash mattered)."""
        cdef u8 used_hash = 0
        queue = xps_queue(&self.device, rx_id, cpu, prio, hash, &used_hash)
        return queue, bool(used_hash)

    def pick(self, cached, ooo_okay, can_store, sk_rx, recorded_rx, cpu, prio, hash):
        """The packet's tx queue: (queue, the socket's queue then, whether the hash mattered)."""
        cdef u8 used_hash = 0
        cdef i32 stored = cached
        queue = pick_tx(
            &self.device, &stored, bool(ooo_okay), bool(can_store), sk_rx, recorded_rx,
            cpu, prio, hash, &used_hash,
        )
        return queue, stored, bool(used_hash)


def check_range(where, value, least, most):
    """Refuse a number outside [least, most]."""
    if not least <= value <= most:
        raise ConfigError(where, value, f"{least}..{most}")


def column(name, values, dtype, n):
    """A contiguous column of n entries."""
    array = np.ascontiguousarray(values, dtype=dtype)
    if array.shape != (n,):
        allowed = f"{n} rows, like the other columns"
        raise ConfigError(f"xps: {name}", f"shape {array.shape}", allowed)
    return array


def xps_queues(XpsDevice device not None, rx_id, cpu, prio, hash):
    """get_xps_queue for many packets.

    Args:
        device: whose maps.
        rx_id: int32[n], rx queue of the socket, -1 none.
        cpu: int32[n]; prio: uint32[n]; hash: uint32[n].

    Returns:
        (queue int32[n], -1 where no map answers; used_hash uint8[n]).
    """
    cdef Py_ssize_t n = len(hash)
    cdef const i32[::1] rx = column("rx_id", rx_id, np.int32, n)
    cdef const i32[::1] on = column("cpu", cpu, np.int32, n)
    cdef const u32[::1] priority = column("prio", prio, np.uint32, n)
    cdef const u32[::1] hashes = column("hash", hash, np.uint32, n)
    queue_array = np.empty(n, dtype=np.int32)
    used_array = np.zeros(n, dtype=np.uint8)
    cdef i32[::1] queue = queue_array
    cdef u8[::1] used = used_array
    cdef Py_ssize_t i
    with nogil:
        for i in range(n):
            queue[i] = xps_queue(&device.device, rx[i], on[i], priority[i], hashes[i], &used[i])
    return queue_array, used_array


def pick_queues(
    XpsDevice device not None, cached, ooo_okay, can_store, sk_rx, recorded_rx, cpu, prio, hash
):
    """netdev_pick_tx for many packets, each of a socket of its own.

    Args:
        device: whose maps.
        cached: int32[n], the socket's queue, -1 none.
        ooo_okay, can_store: uint8[n]: nothing is under way; a full socket with a route.
        sk_rx, recorded_rx: int32[n], rx queue of the socket and of the packet, -1 none.
        cpu: int32[n]; prio: uint32[n]; hash: uint32[n].

    Returns:
        (queue int32[n], cached afterwards int32[n], used_hash uint8[n]).
    """
    cdef Py_ssize_t n = len(hash)
    stored_array = np.array(column("cached", cached, np.int32, n))
    cdef i32[::1] stored = stored_array
    cdef const u8[::1] okay = column("ooo_okay", ooo_okay, np.uint8, n)
    cdef const u8[::1] store = column("can_store", can_store, np.uint8, n)
    cdef const i32[::1] rx = column("sk_rx", sk_rx, np.int32, n)
    cdef const i32[::1] recorded = column("recorded_rx", recorded_rx, np.int32, n)
    cdef const i32[::1] on = column("cpu", cpu, np.int32, n)
    cdef const u32[::1] priority = column("prio", prio, np.uint32, n)
    cdef const u32[::1] hashes = column("hash", hash, np.uint32, n)
    queue_array = np.empty(n, dtype=np.int32)
    used_array = np.zeros(n, dtype=np.uint8)
    cdef i32[::1] queue = queue_array
    cdef u8[::1] used = used_array
    cdef Py_ssize_t i
    with nogil:
        for i in range(n):
            queue[i] = pick_tx(
                &device.device, &stored[i], okay[i], store[i], rx[i], recorded[i], on[i],
                priority[i], hashes[i], &used[i],
            )
    return queue_array, stored_array, used_array
