"""RSS: Toeplitz bit by bit, low bits into the indirection table (receive.md 1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emu.dtypes import RSS_FLOWS, TOEPLITZ_BYTES, HashType, PacketFlag, RssField
from emu.errors import ConfigError
from emu.model.packets import Packets
from emu.ref.direction import NO_ADDRESSES
from emu.ref.packet import PacketView
from emu.ref.record import SILENT, Recorder

PROTOCOL_OF = {6: "tcp", 17: "udp", 132: "sctp"}
SYM_XOR, SYM_OR_XOR = 1, 2


@lru_cache(maxsize=1 << 16)
def toeplitz_bits(key: bytes, data: bytes) -> int:
    """The Toeplitz hash as the text defines it: for each set bit of the input, the 32 key bits that begin there."""
    key_bits = int.from_bytes(key, "big")
    width = 8 * len(key)
    number, bits = int.from_bytes(data, "big"), 8 * len(data)
    out = 0
    for place in range(bits):
        if number >> (bits - 1 - place) & 1:
            out ^= key_bits >> (width - 32 - place) & 0xFFFFFFFF
    return out


class RssNic:
    """One NIC's RSS: key, field sets, input transformation, indirection table."""

    def __init__(
        self, key: bytes, fields: dict[str, RssField], xfrm: int, indirection: Sequence[int]
    ) -> None:
        self.key, self.fields, self.xfrm = key, fields, xfrm
        self.indirection = list(indirection)

    def hash(
        self,
        family: int,
        proto: int,
        has_ports: bool,
        fragment: bool,
        saddr: bytes,
        daddr: bytes,
        sport: int,
        dport: int,
        rec: Recorder = SILENT,
    ) -> tuple[int, HashType]:
        """Hash and what it covers of a packet; family 0 is no IP."""
        if not rec.rule("R-1.4.ip", family != 0):
            return 0, HashType.NONE
        flow = "ip"
        if rec.rule("R-1.4.ports", has_ports and not fragment, fragment=fragment):
            flow = PROTOCOL_OF.get(proto, "ip")
        chosen = self.fields[f"{flow}{family}"]
        if not rec.rule("R-1.4.fields", bool(chosen), flow=f"{flow}{family}"):
            return 0, HashType.NONE
        data = toeplitz_input(self.xfrm, chosen, saddr, daddr, sport, dport, rec)
        covers_ports = bool(chosen & (RssField.L4_B_0_1 | RssField.L4_B_2_3))
        return toeplitz_bits(self.key, data), HashType.L4 if covers_ports else HashType.L3

    def queue(self, hash_value: int, hash_type: HashType) -> int:
        """The rx queue."""
        if hash_type == HashType.NONE:
            return 0
        return self.indirection[hash_value % len(self.indirection)]


def toeplitz_input(
    xfrm: int,
    fields: RssField,
    saddr: bytes,
    daddr: bytes,
    sport: int,
    dport: int,
    rec: Recorder = SILENT,
) -> bytes:
    """The octets that are hashed: the chosen fields in order, made symmetric when the device does that (R-1.3)."""
    source_port, target_port = sport.to_bytes(2, "big"), dport.to_bytes(2, "big")
    if rec.rule("R-1.3", xfrm != 0, xfrm=xfrm):
        unlike = _xor(saddr, daddr), _xor(source_port, target_port)
        either = (
            (_or(saddr, daddr), _or(source_port, target_port)) if xfrm & SYM_OR_XOR else unlike
        )
        (saddr, source_port), (daddr, target_port) = either, unlike
    parts = (
        (RssField.IP_SRC, saddr),
        (RssField.IP_DST, daddr),
        (RssField.L4_B_0_1, source_port),
        (RssField.L4_B_2_3, target_port),
    )
    return b"".join(octets for field, octets in parts if fields & field)


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _or(left: bytes, right: bytes) -> bytes:
    return bytes(a | b for a, b in zip(left, right, strict=True))


def nic_of_row(row: np.void, key: bytes, indirection: NDArray[np.uint32]) -> RssNic:
    """The RSS of one plan row."""
    first = int(row["indir_off"])
    fields = {flow: RssField(int(bits)) for flow, bits in zip(RSS_FLOWS, row["fields"], strict=True)}
    table = indirection[first : first + int(row["indir_len"])].tolist()
    return RssNic(key, fields, int(row["xfrm"]), table)


def hash_packet(
    nic: RssNic, view: PacketView, index: int, rec: Recorder = SILENT
) -> tuple[int, HashType]:
    """Hash and type of one packet of a table."""
    whole = view.reason[index] not in NO_ADDRESSES
    flags = view.flags[index]
    return nic.hash(
        view.family[index] if whole else 0,
        view.ip_proto[index],
        bool(flags & PacketFlag.HAS_PORTS),
        bool(flags & PacketFlag.FRAGMENT),
        view.saddr_bytes[index],
        view.daddr_bytes[index],
        view.sport[index],
        view.dport[index],
        rec,
    )


def toeplitz_tables(key: bytes) -> NDArray[np.uint32]:
    """Every octet's contribution at each of the 36 input positions: uint32[36 * 256]."""
    if len(key) < 40:
        raise ConfigError("toeplitz: key", f"{len(key)} bytes", "40 bytes or more")
    return np.array(
        [
            toeplitz_bits(bytes(key), bytes(place) + bytes([octet]))
            for place in range(TOEPLITZ_BYTES)
            for octet in range(256)
        ],
        dtype=np.uint32,
    )


def toeplitz(key: bytes, data: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Hash each row of uint8[n, w], w <= 36: uint32[n]."""
    widest = min(len(key) - 4, TOEPLITZ_BYTES)
    if data.ndim != 2 or data.shape[1] > widest:
        raise ConfigError("toeplitz: data", f"shape {data.shape}", f"[n, w] with w <= {widest}")
    return np.array([toeplitz_bits(bytes(key), row.tobytes()) for row in data], dtype=np.uint32)


def toeplitz_v4(key: bytes, saddr: Any, daddr: Any, sport: Any, dport: Any) -> NDArray[np.uint32]:
    """Hash IPv4 4-tuples (uint32, uint32, uint16, uint16 of [n]; addresses as packet columns hold them): uint32[n]."""
    columns = [np.asarray(column).reshape(-1) for column in (saddr, daddr)]
    return _tuples(key, columns, sport, dport)


def toeplitz_v6(key: bytes, saddr: Any, daddr: Any, sport: Any, dport: Any) -> NDArray[np.uint32]:
    """Hash IPv6 4-tuples (uint32[n, 4] twice, uint16[n] twice): uint32[n]."""
    for column in (saddr, daddr):
        if column.shape[1] != 4:
            raise ConfigError("toeplitz_v6: addresses", f"{column.shape[1]} words", "4 words each")
    return _tuples(key, [saddr, daddr], sport, dport)


def _tuples(key: bytes, addresses: list[Any], sport: Any, dport: Any) -> NDArray[np.uint32]:
    for column in (addresses[1], sport, dport):
        if len(column) != len(addresses[0]):
            given = f"{len(column)} rows beside {len(addresses[0])}"
            raise ConfigError("toeplitz: columns", given, "columns of one length")
    rows = zip(*addresses, sport.tolist(), dport.tolist(), strict=True)
    return np.array(
        [
            toeplitz_bits(
                bytes(key),
                np.asarray(source, dtype="<u4").tobytes()
                + np.asarray(target, dtype="<u4").tobytes()
                + from_port.to_bytes(2, "big")
                + to_port.to_bytes(2, "big"),
            )
            for source, target, from_port, to_port in rows
        ],
        dtype=np.uint32,
    )


def key_of_tables(tables: NDArray[np.uint32], first: int) -> bytes:
    """The 40 key bytes that a table was made of; the last bit, which no input reaches, is 0.

    The entry of a single set bit is the 32-bit window of the key that begins there.
    """
    windows = [
        int(tables[first + 256 * (bit // 8) + (0x80 >> bit % 8)]) for bit in range(8 * TOEPLITZ_BYTES)
    ]
    bits = 0
    for window in windows:
        bits = bits << 1 | window >> 31
    rest = windows[-1] & 0x7FFFFFFF
    return ((bits << 31 | rest) << 1).to_bytes(40, "big")


def rss_packets(
    packets: Packets,
    rss: NDArray[np.void],
    tables: NDArray[np.uint32],
    indirection: NDArray[np.uint32],
    rec: Recorder = SILENT,
) -> tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.int32]]:
    """Hash and queue of every packet by its NIC's row: (uint32[n], uint8[n] HashType, int32[n])."""
    view = PacketView(packets)
    nics = [nic_of_row(row, key_of_tables(tables, int(row["table_off"])), indirection) for row in rss]
    out: list[tuple[int, int, int]] = []
    for index in range(len(packets)):
        nic = nics[view.nic[index]]
        hash_value, hash_type = hash_packet(nic, view, index, rec)
        out.append((hash_value, hash_type, nic.queue(hash_value, hash_type)))
    columns = zip(*out, strict=True) if out else ([], [], [])
    hashes, types, queues = columns
    return (
        np.array(hashes, dtype=np.uint32),
        np.array(types, dtype=np.uint8),
        np.array(queues, dtype=np.int32),
    )
