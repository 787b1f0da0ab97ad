"""RSS: Toeplitz bit by bit, low bits into the indirection table (receive.md 1)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emu.dtypes import RSS_FLOWS, TOEPLITZ_BYTES, HashType, PacketFlag, RssField
from emu.model.inputs import Tuples, rss_inputs, toeplitz_data, toeplitz_key, tuples
from emu.model.packets import Packets
from emu.ref.direction import NO_ADDRESSES
from emu.ref.packet import PacketView
from emu.ref.record import SILENT, Recorder

PROTOCOL_OF = {6: "tcp", 17: "udp", 132: "sctp"}
SYM_XOR, SYM_OR_XOR = 1, 2
# The field bits as plain numbers: an enum's own & costs a microsecond.
SRC, DST, L4_0_1, L4_2_3 = (
    int(bit) for bit in (RssField.IP_SRC, RssField.IP_DST, RssField.L4_B_0_1, RssField.L4_B_2_3)
)
PORTS = L4_0_1 | L4_2_3
HAS_PORTS, FRAGMENT = int(PacketFlag.HAS_PORTS), int(PacketFlag.FRAGMENT)


@lru_cache(maxsize=1 << 16)
def toeplitz_bits(key: bytes, data: bytes) -> int:
    """The Toeplitz hash as the text defines it (R-1.1).

    For each set bit of the input, the 32 key bits that begin at its place are added in.
    """
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
        self, key: bytes, fields: Mapping[str, int], xfrm: int, indirection: Sequence[int]
    ) -> None:
        self.key, self.xfrm = key, xfrm
        self.fields = {flow: int(chosen) for flow, chosen in fields.items()}
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
        flow = f"{flow}{family}"
        chosen = self.fields[flow]
        if not rec.rule("R-1.4.fields", chosen != 0, flow=flow):
            return 0, HashType.NONE
        rec.rule("R-1.3", self.xfrm != 0, xfrm=self.xfrm)
        data = toeplitz_input(self.xfrm, chosen, saddr, daddr, sport, dport)
        covers = HashType.L4 if rec.rule("R-1.4.l4", chosen & PORTS != 0) else HashType.L3
        return toeplitz_bits(self.key, data), covers

    def queue(self, hash_value: int, hash_type: HashType) -> int:
        """The rx queue."""
        if hash_type == HashType.NONE:
            return 0
        return self.indirection[hash_value % len(self.indirection)]


@lru_cache(maxsize=1 << 16)
def toeplitz_input(
    xfrm: int, chosen: int, saddr: bytes, daddr: bytes, sport: int, dport: int
) -> bytes:
    """The octets that are hashed: the chosen fields in order, symmetric when the device does that.

    R-1.3: each field keeps its width and its place. R-1.4: what is not chosen takes no place.
    """
    source_port, target_port = sport.to_bytes(2, "big"), dport.to_bytes(2, "big")
    if xfrm:
        unlike = _xor(saddr, daddr), _xor(source_port, target_port)
        either = (_or(saddr, daddr), _or(source_port, target_port)) if xfrm & SYM_OR_XOR else unlike
        (saddr, source_port), (daddr, target_port) = either, unlike
    parts = ((SRC, saddr), (DST, daddr), (L4_0_1, source_port), (L4_2_3, target_port))
    return b"".join(part for field, part in parts if chosen & field)


def _xor(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def _or(left: bytes, right: bytes) -> bytes:
    return bytes(a | b for a, b in zip(left, right, strict=True))


def nic_of_row(row: np.void, key: bytes, indirection: NDArray[np.uint32]) -> RssNic:
    """The RSS of one plan row."""
    first = int(row["indir_off"])
    fields = dict(zip(RSS_FLOWS, row["fields"].tolist(), strict=True))
    table = indirection[first : first + int(row["indir_len"])].tolist()
    return RssNic(key, fields, int(row["xfrm"]), table)


def hash_packet(
    nic: RssNic, view: PacketView, index: int, rec: Recorder = SILENT
) -> tuple[int, HashType]:
    """Hash and type of one packet of a table."""
    flags = view.flags[index]
    return nic.hash(
        view.family[index] if view.reason[index] not in NO_ADDRESSES else 0,
        view.ip_proto[index],
        flags & HAS_PORTS != 0,
        flags & FRAGMENT != 0,
        view.saddr_bytes[index],
        view.daddr_bytes[index],
        view.sport[index],
        view.dport[index],
        rec,
    )


def toeplitz_tables(key: bytes) -> NDArray[np.uint32]:
    """Every octet's contribution at each of the 36 input positions: uint32[36 * 256]."""
    key = toeplitz_key(key)
    return np.array(
        [
            toeplitz_bits(key, bytes(place) + bytes([octet]))
            for place in range(TOEPLITZ_BYTES)
            for octet in range(256)
        ],
        dtype=np.uint32,
    )


def toeplitz(key: bytes, data: ArrayLike) -> NDArray[np.uint32]:
    """Hash each row of uint8[n, w], w <= 36: uint32[n]."""
    key, rows = toeplitz_key(key), toeplitz_data(data)
    return np.array([toeplitz_bits(key, row.tobytes()) for row in rows], dtype=np.uint32)


def toeplitz_v4(
    key: bytes, saddr: ArrayLike, daddr: ArrayLike, sport: ArrayLike, dport: ArrayLike
) -> NDArray[np.uint32]:
    """Hash IPv4 4-tuples: uint32[n].

    Addresses are uint32[n] as packet columns hold them, ports uint16[n].
    """
    return _hash_tuples(toeplitz_key(key), tuples("toeplitz_v4", saddr, daddr, sport, dport))


def toeplitz_v6(
    key: bytes, saddr: ArrayLike, daddr: ArrayLike, sport: ArrayLike, dport: ArrayLike
) -> NDArray[np.uint32]:
    """Hash IPv6 4-tuples: uint32[n]; addresses are uint32[n, 4], ports uint16[n]."""
    given = tuples("toeplitz_v6", saddr, daddr, sport, dport, width=4)
    return _hash_tuples(toeplitz_key(key), given)


def _hash_tuples(key: bytes, columns: Tuples) -> NDArray[np.uint32]:
    out = []
    for source, target, sport, dport in zip(*columns, strict=True):
        ports = int(sport).to_bytes(2, "big") + int(dport).to_bytes(2, "big")
        out.append(toeplitz_bits(key, source.tobytes() + target.tobytes() + ports))
    return np.array(out, dtype=np.uint32)


def key_of_tables(tables: NDArray[np.uint32], first: int) -> bytes:
    """The 40 key bytes that a table was made of; the last bit, which no input reaches, is 0.

    The entry of a single set bit is the 32-bit window of the key that begins there.
    """
    windows = [
        int(tables[first + 256 * (bit // 8) + (0x80 >> bit % 8)])
        for bit in range(8 * TOEPLITZ_BYTES)
    ]
    bits = 0
    for window in windows:
        bits = bits << 1 | window >> 31
    rest = windows[-1] & 0x7FFFFFFF
    return ((bits << 31 | rest) << 1).to_bytes(40, "big")


def rss_packets(
    packets: Packets,
    rss: NDArray[np.void],
    tables: ArrayLike,
    indirection: ArrayLike,
    rec: Recorder = SILENT,
) -> tuple[NDArray[np.uint32], NDArray[np.uint8], NDArray[np.int32]]:
    """Hash and queue of every packet by its NIC's row: (uint32[n], uint8[n] HashType, int32[n])."""
    given = rss_inputs(packets, rss, tables, indirection)
    view = PacketView(packets)
    nics = [
        nic_of_row(row, key_of_tables(given.tables, int(row["table_off"])), given.indirection)
        for row in given.rss
    ]
    out: list[tuple[int, int, int]] = []
    for index in range(len(packets)):
        nic = nics[view.nic[index]]
        hash_value, hash_type = hash_packet(nic, view, index, rec)
        out.append((hash_value, hash_type, nic.queue(hash_value, hash_type)))
    hashes, types, queues = zip(*out, strict=True) if out else ((), (), ())
    return (
        np.array(hashes, dtype=np.uint32),
        np.array(types, dtype=np.uint8),
        np.array(queues, dtype=np.int32),
    )
