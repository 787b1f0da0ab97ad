"""Record walk of capture files: where each frame lies, without a look at its octets."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emu.model.capture import MAX_CAP_BYTES, NO_TIME, CaptureFault, PcapngScan, PcapScan

SECTION, INTERFACE, OBSOLETE_PACKET, SIMPLE_PACKET, ENHANCED_PACKET = 0x0A0D0D0A, 1, 2, 3, 6
LEAST_BYTES = {
    SECTION: 28, INTERFACE: 20, OBSOLETE_PACKET: 32, SIMPLE_PACKET: 16, ENHANCED_PACKET: 32,
}  # fmt: skip
MAX_BLOCK_BYTES = MAX_CAP_BYTES + 65536
SECTION_MAGIC = {b"\x1a\x2b\x3c\x4d": ">", b"\x4d\x3c\x2b\x1a": "<"}


class Fault(Exception):
    """The walk ends before the record that begins at *at*."""

    def __init__(self, fault: CaptureFault, at: int) -> None:
        super().__init__(fault, at)
        self.fault = fault
        self.at = at


@dataclass(slots=True)
class Frames:
    """Frames met so far: (offset, kept, on the wire, time, row of its interface) each."""

    limit: int
    rows: list[tuple[int, int, int, int, int]] = field(default_factory=list)

    @property
    def full(self) -> bool:
        return len(self.rows) >= self.limit

    def add(self, at: int, cap: int, wire: int, time: int, interface: int = 0) -> None:
        self.rows.append((at, cap, max(cap, wire), time, interface))

    def column(self, place: int, kind: str) -> NDArray[Any]:
        return np.array([row[place] for row in self.rows], dtype=kind)


@dataclass(slots=True)
class Section:
    """What holds from one section header to the next: byte order and interfaces."""

    order: str
    first: int  # row of its interface 0
    snap_bytes: list[int] = field(default_factory=list)


def scan_pcap(
    data: NDArray[np.uint8],
    at: int,
    big_endian: bool,
    frac_ns: int,
    header_bytes: int,
    max_cap_bytes: int,
    limit: int,
) -> PcapScan:
    """Walk the records of a pcap file.

    Args:
        data: uint8[b], the file.
        at: byte at which the first record begins.
        big_endian: the file's byte order.
        frac_ns: nanoseconds of one unit of a record's second time field, 1 or 1000.
        header_bytes: of a record, 16 or (modified pcap) 24.
        max_cap_bytes: kept lengths beyond it are a fault.
        limit: packets to take at most.

    Returns:
        ``PcapScan``: the records up to the first fault.

    Raises:
        ValueError: *at* or *header_bytes* is none of the above.
    """
    if at < 0 or header_bytes not in (16, 24):
        raise ValueError("at must not be negative, header_bytes must be 16 or 24")
    record, view = struct.Struct(">4I" if big_endian else "<4I"), memoryview(data.data)
    frames, fault = Frames(limit), CaptureFault.NONE
    while at < len(view) and not frames.full:
        left = len(view) - at - header_bytes
        if left < 0:
            fault = CaptureFault.CUT_HEADER
            break
        seconds, fraction, cap, wire = record.unpack_from(view, at)
        if cap > max_cap_bytes:
            fault = CaptureFault.CAP_BYTES
            break
        if cap > left:
            fault = CaptureFault.CUT_FRAME
            break
        frames.add(at + header_bytes, cap, wire, seconds * 10**9 + fraction * frac_ns)
        at += header_bytes + cap
    return PcapScan(
        frames.column(0, "i8"),
        frames.column(1, "u4"),
        frames.column(2, "u4"),
        frames.column(3, "i8"),
        int(fault),
        at,
    )


def scan_pcapng(data: NDArray[np.uint8], limit: int) -> PcapngScan:
    """Walk the blocks of a pcapng file.

    Args:
        data: uint8[b], the file.
        limit: packets to take at most.

    Returns:
        ``PcapngScan``: the packets up to the first fault, and the interfaces before it.
    """
    view, frames = memoryview(data.data), Frames(limit)
    interfaces: list[tuple[int, bool, int]] = []
    section, at, fault = Section("<", 0), 0, CaptureFault.NONE
    try:
        while at < len(view) and not frames.full:
            section, kind, block = read_block(view, at, section, len(interfaces))
            if kind == INTERFACE:
                interfaces.append((at, section.order == ">", len(section.snap_bytes)))
                section.snap_bytes.append(struct.unpack_from(section.order + "I", block, 12)[0])
            elif kind == SIMPLE_PACKET:
                take_simple(block, at, section, frames)
            elif kind in (ENHANCED_PACKET, OBSOLETE_PACKET):
                take_packet(kind, block, at, section, frames)
            at += len(block)
    except Fault as broken:
        fault = broken.fault
    described = [np.array([row[k] for row in interfaces]) for k in range(3)]
    return PcapngScan(
        frames.column(0, "i8"),
        frames.column(1, "u4"),
        frames.column(2, "u4"),
        frames.column(3, "u8"),
        frames.column(4, "u4"),
        described[0].astype(np.int64),
        described[1].astype(np.uint8),
        described[2].astype(np.uint32),
        int(fault),
        at,
    )


def read_block(
    view: memoryview, at: int, section: Section, interfaces: int
) -> tuple[Section, int, memoryview]:
    """The whole block at *at*, its type, and the section it lies in or opens."""
    left = len(view) - at
    if left < 12:
        raise Fault(CaptureFault.CUT_HEADER, at)
    if bytes(view[at : at + 4]) == SECTION.to_bytes(4, "big"):
        if left < 28:
            raise Fault(CaptureFault.CUT_HEADER, at)
        order = SECTION_MAGIC.get(bytes(view[at + 8 : at + 12]))
        if order is None:
            raise Fault(CaptureFault.BYTE_ORDER, at)
        if struct.unpack_from(order + "H", view, at + 12)[0] != 1:
            raise Fault(CaptureFault.VERSION, at)
        section = Section(order, interfaces)
    kind, size = struct.unpack_from(section.order + "II", view, at)
    if size % 4 or not LEAST_BYTES.get(kind, 12) <= size <= MAX_BLOCK_BYTES:
        raise Fault(CaptureFault.BLOCK_BYTES, at)
    if size > left:
        raise Fault(CaptureFault.CUT_FRAME, at)
    block = view[at : at + size]
    if struct.unpack_from(section.order + "I", block, size - 4)[0] != size:
        raise Fault(CaptureFault.TRAILER, at)
    return section, kind, block


def take_simple(block: memoryview, at: int, section: Section, frames: Frames) -> None:
    """A simple packet: interface 0, no time, kept up to the interface's snap length."""
    (wire,) = struct.unpack_from(section.order + "I", block, 8)
    if not section.snap_bytes:
        raise Fault(CaptureFault.INTERFACE, at)
    cap = min(wire, section.snap_bytes[0] or wire)
    if cap > min(len(block) - 16, MAX_CAP_BYTES):
        raise Fault(CaptureFault.CAP_BYTES, at)
    frames.add(at + 12, cap, wire, NO_TIME, section.first)


def take_packet(kind: int, block: memoryview, at: int, section: Section, frames: Frames) -> None:
    """An enhanced packet, or an obsolete one, which differs in the width of its interface."""
    layout = "IIIII" if kind == ENHANCED_PACKET else "HxxIIII"
    number, high, low, cap, wire = struct.unpack_from(section.order + layout, block, 8)
    if number >= len(section.snap_bytes):
        raise Fault(CaptureFault.INTERFACE, at)
    if cap > min(len(block) - 32, MAX_CAP_BYTES):
        raise Fault(CaptureFault.CAP_BYTES, at)
    frames.add(at + 28, cap, wire, high << 32 | low, section.first + number)
