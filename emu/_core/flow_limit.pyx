"""Flow limit over arrays: the door of the stage."""
import numpy as np

from emu.errors import ConfigError

from emu._core.flow_limit cimport flow_limit_drops_one, flow_limit_init, flow_limit_t
from emu._core.types cimport u8, u32


def flow_limit_drops(hash, table_len, low_bits):
    """Whether each of these packets, checked one after the other on one CPU, is dropped.

    Args:
        hash: uint32[n], skb->hash.
        table_len: net.core.flow_limit_table_len, a power of two, 2 to 65536.
        low_bits: the low bits of a hash are its bucket (6.12); otherwise hash_32 says it.

    Returns:
        uint8[n].
    """
    if not 2 <= table_len <= 65536 or table_len & (table_len - 1):
        raise ConfigError("flow_limit: table_len", table_len, "a power of two, 2 to 65536")
    cdef const u32[::1] hashes = np.ascontiguousarray(hash, dtype=np.uint32)
    cdef Py_ssize_t n = hashes.shape[0]
    cdef u8[::1] buckets = np.zeros(table_len, dtype=np.uint8)
    out = np.empty(n, dtype=np.uint8)
    cdef u8[::1] drops = out
    cdef flow_limit_t limit
    cdef Py_ssize_t i
    flow_limit_init(&limit, &buckets[0], table_len, low_bits)
    with nogil:
        for i in range(n):
            drops[i] = flow_limit_drops_one(&limit, hashes[i])
    return out
