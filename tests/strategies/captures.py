"""Capture files: a writer of its own for every flavour, then strategies that draw and harm them."""

from __future__ import annotations

import gzip
import struct
from dataclasses import dataclass

from hypothesis import strategies as st

from tests.strategies import frames as make

BASE_NS = 1_700_000_000 * 10**9


@dataclass(frozen=True)
class Record:
    """One packet as a file has it; time_ns None: the file does not say."""

    frame: bytes
    wire_bytes: int
    time_ns: int | None = 0
    interface: int = 0
    kind: str = "enhanced"  # enhanced, obsolete, simple


def pcap_header(
    *, order: str = "<", magic: int = 0xA1B2C3D4, snap: int = 262144, network: int = 1,
    version: tuple[int, int] = (2, 4),
) -> bytes:  # fmt: skip
    return struct.pack(order + "IHHiIII", magic, *version, 0, 0, snap, network)


def pcap(
    records: list[Record], *, order: str = "<", magic: int = 0xA1B2C3D4, **header: int
) -> bytes:
    """A pcap file: microseconds, nanoseconds or the modified form, as the magic says."""
    out = [pcap_header(order=order, magic=magic, **header)]
    unit = 1 if magic == 0xA1B23C4D else 1000
    for record in records:
        seconds, rest = divmod(record.time_ns, 10**9)
        lengths = (len(record.frame), record.wire_bytes)
        out.append(struct.pack(order + "4I", seconds, rest // unit, *lengths))
        out.append(bytes(8) if magic == 0xA1B2CD34 else b"")
        out.append(record.frame)
    return b"".join(out)


def pad4(octets: bytes) -> bytes:
    return octets + bytes(-len(octets) % 4)


def block(kind: int, body: bytes, order: str = "<") -> bytes:
    body = pad4(body)
    size = struct.pack(order + "I", len(body) + 12)
    return struct.pack(order + "I", kind) + size + body + size


def section(order: str = "<", major: int = 1) -> bytes:
    return block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, major, 0, -1), order)


def option(code: int, value: bytes, order: str = "<") -> bytes:
    return struct.pack(order + "HH", code, len(value)) + pad4(value)


def interface(
    order: str = "<", *, network: int = 1, snap: int = 0, resolution: int | None = None,
    offset_s: int | None = None, fcs: int | None = None,
) -> bytes:  # fmt: skip
    body = struct.pack(order + "HHI", network, 0, snap)
    body += option(2, b"eth0", order)
    if resolution is not None:
        body += option(9, bytes([resolution]), order)
    if fcs is not None:
        body += option(13, bytes([fcs]), order)
    if offset_s is not None:
        body += option(14, struct.pack(order + "q", offset_s), order)
    return block(1, body + option(0, b"", order), order)


def ticks_of(time_ns: int, resolution: int, offset_s: int) -> int:
    """The least tick that rounds down to that time."""
    rest, power = time_ns - offset_s * 10**9, resolution & 127
    per_second = 2**power if resolution & 128 else 10**power
    return -(-rest * per_second // 10**9)


def packet(record: Record, order: str = "<", resolution: int = 6, offset_s: int = 0) -> bytes:
    lengths = struct.pack(order + "II", len(record.frame), record.wire_bytes)
    if record.kind == "simple":
        return block(3, struct.pack(order + "I", record.wire_bytes) + record.frame, order)
    ticks = ticks_of(record.time_ns, resolution, offset_s)
    time = struct.pack(order + "II", ticks >> 32, ticks & 0xFFFFFFFF)
    if record.kind == "obsolete":
        head = struct.pack(order + "HH", record.interface, 0xFFFF)
        return block(2, head + time + lengths + record.frame, order)
    head = struct.pack(order + "I", record.interface)
    comment = option(1, b"seen", order) + option(0, b"", order)
    return block(6, head + time + lengths + pad4(record.frame) + comment, order)


UNKNOWN = (0x0BAD, 4, 5, 10, 0x40000BAD)  # skipped: unknown, names, statistics, secrets, custom


@st.composite
def records(draw: st.DrawFn, max_size: int = 6) -> list[Record]:
    """Packets in microseconds, some of them snapped, some out of order."""
    out = []
    for _ in range(draw(st.integers(0, max_size))):
        frame = draw(make.any_frames())
        kept = draw(st.one_of(st.just(len(frame)), st.integers(0, len(frame))))
        time_ns = BASE_NS + draw(st.integers(0, 10**7)) * 1000
        out.append(Record(frame[:kept], len(frame), time_ns))
    return out


@st.composite
def pcap_files(draw: st.DrawFn) -> tuple[bytes, list[Record]]:
    """A well-formed pcap file and what it holds."""
    rows = draw(records())
    order, magic = (
        draw(st.sampled_from("<>")),
        draw(st.sampled_from([0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34])),
    )
    octets = pcap(rows, order=order, magic=magic, snap=draw(st.sampled_from([0, 64, 262144])))
    return (gzip.compress(octets, mtime=0) if draw(st.booleans()) else octets), rows


@st.composite
def pcapng_files(draw: st.DrawFn) -> tuple[bytes, list[Record]]:
    """A well-formed pcapng file of one or more sections and what it holds."""
    out, rows = [], []
    for _ in range(draw(st.integers(1, 3))):
        order = draw(st.sampled_from("<>"))
        clocks = draw(
            st.lists(
                st.tuples(
                    st.sampled_from([6, 9, 7, 10, 0x80 | 33]), st.sampled_from([0, 0, 5, -7])
                ),
                min_size=1,
                max_size=3,
            )
        )
        out.append(section(order))
        out += [interface(order, resolution=r, offset_s=o) for r, o in clocks]
        for row in draw(records(max_size=4)):
            number = draw(st.integers(0, len(clocks) - 1))
            kind = draw(st.sampled_from(["enhanced", "enhanced", "obsolete"]))
            row = Record(row.frame, row.wire_bytes, row.time_ns, number, kind)
            rows.append(row)
            out.append(packet(row, order, *clocks[number]))
            if draw(st.booleans()):
                out.append(
                    block(draw(st.sampled_from(UNKNOWN)), draw(st.binary(max_size=9)), order)
                )
    octets = b"".join(out)
    return (gzip.compress(octets, mtime=0) if draw(st.booleans()) else octets), rows


@st.composite
def harmed_files(draw: st.DrawFn) -> bytes:
    """A file that is cut, lengthened, or hurt in a few octets."""
    octets = bytearray(draw(st.one_of(pcap_files(), pcapng_files()))[0])
    for harm in draw(st.lists(st.sampled_from(["cut", "grow", "set", "set", "word"]), max_size=4)):
        if harm == "cut":
            del octets[draw(st.integers(0, len(octets))) :]
        elif harm == "grow":
            octets += draw(st.binary(max_size=20))
        elif harm == "set" and octets:
            octets[draw(st.integers(0, len(octets) - 1))] = draw(st.integers(0, 255))
        elif len(octets) >= 4:
            at = draw(st.integers(0, len(octets) // 4 - 1)) * 4
            octets[at : at + 4] = draw(st.sampled_from([bytes(4), b"\xff" * 4, b"\0\0\0\x10"]))
    return bytes(octets)
