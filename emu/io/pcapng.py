"""What a pcapng interface says of its packets: link type, clock, frame check sequence."""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emu.errors import CaptureError
from emu.model.capture import NO_TIME, PcapngScan

OPT_END, OPT_TSRESOL, OPT_FCSLEN, OPT_TSOFFSET = 0, 9, 13, 14
MAX_TIME_NS = 2**62  # the year 2116

Array = NDArray[Any]


class Interface(NamedTuple):
    """One interface description block."""

    linktype: int
    resolution: int = 6  # if_tsresol: a power of ten, or with the top bit of two
    offset_s: int = 0  # if_tsoffset
    fcs_bytes: int = 0


def read_interface(data: NDArray[np.uint8], at: int, big_endian: bool, where: str) -> Interface:
    """The interface whose whole block begins at byte *at*.

    Raises:
        CaptureError: an option runs past the block, or has another length than its kind.
    """
    order = ">" if big_endian else "<"
    size = struct.unpack_from(order + "I", data.data, at + 4)[0]
    block = data[at : at + size - 4].tobytes()
    found: dict[str, int] = {}
    place = 16
    kinds = {
        OPT_TSRESOL: ("resolution", "B"),
        OPT_FCSLEN: ("fcs_bytes", "B"),
        OPT_TSOFFSET: ("offset_s", "q"),
    }
    while place + 4 <= len(block):
        code, length = struct.unpack_from(order + "HH", block, place)
        if code == OPT_END:
            break
        value = block[place + 4 : place + 4 + length]
        field, layout = kinds.get(code, ("", f"{length}x"))
        if len(value) != length or length != struct.calcsize(order + layout):
            raise CaptureError(
                where,
                f"interface option {code} of {length} bytes at byte {at + place}",
                "options that lie in their block and have their kind's length",
            )
        if field:
            found[field] = struct.unpack(order + layout, value)[0]
        place += 4 + (length + 3) // 4 * 4
    return Interface(struct.unpack_from(order + "H", block, 8)[0], **found)


def times_ns(scan: PcapngScan, interfaces: list[Interface], where: str) -> NDArray[np.int64]:
    """int64[n], nanoseconds since 1970, rounded down.

    A packet without a time gets that of the one before it; the first ones, of the first that has
    one.

    Raises:
        CaptureError: a time before 1970 - 2**62 ns or after 1970 + 2**62 ns.
    """
    out = np.zeros(len(scan.ticks), dtype=np.int64)
    timed = scan.ticks != np.uint64(NO_TIME)
    for row, interface in enumerate(interfaces):
        mine = np.flatnonzero((scan.interface == row) & timed)
        if len(mine) == 0:
            continue
        last = int(scan.ticks[mine].max())
        low = interface.offset_s * 10**9
        high = low + in_ns(last, interface.resolution)
        if low < -MAX_TIME_NS or high > MAX_TIME_NS:
            raise CaptureError(
                where,
                f"a time {high // 10**9} s after 1970 on interface {row}",
                f"times up to {MAX_TIME_NS // 10**9} s",
            )
        out[mine] = low + ticks_ns(scan.ticks[mine], interface.resolution)
    if timed.any() and not timed.all():
        places = np.where(timed, np.arange(len(out)), -1)
        places = np.maximum.accumulate(places)
        places[places < 0] = int(np.flatnonzero(timed)[0])
        out = out[places]
    return out


def in_ns(ticks: int, resolution: int) -> int:
    """One time, exactly, rounded down."""
    power = resolution & 127
    return ticks * 10**9 >> power if resolution & 128 else ticks * 10**9 // 10**power


def ticks_ns(ticks: Array, resolution: int) -> NDArray[np.int64]:
    """`in_ns` over uint64[n]; the caller has checked that the results fit."""
    power = resolution & 127
    if not resolution & 128 and power <= 9:
        return (ticks * np.uint64(10 ** (9 - power))).astype(np.int64)
    if not resolution & 128 and power <= 27:
        return (ticks // np.uint64(10 ** (power - 9))).astype(np.int64)
    if resolution & 128 and power <= 32:
        whole, part = ticks >> np.uint64(power), ticks & np.uint64(2**power - 1)
        return (whole * np.uint64(10**9) + (part * np.uint64(10**9) >> np.uint64(power))).astype(
            np.int64
        )
    return np.array([in_ns(value, resolution) for value in ticks.tolist()], dtype=np.int64)
