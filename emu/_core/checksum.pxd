"""The Internet checksum (RFC 1071) over native words: no byte order changes "is the sum 0xffff"."""
from emu._core.octets cimport load_le32
from emu._core.octets cimport load_le64
from emu._core.types cimport u8, u32, u64


cdef inline u64 csum_partial(const u8 *data, Py_ssize_t n) noexcept nogil:
    """Unfolded one's complement sum of n octets.

    Whole words are added as two halves, so that no carry is lost below 2**32 words.
    """
    cdef u64 total = 0
    cdef u64 word
    while n >= 8:
        word = load_le64(data)
        total += <u64>(<u32>word) + (word >> 32)
        data += 8
        n -= 8
    if n >= 4:
        total += load_le32(data)
        data += 4
        n -= 4
    if n >= 2:
        total += <u64>data[0] | (<u64>data[1] << 8)
        data += 2
        n -= 2
    if n:
        total += data[0]
    return total

cdef inline u32 csum_fold(u64 total) noexcept nogil:
    """Fold a sum to 16 bits; 0xffff is what correct data with its checksum gives."""
    total = <u64>(<u32>total) + (total >> 32)
    total = <u64>(<u32>total) + (total >> 32)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return <u32>((total & 0xFFFF) + (total >> 16))

cdef inline u64 csum_pseudo(
    u8 family, const u32 *saddr, const u32 *daddr, u8 proto, u32 length
) noexcept nogil:
    """Unfolded sum of the pseudo header: addresses as native words, protocol, L4 length."""
    cdef u64 total = <u64>saddr[0] + daddr[0]
    if family == 6:
        total += <u64>saddr[1] + saddr[2] + saddr[3] + daddr[1] + daddr[2] + daddr[3]
    total += <u64>proto << 8
    total += ((length >> 24) & 0xFF) | ((length >> 8) & 0xFF00)
    total += ((length >> 8) & 0xFF) | ((length & 0xFF) << 8)
    return total
