"""The flow hash over arrays: the doors of the stage."""
import numpy as np

from emu.model.arrays import column
from emu.model.inputs import flow_keys, siphash_key

from emu._core.flow_hash cimport flow_hash
from emu._core.siphash cimport sip_final, sip_init, sip_t, sip_word
from emu._core.types cimport flow_key_t, packets_t, u8, u32, u64


def key_words(key16):
    """The 16-byte secret as two little-endian words."""
    return np.frombuffer(siphash_key(key16), dtype="<u8").astype(np.uint64)


def siphash(key16, data):
    """SipHash-2-4 of each row of uint8[n, w]: uint64[n]."""
    cdef const u64[::1] key = key_words(key16)
    rows = column("siphash: data", data, "u1", width=-1)
    cdef Py_ssize_t n = rows.shape[0]
    cdef Py_ssize_t width = rows.shape[1]
    # Rows end in the length octet that SipHash puts behind the tail.
    padded = np.zeros((n, (width // 8 + 1) * 8), dtype=np.uint8)
    padded[:, :width] = rows
    padded[:, padded.shape[1] - 1] = width & 0xFF
    cdef const u64[:, ::1] words = padded.view(np.uint64)
    cdef Py_ssize_t count = words.shape[1]
    out = np.empty(n, dtype=np.uint64)
    cdef u64[::1] hashes = out
    cdef sip_t s
    cdef Py_ssize_t i
    cdef Py_ssize_t k
    with nogil:
        for i in range(n):
            sip_init(&s, &key[0])
            for k in range(count - 1):
                sip_word(&s, words[i, k])
            hashes[i] = sip_final(&s, words[i, count - 1])
    return out


def flow_hash_packets(packets, key16):
    """Hash every packet: (hash uint32[n], l4 uint8[n]: ports or a flow label stand in it)."""
    cdef const u64[::1] key = key_words(key16)
    cdef Py_ssize_t n = len(packets)
    out = np.empty(n, dtype=np.uint32)
    l4_array = np.zeros(n, dtype=np.uint8)
    cdef u32[::1] hashes = out
    cdef u8[::1] l4 = l4_array
    cdef const u64[::1] addresses = packets.addresses
    cdef const packets_t *p = <const packets_t *> &addresses[0]
    cdef const u8[::1] row_bytes = flow_keys(packets).view(np.uint8)
    cdef const flow_key_t *keys = <const flow_key_t *> &row_bytes[0]
    cdef Py_ssize_t i
    with nogil:
        for i in range(n):
            hashes[i] = flow_hash(&key[0], p, keys, i, &l4[i])
    return out, l4_array
