"""Array door of the reuseport group pick; what it means stands in emu/ref/reuseport.py."""
from libc.stdlib cimport calloc, free

import numpy as np

from emu._core.reuseport cimport group_free, group_join, group_select, group_t, pick_rules_t
from emu._core.sk cimport SK_CONNECTED, sk_t
from emu._core.types cimport i32, u8, u32


def reuseport_select(
    const u32[::1] hash, const i32[::1] cpu, const i32[::1] incoming_cpu,
    *, const u8[::1] established=None, bint cpu_aware=True,
):
    """Pick a member of one group for each packet (SOCK-44, reuseport_select_sock_by_hash).

    Args:
        hash: ``uint32[n]``, the socket hash of each packet.
        cpu: ``int32[n]``, the CPU that processes it.
        incoming_cpu: ``int32[m]``, SO_INCOMING_CPU of the members in the group's order; -1 unset.
        established: ``uint8[m]``, members that are connected and skipped; None: nobody is.
        cpu_aware: False before 6.2, where SO_INCOMING_CPU had no effect in a group (SOCK-45).

    Returns:
        ``int32[n]``, the member's index; -1 for none.
    """
    cdef Py_ssize_t n = hash.shape[0]
    cdef Py_ssize_t m = incoming_cpu.shape[0]
    cdef group_t group
    cdef pick_rules_t rules
    cdef Py_ssize_t i
    if cpu.shape[0] != n or (established is not None and established.shape[0] != m):
        raise ValueError("cpu needs an entry for each hash, established one for each member")
    out_array = np.full(n, -1, dtype=np.int32)
    cdef i32[::1] out = out_array
    cdef sk_t *sks = <sk_t *> calloc(m + 1, sizeof(sk_t))
    if sks == NULL:
        raise MemoryError
    group.socks = NULL
    group_free(&group)
    rules.masks = NULL
    rules.mask_words = 0
    rules.cpu_aware = cpu_aware
    rules.mask_boost = 0
    try:
        for i in range(m):
            sks[i].incoming_cpu = incoming_cpu[i]
            sks[i].mask_off = -1
            sks[i].flags = SK_CONNECTED if established is not None and established[i] else 0
            if group_join(&group, sks, <u32>i, 0) < 0:
                raise MemoryError
        if group.count:
            with nogil:
                for i in range(n):
                    out[i] = group_select(&group, sks, &rules, False, hash[i], <u32>cpu[i]).sock
    finally:
        group_free(&group)
        free(sks)
    return out_array
