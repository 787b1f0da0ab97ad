"""cpumap: targets of many packets, and a map whose rings are filled and drained."""
import numpy as np

from emu.dtypes import CpumapDesign, CpumapRule
from emu.errors import ConfigError

from emu._core.cpumap cimport (
    cpumap_consume,
    cpumap_empty,
    cpumap_enqueue,
    cpumap_flush,
    cpumap_free,
    cpumap_init,
    cpumap_insert,
    cpumap_step_flush,
    cpumap_t,
    cpumap_target,
)
from emu._core.types cimport i32, packets_t, u8, u32, u64

MAX_QSIZE = 16384
MAX_LOST = 1 << 20
KTHREAD_BATCH = 8


cdef class Cpumap:
    """Entries with their bulks and rings; the methods are those of `emu.ref.cpumap.Cpumap`."""

    cdef cpumap_t map

    def __init__(self, cpus, qsizes):
        if len(cpus) != len(qsizes) or not len(cpus):
            given = f"{len(qsizes)} beside {len(cpus)} cpus"
            raise ConfigError("cpumap: qsizes", given, "one per entry, at least one")
        for cpu, qsize in zip(cpus, qsizes, strict=True):
            check_range("cpumap: cpu", cpu, 0, 65535)
            check_range("cpumap: qsize", qsize, 1, MAX_QSIZE)
        cdef const i32[::1] where = np.array(cpus, dtype=np.int32)
        cdef const u32[::1] sizes = np.array(qsizes, dtype=np.uint32)
        cpumap_free(&self.map)
        if cpumap_init(&self.map, &where[0], &sizes[0], where.shape[0], MAX_LOST) < 0:
            raise MemoryError

    def __dealloc__(self):
        cpumap_free(&self.map)

    def enqueue(self, producer, entry, packet):
        """Redirect a packet to an entry, in the poll of a CPU."""
        self._check_producer(producer)
        check_range("cpumap: entry", entry, 0, self.map.count - 1)
        cpumap_enqueue(&self.map, producer, entry, packet)

    def flush(self, producer):
        """End of the poll: entries whose kthreads are woken, in order."""
        self._check_producer(producer)
        return [self.map.woken[k] for k in range(cpumap_flush(&self.map, producer))]

    def insert(self, entry, packet):
        """One packet straight into the ring, as generic XDP does: whether there was room."""
        check_range("cpumap: entry", entry, 0, self.map.count - 1)
        return bool(cpumap_insert(&self.map, entry, packet))

    def consume(self, entry):
        """One kthread step: up to 8 packets."""
        check_range("cpumap: entry", entry, 0, self.map.count - 1)
        cdef u32 out[8]
        return [out[k] for k in range(cpumap_consume(&self.map, entry, out))]

    def empty(self, entry):
        """Whether the entry's ring is empty."""
        check_range("cpumap: entry", entry, 0, self.map.count - 1)
        return bool(cpumap_empty(&self.map, entry))

    def take_lost(self):
        """Packets that found a full ring since the last call, in order."""
        lost = [self.map.lost[k] for k in range(self.map.lost_count)]
        self.map.lost_count = 0
        return lost

    def stats(self, entry):
        """(frames that got into the ring, frames dropped) of an entry."""
        check_range("cpumap: entry", entry, 0, self.map.count - 1)
        return self.map.entries[entry].processed, self.map.entries[entry].dropped

    def cpu(self, entry):
        """CPU of an entry's kthread."""
        check_range("cpumap: entry", entry, 0, self.map.count - 1)
        return self.map.entries[entry].cpu

    def _check_producer(self, producer):
        check_range("cpumap: producer", producer, 0, 65535)
        if self.map.front >= 0 and producer != self.map.producer:
            allowed = f"CPU {self.map.producer} until its poll is flushed"
            raise ConfigError("cpumap: producer", producer, allowed)


def check_range(where, value, least, most):
    """Refuse a number outside [least, most]."""
    if not least <= value <= most:
        raise ConfigError(where, value, f"{least}..{most}")


def step_flush(design, packets, ring_empty, hz):
    """What a kthread does with GRO after a step: 0 nothing, 1 flush all, 2 flush only the old."""
    return cpumap_step_flush(CpumapDesign(design), packets, bool(ring_empty), hz)


def cpumap_targets(packets, rule, cpus, fixed, rx_queue):
    """CPU that the XDP program redirects each packet to: int32[n], -1 = XDP_PASS.

    Args:
        rule: CpumapRule.
        cpus: int32[k], CPU of each entry.
        fixed: entry for CpumapRule.FIXED.
        rx_queue: int32[n], rx queue within the NIC.
    """
    cdef const i32[::1] entries = np.ascontiguousarray(cpus, dtype=np.int32)
    cdef const i32[::1] queue = np.ascontiguousarray(rx_queue, dtype=np.int32)
    cdef u8 kind = CpumapRule(rule)
    cdef i32 only = fixed
    cdef u32 count = <u32>entries.shape[0]
    cdef Py_ssize_t n = len(packets)
    if count == 0:
        raise ConfigError("cpumap: cpus", "none", "one or more")
    if rule == CpumapRule.FIXED:
        check_range("cpumap: fixed", fixed, 0, count - 1)
    if queue.shape[0] != n:
        raise ConfigError("cpumap: rx_queue", f"{queue.shape[0]} rows", f"{n} rows, one per packet")
    if n and int(np.min(rx_queue)) < 0:
        raise ConfigError("cpumap: rx_queue", int(np.min(rx_queue)), "0 or more")
    out = np.empty(n, dtype=np.int32)
    if n == 0:
        return out
    cdef const u64[::1] addresses = packets.addresses
    cdef const packets_t *p = <const packets_t *> &addresses[0]
    cdef i32[::1] cpu = out
    cdef Py_ssize_t i
    cdef i32 entry
    with nogil:
        for i in range(n):
            entry = cpumap_target(kind, count, only, <u32>queue[i], p, i)
            cpu[i] = entries[entry] if entry >= 0 else -1
    return out
