"""RSS over arrays: the doors of the stage."""
import numpy as np

from emu.model.inputs import rss_inputs, toeplitz_data, toeplitz_key, tuples

from emu._core.rss cimport hash_port, hash_word, rss_hash, rss_queue, toeplitz4
from emu._core.types cimport i32, packets_t, rss_t, u8, u16, u32, u64

cdef enum:
    TOEPLITZ_BYTES = 36
    TOEPLITZ_WORDS = 36 * 256


cdef void fill_tables(const u8 *key, u32 *tables) noexcept nogil:
    """Contribution of each octet at each place: that of its lowest bit, and of the rest."""
    cdef u32 one_bit[8]
    cdef u64 window
    cdef u32 octet
    cdef u32 lowest
    cdef int place
    cdef int bit
    cdef int k
    for place in range(TOEPLITZ_BYTES):
        window = 0
        for k in range(5):
            window = (window << 8) | key[place + k]
        for bit in range(8):
            one_bit[bit] = <u32>(window >> (bit + 1))
        tables[0] = 0
        lowest = 0
        for octet in range(1, 256):
            lowest = 0
            while not (octet >> lowest) & 1:
                lowest += 1
            tables[octet] = tables[octet & (octet - 1)] ^ one_bit[lowest]
        tables += 256


def toeplitz_tables(key):
    """Precompute every octet's contribution at each of the 36 input positions: uint32[36 * 256]."""
    cdef const u8[::1] octets = toeplitz_key(key)
    out = np.empty(TOEPLITZ_WORDS, dtype=np.uint32)
    cdef u32[::1] tables = out
    fill_tables(&octets[0], &tables[0])
    return out


cdef inline u32 hash_octets(const u32 *tables, const u8 *octets, Py_ssize_t width) noexcept nogil:
    """Contribution of some octets; four at a time do not wait for each other."""
    cdef u32 hash = 0
    cdef Py_ssize_t at = 0
    while at + 4 <= width:
        hash ^= (
            tables[octets[at]] ^ tables[256 + octets[at + 1]]
            ^ tables[512 + octets[at + 2]] ^ tables[768 + octets[at + 3]]
        )
        tables += 1024
        at += 4
    while at < width:
        hash ^= tables[octets[at]]
        tables += 256
        at += 1
    return hash


def toeplitz(key, data):
    """Hash each row of uint8[n, w], w <= 36: uint32[n]."""
    cdef const u32[::1] tables = toeplitz_tables(key)
    cdef const u8[:, ::1] rows = toeplitz_data(data)
    cdef Py_ssize_t n = rows.shape[0]
    cdef Py_ssize_t width = rows.shape[1]
    out = np.empty(n, dtype=np.uint32)
    cdef u32[::1] hashes = out
    cdef Py_ssize_t i
    if width == 0:
        return np.zeros(n, dtype=np.uint32)
    with nogil:
        for i in range(n):
            hashes[i] = hash_octets(&tables[0], &rows[i, 0], width)
    return out


def toeplitz_v4(key, saddr, daddr, sport, dport):
    """Hash IPv4 4-tuples: uint32[n].

    Addresses are uint32[n] as packet columns hold them, ports uint16[n].
    """
    given = tuples("toeplitz_v4", saddr, daddr, sport, dport)
    cdef const u32[::1] tables = toeplitz_tables(key)
    cdef const u32[::1] source = given.saddr
    cdef const u32[::1] target = given.daddr
    cdef const u16[::1] from_port = given.sport
    cdef const u16[::1] to_port = given.dport
    cdef Py_ssize_t n = source.shape[0]
    out = np.empty(n, dtype=np.uint32)
    cdef u32[::1] hashes = out
    cdef Py_ssize_t i
    cdef const u32 *t = &tables[0]
    with nogil:
        for i in range(n):
            hashes[i] = toeplitz4(t, source[i], target[i], from_port[i], to_port[i])
    return out


def toeplitz_v6(key, saddr, daddr, sport, dport):
    """Hash IPv6 4-tuples: uint32[n]; addresses are uint32[n, 4], ports uint16[n]."""
    given = tuples("toeplitz_v6", saddr, daddr, sport, dport, width=4)
    cdef const u32[::1] tables = toeplitz_tables(key)
    cdef const u32[:, ::1] source = given.saddr
    cdef const u32[:, ::1] target = given.daddr
    cdef const u16[::1] from_port = given.sport
    cdef const u16[::1] to_port = given.dport
    cdef Py_ssize_t n = source.shape[0]
    out = np.empty(n, dtype=np.uint32)
    cdef u32[::1] hashes = out
    cdef Py_ssize_t i
    cdef int k
    cdef u32 hash
    cdef const u32 *t = &tables[0]
    with nogil:
        for i in range(n):
            hash = hash_port(t + 32 * 256, from_port[i]) ^ hash_port(t + 34 * 256, to_port[i])
            for k in range(4):
                hash ^= hash_word(t + 1024 * k, source[i, k])
                hash ^= hash_word(t + 1024 * (4 + k), target[i, k])
            hashes[i] = hash
    return out


def rss_packets(packets, rss, tables, indirection):
    """Hash and queue of every packet by its NIC's row: (uint32[n], uint8[n] HashType, int32[n])."""
    given = rss_inputs(packets, rss, tables, indirection)
    cdef Py_ssize_t n = len(packets)
    hash_array = np.zeros(n, dtype=np.uint32)
    type_array = np.zeros(n, dtype=np.uint8)
    queue_array = np.zeros(n, dtype=np.int32)
    if n == 0:
        return hash_array, type_array, queue_array
    cdef const u64[::1] addresses = packets.addresses
    cdef const packets_t *p = <const packets_t *> &addresses[0]
    cdef const u8[::1] rss_bytes = given.rss.view(np.uint8)
    cdef const rss_t *rows = <const rss_t *> &rss_bytes[0]
    cdef const u32[::1] t = given.tables
    cdef const u32[::1] entries = given.indirection
    cdef u32[::1] hash = hash_array
    cdef u8[::1] hash_type = type_array
    cdef i32[::1] queue = queue_array
    cdef Py_ssize_t i
    cdef const rss_t *row
    with nogil:
        for i in range(n):
            row = &rows[p.nic[i]]
            hash[i] = rss_hash(row, &t[0], p, i, &hash_type[i])
            queue[i] = <i32>rss_queue(row, &entries[0], hash[i], hash_type[i])
    return hash_array, type_array, queue_array
