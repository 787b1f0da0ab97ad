"""Frames for a live kernel: headers from fields, and streams that are disturbed at times."""

from __future__ import annotations

import random
import socket
import struct
from typing import Any

MACS = bytes.fromhex("0200000000bb0200000000aa")
FIN, SYN, RST, PSH, ACK, URG, ECE, CWR = (1 << bit for bit in range(8))
TCP, UDP, IPIP, IPV6 = 6, 17, 4, 41
ETHERTYPE = {4: b"\x08\x00", 6: b"\x86\xdd"}
LOCAL = {4: "10.7.0.2", 6: "fd07::2"}
PEER = {4: "10.7.0.1", 6: "fd07::1"}
TIMESTAMPS = b"\x01\x01\x08\x0a" + bytes(8)


def packed(version: int, address: str) -> bytes:
    return socket.inet_pton(socket.AF_INET if version == 4 else socket.AF_INET6, address)


def checksum(octets: bytes) -> int:
    """The Internet checksum, complemented."""
    if len(octets) % 2:
        octets += b"\0"
    total: int = sum(struct.unpack(f">{len(octets) // 2}H", octets))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def with_sum(version: int, proto: int, segment: bytes, at: int, ends: tuple[str, str]) -> bytes:
    """The segment with its checksum under the pseudo header."""
    pseudo = b"".join(packed(version, end) for end in ends)
    pseudo += struct.pack(">II", len(segment), proto)
    value = checksum(pseudo + segment)
    if proto == UDP and value == 0:
        value = 0xFFFF
    return segment[:at] + struct.pack(">H", value) + segment[at + 2 :]


def network(version: int, proto: int, segment: bytes, ends: tuple[str, str], **odd: Any) -> bytes:
    """An IP packet."""
    source, target = (packed(version, end) for end in ends)
    if version == 4:
        head = struct.pack(
            ">BBHHHBBH4s4s",
            0x45,
            odd.get("tos", 0),
            20 + len(segment) + odd.get("more", 0),
            odd.get("ident", 0),
            odd.get("frag", 0x4000),
            odd.get("ttl", 64),
            proto,
            0,
            source,
            target,
        )
        value = checksum(head) ^ odd.get("spoil", 0)
        return head[:10] + struct.pack(">H", value) + head[12:] + segment
    word = 6 << 28 | odd.get("tos", 0) << 20 | odd.get("label", 0)
    size = len(segment) + odd.get("more", 0)
    return (
        struct.pack(">IHBB16s16s", word, size, proto, odd.get("ttl", 64), source, target) + segment
    )


def tcp(version: int, payload: bytes, ends: tuple[str, str], **odd: Any) -> bytes:
    """A TCP segment."""
    options = odd.get("options", b"")
    head = struct.pack(
        ">HHIIBBHHH",
        odd.get("sport", 1500),
        8000,
        odd.get("seq", 1000) & 0xFFFFFFFF,
        odd.get("ack", 1),
        (5 + len(options) // 4) << 4,
        ACK | odd.get("flags", 0),
        odd.get("window", 1000),
        0,
        0,
    )
    segment = with_sum(version, TCP, head + options + payload, 16, ends)
    return spoiled(segment, odd)


def udp(version: int, payload: bytes, ends: tuple[str, str], **odd: Any) -> bytes:
    """A UDP datagram."""
    size = 8 + len(payload) + odd.get("longer", 0)
    head = struct.pack(">HHHH", odd.get("sport", 1500), 9, size, 0)
    if odd.get("no_sum"):
        return head + payload
    return spoiled(with_sum(version, UDP, head + payload, 6, ends), odd)


def spoiled(segment: bytes, odd: dict[str, Any]) -> bytes:
    """With one payload octet changed, if so asked."""
    if not odd.get("bad_sum") or len(segment) < 21:
        return segment
    return segment[:-1] + bytes([segment[-1] ^ 0x55])


def ethernet(version: int, packet: bytes) -> bytes:
    return MACS + ETHERTYPE[version] + packet


ODD_TCP: list[dict[str, Any]] = [
    {"flags": flag} for flag in (FIN, SYN, RST, PSH, PSH, URG, ECE, CWR)
] + [{"ack": 2}, {"window": 999}, {"options": TIMESTAMPS}, {"bad_sum": 1}]
ODD_UDP: list[dict[str, Any]] = [{"no_sum": 1}, {"longer": 2}, {"bad_sum": 1}]
ODD_IP: list[dict[str, Any]] = [{"ttl": 63}, {"tos": 4}, {"more": 3}, {"more": -1}]
ODD_IPV4: list[dict[str, Any]] = [{"frag": 0}, {"frag": 0x6000}, {"frag": 0xC000}, {"spoil": 1}]
ODD_IPV6: list[dict[str, Any]] = [{"label": 5}]


class Stream:
    """Segments of one flow, mostly one behind the other."""

    def __init__(self, rng: random.Random, version: int, proto: int, sport: int) -> None:
        self.rng, self.version, self.proto, self.sport = rng, version, proto, sport
        self.seq, self.ident = rng.randrange(2**32), rng.randrange(65536)
        self.step = rng.choice([0, 1, 1, 1])
        self.size = rng.choice([100, 100, 400, 1400])

    def packet(self) -> bytes:
        """The next one, as an IP packet."""
        rng = self.rng
        ends = (PEER[self.version], LOCAL[self.version])
        size = (
            self.size if rng.random() < 0.9 else rng.choice([0, 1, self.size // 2, self.size + 8])
        )
        payload = bytes(rng.randrange(256) for _ in range(min(size, 16))).ljust(size, b"p")
        odd: dict[str, Any] = {"sport": self.sport}
        if rng.random() < 0.12:
            odd |= rng.choice(ODD_TCP if self.proto == TCP else ODD_UDP)
        head: dict[str, Any] = {"ident": self.ident % 65536}
        if rng.random() < 0.06:
            head |= rng.choice(ODD_IP + (ODD_IPV4 if self.version == 4 else ODD_IPV6))
        self.ident += self.step if rng.random() < 0.95 else rng.choice([0, 1, 2])
        if self.proto == TCP:
            seq = self.seq + (0 if rng.random() < 0.96 else rng.choice([1, -1]))
            segment = tcp(self.version, payload, ends, seq=seq, **odd)
            self.seq += size
        else:
            segment = udp(self.version, payload, ends, **odd)
        return network(self.version, self.proto, segment, ends, **head)


def gro_case(rng: random.Random) -> list[bytes]:
    """Frames of a few flows, at times all in IP in IP."""
    outer = rng.choice([0] * 7 + [4, 6])
    kinds = [
        (rng.choice([4, 4, 6]), rng.choice([TCP, TCP, UDP]))
        for _ in range(rng.choice([1, 1, 2, 3, 9]))
    ]
    streams = [Stream(rng, *kind, 1500 + place) for place, kind in enumerate(kinds)]
    frames, ident = [], rng.randrange(65536)
    run = rng.choice([1, 1, 3, 60])
    for number in range(rng.choice([2, 3, 5, 8, 16, 40, 60])):
        stream = streams[number // run % len(streams)]
        packet, version = stream.packet(), stream.version
        if outer:
            proto = IPIP if version == 4 else IPV6
            ends = (PEER[outer], LOCAL[outer])
            packet = network(outer, proto, packet, ends, ident=ident % 65536)
            version, ident = outer, ident + rng.choice([1] * 9 + [0])
        frame = ethernet(version, packet)
        frames.append(frame + bytes(2) if rng.random() < 0.02 else frame)
    return frames
