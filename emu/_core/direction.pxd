"""Which way a packet goes, by the host's addresses (docs/steer.md)."""
from emu._core.types cimport packets_t, u8, u32

cdef enum:
    DIR_RECEIVED = 0
    DIR_SENT = 1
    DIR_FORWARDED = 2
    DIR_OTHER = 3

cdef inline bint is_own(
    const u8 *family, const u32 *words, Py_ssize_t n, u8 wanted, const u32 *address
) noexcept nogil:
    """Whether one of the host's n addresses is this one."""
    cdef Py_ssize_t k
    for k in range(n):
        if (
            family[k] == wanted and words[4 * k] == address[0] and words[4 * k + 1] == address[1]
            and words[4 * k + 2] == address[2] and words[4 * k + 3] == address[3]
        ):
            return True
    return False

cdef inline u8 direction_of(
    const packets_t *p, Py_ssize_t i, const u8 *family, const u32 *words, Py_ssize_t n,
    bint forwarding,
) noexcept nogil:
    """The way of packet i."""
    cdef u8 version = p.family[i]
    cdef const u32 *daddr = p.daddr + 4 * i
    cdef u8 first_octet = <u8>(daddr[0] & 0xFF)
    if version == 0 or (p.reason[i] >= 1 and p.reason[i] <= 5):
        return DIR_OTHER
    if n == 0 or is_own(family, words, n, version, daddr):
        return DIR_RECEIVED
    if is_own(family, words, n, version, p.saddr + 4 * i):
        return DIR_SENT
    if version == 4:
        if (first_octet >= 224 and first_octet <= 239) or daddr[0] == <u32>0xFFFFFFFF:
            return DIR_RECEIVED
    elif first_octet == 0xFF:
        return DIR_RECEIVED
    return DIR_FORWARDED if forwarding else DIR_OTHER
