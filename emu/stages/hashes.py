"""Hashes over arrays: Toeplitz, SipHash, the flow hash, jhash, the hash of a socket's 4-tuple."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emu.engines import stage
from emu.errors import ConfigError
from emu.model.arrays import column, octets
from emu.model.checks import shown
from emu.model.inputs import tuples
from emu.model.lower_sockets import address_words as words_of
from emu.model.packets import Packets
from emu.stages.arguments import array, number, rss_key


def address_words(addresses: Iterable[str | bytes | int]) -> NDArray[np.uint32]:
    """Make address words, ``uint32[n, 4]``, of addresses.

    An IPv4 address fills word 0, the others are 0: ``address_words([...])[:, 0]`` is what the
    IPv4 doors take.

    Args:
        addresses: what `ipaddress.ip_address` reads: ``"10.0.0.1"``, ``"fd00::1"``, packed bytes.

    Raises:
        ConfigError: something that is no address.
    """
    rows = []
    for place, address in enumerate(addresses):
        try:
            rows.append(words_of(ipaddress.ip_address(address)))
        except ValueError:
            where = f"address_words[{place}]"
            raise ConfigError(where, shown(address), "an IPv4 or IPv6 address") from None
    return np.array(rows, dtype=np.uint32).reshape(-1, 4)


def toeplitz(key: bytes | str, data: ArrayLike, *, engine: str = "core") -> NDArray[np.uint32]:
    """Hash rows of octets with Toeplitz (R-1.1).

    For each set bit of the input, first bit first, the 32 bits of the key that begin at its place
    are added in. Zeros behind the input change nothing.

    Args:
        key: 40 bytes or more, as bytes or as `emu.model.nic.Rss` reads it (``"6d:5a:..."``,
            ``"microsoft"``, ``"symmetric"``).
        data: ``uint8[n, w]``, w <= 36 octets in network order: source address, destination
            address, source port, destination port, or any of them.
        engine: ``"core"`` or ``"ref"``.

    Returns:
        ``uint32[n]``.

    Raises:
        ConfigError: a key that is too short, rows that are too wide, values that are no octets.
        CoreNotBuilt: the compiled core is missing.
    """
    return array(stage(engine, "rss").toeplitz(rss_key(key), data))


def toeplitz_v4(
    key: bytes | str,
    saddr: ArrayLike,
    daddr: ArrayLike,
    sport: ArrayLike,
    dport: ArrayLike,
    *,
    engine: str = "core",
) -> NDArray[np.uint32]:
    """Hash IPv4 4-tuples with Toeplitz, as a NIC does for TCP (R-1.1).

    Args:
        key: as for `toeplitz`.
        saddr: ``uint32[n]``, address words.
        daddr: ``uint32[n]``.
        sport: ``uint16[n]``.
        dport: ``uint16[n]``.
        engine: ``"core"`` or ``"ref"``.

    Returns:
        ``uint32[n]``.

    Raises:
        ConfigError: columns of different lengths, or a number out of range.
        CoreNotBuilt: the compiled core is missing.
    """
    module = stage(engine, "rss")
    return array(module.toeplitz_v4(rss_key(key), saddr, daddr, sport, dport))


def toeplitz_v6(
    key: bytes | str,
    saddr: ArrayLike,
    daddr: ArrayLike,
    sport: ArrayLike,
    dport: ArrayLike,
    *,
    engine: str = "core",
) -> NDArray[np.uint32]:
    """Hash IPv6 4-tuples with Toeplitz, as a NIC does for TCP (R-1.1).

    Args:
        key: as for `toeplitz`.
        saddr: ``uint32[n, 4]``, address words.
        daddr: ``uint32[n, 4]``.
        sport: ``uint16[n]``.
        dport: ``uint16[n]``.
        engine: ``"core"`` or ``"ref"``.

    Returns:
        ``uint32[n]``.

    Raises:
        ConfigError: columns of different lengths, or a number out of range.
        CoreNotBuilt: the compiled core is missing.
    """
    module = stage(engine, "rss")
    return array(module.toeplitz_v6(rss_key(key), saddr, daddr, sport, dport))


def siphash(key: bytes, data: ArrayLike, *, engine: str = "core") -> NDArray[np.uint64]:
    """Hash rows of octets with SipHash-2-4 (R-2.2).

    Args:
        key: 16 bytes.
        data: ``uint8[n, w]``.
        engine: ``"core"`` or ``"ref"``.

    Returns:
        ``uint64[n]``.

    Raises:
        ConfigError: a key of another length, or values that are no octets.
        CoreNotBuilt: the compiled core is missing.
    """
    return array(stage(engine, "flow_hash").siphash(octets("siphash: key", key, 16, 16), data))


class FlowHashes(NamedTuple):
    """The stack's own hash of n packets."""

    hash: NDArray[np.uint32]  # never 0
    l4: NDArray[np.uint8]  # 1: ports or a flow label stand in it


def flow_hash(packets: Packets, key: bytes, *, engine: str = "core") -> FlowHashes:
    """Hash packets as the stack does itself when no device gave an L4 hash (R-2.2).

    Mirrors skb_get_hash: SipHash over the flow's keys, addresses and ports each in order, so that
    both directions hash alike; 0 becomes 1.

    Args:
        packets: the table.
        key: 16 bytes, the kernel's secret of that name. Nobody can read it from a host:
            `emu.model.secrets.Secrets` draws one from a seed.
        engine: ``"core"`` or ``"ref"``.

    Returns:
        hash ``uint32[n]``, l4 ``uint8[n]``.

    Raises:
        ConfigError: a key of another length.
        CoreNotBuilt: the compiled core is missing.
    """
    secret = octets("flow_hash: key", key, 16, 16)
    return FlowHashes(*stage(engine, "flow_hash").flow_hash_packets(packets, secret))


def jhash(words: ArrayLike, initval: int = 0, *, engine: str = "core") -> NDArray[np.uint32]:
    """Hash rows of words with Jenkins' lookup3 as the kernel has it (SOCK-3, SOCK-4).

    Args:
        words: ``uint32[n, k]``; rows of one to three words hash as jhash_1word to jhash_3words.
        initval: the seed, 32 bits.
        engine: ``"core"`` or ``"ref"``.

    Returns:
        ``uint32[n]``.

    Raises:
        ConfigError: no rows of words, or a number out of range.
        CoreNotBuilt: the compiled core is missing.
    """
    rows = column("jhash: words", words, "u4", width=-1)
    seed = number("jhash: initval", initval, 0, 2**32 - 1)
    return array(stage(engine, "jhash").jhash_words(rows, seed))


def ehash_v4(
    laddr: ArrayLike,
    lport: ArrayLike,
    faddr: ArrayLike,
    fport: ArrayLike,
    secret: int,
    *,
    port_added: bool = False,
    engine: str = "core",
) -> NDArray[np.uint32]:
    """Hash IPv4 sockets' 4-tuples (SOCK-10 to SOCK-12).

    Args:
        laddr: ``uint32[n]``, local address words.
        lport: ``uint16[n]``.
        faddr: ``uint32[n]``, foreign address words.
        fport: ``uint16[n]``.
        secret: the protocol's secret plus the mix of the network namespace, modulo 2**32.
        port_added: the local port is added outside jhash, as 6.18 does for TCP (SOCK-12).
        engine: ``"core"`` or ``"ref"``.

    Returns:
        ``uint32[n]``.

    Raises:
        ConfigError: columns of different lengths, or a number out of range.
        CoreNotBuilt: the compiled core is missing.
    """
    given = tuples("ehash_v4", laddr, faddr, lport, fport)
    mixed = number("ehash_v4: secret", secret, 0, 2**32 - 1)
    return array(
        stage(engine, "jhash").ehash_v4(
            given.saddr, given.sport, given.daddr, given.dport, mixed, port_added=bool(port_added)
        )
    )


def ehash_v6(
    laddr: ArrayLike,
    lport: ArrayLike,
    faddr: ArrayLike,
    fport: ArrayLike,
    secret: int,
    addr_secret: int,
    *,
    port_added: bool = False,
    xor_words: bool = False,
    engine: str = "core",
) -> NDArray[np.uint32]:
    """Hash IPv6 sockets' 4-tuples (SOCK-13, SOCK-14).

    Args:
        laddr: ``uint32[n, 4]``, local address words.
        lport: ``uint16[n]``.
        faddr: ``uint32[n, 4]``, foreign address words.
        fport: ``uint16[n]``.
        secret: the protocol's secret plus the mix of the network namespace, modulo 2**32.
        addr_secret: the protocol's secret of foreign addresses.
        port_added: the local port is added outside jhash, as 6.18 does for TCP (SOCK-12).
        xor_words: the foreign address's first two words enter as their exclusive or, as in 3.10
            (SOCK-14).
        engine: ``"core"`` or ``"ref"``.

    Returns:
        ``uint32[n]``.

    Raises:
        ConfigError: columns of different lengths, or a number out of range.
        CoreNotBuilt: the compiled core is missing.
    """
    given = tuples("ehash_v6", laddr, faddr, lport, fport, width=4)
    return array(
        stage(engine, "jhash").ehash_v6(
            given.saddr,
            given.sport,
            given.daddr,
            given.dport,
            number("ehash_v6: secret", secret, 0, 2**32 - 1),
            number("ehash_v6: addr_secret", addr_secret, 0, 2**32 - 1),
            port_added=bool(port_added),
            xor_words=bool(xor_words),
        )
    )
