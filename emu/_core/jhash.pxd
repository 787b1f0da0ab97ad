"""jhash and the socket hashes built on it (SOCK-1..17).

include/linux/jhash.h; inet_ehashfn, inet6_ehashfn.
"""
from emu._core.types cimport u16, u32

cdef enum:
    GOLDEN = 0xDEADBEEF


cdef inline u32 rol32(u32 value, u32 bits) noexcept nogil:
    return (value << bits) | (value >> (32 - bits))


cdef inline void jhash_mix(u32 *a, u32 *b, u32 *c) noexcept nogil:
    """Stir three words into each other, reversibly (SOCK-1)."""
    a[0] = (a[0] - c[0]) ^ rol32(c[0], 4)
    c[0] += b[0]
    b[0] = (b[0] - a[0]) ^ rol32(a[0], 6)
    a[0] += c[0]
    c[0] = (c[0] - b[0]) ^ rol32(b[0], 8)
    b[0] += a[0]
    a[0] = (a[0] - c[0]) ^ rol32(c[0], 16)
    c[0] += b[0]
    b[0] = (b[0] - a[0]) ^ rol32(a[0], 19)
    a[0] += c[0]
    c[0] = (c[0] - b[0]) ^ rol32(b[0], 4)
    b[0] += a[0]


cdef inline u32 jhash_final(u32 a, u32 b, u32 c) noexcept nogil:
    """Fold three words into one (SOCK-2)."""
    c = (c ^ b) - rol32(b, 14)
    a = (a ^ c) - rol32(c, 11)
    b = (b ^ a) - rol32(a, 25)
    c = (c ^ b) - rol32(b, 16)
    a = (a ^ c) - rol32(c, 4)
    b = (b ^ a) - rol32(a, 14)
    return (c ^ b) - rol32(b, 24)


cdef inline u32 jhash_1word(u32 a, u32 initval) noexcept nogil:
    """Hash one word (SOCK-3)."""
    cdef u32 start = initval + <u32>GOLDEN + 4
    return jhash_final(a + start, start, start)


cdef inline u32 jhash_3words(u32 a, u32 b, u32 c, u32 initval) noexcept nogil:
    """Hash three words (SOCK-3)."""
    cdef u32 start = initval + <u32>GOLDEN + 12
    return jhash_final(a + start, b + start, c + start)


cdef inline u32 jhash_rest(const u32 *words, Py_ssize_t n, u32 start) noexcept nogil:
    """Hash *n* words from a start value that already holds the length (SOCK-4)."""
    cdef u32 a = start
    cdef u32 b = start
    cdef u32 c = start
    if n == 0:
        return c
    while n > 3:
        a += words[0]
        b += words[1]
        c += words[2]
        jhash_mix(&a, &b, &c)
        words += 3
        n -= 3
    a += words[0]
    if n > 1:
        b += words[1]
    if n > 2:
        c += words[2]
    return jhash_final(a, b, c)


cdef inline u32 jhash2(const u32 *words, Py_ssize_t n, u32 initval) noexcept nogil:
    """Hash any number of words (SOCK-4)."""
    return jhash_rest(words, n, <u32>GOLDEN + <u32>(4 * n) + initval)


cdef inline u32 next_pseudo_random32(u32 seed) noexcept nogil:
    """The next of a linear congruential sequence (SOCK-6)."""
    return seed * <u32>1664525 + <u32>1013904223


cdef inline u32 network_port(u16 port) noexcept nogil:
    """A port's two network bytes loaded as a little-endian integer (SOCK-7)."""
    return <u32>((port >> 8) | ((port & 0xFF) << 8))


cdef inline u32 ehash4(
    u32 laddr, u16 lport, u32 faddr, u16 fport, u32 secret, bint port_added
) noexcept nogil:
    """Hash an IPv4 4-tuple (SOCK-10..12); *secret* holds the netns' mix."""
    if port_added:
        return lport + jhash_3words(laddr, faddr, network_port(fport), secret)
    return jhash_3words(laddr, faddr, (<u32>lport << 16) | network_port(fport), secret)


cdef inline u32 ehash6(
    const u32 *laddr, u16 lport, const u32 *faddr, u16 fport, u32 secret, u32 addr_secret,
    bint port_added, bint xor_words,
) noexcept nogil:
    """Hash an IPv6 4-tuple (SOCK-13; SOCK-14 with *xor_words*): of *laddr* only the last word."""
    cdef u32 fhash
    if xor_words:
        fhash = jhash_3words(faddr[0] ^ faddr[1], faddr[2], faddr[3], addr_secret)
    else:
        fhash = jhash2(faddr, 4, addr_secret)
    return ehash4(laddr[3], lport, fhash, fport, secret, port_added)


cdef inline bint is_any6(const u32 *address) noexcept nogil:
    return (address[0] | address[1] | address[2] | address[3]) == 0


cdef inline bint is_mapped(const u32 *address) noexcept nogil:
    """Whether an IPv6 address is ::ffff:a.b.c.d; its IPv4 address is then word 3."""
    return (address[0] | address[1]) == 0 and address[2] == 0xFFFF0000U


cdef inline u32 portaddr4(u32 address, u16 port, u32 hash_mix) noexcept nogil:
    """Hash an IPv4 address and port (SOCK-15)."""
    return jhash_1word(address, hash_mix) ^ port


cdef inline u32 portaddr6(const u32 *address, u16 port, u32 hash_mix) noexcept nogil:
    """Hash an IPv6 address and port; any and mapped addresses go where IPv4's do (SOCK-15)."""
    if is_any6(address):
        return jhash_1word(0, hash_mix) ^ port
    if is_mapped(address):
        return jhash_1word(address[3], hash_mix) ^ port
    return jhash2(address, 4, hash_mix) ^ port
