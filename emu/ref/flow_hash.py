"""The stack's own flow hash (skb_get_hash): SipHash over a flow's keys (receive.md 2)."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emu.model.arrays import column
from emu.model.inputs import flow_keys, siphash_key
from emu.model.packets import Packets
from emu.ref import bits
from emu.ref.packet import PacketView
from emu.ref.record import SILENT, Recorder

MASK64 = 2**64 - 1


def rotate(value: int, by: int) -> int:
    """Rotate 64 bits left."""
    return (value << by | value >> (64 - by)) & MASK64


@lru_cache(maxsize=1 << 16)
def siphash_bytes(key16: bytes, data: bytes) -> int:
    """SipHash-2-4 of some bytes."""
    k0, k1 = int.from_bytes(key16[:8], "little"), int.from_bytes(key16[8:], "little")
    state = [
        k0 ^ 0x736F6D6570736575,
        k1 ^ 0x646F72616E646F6D,
        k0 ^ 0x6C7967656E657261,
        k1 ^ 0x7465646279746573,
    ]
    whole = len(data) // 8 * 8
    last = data[whole:].ljust(7, b"\0") + bytes([len(data) % 256])
    for at in range(0, whole + 8, 8):
        word = int.from_bytes(data[at : at + 8] if at < whole else last, "little")
        state[3] ^= word
        for _ in range(2):
            sip_round(state)
        state[0] ^= word
    state[2] ^= 0xFF
    for _ in range(4):
        sip_round(state)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def sip_round(state: list[int]) -> None:
    """One SipRound."""
    v0, v1, v2, v3 = state
    v0 = (v0 + v1) & MASK64
    v2 = (v2 + v3) & MASK64
    v1 = rotate(v1, 13) ^ v0
    v3 = rotate(v3, 16) ^ v2
    v0 = (rotate(v0, 32) + v3) & MASK64
    v2 = (v2 + v1) & MASK64
    v3 = rotate(v3, 21) ^ v0
    v1 = rotate(v1, 17) ^ v2
    state[:] = v0, v1, rotate(v2, 32), v3


def flow_hash_block(key16: bytes, block: bytes) -> int:
    """The 32-bit hash of a key block; 0 becomes 1."""
    return siphash_bytes(key16, block) & 0xFFFFFFFF or 1


@lru_cache(maxsize=1 << 16)
def flow_block(
    family: int, ethertype: int, proto: int, saddr: bytes, daddr: bytes, sport: int, dport: int
) -> bytes:
    """The hashed bytes of a plain flow: no VLAN, no tunnel, no flow label.

    Addresses and ports are put in order separately, so that both directions (and two mixed ones)
    hash alike. IPv4 addresses and ports compare as little-endian numbers of their network bytes,
    IPv6 addresses byte by byte.
    """
    head = ethertype.to_bytes(2, "big") + (bytes([proto]) if family else b"\0")
    if family == 0:
        return head.ljust(40, b"\0")
    ports = sorted(
        (port.to_bytes(2, "big") for port in (sport, dport)),
        key=lambda raw: int.from_bytes(raw, "little"),
    )
    order = (lambda raw: int.from_bytes(raw, "little")) if family == 4 else None
    addresses = sorted((saddr, daddr), key=order)
    return b"".join((head.ljust(28, b"\0"), *ports, bytes(4), *addresses, bytes(4)))


def packet_hash(
    key16: bytes, view: PacketView, index: int, rec: Recorder = SILENT
) -> tuple[int, bool]:
    """skb_get_hash of one packet: the hash, and whether ports or a flow label stand in it."""
    row = view.flow_key[index]
    if rec.rule("R-2.2", row >= 0):
        key = view.packets.flow_keys[row]
        return flow_hash_block(key16, key["block"].tobytes()[: int(key["len"])]), bool(key["l4"])
    has_ports = bool(view.flags[index] & bits.HAS_PORTS)
    sport = view.sport[index] if has_ports else 0
    dport = view.dport[index] if has_ports else 0
    block = flow_block(
        view.family[index],
        view.ethertype[index],
        view.ip_proto[index],
        view.saddr_bytes[index],
        view.daddr_bytes[index],
        sport,
        dport,
    )
    return flow_hash_block(key16, block), bool(sport or dport)


def siphash(key16: bytes, data: ArrayLike) -> NDArray[np.uint64]:
    """SipHash-2-4 of each row of uint8[n, w]: uint64[n]."""
    key16, rows = siphash_key(key16), column("siphash: data", data, "u1", width=-1)
    return np.array([siphash_bytes(key16, row.tobytes()) for row in rows], dtype=np.uint64)


def flow_hash_packets(
    packets: Packets, key16: bytes, rec: Recorder = SILENT
) -> tuple[NDArray[np.uint32], NDArray[np.uint8]]:
    """Hash every packet: (hash uint32[n], l4 uint8[n]: ports or a flow label stand in it)."""
    key16 = siphash_key(key16)
    flow_keys(packets)
    view = PacketView(packets)
    rows = [packet_hash(key16, view, index, rec) for index in range(len(packets))]
    return (
        np.array([value for value, _ in rows], dtype=np.uint32),
        np.array([l4 for _, l4 in rows], dtype=np.uint8),
    )
