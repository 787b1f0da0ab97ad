"""Packets for GRO: trains of segments as a table, and strategies that draw and disturb them."""

from __future__ import annotations

from typing import Any

import numpy as np

from emu import dtypes
from emu.dtypes import PacketFlag
from emu.model.packets import Packets

IPV4, IPV6, TCP, UDP = 4, 6, 6, 17
ACK = 0x10


def word12(flags: int = ACK, window: int = 65535, options_bytes: int = 0) -> int:
    """The 32 bits at TCP offset 12."""
    return (20 + options_bytes) // 4 << 28 | flags << 16 | window


def settings(**changes: int) -> Any:
    """A ``dtypes.GRO_CFG`` record: GRO on, limits of 64 KiB."""
    row = np.zeros(1, dtype=dtypes.GRO_CFG)
    row["max_size"] = row["ipv4_max_size"] = 65536
    row["enabled"] = 1
    for name, value in changes.items():
        row[name] = value
    return row[0]


def train(
    packets: int, *, flows: int = 1, run: int = 1, payload: int = 1448, family: int = IPV4,
    proto: int = TCP, options: bool = False,
) -> Packets:
    """Whole segments of bulk streams, *run* of a flow at a time, with a hash of their own on each flow."""  # noqa: E501
    columns = dtypes.allocate(dtypes.PACKET_COLUMNS, packets)
    number = np.arange(packets)
    flow = number // run % flows
    count = number // (run * flows) * run + number % run  # segments of this flow before it
    head = (20 if family == IPV4 else 40) + (20 if proto == TCP else 8) + 12 * options
    columns["wire_bytes"][:] = 14 + head + payload
    columns["flags"][:] = PacketFlag.HAS_PORTS
    columns["family"][:], columns["ip_proto"][:] = family, proto
    columns["ethertype"][:] = 0x0800 if family == IPV4 else 0x86DD
    columns["ip_b0"][:] = 0x45 if family == IPV4 else 0x60
    columns["saddr"][:, 0], columns["daddr"][:, 0] = 0x0100000A, 0x0200000A
    columns["sport"][:], columns["dport"][:] = 10_000 + flow % 50_000, 443
    columns["flow_key"][:] = columns["frame_off"][:] = columns["opt_off"][:] = -1
    columns["mac"][:] = 0x0102, 0x0304
    columns["l3_off"][:], columns["l4_off"][:] = 14, 14 + (20 if family == IPV4 else 40)
    columns["ttl"][:] = 64
    columns["ip_len"][:] = head + payload - (0 if family == IPV4 else 40)
    columns["payload_bytes"][:] = payload
    if family == IPV4:
        columns["ip_frag"][:], columns["ip_id"][:] = 0x4000, count % 65536
    if proto == TCP:
        columns["seq"][:], columns["tcp_w12"][:] = count * payload % 2**32, word12()
    else:
        columns["udp_len"][:] = payload + 8
    if options:
        columns["opt_off"][:], columns["tcp_w12"][:] = 0, word12(options_bytes=12)
    columns["skb_hash"][:] = (flow * 2654435761 + 12345) % 2**32
    columns["hash_type"][:] = dtypes.HashType.L4
    return Packets(columns, blob=np.frombuffer(b"\1\1\x08\x0a" + bytes(8), dtype=np.uint8))
