"""Write the octets of an skb that GRO made of several packets (receive.md 5.4)."""

from __future__ import annotations

import struct
from typing import NamedTuple

IPV4_BYTES, IPV6_BYTES, UDP_BYTES = 20, 40, 8
JUMBO_TYPE, HOP_BY_HOP = 0xC2, 0
TAG_TYPES, IPV6_TYPE, IPV4_TYPE = (0x8100, 0x88A8), 0x86DD, 0x0800
EXTENSIONS, TCP, TUNNELS = (0, 43, 60), 6, (4, 41)
FIN_PSH = 0x09
LARGEST = 0xFFFF
GSO_FRAGLIST, GSO_IPXIP = 1 << 18, 1 << 8 | 1 << 9


class Network(NamedTuple):
    """A network header in a frame."""

    offset: int
    version: int


class Headers(NamedTuple):
    """Where a frame's headers lie."""

    networks: tuple[Network, ...]  # outermost first
    transport: int
    protocol: int
    payload: int


def read_headers(frame: bytes, in_tunnel: bool) -> Headers:
    """The headers of a packet that GRO has joined others to: it is whole, and IP."""
    at = 14
    kind = int.from_bytes(frame[12:14], "big")
    while kind in TAG_TYPES:
        kind = int.from_bytes(frame[at + 2 : at + 4], "big")
        at += 4
    networks = []
    version = 4 if kind == IPV4_TYPE else 6
    while True:
        networks.append(Network(at, version))
        at, protocol = behind_network(frame, at, version)
        if not in_tunnel or protocol not in TUNNELS or len(networks) == 2:
            break
        version = 4 if protocol == TUNNELS[0] else 6
    size = (frame[at + 12] >> 4) * 4 if protocol == TCP else UDP_BYTES
    return Headers(tuple(networks), at, protocol, at + size)


def behind_network(frame: bytes, at: int, version: int) -> tuple[int, int]:
    """Where a network header ends, and what stands behind it."""
    if version == 4:
        return at + IPV4_BYTES, frame[at + 9]
    following, at = frame[at + 6], at + IPV6_BYTES
    while following in EXTENSIONS:
        following, at = frame[at], at + 8 * (frame[at + 1] + 1)
    return at, following


def aggregate(frames: list[bytes], gso_type: int, len_bytes: int) -> bytes:
    """The octets of the skb that holds these packets; one packet stays as it is.

    A fraglist's members have kept their headers beside: what is written is the first packet with
    the lengths of all, and the other payloads behind it.

    Args:
        frames: the octets of each packet.
        gso_type: of the skb.
        len_bytes: of the skb; it tells whether the jumbo header went in.
    """
    if len(frames) == 1:
        return frames[0]
    headers = read_headers(frames[0], bool(gso_type & GSO_IPXIP))
    out = bytearray(b"".join([frames[0], *(frame[headers.payload :] for frame in frames[1:])]))
    whole = len(out)
    for network in headers.networks:
        if network.version == 4:
            finish_ipv4(out, network.offset, whole - network.offset)
        else:
            payload_bytes = whole - network.offset - IPV6_BYTES
            struct.pack_into(
                ">H", out, network.offset + 4, payload_bytes if payload_bytes <= LARGEST else 0
            )
    if gso_type & GSO_FRAGLIST:
        if headers.protocol != TCP:
            struct.pack_into(">H", out, headers.transport + 4, whole - headers.transport)
    else:
        finish_transport(out, headers, frames)
    if len_bytes > whole - link_bytes(headers):
        insert_jumbo(out, headers.networks[0].offset)
    return bytes(out)


def link_bytes(headers: Headers) -> int:
    """What stands before the octets that an skb counts: tags in the frame are counted."""
    return min(headers.networks[0].offset, 14)


def finish_transport(out: bytearray, headers: Headers, frames: list[bytes]) -> None:
    """The folded sum of the pseudo header goes where the checksum was; UDP gets its length.

    A TCP header takes over FIN and PSH of all segments (GRO-29).
    """
    at, (network, version) = headers.transport, headers.networks[-1]
    size = len(out) - at
    addresses = bytes(out[network + 12 : network + 20])
    if version == 6:
        addresses = bytes(out[network + 8 : network + 40])
    total = sum(struct.unpack(f">{len(addresses) // 2}H", addresses)) + headers.protocol
    total += (size >> 16) + (size & LARGEST)
    while total > LARGEST:
        total = (total & LARGEST) + (total >> 16)
    if headers.protocol == TCP:
        for frame in frames[1:]:
            out[at + 13] |= frame[at + 13] & FIN_PSH
        struct.pack_into(">H", out, at + 16, total)
    else:
        struct.pack_into(">HH", out, at + 4, size, total)


def finish_ipv4(out: bytearray, at: int, total_bytes: int) -> None:
    """Set tot_len (0 when it cannot be said) and bring the header checksum up to date."""
    new_length = total_bytes if total_bytes <= LARGEST else 0
    old_length, check = (struct.unpack_from(">H", out, at + place)[0] for place in (2, 10))
    total = ~check & LARGEST
    for term in (~old_length & LARGEST, new_length):
        total += term
        total = (total & LARGEST) + (total >> 16)
    struct.pack_into(">H", out, at + 2, new_length)
    struct.pack_into(">H", out, at + 10, ~total & LARGEST)


def insert_jumbo(out: bytearray, at: int) -> None:
    """Put the jumbo header behind the fixed IPv6 header (GRO-A11)."""
    payload_bytes = len(out) - at - IPV6_BYTES
    jumbo = struct.pack(">BBBBI", out[at + 6], 0, JUMBO_TYPE, 4, payload_bytes + 8)
    out[at + IPV6_BYTES : at + IPV6_BYTES] = jumbo
    out[at + 6] = HOP_BY_HOP
    struct.pack_into(">H", out, at + 4, 0)
