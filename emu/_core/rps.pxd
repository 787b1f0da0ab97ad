"""RPS: the CPU that processes a packet (receive.md 3.3, steps 1, 2, 3 and 7)."""
from emu._core.types cimport i32, reciprocal_scale, u8, u16, u32


cdef inline i32 rps_queue(i32 recorded, u32 real_num_rx_queues) noexcept nogil:
    """Whose map counts: the recorded rx queue, 0 for none (-1); -1: there is no such queue."""
    if recorded < 0:
        return 0
    return recorded if <u32>recorded < real_num_rx_queues else -1


cdef inline i32 rps_cpu(const u16 *cpus, u32 n, const u8 *online, u32 hash) noexcept nogil:
    """get_rps_cpu's map step; -1 = stays: no map, no hash, or the chosen CPU is offline."""
    cdef u16 cpu
    if n == 0 or hash == 0:
        return -1
    cpu = cpus[reciprocal_scale(hash, n)]
    return <i32>cpu if online[cpu] else -1
