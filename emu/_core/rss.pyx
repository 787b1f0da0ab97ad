"""RSS over arrays: the doors of the stage."""
import numpy as np

from emu.errors import ConfigError

from emu._core.rss cimport hash_port, hash_word, rss_hash, rss_queue, toeplitz4
from emu._core.types cimport i32, packets_t, rss_t, u8, u16, u32, u64

TOEPLITZ_BYTES = 36


def toeplitz_tables(key):
    """Precompute every octet's contribution at each of the 36 input positions: uint32[36 * 256]."""
    if len(key) < 40:
        raise ConfigError("toeplitz: key", f"{len(key)} bytes", "40 bytes or more")
    bits = int.from_bytes(key[:40], "big")
    one_bit = np.array(
        [(bits >> (320 - 32 - at)) & 0xFFFFFFFF for at in range(8 * TOEPLITZ_BYTES)], dtype=np.uint32
    )
    out = np.zeros((TOEPLITZ_BYTES, 256), dtype=np.uint32)
    octets = np.arange(256)
    for bit in range(8):
        chosen = octets[(octets >> (7 - bit)) & 1 == 1]
        out[:, chosen] ^= one_bit[bit::8, None]
    return out.reshape(-1)


def toeplitz(key, data):
    """Hash each row of uint8[n, w], w <= 36: uint32[n]."""
    if data.ndim != 2 or data.shape[1] > len(key) - 4 or data.shape[1] > TOEPLITZ_BYTES:
        raise ConfigError("toeplitz: data", f"shape {data.shape}", f"[n, w] with w <= {min(len(key) - 4, TOEPLITZ_BYTES)}")
    cdef const u32[::1] tables = toeplitz_tables(key)
    cdef const u8[:, ::1] rows = np.ascontiguousarray(data, dtype=np.uint8)
    cdef Py_ssize_t n = data.shape[0]
    cdef Py_ssize_t width = data.shape[1]
    out = np.zeros(n, dtype=np.uint32)
    cdef u32[::1] hashes = out
    cdef Py_ssize_t i
    cdef Py_ssize_t k
    with nogil:
        for i in range(n):
            for k in range(width):
                hashes[i] ^= tables[256 * k + rows[i, k]]
    return out


def toeplitz_v4(key, saddr, daddr, sport, dport):
    """Hash IPv4 4-tuples (uint32, uint32, uint16, uint16 of [n]; addresses as packet columns hold them): uint32[n]."""
    cdef const u32[::1] tables = toeplitz_tables(key)
    cdef const u32[::1] source = np.ascontiguousarray(saddr, dtype=np.uint32)
    cdef const u32[::1] target = np.ascontiguousarray(daddr, dtype=np.uint32)
    cdef const u16[::1] from_port = np.ascontiguousarray(sport, dtype=np.uint16)
    cdef const u16[::1] to_port = np.ascontiguousarray(dport, dtype=np.uint16)
    cdef Py_ssize_t n = source.shape[0]
    check_lengths(n, (daddr, sport, dport))
    out = np.empty(n, dtype=np.uint32)
    cdef u32[::1] hashes = out
    cdef Py_ssize_t i
    cdef const u32 *t = &tables[0]
    with nogil:
        for i in range(n):
            hashes[i] = toeplitz4(t, source[i], target[i], from_port[i], to_port[i])
    return out


def toeplitz_v6(key, saddr, daddr, sport, dport):
    """Hash IPv6 4-tuples (uint32[n, 4] twice, uint16[n] twice): uint32[n]."""
    cdef const u32[::1] tables = toeplitz_tables(key)
    cdef const u32[:, ::1] source = np.ascontiguousarray(saddr, dtype=np.uint32)
    cdef const u32[:, ::1] target = np.ascontiguousarray(daddr, dtype=np.uint32)
    cdef const u16[::1] from_port = np.ascontiguousarray(sport, dtype=np.uint16)
    cdef const u16[::1] to_port = np.ascontiguousarray(dport, dtype=np.uint16)
    cdef Py_ssize_t n = source.shape[0]
    if source.shape[1] != 4 or target.shape[1] != 4:
        raise ConfigError("toeplitz_v6: addresses", f"{source.shape[1]} words", "4 words each")
    check_lengths(n, (daddr, sport, dport))
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
                hash ^= hash_word(t + 1024 * k, source[i, k]) ^ hash_word(t + 1024 * (4 + k), target[i, k])
            hashes[i] = hash
    return out


def check_lengths(n, arrays):
    """Refuse columns of different lengths."""
    for array in arrays:
        if len(array) != n:
            raise ConfigError("toeplitz: columns", f"{len(array)} rows beside {n}", "columns of one length")


def check_rss(packets, rss, tables, indirection):
    """Refuse tables that a lookup could leave."""
    if len(packets) and (len(rss) == 0 or int(packets.nic.max()) >= len(rss)):
        raise ConfigError("rss: nic column", int(packets.nic.max()), f"rows of rss, 0..{len(rss) - 1}")
    for row in rss:
        size = int(row["indir_len"])
        if size == 0 or size & (size - 1) or int(row["indir_off"]) + size > len(indirection):
            raise ConfigError("rss: indir_len", size, "a power of two of entries inside the indirection array")
        if int(row["table_off"]) + 256 * TOEPLITZ_BYTES > len(tables):
            raise ConfigError("rss: table_off", int(row["table_off"]), "a table inside the tables array")


def rss_packets(packets, rss, tables, indirection):
    """Hash and queue of every packet by its NIC's row: (uint32[n], uint8[n] HashType, int32[n])."""
    check_rss(packets, rss, tables, indirection)
    cdef Py_ssize_t n = len(packets)
    hash_array = np.zeros(n, dtype=np.uint32)
    type_array = np.zeros(n, dtype=np.uint8)
    queue_array = np.zeros(n, dtype=np.int32)
    if n == 0:
        return hash_array, type_array, queue_array
    cdef const u64[::1] addresses = packets.addresses
    cdef const packets_t *p = <const packets_t *> &addresses[0]
    cdef const u8[::1] rss_bytes = np.ascontiguousarray(rss).view(np.uint8).reshape(-1)
    cdef const rss_t *rows = <const rss_t *> &rss_bytes[0]
    cdef const u32[::1] t = np.ascontiguousarray(tables, dtype=np.uint32)
    cdef const u32[::1] entries = np.ascontiguousarray(indirection, dtype=np.uint32)
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
