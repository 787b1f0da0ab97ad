"""RFS: tables that are written and asked, and the CPUs of many packets."""
import numpy as np

from emu.errors import ConfigError

from emu._core.rfs cimport (
    RFS_MAX_ENTRIES,
    RFS_NO_CPU,
    rfs_asks_hash,
    rfs_choose,
    rfs_forget,
    rfs_free,
    rfs_init,
    rfs_note_tail,
    rfs_record,
    rfs_t,
)
from emu._core.types cimport i32, u8, u16, u32


cdef class Rfs:
    """The tables of a host, like `emu.ref.rfs.Rfs`."""

    cdef rfs_t tables

    def __init__(self, sock_entries, rxq_entries, ncpus, low_bits=False):
        check_range("rfs: ncpus", ncpus, 1, RFS_NO_CPU)
        check_range("rfs: sock_entries", sock_entries, 0, RFS_MAX_ENTRIES)
        for queue, entries in enumerate(rxq_entries):
            check_range(f"rfs: rxq_entries[{queue}]", entries, 0, RFS_MAX_ENTRIES)
        # One more, so that a host without rx queues has an address too.
        cdef const u32[::1] sizes = np.array([*rxq_entries, 0], dtype=np.uint32)
        rfs_free(&self.tables)
        if rfs_init(
            &self.tables, sock_entries, &sizes[0], <u32>(sizes.shape[0] - 1), ncpus, low_bits
        ) < 0:
            raise MemoryError

    def __dealloc__(self):
        rfs_free(&self.tables)

    def record(self, hash_value, cpu):
        """The application of a connected socket with that sk_rxhash reads or sends on *cpu*."""
        check_range("rfs: cpu", cpu, 0, <long long>self.tables.ncpus - 1)
        rfs_record(&self.tables, hash_value, cpu)

    def forget(self, hash_value):
        """The socket with that sk_rxhash is gone: its entry, whoever has it, is empty (6.18)."""
        rfs_forget(&self.tables, hash_value)

    def asks_hash(self, rxq, cpus):
        """Whether the packet's hash is wanted at all: for a map, or for the queue's table."""
        self.check_queue(rxq)
        return bool(rfs_asks_hash(&self.tables, rxq, len(cpus)))

    def choose(self, rxq, hash_value, cpus, online, heads):
        """The CPU that a packet is queued to, -1 none; and its flow's place, -1 none."""
        hashes = np.array([hash_value], dtype=np.uint32)
        cpu, slot = rfs_cpus(self, rxq, hashes, cpus, online, heads)
        return int(cpu[0]), int(slot[0])

    def note_tail(self, rxq, slot, tail):
        """The packet that was chosen for is in the backlog, whose tail is *tail* now."""
        self.check_queue(rxq)
        rfs_note_tail(&self.tables, rxq, slot, tail)

    def table(self):
        """The global table: uint32[size]."""
        cdef Py_ssize_t size = <Py_ssize_t>self.tables.ident_mask + 1
        cdef Py_ssize_t place
        out = np.zeros(size if self.tables.idents != NULL else 0, dtype=np.uint32)
        cdef u32[::1] idents = out
        for place in range(idents.shape[0]):
            idents[place] = self.tables.idents[place]
        return out

    def flows(self, rxq):
        """An rx queue's table: cpu uint16[size], last_qtail uint32[size]."""
        self.check_queue(rxq)
        cdef u32 queue = rxq
        cdef Py_ssize_t size = 0
        if self.tables.queues[queue].flows != NULL:
            size = <Py_ssize_t>self.tables.queues[queue].mask + 1
        cpus, tails = np.zeros(size, dtype=np.uint16), np.zeros(size, dtype=np.uint32)
        cdef u16[::1] cpu = cpus
        cdef u32[::1] tail = tails
        cdef Py_ssize_t slot
        for slot in range(size):
            cpu[slot] = self.tables.queues[queue].flows[slot].cpu
            tail[slot] = self.tables.queues[queue].flows[slot].last_qtail
        return cpus, tails

    cdef check_queue(self, rxq):
        last = <long long>self.tables.rxqs - 1
        if not 0 <= rxq <= last:
            raise ConfigError("rfs: rxq", rxq, f"rx queues 0..{last}")


def rfs_cpus(rfs, rxq, hash, cpus, online, heads):
    """The CPUs of many packets of one rx queue; nothing is queued in between.

    Args:
        rfs: the tables; flows that change CPU are changed in them.
        rxq: rx queue.
        hash: uint32[n], skb hashes.
        cpus: uint16[k], the queue's RPS map in ascending order; k = 0: no map.
        online: uint8[ncpus].
        heads: uint32[ncpus], input_queue_head of each CPU.

    Returns:
        int32[n], -1 where the packet stays on the CPU it came in on; int32[n], the flow's place in
        the queue's table, -1 where RFS did not choose.
    """
    cdef Rfs held = rfs
    held.check_queue(rxq)
    cdef const u16[::1] rps_map = np.ascontiguousarray(cpus, dtype=np.uint16)
    cdef const u8[::1] up = np.ascontiguousarray(online, dtype=np.uint8)
    cdef const u32[::1] done = np.ascontiguousarray(heads, dtype=np.uint32)
    cdef const u32[::1] hashes = np.ascontiguousarray(hash, dtype=np.uint32)
    cdef u32 ncpus = held.tables.ncpus
    cdef u32 size = <u32>rps_map.shape[0]
    cdef Py_ssize_t n = hashes.shape[0]
    if up.shape[0] != ncpus or done.shape[0] != ncpus:
        given = f"{up.shape[0]} and {done.shape[0]}"
        raise ConfigError("rfs: online, heads", given, f"{ncpus} entries, one per CPU")
    if size and int(np.max(cpus)) >= ncpus:
        raise ConfigError("rfs: cpus", int(np.max(cpus)), f"CPUs 0..{ncpus - 1}")
    out, slots = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    cdef i32[::1] cpu = out
    cdef i32[::1] slot = slots
    cdef u32 queue = rxq
    # Without a map nothing is read through the address.
    cdef const u16 *map_at = &rps_map[0] if size else NULL
    cdef Py_ssize_t i
    with nogil:
        for i in range(n):
            cpu[i] = rfs_choose(
                &held.tables, queue, hashes[i], map_at, size, &up[0], &done[0], &slot[i]
            )
    return out, slots


def check_range(where, given, low, high):
    """Refuse a number outside low..high."""
    if not low <= given <= high:
        raise ConfigError(where, given, f"{low}..{high}")
