"""Array doors of jhash; what they mean stands in emu/ref/jhash.py."""
from libc.string cimport memcpy

import numpy as np

from emu._core.jhash cimport GOLDEN, ehash4, ehash6, jhash2, jhash_rest, portaddr4, portaddr6
from emu._core.types cimport u8, u16, u32


def jhash_words(const u32[:, ::1] words, u32 initval):
    """Hash each row of words: jhash2 of it; ``uint32[n, k] -> uint32[n]`` (SOCK-4).

    Rows of one to three words equal jhash_1word ... jhash_3words (SOCK-3).
    """
    cdef Py_ssize_t n = words.shape[0]
    cdef Py_ssize_t k = words.shape[1]
    out_array = np.empty(n, dtype=np.uint32)
    cdef u32[::1] out = out_array
    cdef Py_ssize_t i
    with nogil:
        for i in range(n):
            out[i] = jhash2(&words[i, 0] if k else NULL, k, initval)
    return out_array


def jhash_bytes(bytes data, u32 initval):
    """Hash bytes (SOCK-4)."""
    cdef Py_ssize_t n = len(data)
    words_array = np.zeros((n + 3) // 4 + 1, dtype=np.uint32)
    cdef u32[::1] words = words_array
    cdef const u8 *source = data
    memcpy(&words[0], source, n)
    return jhash_rest(&words[0], (n + 3) // 4, <u32>GOLDEN + <u32>n + initval)


cdef Py_ssize_t _same_length(Py_ssize_t a, Py_ssize_t b, Py_ssize_t c, Py_ssize_t d) except -1:
    if not a == b == c == d:
        raise ValueError(f"arrays of different lengths: {a}, {b}, {c}, {d}")
    return a


def ehash_v4(
    const u32[::1] laddr, const u16[::1] lport, const u32[::1] faddr, const u16[::1] fport,
    u32 secret, *, bint port_added=False,
):
    """Hash IPv4 4-tuples (SOCK-10..12).

    Four arrays of n, addresses as words, ports as numbers, to ``uint32[n]``. secret: the
    protocol's secret plus the netns' mix.
    """
    cdef Py_ssize_t n = _same_length(laddr.shape[0], lport.shape[0], faddr.shape[0], fport.shape[0])
    out_array = np.empty(n, dtype=np.uint32)
    cdef u32[::1] out = out_array
    cdef Py_ssize_t i
    with nogil:
        for i in range(n):
            out[i] = ehash4(laddr[i], lport[i], faddr[i], fport[i], secret, port_added)
    return out_array


def ehash_v6(
    const u32[:, ::1] laddr, const u16[::1] lport, const u32[:, ::1] faddr, const u16[::1] fport,
    u32 secret, u32 addr_secret, *, bint port_added=False, bint xor_words=False,
):
    """Hash IPv6 4-tuples (SOCK-13, SOCK-14).

    Addresses ``uint32[n, 4]`` and ports ``uint16[n]`` to ``uint32[n]``.
    """
    cdef Py_ssize_t n = _same_length(laddr.shape[0], lport.shape[0], faddr.shape[0], fport.shape[0])
    if laddr.shape[1] != 4 or faddr.shape[1] != 4:
        raise ValueError("an IPv6 address has 4 words")
    out_array = np.empty(n, dtype=np.uint32)
    cdef u32[::1] out = out_array
    cdef Py_ssize_t i
    with nogil:
        for i in range(n):
            out[i] = ehash6(
                &laddr[i, 0], lport[i], &faddr[i, 0], fport[i], secret, addr_secret,
                port_added, xor_words,
            )
    return out_array


def portaddr_v4(const u32[::1] address, const u16[::1] port, u32 hash_mix):
    """Hash IPv4 addresses and ports: ``uint32[n]``, ``uint16[n]`` to ``uint32[n]`` (SOCK-15)."""
    cdef Py_ssize_t n = _same_length(address.shape[0], port.shape[0], port.shape[0], port.shape[0])
    out_array = np.empty(n, dtype=np.uint32)
    cdef u32[::1] out = out_array
    cdef Py_ssize_t i
    for i in range(n):
        out[i] = portaddr4(address[i], port[i], hash_mix)
    return out_array


def portaddr_v6(const u32[:, ::1] address, const u16[::1] port, u32 hash_mix):
    """Hash IPv6 addresses and ports: ``uint32[n, 4]``, ``uint16[n]`` to ``uint32[n]`` (SOCK-15)."""
    cdef Py_ssize_t n = _same_length(address.shape[0], port.shape[0], port.shape[0], port.shape[0])
    if address.shape[1] != 4:
        raise ValueError("an IPv6 address has 4 words")
    out_array = np.empty(n, dtype=np.uint32)
    cdef u32[::1] out = out_array
    cdef Py_ssize_t i
    for i in range(n):
        out[i] = portaddr6(&address[i, 0], port[i], hash_mix)
    return out_array
