"""RPS over arrays: the doors of the stage."""
import numpy as np

from emu.errors import ConfigError

from emu._core.rps cimport rps_cpu, rps_queue
from emu._core.types cimport i32, u8, u16, u32


def rps_queues(recorded, real_num_rx_queues):
    """The rx queue whose map counts: int32[n], -1 where RPS is skipped.

    Args:
        recorded: int32[n], rx queue that the driver recorded, -1 none.
    """
    cdef const i32[::1] rows = np.ascontiguousarray(recorded, dtype=np.int32)
    if not 1 <= real_num_rx_queues <= 65535:
        raise ConfigError("rps: real_num_rx_queues", real_num_rx_queues, "1..65535")
    cdef u32 real = real_num_rx_queues
    cdef Py_ssize_t n = rows.shape[0]
    out = np.empty(n, dtype=np.int32)
    cdef i32[::1] queue = out
    cdef Py_ssize_t i
    with nogil:
        for i in range(n):
            queue[i] = rps_queue(rows[i], real)
    return out


def rps_cpus(cpus, online, hash):
    """The CPU of many packets of one rx queue.

    Args:
        cpus: uint16[k], the map's CPUs in ascending order; k = 0: no map.
        online: uint8[ncpus].
        hash: uint32[n].

    Returns:
        int32[n]; -1 where the packet stays on the CPU it came in on.
    """
    cdef const u16[::1] table = np.ascontiguousarray(cpus, dtype=np.uint16)
    cdef const u8[::1] up = np.ascontiguousarray(online, dtype=np.uint8)
    cdef const u32[::1] hashes = np.ascontiguousarray(hash, dtype=np.uint32)
    cdef u32 size = <u32>table.shape[0]
    cdef Py_ssize_t n = hashes.shape[0]
    if size and int(np.max(cpus)) >= up.shape[0]:
        raise ConfigError("rps: cpus", int(np.max(cpus)), f"CPUs 0..{up.shape[0] - 1}")
    out = np.full(n, -1, dtype=np.int32)
    if size == 0:
        return out
    cdef i32[::1] cpu = out
    cdef Py_ssize_t i
    with nogil:
        for i in range(n):
            cpu[i] = rps_cpu(&table[0], size, &up[0], hashes[i])
    return out
