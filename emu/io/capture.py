"""Capture files to packet tables: pcap and pcapng, plain or gzip."""

from __future__ import annotations

import mmap
import os
import stat
import struct
import zlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emu.dtypes import Reason
from emu.engines import stage
from emu.errors import CaptureError, ConfigError
from emu.intake import from_blob
from emu.io.pcapng import read_interface, times_ns
from emu.model.capture import (
    CUTS,
    ETHERNET,
    LINKTYPE_FAMILY,
    LINKTYPES,
    LINKTYPES_ALLOWED,
    MAX_CAP_BYTES,
    MAX_PACKETS,
    MIN_CAP_LIMIT,
    CaptureFault,
    linktype_name,
)
from emu.model.packets import Packets

MAX_SPAN_NS = 2**62 // 1000  # from the first packet to the last
FILE_HEADER_BYTES = 24
UNZIP_BYTES = 1 << 18  # of a gzip file at a time
PCAPNG_MAGIC = b"\x0a\x0d\x0d\x0a"
GZIP_MAGIC = b"\x1f\x8b"
DEVICE_BYTES = 1 << 16
FORMATS = "pcap, pcapng, or one of them in gzip"
# byte order mark as a big-endian reader sees it: nanoseconds per fraction, bytes of a record header
PCAP_MAGICS = {0xA1B2C3D4: (1000, 16), 0xA1B23C4D: (1, 16), 0xA1B2CD34: (1000, 24)}
FOREIGN = {
    b"\x28\xb5\x2f\xfd": "a zstd file",
    b"\xfd7zX": "an xz file",
    b"BZh": "a bzip2 file",
    b"\x04\x22\x4d\x18": "an lz4 file",
    b"PK\x03\x04": "a zip file",
    b"snoo": "a snoop capture",
}
WHAT = {
    CaptureFault.CUT_HEADER: "the file ends inside its header",
    CaptureFault.CUT_FRAME: "the file ends inside it",
    CaptureFault.CAP_BYTES: "its kept length is beyond its limit",
    CaptureFault.BLOCK_BYTES: "a block length that its kind cannot have",
    CaptureFault.TRAILER: "a block whose two lengths differ",
    CaptureFault.BYTE_ORDER: "a section header without byte-order magic",
    CaptureFault.VERSION: "a section of another version than 1",
    CaptureFault.INTERFACE: "an interface that its section does not describe",
}

Array = NDArray[Any]


class Frames(NamedTuple):
    """Where the frames of a file lie, and when and how they came."""

    frame_off: Array
    cap_bytes: Array
    wire_bytes: Array
    time_ns: Array
    nic: Array
    linktype: Array  # as the file numbers it
    fcs_bytes: Array
    fault: int
    fault_off: int


def read_capture(
    path: str | os.PathLike[str],
    *,
    engine: str = "core",
    linktype: int | None = None,
    limit: int | None = None,
    truncated: str = "error",
) -> Packets:
    """Make a packet table of a capture file: pcap or pcapng, of either byte order, plain or gzip.

    Frames are not copied: an uncompressed file is mapped and must not be cut while the table is in
    use. The order is the file's. ``arrival_ps`` counts from the earliest time in the file, in
    whole nanoseconds; times may step back. ``nic`` is the pcapng interface number within its
    section; pcapng packets without a time take the time of the packet before. A frame check
    sequence that the file declares is left out. A frame of which more is kept than its stated wire
    length has the kept length on the wire. No packets is a valid table.

    Args:
        path: the file; gzip is known by its content, whatever the name.
        engine: ``"core"`` or ``"ref"``; both give the same table.
        linktype: the link type of all frames, in place of what the file says.
        limit: packets to read at most; records behind them are not looked at.
        truncated: ``"error"``, or ``"stop"`` to take a file that ends in the middle of a record up
            to there.

    Raises:
        CaptureError: the file cannot be read or is broken, with the byte and the record; its link
            type is neither Ethernet nor raw IP; its times span more than 2**62 ps (53 days).
        ConfigError: an argument is not as said above.
        CoreNotBuilt: the compiled core is missing.
    """
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 0):
        raise ConfigError("limit", repr(limit), "a whole number >= 0")
    if truncated not in ("error", "stop"):
        raise ConfigError("truncated", repr(truncated), '"error" or "stop"')
    if linktype is not None and linktype not in LINKTYPES:
        raise ConfigError("linktype", repr(linktype), LINKTYPES_ALLOWED)
    where = os.fspath(path)
    scanner = stage(engine, "capture")
    blob = load(where, keep_cut=truncated == "stop")
    count = MAX_PACKETS if limit is None else min(limit, MAX_PACKETS)
    frames = (
        scan_sections(scanner, blob, count, where)
        if blob[:4].tobytes() == PCAPNG_MAGIC
        else scan_records(scanner, blob, count, where)
    )
    check_fault(frames, where, truncated)
    if linktype is not None:
        frames = frames._replace(linktype=np.full_like(frames.linktype, linktype))
    return to_packets(frames, blob, where, engine)


def load(where: str, keep_cut: bool) -> NDArray[np.uint8]:
    """The octets of a file, unpacked; a plain file is mapped, not read."""
    try:
        with open(where, "rb") as file:
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size:
                octets: bytes | mmap.mmap = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            else:  # a device may never end; what it begins with tells that it is no capture
                octets = file.read(DEVICE_BYTES if stat.S_ISCHR(status.st_mode) else -1)
    except OSError as error:
        raise CaptureError(
            where, error.strerror or "an error", "a capture file that can be read"
        ) from None
    if octets[:2] == GZIP_MAGIC:
        octets = unzip(octets, where, keep_cut)
    if len(octets) == 0:
        raise CaptureError(where, "an empty file", FORMATS)
    return np.frombuffer(octets, dtype=np.uint8)


def unzip(octets: bytes | mmap.mmap, where: str, keep_cut: bool) -> bytes:
    """What a gzip file holds, all its members; zeros behind the last one are padding."""
    parts: list[bytes] = []
    at, rest = 0, memoryview(octets)
    while at < len(rest) and any(rest[at : at + 2]):
        member = zlib.decompressobj(wbits=31)
        while at < len(rest) and not member.eof:
            piece = rest[at : at + UNZIP_BYTES]
            try:
                parts.append(member.decompress(piece))
            except zlib.error as error:
                given = f"broken gzip data at byte {at} or behind: {error}"
                raise CaptureError(where, given, "gzip data that unpacks") from None
            at += len(piece) - len(member.unused_data)
        if not member.eof and not keep_cut:
            given = f"a gzip file that is cut at byte {len(rest)}"
            raise CaptureError(where, given, "a whole gzip file", 'truncated="stop"')
    return b"".join(parts)


def scan_records(scanner: Any, blob: NDArray[np.uint8], limit: int, where: str) -> Frames:
    """The records of a pcap file."""
    head = blob[:FILE_HEADER_BYTES].tobytes()
    magics = {">": int.from_bytes(head[:4], "big"), "<": int.from_bytes(head[:4], "little")}
    order = next((o for o, value in magics.items() if value in PCAP_MAGICS), None)
    if order is None:
        raise CaptureError(where, f"{foreign(head)} at byte 0", FORMATS)
    if len(head) < FILE_HEADER_BYTES:
        raise CaptureError(
            where,
            f"a file header that is cut at byte {len(head)}",
            f"{FILE_HEADER_BYTES} bytes of pcap file header",
        )
    magic, major, minor, snap_bytes, network = struct.unpack(order + "IHH8xII", head)
    if major != 2 or minor < 4:
        raise CaptureError(where, f"pcap version {major}.{minor} at byte 4", "pcap version 2.4")
    frac_ns, header_bytes = PCAP_MAGICS[magic]
    cap_limit = min(max(snap_bytes, MIN_CAP_LIMIT), MAX_CAP_BYTES) if snap_bytes else MAX_CAP_BYTES
    scan = scanner.scan_pcap(
        blob, FILE_HEADER_BYTES, order == ">", frac_ns, header_bytes, cap_limit, limit
    )
    rows = len(scan.frame_off)
    fcs_bytes = 2 * (network >> 28) if network & 0x04000000 else 0
    return Frames(
        scan.frame_off,
        scan.cap_bytes,
        scan.wire_bytes,
        scan.time_ns,
        nic=np.zeros(rows, dtype=np.uint16),
        linktype=np.full(rows, network & 0xFFFF, dtype=np.int64),
        fcs_bytes=np.full(rows, fcs_bytes, dtype=np.int64),
        fault=scan.fault,
        fault_off=scan.fault_off,
    )


def foreign(head: bytes) -> str:
    """What a file seems to be that is no capture."""
    for magic, name in FOREIGN.items():
        if head.startswith(magic):
            return name
    return f"the bytes {head[:4].hex()}"


def scan_sections(scanner: Any, blob: NDArray[np.uint8], limit: int, where: str) -> Frames:
    """The packets of a pcapng file."""
    scan = scanner.scan_pcapng(blob, limit)
    interfaces = [
        read_interface(blob, at, bool(big), where)
        for at, big in zip(scan.interface_off.tolist(), scan.interface_big.tolist(), strict=True)
    ]
    linktypes = np.array([interface.linktype for interface in interfaces], dtype=np.int64)
    fcs_bytes = np.array([interface.fcs_bytes for interface in interfaces], dtype=np.int64)
    number = scan.interface_number[scan.interface]
    if len(number) and int(number.max()) > 0xFFFF:
        raise CaptureError(where, f"a packet of interface {number.max()}", "interfaces 0 to 65535")
    return Frames(
        scan.frame_off,
        scan.cap_bytes,
        scan.wire_bytes,
        times_ns(scan, interfaces, where),
        nic=number.astype(np.uint16),
        linktype=linktypes[scan.interface],
        fcs_bytes=fcs_bytes[scan.interface],
        fault=scan.fault,
        fault_off=scan.fault_off,
    )


def check_fault(frames: Frames, where: str, truncated: str) -> None:
    """Refuse a broken file; one that is only cut passes with ``truncated="stop"``."""
    fault, count = CaptureFault(frames.fault), len(frames.frame_off)
    if fault is CaptureFault.NONE or (fault in CUTS and truncated == "stop"):
        return
    fix = f"limit={count} to read what stands before it" if count else ""
    if fault in CUTS and count:
        fix = f'truncated="stop" to read the {count} packets before it'
    raise CaptureError(
        where,
        f"record {count} at byte {frames.fault_off}: {WHAT[fault]}",
        "whole records of a sane length",
        fix,
    )


def to_packets(frames: Frames, blob: NDArray[np.uint8], where: str, engine: str) -> Packets:
    """Dissect the frames."""
    link = np.full(len(frames.linktype), ETHERNET, dtype=np.uint8)
    for number in np.unique(frames.linktype).tolist():
        if number not in LINKTYPES:
            first = int(np.flatnonzero(frames.linktype == number)[0])
            given = f"link type {linktype_name(number)} of record {first}"
            raise CaptureError(where, given, LINKTYPES_ALLOWED)
        link[frames.linktype == number] = LINKTYPES[number]
    epoch_ns = int(frames.time_ns.min()) if len(frames.time_ns) else 0
    span_ns = int(frames.time_ns.max()) - epoch_ns if len(frames.time_ns) else 0
    if span_ns > MAX_SPAN_NS:
        record = int(np.argmax(frames.time_ns))
        raise CaptureError(
            where,
            f"record {record} is {span_ns // 10**9} s after record {np.argmin(frames.time_ns)}",
            f"times within {MAX_SPAN_NS // 10**9} s (53 days)",
        )
    cap_bytes, wire_bytes = without_fcs(frames)
    packets = from_blob(
        blob,
        frames.frame_off,
        cap_bytes,
        wire_bytes,
        arrival_ps=(frames.time_ns - epoch_ns) * 1000,
        nic=frames.nic,
        link=link,
        epoch_ns=epoch_ns,
        engine=engine,
    )
    return refuse_other_family(packets, frames.linktype)


def without_fcs(frames: Frames) -> tuple[Array, Array]:
    """Kept and wire lengths less the frame check sequence."""
    if not frames.fcs_bytes.any():
        return frames.cap_bytes, frames.wire_bytes
    wire_bytes = np.maximum(frames.wire_bytes.astype(np.int64) - frames.fcs_bytes, 0)
    return np.minimum(frames.cap_bytes, wire_bytes).astype(np.uint32), wire_bytes.astype(np.uint32)


def refuse_other_family(packets: Packets, linktype: Array) -> Packets:
    """Mark frames whose link type says IPv4 and whose version says IPv6, or the other way round."""
    reason = None
    for number, family in LINKTYPE_FAMILY.items():
        rows = (linktype == number) & (packets.family != family) & (packets.reason == Reason.OK)
        if rows.any():
            reason = packets.reason.copy() if reason is None else reason
            reason[rows] = Reason.BAD_VERSION
    return packets if reason is None else packets.replace(reason=reason)
