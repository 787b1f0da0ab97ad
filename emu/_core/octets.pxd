"""Loads from unaligned frame bytes. Callers have checked that the bytes are there."""
from libc.string cimport memcpy

from emu._core.types cimport u8, u16, u32, u64


cdef inline u16 load_be16(const u8 *at) noexcept nogil:
    """A 16-bit field as a host integer."""
    return <u16>((<u32>at[0] << 8) | at[1])

cdef inline u32 load_be32(const u8 *at) noexcept nogil:
    """A 32-bit field as a host integer."""
    return (<u32>at[0] << 24) | (<u32>at[1] << 16) | (<u32>at[2] << 8) | at[3]

cdef inline u32 load_le32(const u8 *at) noexcept nogil:
    """Four octets as the kernel's native word on a little-endian machine (SOCK-7)."""
    cdef u32 word
    memcpy(&word, at, 4)
    return word

cdef inline u64 load_le64(const u8 *at) noexcept nogil:
    """Eight octets as a native word."""
    cdef u64 word
    memcpy(&word, at, 8)
    return word

cdef inline void store_be16(u8 *at, u16 value) noexcept nogil:
    """A host integer as a 16-bit field."""
    at[0] = <u8>(value >> 8)
    at[1] = <u8>(value & 0xFF)
