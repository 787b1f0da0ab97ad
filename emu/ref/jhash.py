"""Bob Jenkins' hash as the kernel uses it, and the socket hashes built on it (SOCK-1..17).

Mirrors include/linux/jhash.h, inet_ehashfn and inet6_ehashfn. Addresses are network bytes; a word
of them is loaded little-endian, as x86 does (SOCK-7).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

U32 = 0xFFFFFFFF
GOLDEN = 0xDEADBEEF
MIX_STEPS = (
    ("a", "c", "b", 4),
    ("b", "a", "c", 6),
    ("c", "b", "a", 8),
    ("a", "c", "b", 16),
    ("b", "a", "c", 19),
    ("c", "b", "a", 4),
)

V4_ANY = bytes(4)
V6_ANY = bytes(16)
MAPPED = bytes(10) + b"\xff\xff"


def rol32(value: int, bits: int) -> int:
    """Rotate left."""
    return ((value << bits) | (value >> (32 - bits))) & U32


def mix(a: int, b: int, c: int) -> tuple[int, int, int]:
    """Stir three words into each other, reversibly (SOCK-1)."""
    words = {"a": a, "b": b, "c": c}
    for x, z, y, bits in MIX_STEPS:
        words[x] = (words[x] - words[z]) & U32 ^ rol32(words[z], bits)
        words[z] = (words[z] + words[y]) & U32
    return words["a"], words["b"], words["c"]


def final(a: int, b: int, c: int) -> int:
    """Fold three words into one (SOCK-2)."""
    c = ((c ^ b) - rol32(b, 14)) & U32
    a = ((a ^ c) - rol32(c, 11)) & U32
    b = ((b ^ a) - rol32(a, 25)) & U32
    c = ((c ^ b) - rol32(b, 16)) & U32
    a = ((a ^ c) - rol32(c, 4)) & U32
    b = ((b ^ a) - rol32(a, 14)) & U32
    return ((c ^ b) - rol32(b, 24)) & U32


def jhash_nwords(words: Sequence[int], initval: int) -> int:
    """Hash one to three words (SOCK-3): jhash_1word, jhash_2words, jhash_3words."""
    start = (initval + GOLDEN + 4 * len(words)) & U32
    a, b, c = ((word + start) & U32 for word in (*words, 0, 0)[:3])
    return final(a, b, c)


def jhash2(words: Sequence[int], initval: int) -> int:
    """Hash any number of words (SOCK-4)."""
    return _sponge(list(words), GOLDEN + 4 * len(words) + initval)


def jhash(data: bytes, initval: int) -> int:
    """Hash any number of bytes (SOCK-4): the tail counts as zero-padded words."""
    padded = data + bytes(-len(data) % 4)
    words = [int.from_bytes(padded[at : at + 4], "little") for at in range(0, len(padded), 4)]
    return _sponge(words, GOLDEN + len(data) + initval)


def _sponge(words: list[int], start: int) -> int:
    a = b = c = start & U32
    if not words:
        return c
    while len(words) > 3:
        a, b, c = mix((a + words[0]) & U32, (b + words[1]) & U32, (c + words[2]) & U32)
        words = words[3:]
    rest = [*words, 0, 0][:3]
    return final((a + rest[0]) & U32, (b + rest[1]) & U32, (c + rest[2]) & U32)


def next_pseudo_random32(seed: int) -> int:
    """The next of a linear congruential sequence (SOCK-6)."""
    return (seed * 1664525 + 1013904223) & U32


def reciprocal_scale(value: int, n: int) -> int:
    """Map a 32-bit hash onto [0, n): no modulus (SOCK-5)."""
    return value * n >> 32


def words_of(address: bytes) -> list[int]:
    """The words of an address, loaded little-endian (SOCK-7)."""
    return [int.from_bytes(address[at : at + 4], "little") for at in range(0, len(address), 4)]


def network_port(port: int) -> int:
    """A port's two network bytes loaded as a little-endian integer (SOCK-7)."""
    return int.from_bytes(port.to_bytes(2, "big"), "little")


def v4_of(address: bytes) -> bytes | None:
    """The IPv4 address in an address: itself, or the one that ``::ffff:a.b.c.d`` maps.

    None without one.
    """
    if len(address) == 4:
        return address
    return address[12:] if address[:12] == MAPPED else None


@lru_cache(maxsize=65536)
def ehash(
    laddr: bytes, lport: int, faddr: bytes, fport: int, secret: int, addr_secret: int,
    port_added: bool, xor_words: bool,
) -> int:  # fmt: skip
    """Hash a 4-tuple (SOCK-10..14; inet_ehashfn, inet6_ehashfn, udp_ehashfn, udp6_ehashfn).

    Args:
        laddr, faddr: 4 or 16 network bytes.
        secret: the protocol's secret plus the netns' mix.
        addr_secret: of the foreign address; IPv6 only.
        port_added: the local port is added behind the hash (SOCK-12, TCP since about 6.15).
        xor_words: fold the first two words of the foreign IPv6 address together (SOCK-14,
            old kernels).
    """
    inner_port = 0 if port_added else lport
    ports = inner_port << 16 | network_port(fport)
    if len(laddr) == 4:
        operands = [words_of(laddr)[0], words_of(faddr)[0], ports]
    else:
        foreign = words_of(faddr)
        if xor_words:
            fhash = jhash_nwords([foreign[0] ^ foreign[1], foreign[2], foreign[3]], addr_secret)
        else:
            fhash = jhash2(foreign, addr_secret)
        operands = [words_of(laddr)[3], fhash, ports]
    value = jhash_nwords(operands, secret & U32)
    return (value + lport) & U32 if port_added else value


@lru_cache(maxsize=65536)
def portaddr_hash(address: bytes, port: int, hash_mix: int) -> int:
    """Hash a local address and port (SOCK-15; ipv4_portaddr_hash, ipv6_portaddr_hash)."""
    v4 = V4_ANY if address == V6_ANY else v4_of(address)
    if v4 is not None:
        return jhash_nwords(words_of(v4), hash_mix) ^ port
    return jhash2(words_of(address), hash_mix) ^ port


# The array doors.


def jhash_words(words: NDArray[np.uint32], initval: int) -> NDArray[np.uint32]:
    """Hash each row of words: jhash2 of it; ``uint32[n, k] -> uint32[n]`` (SOCK-4).

    Rows of one to three words equal jhash_1word ... jhash_3words (SOCK-3).
    """
    return np.array([jhash2(row.tolist(), initval) for row in words], dtype=np.uint32)


def jhash_bytes(data: bytes, initval: int) -> int:
    """Hash bytes (SOCK-4)."""
    return jhash(data, initval)


def ehash_v4(
    laddr: NDArray[np.uint32], lport: NDArray[np.uint16],
    faddr: NDArray[np.uint32], fport: NDArray[np.uint16],
    secret: int, *, port_added: bool = False,
) -> NDArray[np.uint32]:  # fmt: skip
    """Hash IPv4 4-tuples (SOCK-10..12).

    Addresses are words, ports numbers: four arrays of n, to ``uint32[n]``.

    secret: the protocol's secret plus the netns' mix.
    """
    rows = zip(laddr.tolist(), lport.tolist(), faddr.tolist(), fport.tolist(), strict=True)
    return np.array(
        [
            ehash(
                la.to_bytes(4, "little"),
                lp,
                fa.to_bytes(4, "little"),
                fp,
                secret,
                0,
                port_added,
                False,
            )
            for la, lp, fa, fp in rows
        ],
        dtype=np.uint32,
    )


def ehash_v6(
    laddr: NDArray[np.uint32], lport: NDArray[np.uint16],
    faddr: NDArray[np.uint32], fport: NDArray[np.uint16],
    secret: int, addr_secret: int, *, port_added: bool = False, xor_words: bool = False,
) -> NDArray[np.uint32]:  # fmt: skip
    """Hash IPv6 4-tuples (SOCK-13, SOCK-14).

    Addresses are ``uint32[n, 4]``, ports ``uint16[n]``; to ``uint32[n]``.
    """
    rows = zip(laddr, lport.tolist(), faddr, fport.tolist(), strict=True)
    return np.array(
        [
            ehash(
                la.astype("<u4").tobytes(), lp, fa.astype("<u4").tobytes(), fp,
                secret, addr_secret, port_added, xor_words,
            )
            for la, lp, fa, fp in rows
        ],
        dtype=np.uint32,
    )  # fmt: skip


def portaddr_v4(
    address: NDArray[np.uint32], port: NDArray[np.uint16], hash_mix: int
) -> NDArray[np.uint32]:
    """Hash IPv4 addresses with ports: ``uint32[n]``, ``uint16[n]`` to ``uint32[n]`` (SOCK-15)."""
    rows = zip(address.tolist(), port.tolist(), strict=True)
    return np.array(
        [portaddr_hash(addr.to_bytes(4, "little"), number, hash_mix) for addr, number in rows],
        dtype=np.uint32,
    )


def portaddr_v6(
    address: NDArray[np.uint32], port: NDArray[np.uint16], hash_mix: int
) -> NDArray[np.uint32]:
    """Hash IPv6 addresses with ports: ``uint32[n, 4]``, ``uint16[n]`` to ``uint32[n]``.

    Mapped and any addresses hash as IPv4 ones (SOCK-15).
    """
    rows = zip(address, port.tolist(), strict=True)
    return np.array(
        [portaddr_hash(addr.astype("<u4").tobytes(), number, hash_mix) for addr, number in rows],
        dtype=np.uint32,
    )
