"""Frames to the packet table, one frame at a time, plainly.

Nothing is dropped: the column ``reason`` says what stopped it and what was understood before
stays. The deepest fault is the reason, so ``BAD_VERSION`` stands only where
everything else could be read (GRO-A2).
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from emu import dtypes
from emu.dtypes import PacketFlag, Reason
from emu.ref.checksum import checksum, l4_checksum
from emu.ref.flow_dissect import (
    IPV4,
    IPV6,
    PORT_PROTOS,
    VLANS,
    FlowBlock,
    flow_dissect,
    pack_block,
)
from emu.ref.record import SILENT, Recorder

ETHERNET, RAW_IP = 0, 1
TCP, UDP, AH, ESP, FRAGMENT_HEADER = 6, 17, 51, 50, 44
TUNNELS = (4, 41, 47)
WALKED = (0, 43, 60)
NOT_WALKED = (ESP, 135, 139, 140)  # mobility, HIP, shim6: GRO does not walk them and neither do we
L4_HEADER_BYTES = {6: 20, 17: 8, 33: 12, 132: 12, 136: 8, 1: 8, 58: 8, 50: 8, 51: 12, 47: 4}
MAX_TAGS = 15
MAX_OFFSET = 0xFFFF


class Fault(Exception):
    """Dissection ends here; what the parsed frame holds so far stays."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(slots=True)
class Parsed:
    """What one frame says; addresses are octets, ``opt_off`` counts from the frame's start."""

    reason: Reason = Reason.OK
    flags: set[PacketFlag] = field(default_factory=set)
    family: int = 0
    ip_proto: int = 0
    ethertype: int = 0
    vlan_tci: int = 0
    vlan_tpid: int = 0
    saddr: bytes = b""
    daddr: bytes = b""
    sport: int = 0
    dport: int = 0
    flow_label: int = 0
    mac: bytes = b""
    l3_off: int = 0
    l4_off: int = 0
    ip_b0: int = 0
    tos: int = 0
    ttl: int = 0
    ip_frag: int = 0
    ip_id: int = 0
    ip_len: int = 0
    seq: int = 0
    ack: int = 0
    tcp_w12: int = 0
    udp_len: int = 0
    payload_bytes: int = 0
    opt_off: int | None = None
    flow_block: FlowBlock | None = None

    def plain_block(self) -> FlowBlock:
        """The flow-hash block that these columns alone give."""
        ports = struct.pack(">HH", self.sport, self.dport)
        return pack_block(
            self.ethertype, self.ip_proto, self.family, self.saddr + self.daddr, ports
        )


class Reader:
    """The octets kept of a frame, and how many it had."""

    def __init__(self, data: bytes, wire_bytes: int) -> None:
        self.data = data
        self.wire_bytes = wire_bytes

    @property
    def whole(self) -> bool:
        return len(self.data) == self.wire_bytes

    def take(self, at: int, count: int, truncated: Reason) -> bytes:
        """*count* octets at *at*; the capture or the sender may have cut them off."""
        if at + count <= len(self.data):
            return self.data[at : at + count]
        raise Fault(Reason.SNAPPED if at + count <= self.wire_bytes else truncated)


def dissect_frame(
    data: bytes, wire_bytes: int, link: int = ETHERNET, rec: Recorder = SILENT
) -> Parsed:
    """Parse one frame of which *data* is kept; *link* is 0 Ethernet, 1 raw IP."""
    reader, parsed = Reader(data, wire_bytes), Parsed()
    if not reader.whole:
        parsed.flags.add(PacketFlag.SNAP_CUT)
    try:
        parse_link(reader, link, parsed)
        if parsed.ethertype == IPV4:
            parse_ipv4(reader, parsed)
        elif parsed.ethertype == IPV6:
            parse_ipv6(reader, parsed)
        if parsed.family and parsed.ip_b0 >> 4 != parsed.family:
            raise Fault(Reason.BAD_VERSION)
    except Fault as fault:
        parsed.reason = fault.reason
    block = flow_dissect(data, *flow_start(data, link, parsed), rec)
    if block != parsed.plain_block():
        parsed.flow_block = block
    rec.note("dissect", f"{parsed.reason.name}, family {parsed.family}, protocol {parsed.ip_proto}")
    return parsed


def flow_start(data: bytes, link: int, parsed: Parsed) -> tuple[int, int]:
    """Where the flow dissector sets in, and skb->protocol as eth_type_trans gives it."""
    if link == RAW_IP:
        return 0, parsed.ethertype
    if len(data) < 14:
        return len(data), 0
    protocol = int.from_bytes(data[12:14], "big")
    if protocol < 0x600:  # an 802.3 length: ETH_P_802_3 in front of raw IPX, else ETH_P_802_2
        protocol = 1 if data[14:16] == b"\xff\xff" else 4
    return 14, protocol


def parse_link(reader: Reader, link: int, parsed: Parsed) -> None:
    """Find the network header and its ethertype."""
    if reader.wire_bytes == 0:
        raise Fault(Reason.EMPTY)
    if link == RAW_IP:
        parsed.ip_b0 = reader.take(0, 1, Reason.TRUNCATED_L3)[0]
        parsed.ethertype = {4: IPV4, 6: IPV6}.get(parsed.ip_b0 >> 4, 0)
        if parsed.ethertype == 0:
            raise Fault(Reason.BAD_VERSION)
        parsed.ip_b0 = 0  # until the header is known to be whole
        return
    parsed.mac = reader.take(0, 14, Reason.TRUNCATED_LINK)
    parsed.ethertype = int.from_bytes(parsed.mac[12:], "big")
    parsed.l3_off = 14
    for depth in range(MAX_TAGS):
        if parsed.ethertype not in VLANS:
            return
        tci, inner = struct.unpack(">HH", reader.take(parsed.l3_off, 4, Reason.TRUNCATED_LINK))
        if depth == 0:
            parsed.vlan_tci, parsed.vlan_tpid = tci, parsed.ethertype
        parsed.ethertype = inner
        parsed.l3_off += 4


def parse_ipv4(reader: Reader, parsed: Parsed) -> None:
    """Read an IPv4 header with options, then what it carries."""
    header = reader.take(parsed.l3_off, 20, Reason.TRUNCATED_L3)
    (
        parsed.ip_b0, parsed.tos, parsed.ip_len, parsed.ip_id, parsed.ip_frag,
        parsed.ttl, parsed.ip_proto, parsed.saddr, parsed.daddr,
    ) = struct.unpack(">BBHHHBBxx4s4s", header)  # fmt: skip
    parsed.family = 4
    if parsed.ip_len != reader.wire_bytes - parsed.l3_off:
        parsed.flags.add(PacketFlag.MALFORMED_LEN)
    more_fragments, offset = parsed.ip_frag & 0x2000, parsed.ip_frag & 0x1FFF
    mark_fragment(parsed, bool(more_fragments or offset), offset)
    header_bytes = 4 * (parsed.ip_b0 & 15)
    if header_bytes < 20:
        raise Fault(Reason.BAD_IHL)
    header = reader.take(parsed.l3_off, header_bytes, Reason.TRUNCATED_EXT)
    parsed.l4_off = parsed.l3_off + header_bytes
    if reader.whole and checksum(header) != 0xFFFF:
        parsed.flags.add(PacketFlag.IP_CSUM_BAD)
    parse_l4(reader, parsed)


def mark_fragment(parsed: Parsed, fragment: bool, offset: int) -> None:
    """Set the fragment flags."""
    if fragment:
        parsed.flags.add(PacketFlag.FRAGMENT)
        if offset:
            parsed.flags.add(PacketFlag.LATER_FRAGMENT)


def parse_ipv6(reader: Reader, parsed: Parsed) -> None:
    """Read an IPv6 header, its extension headers, then what they carry."""
    header = reader.take(parsed.l3_off, 40, Reason.TRUNCATED_L3)
    word, parsed.ip_len, parsed.ip_proto, parsed.ttl, parsed.saddr, parsed.daddr = struct.unpack(
        ">IHBB16s16s", header
    )
    parsed.family = 6
    parsed.ip_b0 = header[0]
    parsed.tos = word >> 20 & 0xFF
    parsed.flow_label = word & 0xFFFFF
    parsed.l4_off = parsed.l3_off + 40
    if parsed.ip_len != reader.wire_bytes - parsed.l4_off:
        parsed.flags.add(PacketFlag.MALFORMED_LEN)
    while parsed.ip_proto in WALKED or parsed.ip_proto == AH:
        walked = parsed.ip_proto in WALKED
        parsed.flags.add(PacketFlag.EXT_HEADERS if walked else PacketFlag.EXT_BYPASS)
        following, length = reader.take(parsed.l4_off, 2, Reason.TRUNCATED_EXT)
        skip_header(reader, parsed, 8 + length * (8 if walked else 4))
        parsed.ip_proto = following
    if parsed.ip_proto == FRAGMENT_HEADER:
        parsed.flags.add(PacketFlag.EXT_BYPASS)
        following, offset = struct.unpack_from(
            ">BxH", reader.take(parsed.l4_off, 8, Reason.TRUNCATED_EXT)
        )
        skip_header(reader, parsed, 8)
        mark_fragment(parsed, True, offset >> 3)
        parsed.ip_proto = following
    elif parsed.ip_proto in NOT_WALKED:
        parsed.flags.add(PacketFlag.EXT_BYPASS)
    parse_l4(reader, parsed)


def skip_header(reader: Reader, parsed: Parsed, count: int) -> None:
    """Step over an extension header; a chain longer than ``l4_off`` can say counts as cut off."""
    reader.take(parsed.l4_off, count, Reason.TRUNCATED_EXT)
    if parsed.l4_off + count > MAX_OFFSET:
        raise Fault(Reason.TRUNCATED_EXT)
    parsed.l4_off += count


def parse_l4(reader: Reader, parsed: Parsed) -> None:
    """Read the transport header; a fragment has none to speak of."""
    if PacketFlag.FRAGMENT in parsed.flags:
        return
    if parsed.ip_proto in TUNNELS:
        parsed.flags.add(PacketFlag.TUNNEL)
    ports = reader.data[parsed.l4_off : parsed.l4_off + 4]
    if parsed.ip_proto in PORT_PROTOS and len(ports) == 4:
        parsed.flags.add(PacketFlag.HAS_PORTS)
        parsed.sport, parsed.dport = struct.unpack(">HH", ports)
    needed = L4_HEADER_BYTES.get(parsed.ip_proto, 0)
    if needed:
        header = reader.take(parsed.l4_off, needed, Reason.TRUNCATED_L4)
        if parsed.ip_proto == TCP:
            parse_tcp(reader, parsed, header)
        elif parsed.ip_proto == UDP:
            parse_udp(reader, parsed, header)


def check_l4_sum(reader: Reader, parsed: Parsed) -> None:
    """Sum from the transport header to the end of the frame, padding included (GRO-A4)."""
    segment = reader.data[parsed.l4_off :]
    if reader.whole and l4_checksum(parsed.saddr, parsed.daddr, parsed.ip_proto, segment) != 0xFFFF:
        parsed.flags.add(PacketFlag.L4_CSUM_BAD)


def parse_tcp(reader: Reader, parsed: Parsed, header: bytes) -> None:
    """Read the fixed 20 octets and see how far the header goes."""
    parsed.seq, parsed.ack, parsed.tcp_w12 = struct.unpack_from(">III", header, 4)
    check_l4_sum(reader, parsed)
    header_bytes = 4 * (header[12] >> 4)
    end = parsed.l4_off + header_bytes
    if header_bytes < 20 or end > reader.wire_bytes:
        raise Fault(Reason.BAD_DOFF)
    parsed.payload_bytes = reader.wire_bytes - end
    reader.take(parsed.l4_off, header_bytes, Reason.BAD_DOFF)
    if header_bytes > 20:
        parsed.opt_off = parsed.l4_off + 20


def parse_udp(reader: Reader, parsed: Parsed, header: bytes) -> None:
    """Read the length field and the checksum."""
    parsed.udp_len, sent_sum = struct.unpack_from(">HH", header, 4)
    parsed.payload_bytes = reader.wire_bytes - parsed.l4_off - 8
    if sent_sum == 0:
        parsed.flags.add(PacketFlag.UDP_CSUM_ZERO)
    else:
        check_l4_sum(reader, parsed)


Columns = dict[str, NDArray[np.generic]]
SCALARS = (
    "reason", "family", "ip_proto", "ethertype", "vlan_tci", "vlan_tpid", "sport", "dport",
    "flow_label", "l3_off", "l4_off", "ip_b0", "tos", "ttl", "ip_frag", "ip_id", "ip_len", "seq",
    "ack", "tcp_w12", "udp_len", "payload_bytes",
)  # fmt: skip


def dissect_frames(
    blob: NDArray[np.uint8],
    frame_off: NDArray[np.int64],
    cap_bytes: NDArray[np.uint32],
    wire_bytes: NDArray[np.uint32],
    link: NDArray[np.uint8],
    rec: Recorder = SILENT,
) -> tuple[Columns, NDArray[np.void]]:
    """Dissect frames that lie in one blob; the column ``reason`` says what stopped it.

    Args:
        blob: uint8[b], the octets of all frames.
        frame_off: int64[n], where each begins in the blob.
        cap_bytes: uint32[n], octets kept of each.
        wire_bytes: uint32[n], octets each had on the wire, at least as many.
        link: uint8[n], 0 Ethernet, 1 raw IP.

    Returns:
        ``(columns, flow_keys)``: every entry of ``dtypes.PACKET_COLUMNS`` but ``arrival_ps`` and
        ``nic`` by name, and ``FLOW_KEY[k]``, which the column ``flow_key`` points into.

    Raises:
        ValueError: lengths differ, a frame lies outside the blob, more kept than on the wire, an
            unknown link type.
    """
    check_frames(blob, frame_off, cap_bytes, wire_bytes, link)
    octets = blob.tobytes()
    rows = [
        dissect_frame(octets[at : at + cap], wire, kind, rec)
        for at, cap, wire, kind in zip(
            frame_off.tolist(), cap_bytes.tolist(), wire_bytes.tolist(), link.tolist(), strict=True
        )
    ]
    columns = dtypes.allocate(dtypes.PACKET_COLUMNS, len(rows))
    del columns["arrival_ps"], columns["nic"]
    columns["frame_off"][:] = frame_off
    columns["cap_bytes"][:] = cap_bytes
    columns["wire_bytes"][:] = wire_bytes
    for name in SCALARS:
        columns[name][:] = [getattr(row, name) for row in rows]
    for name, width in (("saddr", 16), ("daddr", 16), ("mac", 16)):
        joined = b"".join(getattr(row, name).ljust(width, b"\0") for row in rows)
        columns[name][:] = np.frombuffer(joined, columns[name].dtype).reshape(columns[name].shape)
    columns["flags"][:] = [sum(row.flags) for row in rows]
    columns["opt_off"][:] = [
        -1 if row.opt_off is None else at + row.opt_off
        for row, at in zip(rows, frame_off.tolist(), strict=True)
    ]
    blocks = [row.flow_block for row in rows]
    number = iter(range(len(rows)))
    columns["flow_key"][:] = [-1 if block is None else next(number) for block in blocks]
    return columns, flow_key_rows([block for block in blocks if block is not None])


def flow_key_rows(blocks: list[FlowBlock]) -> NDArray[np.void]:
    """The blocks as ``FLOW_KEY[k]``."""
    rows = np.zeros(len(blocks), dtype=dtypes.FLOW_KEY)
    for row, block in zip(rows, blocks, strict=True):
        row["block"][: len(block.octets)] = np.frombuffer(block.octets, np.uint8)
        row["len"] = len(block.octets)
        row["l4"] = block.l4
    return rows


def check_frames(
    blob: NDArray[np.uint8],
    frame_off: NDArray[np.int64],
    cap_bytes: NDArray[np.uint32],
    wire_bytes: NDArray[np.uint32],
    link: NDArray[np.uint8],
) -> None:
    """Refuse what no caller may give."""
    expected = (blob, "u1"), (frame_off, "i8"), (cap_bytes, "u4"), (wire_bytes, "u4"), (link, "u1")
    if any(array.dtype != np.dtype(kind) or array.ndim != 1 for array, kind in expected):
        raise ValueError(
            "blob u8, frame_off i64, cap_bytes u32, wire_bytes u32, link u8, one axis each"
        )
    if not len(frame_off) == len(cap_bytes) == len(wire_bytes) == len(link):
        raise ValueError("frame_off, cap_bytes, wire_bytes and link must have one length")
    for row, (at, cap, wire, kind) in enumerate(
        zip(frame_off.tolist(), cap_bytes.tolist(), wire_bytes.tolist(), link.tolist(), strict=True)
    ):
        if not 0 <= at <= len(blob) - cap:
            raise ValueError(f"frame {row}: outside the blob")
        if cap > wire:
            raise ValueError(f"frame {row}: cap_bytes {cap} above wire_bytes {wire}")
        if kind not in (ETHERNET, RAW_IP):
            raise ValueError(f"frame {row}: link {kind} is neither 0 (Ethernet) nor 1 (raw IP)")
