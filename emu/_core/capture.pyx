"""The doors of the record walk: a capture file in memory to where its frames lie."""
import numpy as np

from emu.model.capture import MAX_CAP_BYTES
from emu.model.capture import PcapngScan
from emu.model.capture import PcapScan

from libc.string cimport memset

from emu._core.capture cimport walk_pcap
from emu._core.capture cimport walk_pcapng
from emu._core.capture cimport walk_t
from emu._core.types cimport i64, u8, u32, u64


cdef void start(const u8[::1] data, walk_t *w, i64 at, i64 limit):
    memset(w, 0, sizeof(walk_t))
    w.data = &data[0] if data.shape[0] else NULL
    w.size = data.shape[0]
    w.at = at
    w.limit = limit
    w.simple_off = -1
    w.max_cap_bytes = MAX_CAP_BYTES
    w.max_block_bytes = MAX_CAP_BYTES + 65536


cdef void run(walk_t *w, u32 header_bytes, u32 frac_ns, bint big) noexcept:
    with nogil:
        if header_bytes:
            walk_pcap(w, header_bytes, frac_ns, big)
        else:
            walk_pcapng(w)


cdef u64 pointer(array):
    return array.__array_interface__["data"][0]


def scan_pcap(
    const u8[::1] data, i64 at, bint big_endian, u32 frac_ns, u32 header_bytes, u32 max_cap_bytes,
    i64 limit
):
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
    cdef walk_t w
    if at < 0 or header_bytes not in (16, 24):
        raise ValueError("at must not be negative, header_bytes must be 16 or 24")
    start(data, &w, at, limit)
    w.max_cap_bytes = max_cap_bytes
    run(&w, header_bytes, frac_ns, big_endian)
    out = PcapScan(
        np.empty(w.packets, dtype=np.int64),
        np.empty(w.packets, dtype=np.uint32),
        np.empty(w.packets, dtype=np.uint32),
        np.empty(w.packets, dtype=np.int64),
        w.fault,
        w.at,
    )
    start(data, &w, at, w.packets)
    w.max_cap_bytes = max_cap_bytes
    w.frame_off = <i64 *>pointer(out.frame_off)
    w.cap_bytes = <u32 *>pointer(out.cap_bytes)
    w.wire_bytes = <u32 *>pointer(out.wire_bytes)
    w.ticks = <u64 *>pointer(out.time_ns)
    run(&w, header_bytes, frac_ns, big_endian)
    return out


def scan_pcapng(const u8[::1] data, i64 limit):
    """Walk the blocks of a pcapng file.

    Args:
        data: uint8[b], the file.
        limit: packets to take at most.

    Returns:
        ``PcapngScan``: the packets up to the first fault, and the interfaces before it.
    """
    cdef walk_t w
    start(data, &w, 0, limit)
    run(&w, 0, 0, False)
    out = PcapngScan(
        np.empty(w.packets, dtype=np.int64),
        np.empty(w.packets, dtype=np.uint32),
        np.empty(w.packets, dtype=np.uint32),
        np.empty(w.packets, dtype=np.uint64),
        np.empty(w.packets, dtype=np.uint32),
        np.empty(w.interfaces, dtype=np.int64),
        np.empty(w.interfaces, dtype=np.uint8),
        np.empty(w.interfaces, dtype=np.uint32),
        w.fault,
        w.at,
    )
    start(data, &w, 0, limit)
    w.frame_off = <i64 *>pointer(out.frame_off)
    w.cap_bytes = <u32 *>pointer(out.cap_bytes)
    w.wire_bytes = <u32 *>pointer(out.wire_bytes)
    w.ticks = <u64 *>pointer(out.ticks)
    w.interface = <u32 *>pointer(out.interface)
    w.interface_off = <i64 *>pointer(out.interface_off)
    w.interface_big = <u8 *>pointer(out.interface_big)
    w.interface_number = <u32 *>pointer(out.interface_number)
    run(&w, 0, 0, False)
    return out
