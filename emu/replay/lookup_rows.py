"""Sockets, packets and a table of open sockets, from what a record says of them."""

from __future__ import annotations

import ipaddress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emu import dtypes
from emu.dtypes import PacketFlag
from emu.model.packets import Packets

NO_MASKS, MASK_WORDS = np.zeros(1, dtype=np.uint64), 1


def words(address: str) -> list[int]:
    """Network bytes as four little-endian words."""
    packed = ipaddress.ip_address(address).packed.ljust(16, b"\0")
    out: list[int] = np.frombuffer(packed, dtype="<u4").tolist()
    return out


def socket_rows(rows: list[dict[str, Any]]) -> NDArray[np.void]:
    """``SOCKET[n]`` of dicts.

    Addresses as text, everything else by field name, the rest its usual default.
    """
    out = np.zeros(len(rows), dtype=dtypes.SOCKET)
    for row, fields in zip(out, rows, strict=True):
        row["family"], row["proto"], row["incoming_cpu"], row["mask_off"] = 4, 17, -1, -1
        row["psock_target"] = row["psock_cpu"] = -1
        for name, value in fields.items():
            row[name] = words(value) if isinstance(value, str) else value
        if "family" not in fields and ":" in fields.get("laddr", ""):
            row["family"] = 6
    return out


def packet_rows(rows: list[dict[str, Any]], payloads: list[bytes] | None = None) -> Packets:
    """Packets of dicts with saddr, daddr (text), sport, dport, proto.

    Payloads as bytes kept behind a header.
    """
    columns = dtypes.allocate(dtypes.PACKET_COLUMNS, len(rows))
    blob = bytearray()
    columns["flow_key"][:] = -1
    columns["opt_off"][:] = -1
    columns["frame_off"][:] = -1
    for i, fields in enumerate(rows):
        v6 = ":" in fields["saddr"]
        columns["family"][i], columns["ip_proto"][i] = 6 if v6 else 4, fields.get("proto", 17)
        columns["flags"][i] = PacketFlag.HAS_PORTS
        columns["saddr"][i], columns["daddr"][i] = words(fields["saddr"]), words(fields["daddr"])
        columns["sport"][i], columns["dport"][i] = fields["sport"], fields["dport"]
        if payloads is not None:
            header = 20 if fields.get("proto", 17) == 6 else 8
            ip_header = 40 if v6 else 20
            frame = bytes(14 + ip_header + header) + payloads[i]
            columns["l3_off"][i], columns["l4_off"][i] = 14, 14 + ip_header
            columns["ip_len"][i] = len(frame) - 14 - (40 if v6 else 0)
            columns["udp_len"][i] = header + len(payloads[i])
            columns["tcp_w12"][i] = 5 << 28
            columns["frame_off"][i], columns["cap_bytes"][i] = len(blob), len(frame)
            columns["wire_bytes"][i] = len(frame)
            blob += frame
    return Packets(columns, blob=np.frombuffer(bytes(blob), dtype=np.uint8))


def config(**fields: int) -> NDArray[np.void]:
    """``LOOKUP_CFG[1]`` of a 6.18 kernel, with changes; its secrets do not matter here."""
    out = np.zeros(1, dtype=dtypes.LOOKUP_CFG)
    values = {"cpu_aware": 1, "tcp_port_added": 1, "udp_slots": 256, "ncpus": 64, **fields}
    for name, value in values.items():
        out[name] = value
    return out


def table_of(lookup: Any, rows: list[dict[str, Any]], **cfg: int) -> Any:
    """An engine's table of these sockets; those with a state are open."""
    return lookup.LookupTable(socket_rows(rows), NO_MASKS, MASK_WORDS, config(**cfg))
