"""A hash table of connected sockets by 4-tuple (SOCK-64, SOCK-73): open addressing, hashes kept.

Entries of one hash stand newest first, as in the kernel's chains. Never more than half full.
"""
from libc.stdlib cimport calloc, free

from emu._core.types cimport i32, u32, u64

cdef struct flow_slot_t:
    u32 hash
    u32 sock_plus1     # 0 = free

cdef struct flow_table_t:
    flow_slot_t *slots
    u32 mask           # slots - 1
    u32 count


cdef inline int flows_init(flow_table_t *f, u32 expected) noexcept nogil:
    """Room for *expected* sockets; -1 no memory."""
    cdef u64 slots = 16
    while slots < 2 * <u64>expected:
        slots *= 2
    f.slots = <flow_slot_t *> calloc(slots, sizeof(flow_slot_t))
    f.mask = <u32>(slots - 1)
    f.count = 0
    return 0 if f.slots != NULL else -1


cdef inline void flows_put(flow_table_t *f, u32 hash, u32 sock) noexcept nogil:
    """Put a socket in front of those of the same hash."""
    cdef u32 at = hash & f.mask
    cdef u32 carried = sock + 1
    cdef u32 older
    while f.slots[at].sock_plus1:
        if f.slots[at].hash == hash:
            older = f.slots[at].sock_plus1
            f.slots[at].sock_plus1 = carried
            carried = older
        at = (at + 1) & f.mask
    f.slots[at].hash = hash
    f.slots[at].sock_plus1 = carried
    f.count += 1


cdef inline int flows_add(flow_table_t *f, u32 hash, u32 sock) noexcept nogil:
    """Add a socket, growing when half full; -1 no memory."""
    cdef flow_table_t bigger
    cdef u64 at
    if 2 * <u64>(f.count + 1) > <u64>f.mask + 1:
        if flows_init(&bigger, 2 * (f.count + 1)) < 0:
            return -1
        # Backwards, so that older entries of a hash are put first; a run that wraps is entered at
        # its true end.
        at = <u64>f.mask + 1
        while f.slots[f.mask].sock_plus1 and f.slots[at & f.mask].sock_plus1:
            at += 1
        for _ in range(<u64>f.mask + 1):
            at -= 1
            if f.slots[at & f.mask].sock_plus1:
                flows_put(&bigger, f.slots[at & f.mask].hash, f.slots[at & f.mask].sock_plus1 - 1)
        free(f.slots)
        f[0] = bigger
    flows_put(f, hash, sock)
    return 0


cdef inline void flows_remove(flow_table_t *f, u32 hash, u32 sock) noexcept nogil:
    """Take out a socket that is there, and close the gap."""
    cdef u32 hole = hash & f.mask
    cdef u32 at
    while f.slots[hole].sock_plus1 != sock + 1:
        hole = (hole + 1) & f.mask
    at = hole
    while True:
        at = (at + 1) & f.mask
        if f.slots[at].sock_plus1 == 0:
            break
        # An entry may move to the hole unless its home lies behind the hole.
        if ((at - (f.slots[at].hash & f.mask)) & f.mask) >= ((at - hole) & f.mask):
            f.slots[hole] = f.slots[at]
            hole = at
    f.slots[hole].sock_plus1 = 0
    f.count -= 1
