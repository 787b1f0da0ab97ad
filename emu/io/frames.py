"""Packet tables to frames and to pcap files."""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Iterable, Iterator, Sequence
from typing import IO, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emu.dtypes import PacketFlag, Reason
from emu.errors import ConfigError
from emu.model.capture import MAX_CAP_BYTES
from emu.model.packets import Packets

TCP, UDP = 6, 17
ETHERNET, RAW = 1, 101
CHUNK_BYTES = 32 << 20  # of frames built at a time
CHUNK_ROWS = 1 << 16
PCAP_MAGICS = {True: 0xA1B23C4D, False: 0xA1B2C3D4}
BUILDABLE = "plain TCP or UDP over IPv4 or IPv6 on Ethernet, no tag, fragment or tunnel"

Array = NDArray[Any]


def frames_of(packets: Packets) -> list[bytes]:
    """The frame of each packet, as it was on the wire, or what a capture kept of it.

    A packet without frame bytes gets a frame made of its columns, with right checksums and zeros
    as payload. A tag that the NIC took out (``VLAN_META``) is put back.

    Raises:
        ConfigError: a packet without bytes is not plain TCP or UDP over IP on Ethernet.
    """
    return [bytes(frame) for chunk in chunks(packets) for frame in chunk]


def write_pcap(
    path: str | os.PathLike[str],
    packets: Packets | Iterable[bytes],
    *,
    arrival_ps: ArrayLike | None = None,
    epoch_ns: int | None = None,
    linktype: int | None = None,
    nanosecond: bool = True,
    big_endian: bool = False,
    snap_bytes: int | None = None,
) -> int:
    """Write a pcap file; whatever stood there before is replaced once all is written.

    Args:
        path: the file.
        packets: a table, written as `frames_of` says, with its times; or frames.
        arrival_ps: int64[n], when frames came, picoseconds after *epoch_ns*; a table has its own.
            All 0 if not given.
        epoch_ns: nanoseconds since 1970; the table's if not given.
        linktype: 1 (Ethernet) or 101 (raw IP); by default what the table has, and Ethernet for
            frames.
        nanosecond: nanosecond times; else microseconds, rounded down.
        big_endian: the byte order.
        snap_bytes: octets kept of each frame at most.

    Returns:
        Packets written.

    Raises:
        ConfigError: an argument is not as said above; times outside 1970 to 2106; Ethernet and raw
        IP in
            one table; a packet that `frames_of` cannot build; the file cannot be written.
    """
    table = packets if isinstance(packets, Packets) else None
    frames = [] if isinstance(packets, Packets) else [bytes(frame) for frame in packets]
    count = len(frames) if table is None else len(table)
    if linktype not in (None, ETHERNET, RAW):
        raise ConfigError("linktype", repr(linktype), "1 (Ethernet) or 101 (raw IP)")
    if snap_bytes is not None and not 1 <= snap_bytes <= MAX_CAP_BYTES:
        raise ConfigError("snap_bytes", repr(snap_bytes), f"1 to {MAX_CAP_BYTES}")
    if table is not None:
        linktype = linktype_of(table) if linktype is None else linktype
        wire_bytes = table.wire_bytes.astype(np.int64)
        wire_bytes += np.where(table.flags & PacketFlag.VLAN_META, 4, 0)
        source: Iterable[Sequence[bytes | memoryview]] = chunks(table)
    else:
        wire_bytes = np.array([len(frame) for frame in frames], dtype=np.int64)
        source = [frames]
    times = times_ns(table, arrival_ps, epoch_ns, count)
    order = ">" if big_endian else "<"
    head = (PCAP_MAGICS[nanosecond], 2, 4, 0, 0, snap_bytes or 262144, linktype or ETHERNET)
    columns = record_columns(times, wire_bytes, nanosecond, order)
    with replacing(path) as file:
        file.write(struct.pack(order + "IHHIIII", *head))
        written = 0
        for chunk in source:
            written += write_records(file, chunk, columns[written:], snap_bytes, order)
    return written


def linktype_of(packets: Packets) -> int:
    """Ethernet, or raw IP when every IP packet begins with its IP header.

    Raises:
        ConfigError: there are both.
    """
    ip = packets.family != 0
    raw = ip & (packets.l3_off == 0)
    if raw.any() and (ip & ~raw).any():
        raise ConfigError(
            "packets", "Ethernet and raw-IP frames in one table", "one link type in a pcap file"
        )
    return RAW if raw.any() else ETHERNET


def times_ns(
    table: Packets | None, arrival_ps: ArrayLike | None, epoch_ns: int | None, count: int
) -> Array:
    """int64[n], nanoseconds since 1970."""
    if table is not None:
        if arrival_ps is not None:
            raise ConfigError("arrival_ps", "an array", "nothing: a table has its own times")
        arrival: Array = table.arrival_ps
        epoch_ns = table.epoch_ns if epoch_ns is None else epoch_ns
    else:
        given = np.zeros(count, np.int64) if arrival_ps is None else np.asarray(arrival_ps)
        if given.shape != (count,) or (count and given.dtype.kind not in "iu"):
            raise ConfigError(
                "arrival_ps", f"{given.dtype}{list(given.shape)}", f"{count} whole numbers"
            )
        arrival = given.astype(np.int64)
    start = 0 if epoch_ns is None else epoch_ns
    last = 2**32 * 10**9
    if count and not (
        start + int(arrival.min()) // 1000 >= 0 and start + int(arrival.max()) // 1000 < last
    ):
        raise ConfigError("packets", "times outside of it", "1970 to 2106", "another epoch_ns")
    return arrival // 1000 + start


def record_columns(times: Array, wire_bytes: Array, nanosecond: bool, order: str) -> Array:
    """uint32[n, 4] in file order: seconds, fraction, kept octets (0 as yet), wire octets."""
    out = np.zeros((len(times), 4), dtype=order + "u4")
    out[:, 0] = times // 10**9
    out[:, 1] = times % 10**9 // (1 if nanosecond else 1000)
    out[:, 3] = wire_bytes
    return out


def write_records(
    file: IO[bytes],
    frames: Sequence[bytes | memoryview],
    columns: Array,
    snap_bytes: int | None,
    order: str,
) -> int:
    """Write one record per frame."""
    if snap_bytes is not None:
        frames = [frame[:snap_bytes] for frame in frames]
    heads = columns[: len(frames)]
    heads[:, 2] = [len(frame) for frame in frames]
    octets = memoryview(heads.tobytes())
    pieces: list[bytes | memoryview] = [b""] * (2 * len(frames))
    pieces[0::2] = [octets[at : at + 16] for at in range(0, len(octets), 16)]
    pieces[1::2] = frames
    file.write(b"".join(pieces))
    return len(frames)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """A file that takes the place of *path* when all went well.

    Cutting a file in place would pull it from under a table that maps it.
    """
    where = os.fspath(path)
    if os.path.exists(where) and not os.path.isfile(
        where
    ):  # a pipe or a device: nothing to replace
        with writing(where), open(where, "wb") as file:
            yield file
        return
    target = os.path.realpath(where)
    unfinished = f"{target}.{os.getpid()}.part"
    with writing(where):
        handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        with writing(where):
            with open(handle, "wb") as file:
                yield file
            with contextlib.suppress(FileNotFoundError):
                os.chmod(unfinished, os.stat(target).st_mode & 0o7777)
            os.replace(unfinished, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(unfinished)
        raise


@contextlib.contextmanager
def writing(where: str) -> Iterator[None]:
    """Tell the system's errors as the user's."""
    try:
        yield
    except OSError as error:
        raise ConfigError(
            where, error.strerror or "an error", "a file that can be written"
        ) from None


def chunks(packets: Packets) -> Iterator[list[bytes | memoryview]]:
    """The frames of some packets at a time, in order."""
    check_buildable(packets)
    upto = np.cumsum(packets.wire_bytes, dtype=np.int64)
    first = 0
    while first < len(packets):
        before = int(upto[first - 1]) if first else 0
        last = int(np.searchsorted(upto, before + CHUNK_BYTES, side="right"))
        last = min(max(last, first + 1), first + CHUNK_ROWS, len(packets))
        yield chunk_frames(packets, first, last)
        first = last


def chunk_frames(packets: Packets, first: int, last: int) -> list[bytes | memoryview]:
    """The frames of packets *first* to *last* - 1."""
    frame_off = packets.frame_off[first:last]
    cap_bytes = packets.cap_bytes[first:last].astype(np.int64)
    blob = packets.blob.data
    out: list[bytes | memoryview] = [
        blob[at : at + cap] if at >= 0 else b""
        for at, cap in zip(frame_off.tolist(), cap_bytes.tolist(), strict=True)
    ]
    missing = np.flatnonzero(frame_off < 0)
    if len(missing):
        built, starts, sizes = build(packets, missing + first)
        octets = built.data
        for row, at, size in zip(missing.tolist(), starts.tolist(), sizes.tolist(), strict=True):
            out[row] = octets[at : at + size]
    taken_out = packets.flags[first:last] & PacketFlag.VLAN_META
    for row in np.flatnonzero(taken_out).tolist():
        tag = struct.pack(
            ">HH", int(packets.vlan_tpid[first + row]), int(packets.vlan_tci[first + row])
        )
        out[row] = bytes(out[row][:12]) + tag + bytes(out[row][12:])
    return out


def check_buildable(packets: Packets) -> None:
    """Refuse packets without bytes that columns alone do not describe.

    Raises:
        ConfigError: there is one.
    """
    rows = np.flatnonzero(packets.frame_off < 0)
    if len(rows) == 0:
        return
    lengths = wanted_lengths(packets, rows)
    plain = (
        (packets.reason[rows] == Reason.OK)
        & (packets.flags[rows] == PacketFlag.HAS_PORTS)
        & ((packets.ip_proto[rows] == TCP) | (packets.ip_proto[rows] == UDP))
        & ((packets.ip_b0[rows] == 0x45) | (packets.ip_b0[rows] >> 4 == 6))
        & (packets.ip_b0[rows] >> 4 == packets.family[rows])
        & (packets.vlan_tpid[rows] == 0)
        & (packets.flow_label[rows] == 0)
        & (packets.l3_off[rows] == 14)
        & (lengths == packets.wire_bytes[rows])
    )
    if not plain.all():
        row = int(rows[np.flatnonzero(~plain)[0]])
        raise ConfigError(f"packet {row}", "no frame bytes, and columns of another kind", BUILDABLE)


def l4_header_bytes(packets: Packets, rows: Array) -> Array:
    """int64[k]: TCP header with its options, or UDP's 8."""
    doff = (packets.tcp_w12[rows] >> np.uint32(28)).astype(np.int64)
    return np.where(packets.ip_proto[rows] == TCP, 4 * doff, 8)


def wanted_lengths(packets: Packets, rows: Array) -> Array:
    """int64[k]: what such a frame has on the wire; -1 where length fields disagree."""
    ip_bytes = np.where(packets.family[rows] == 4, 20, 40)
    l4_bytes = l4_header_bytes(packets, rows) + packets.payload_bytes[rows]
    agree = packets.ip_len[rows] == np.where(ip_bytes == 20, 20, 0) + l4_bytes
    agree &= (packets.ip_proto[rows] != UDP) | (packets.udp_len[rows] == l4_bytes)
    agree &= packets.l4_off[rows] == 14 + ip_bytes
    options = l4_header_bytes(packets, rows) > 20
    agree &= ~options | (packets.opt_off[rows] >= 0)
    agree &= (packets.ip_proto[rows] == UDP) | (l4_header_bytes(packets, rows) >= 20)
    return np.where(agree, 14 + ip_bytes + l4_bytes, -1)


def build(packets: Packets, rows: Array) -> tuple[Array, Array, Array]:
    """Frames of some packets: uint8 of all, where each begins, how long each is."""
    sizes = packets.wire_bytes[rows].astype(np.int64)
    starts = np.cumsum(sizes) - sizes
    out = np.zeros(int(sizes.sum()), dtype=np.uint8)
    header_bytes = packets.l4_off[rows] + l4_header_bytes(packets, rows)
    kinds = header_bytes << 16 | packets.family[rows].astype(np.int64) << 8 | packets.ip_proto[rows]
    for kind in np.unique(kinds).tolist():
        mine = np.flatnonzero(kinds == kind)
        heads = build_headers(packets, rows[mine], kind >> 16)
        out[starts[mine][:, None] + np.arange(kind >> 16)] = heads
    return out, starts, sizes


def build_headers(packets: Packets, rows: Array, header_bytes: int) -> Array:
    """uint8[k, header_bytes] of packets that differ in nothing that moves a field."""
    out = np.zeros((len(rows), header_bytes), dtype=np.uint8)
    out[:, :14] = packets.mac[rows].astype("<u8").view(np.uint8)[:, :14]
    four, l4 = packets.family[rows[0]] == 4, int(packets.l4_off[rows[0]])
    address_bytes = 4 if four else 16
    for at, name in ((l4 - 2 * address_bytes, "saddr"), (l4 - address_bytes, "daddr")):
        octets = packets.columns[name][rows].astype("<u4").view(np.uint8)
        out[:, at : at + address_bytes] = octets[:, :address_bytes]
    l4_bytes = header_bytes - l4 + packets.payload_bytes[rows].astype(np.int64)
    out[:, 14] = packets.ip_b0[rows]
    if four:
        out[:, 15] = packets.tos[rows]
        for at, name in ((16, "ip_len"), (18, "ip_id"), (20, "ip_frag")):
            put16(out, at, packets.columns[name][rows])
        out[:, 22], out[:, 23] = packets.ttl[rows], packets.ip_proto[rows]
        put16(out, 24, folded(sum16(out[:, 14:34])))
    else:
        put16(out, 14, 0x6000 | packets.tos[rows].astype(np.int64) << 4)
        put16(out, 18, packets.ip_len[rows])
        out[:, 20], out[:, 21] = packets.ip_proto[rows], packets.ttl[rows]
    put16(out, l4, packets.sport[rows])
    put16(out, l4 + 2, packets.dport[rows])
    pseudo = sum16(out[:, l4 - 2 * address_bytes : l4]) + packets.ip_proto[rows] + l4_bytes
    if packets.ip_proto[rows[0]] == UDP:
        put16(out, l4 + 4, packets.udp_len[rows])
        value = folded(pseudo + sum16(out[:, l4:]))
        put16(out, l4 + 6, np.where(value == 0, 0xFFFF, value))
        return out
    for at, name in ((4, "seq"), (8, "ack"), (12, "tcp_w12")):
        put32(out, l4 + at, packets.columns[name][rows])
    if header_bytes > l4 + 20:
        places = packets.opt_off[rows][:, None] + np.arange(header_bytes - l4 - 20)
        out[:, l4 + 20 :] = packets.blob[places]
    put16(out, l4 + 16, folded(pseudo + sum16(out[:, l4:])))
    return out


def put16(out: Array, at: int, values: ArrayLike) -> None:
    """Store a 16-bit field, in network order."""
    numbers = np.broadcast_to(np.asarray(values), (len(out),))
    out[:, at : at + 2] = numbers.astype(">u2").view(np.uint8).reshape(-1, 2)


def put32(out: Array, at: int, values: Array) -> None:
    """Store a 32-bit field, in network order."""
    out[:, at : at + 4] = values.astype(">u4").view(np.uint8).reshape(-1, 4)


def sum16(octets: Array) -> Array:
    """int64[k]: the sum of each row's 16-bit words; rows have an even length."""
    out: Array = np.ascontiguousarray(octets).view(">u2").sum(axis=1, dtype=np.int64)
    return out


def folded(total: Array) -> Array:
    """The checksum field for a sum in which that field was zero."""
    for _ in range(3):
        total = (total & 0xFFFF) + (total >> 16)
    out: Array = ~total & 0xFFFF
    return out
