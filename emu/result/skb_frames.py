"""Write the octets of an skb that GRO made of several packets (receive.md 5.4)."""

from __future__ import annotations

import struct

from emu.model.packets import Packets

IPV6_BYTES, JUMBO_TYPE, HOP_BY_HOP = 40, 0xC2, 0
FIN_PSH = 0x09
TCP, LARGEST = 6, 0xFFFF


def aggregate(packets: Packets, members: list[int]) -> bytes:
    """The octets of the skb that holds these packets; one packet stays as it is."""
    first = members[0]
    frame = packets.frame(first)
    if len(members) == 1:
        return frame
    columns = packets.columns
    l3, l4 = int(columns["l3_off"][first]), int(columns["l4_off"][first])
    proto, family = int(columns["ip_proto"][first]), int(columns["family"][first])
    payloads = [payload(packets, packet) for packet in members[1:]]
    network, transport = bytearray(frame[l3:l4]), bytearray(frame[l4:])
    transport += b"".join(payloads)
    finish_transport(network, transport, proto, family)
    if proto == TCP:
        for packet in members[1:]:
            transport[13] |= int(columns["tcp_w12"][packet]) >> 16 & FIN_PSH
    if family == 4:
        finish_ipv4(network, len(network) + len(transport))
    else:
        finish_ipv6(network, len(network) + len(transport) - IPV6_BYTES)
    return frame[:l3] + bytes(network) + bytes(transport)


def payload(packets: Packets, packet: int) -> bytes:
    """What stands behind the transport header."""
    frame = packets.frame(packet)
    return frame[len(frame) - int(packets.columns["payload_bytes"][packet]) :]


def finish_transport(network: bytearray, transport: bytearray, proto: int, family: int) -> None:
    """The folded sum of the pseudo header goes where the checksum was; UDP gets its length."""
    addresses = bytes(network[12:20] if family == 4 else network[8:40])
    total = sum(struct.unpack(f">{len(addresses) // 2}H", addresses)) + proto
    total += (len(transport) >> 16) + (len(transport) & LARGEST)
    while total > LARGEST:
        total = (total & LARGEST) + (total >> 16)
    if proto == TCP:
        struct.pack_into(">H", transport, 16, total)
    else:
        struct.pack_into(">HH", transport, 4, len(transport), total)


def finish_ipv4(network: bytearray, total_bytes: int) -> None:
    """Set tot_len (0 when it cannot be said) and bring the header checksum up to date."""
    new_length = total_bytes if total_bytes <= LARGEST else 0
    old_length, check = (struct.unpack_from(">H", network, at)[0] for at in (2, 10))
    total = ~check & LARGEST
    for term in (~old_length & LARGEST, new_length):
        total += term
        total = (total & LARGEST) + (total >> 16)
    struct.pack_into(">H", network, 2, new_length)
    struct.pack_into(">H", network, 10, ~total & LARGEST)


def finish_ipv6(network: bytearray, payload_bytes: int) -> None:
    """Set payload_len, or put the jumbo header behind the fixed one (GRO-A11)."""
    if payload_bytes <= LARGEST:
        struct.pack_into(">H", network, 4, payload_bytes)
        return
    jumbo = struct.pack(">BBBBI", network[6], 0, JUMBO_TYPE, 4, payload_bytes + 8)
    network[IPV6_BYTES:IPV6_BYTES] = jumbo
    network[6] = HOP_BY_HOP
    struct.pack_into(">H", network, 4, 0)
