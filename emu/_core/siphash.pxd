"""SipHash-2-4 over a few 64-bit words."""
from emu._core.types cimport u64


cdef struct sip_t:
    u64 v0
    u64 v1
    u64 v2
    u64 v3


cdef inline u64 rol64(u64 value, int by) noexcept nogil:
    """Rotate left."""
    return (value << by) | (value >> (64 - by))


cdef inline void sip_init(sip_t *s, const u64 *key) noexcept nogil:
    """Begin with the 128-bit key."""
    s.v0 = key[0] ^ <u64>0x736F6D6570736575
    s.v1 = key[1] ^ <u64>0x646F72616E646F6D
    s.v2 = key[0] ^ <u64>0x6C7967656E657261
    s.v3 = key[1] ^ <u64>0x7465646279746573


cdef inline void sip_round(sip_t *s) noexcept nogil:
    """One SipRound."""
    s.v0 += s.v1
    s.v1 = rol64(s.v1, 13) ^ s.v0
    s.v0 = rol64(s.v0, 32)
    s.v2 += s.v3
    s.v3 = rol64(s.v3, 16) ^ s.v2
    s.v0 += s.v3
    s.v3 = rol64(s.v3, 21) ^ s.v0
    s.v2 += s.v1
    s.v1 = rol64(s.v1, 17) ^ s.v2
    s.v2 = rol64(s.v2, 32)


cdef inline void sip_word(sip_t *s, u64 word) noexcept nogil:
    """Take in one word: two rounds."""
    s.v3 ^= word
    sip_round(s)
    sip_round(s)
    s.v0 ^= word


cdef inline u64 sip_final(sip_t *s, u64 last) noexcept nogil:
    """The last word (length in its top byte, up to 7 bytes of tail below), then four rounds."""
    sip_word(s, last)
    s.v2 ^= 0xFF
    sip_round(s)
    sip_round(s)
    sip_round(s)
    sip_round(s)
    return s.v0 ^ s.v1 ^ s.v2 ^ s.v3
