"""Record walk of capture files: where each frame lies, without a look at its octets.

The walk runs twice over one struct: with NULL columns it counts, then it fills.
"""
from emu._core.octets cimport load_be16
from emu._core.octets cimport load_be32
from emu._core.octets cimport load_le32
from emu._core.types cimport i64, u8, u16, u32, u64

cdef enum:
    FAULT_NONE = 0  # emu.model.capture.CaptureFault
    FAULT_CUT_HEADER = 1
    FAULT_CUT_FRAME = 2
    FAULT_CAP_BYTES = 3
    FAULT_BLOCK_BYTES = 4
    FAULT_TRAILER = 5
    FAULT_BYTE_ORDER = 6
    FAULT_VERSION = 7
    FAULT_INTERFACE = 8

    BLOCK_SECTION = 0x0A0D0D0A
    BLOCK_INTERFACE = 1
    BLOCK_PACKET = 2  # obsolete
    BLOCK_SIMPLE = 3
    BLOCK_ENHANCED = 6
    BYTE_ORDER_MAGIC = 0x1A2B3C4D

cdef struct walk_t:
    const u8 *data
    i64 size
    i64 at  # where the next record begins; after a fault, where the faulty one does
    i64 limit  # packets to take at most
    i64 packets  # taken
    i64 interfaces  # met
    i64 section_first  # the section's interface 0
    i64 simple_off  # where that one's block begins: a simple packet needs its snap length
    u32 max_cap_bytes
    u32 max_block_bytes
    u8 big
    u8 fault
    i64 *frame_off  # NULL while counting; all columns or none
    u32 *cap_bytes
    u32 *wire_bytes
    u64 *ticks  # pcap: nanoseconds since 1970
    u32 *interface
    i64 *interface_off
    u8 *interface_big
    u32 *interface_number

cdef inline u32 load32(const u8 *at, u8 big) noexcept nogil:
    """A 32-bit field in the file's byte order."""
    return load_be32(at) if big else load_le32(at)

cdef inline u32 load16(const u8 *at, u8 big) noexcept nogil:
    """A 16-bit field in the file's byte order."""
    return load_be16(at) if big else <u32>at[0] | (<u32>at[1] << 8)

cdef inline bint stop(walk_t *w, u8 fault) noexcept nogil:
    """End the walk here; always False."""
    w.fault = fault
    return False

cdef inline void take_frame(
    walk_t *w, i64 frame_off, u32 cap_bytes, u32 wire_bytes, u64 ticks, i64 interface
) noexcept nogil:
    """Count one frame, and store it in the second walk."""
    if w.frame_off != NULL:
        w.frame_off[w.packets] = frame_off
        w.cap_bytes[w.packets] = cap_bytes
        w.wire_bytes[w.packets] = wire_bytes if wire_bytes > cap_bytes else cap_bytes
        w.ticks[w.packets] = ticks
        if w.interface != NULL:
            w.interface[w.packets] = <u32>interface
    w.packets += 1

cdef inline void walk_pcap(walk_t *w, u32 header_bytes, u32 frac_ns, u8 big) noexcept nogil:
    """Walk the records of a pcap file from *at* on."""
    cdef const u8 *record
    cdef u32 cap_bytes
    cdef u64 time_ns
    while w.at < w.size and w.packets < w.limit:
        record = w.data + w.at
        if w.size - w.at < header_bytes:
            w.fault = FAULT_CUT_HEADER
            return
        cap_bytes = load32(record + 8, big)
        if cap_bytes > w.max_cap_bytes:
            w.fault = FAULT_CAP_BYTES
            return
        if cap_bytes > w.size - w.at - header_bytes:
            w.fault = FAULT_CUT_FRAME
            return
        time_ns = <u64>load32(record, big) * 1000000000 + <u64>load32(record + 4, big) * frac_ns
        take_frame(w, w.at + header_bytes, cap_bytes, load32(record + 12, big), time_ns, 0)
        w.at += header_bytes + <i64>cap_bytes

cdef inline bint open_section(walk_t *w) noexcept nogil:
    """The section header at *at*: its byte order holds until the next one."""
    cdef const u8 *block = w.data + w.at
    if w.size - w.at < 28:
        return stop(w, FAULT_CUT_HEADER)
    w.big = load_be32(block + 8) == BYTE_ORDER_MAGIC
    if not w.big and load_le32(block + 8) != BYTE_ORDER_MAGIC:
        return stop(w, FAULT_BYTE_ORDER)
    if load16(block + 12, w.big) != 1:
        return stop(w, FAULT_VERSION)
    w.section_first = w.interfaces
    w.simple_off = -1
    return True

cdef inline bint take_interface(walk_t *w) noexcept nogil:
    """The interface description at *at*."""
    if w.interface_off != NULL:
        w.interface_off[w.interfaces] = w.at
        w.interface_big[w.interfaces] = w.big
        w.interface_number[w.interfaces] = <u32>(w.interfaces - w.section_first)
    if w.simple_off < 0:
        w.simple_off = w.at
    w.interfaces += 1
    return True

cdef inline bint take_simple(walk_t *w, u32 block_bytes) noexcept nogil:
    """A simple packet: interface 0, no time, kept up to the interface's snap length."""
    cdef u32 wire_bytes = load32(w.data + w.at + 8, w.big)
    cdef u32 cap_bytes = wire_bytes
    cdef u32 snap_bytes
    if w.simple_off < 0:
        return stop(w, FAULT_INTERFACE)
    snap_bytes = load32(w.data + w.simple_off + 12, w.big)
    if snap_bytes and snap_bytes < cap_bytes:
        cap_bytes = snap_bytes
    if cap_bytes > block_bytes - 16 or cap_bytes > w.max_cap_bytes:
        return stop(w, FAULT_CAP_BYTES)
    take_frame(w, w.at + 12, cap_bytes, wire_bytes, <u64>-1, w.section_first)
    return True

cdef inline bint take_packet(walk_t *w, u32 kind, u32 block_bytes) noexcept nogil:
    """An enhanced packet, or an obsolete one, which differs in the width of its interface."""
    cdef const u8 *block = w.data + w.at
    cdef i64 number = load16(block + 8, w.big) if kind == BLOCK_PACKET else load32(block + 8, w.big)
    cdef u64 ticks = (<u64>load32(block + 12, w.big) << 32) | load32(block + 16, w.big)
    cdef u32 cap_bytes = load32(block + 20, w.big)
    if number >= w.interfaces - w.section_first:
        return stop(w, FAULT_INTERFACE)
    if cap_bytes > block_bytes - 32 or cap_bytes > w.max_cap_bytes:
        return stop(w, FAULT_CAP_BYTES)
    take_frame(
        w, w.at + 28, cap_bytes, load32(block + 24, w.big), ticks, w.section_first + number
    )
    return True

cdef inline u32 least_block_bytes(u32 kind) noexcept nogil:
    """What a block of that kind has at least: its fixed fields and both lengths."""
    if kind == BLOCK_SECTION:
        return 28
    if kind == BLOCK_INTERFACE:
        return 20
    if kind == BLOCK_SIMPLE:
        return 16
    return 32 if kind == BLOCK_PACKET or kind == BLOCK_ENHANCED else 12

cdef inline bint step_block(walk_t *w) noexcept nogil:
    """Take the block at *at*, stepping over it; False at a fault."""
    cdef const u8 *block = w.data + w.at
    cdef u32 kind, block_bytes
    cdef bint taken = True
    if w.size - w.at < 12:
        return stop(w, FAULT_CUT_HEADER)
    kind = load32(block, w.big)
    if kind == BLOCK_SECTION and not open_section(w):  # its type reads the same in both orders
        return False
    block_bytes = load32(block + 4, w.big)
    if (
        block_bytes % 4 or block_bytes < least_block_bytes(kind) or block_bytes > w.max_block_bytes
    ):
        return stop(w, FAULT_BLOCK_BYTES)
    if block_bytes > w.size - w.at:
        return stop(w, FAULT_CUT_FRAME)
    if load32(block + block_bytes - 4, w.big) != block_bytes:
        return stop(w, FAULT_TRAILER)
    if kind == BLOCK_INTERFACE:
        taken = take_interface(w)
    elif kind == BLOCK_SIMPLE:
        taken = take_simple(w, block_bytes)
    elif kind == BLOCK_ENHANCED or kind == BLOCK_PACKET:
        taken = take_packet(w, kind, block_bytes)
    if taken:
        w.at += block_bytes
    return taken

cdef inline void walk_pcapng(walk_t *w) noexcept nogil:
    """Walk the blocks of a pcapng file from *at* on."""
    while w.at < w.size and w.packets < w.limit:
        if not step_block(w):
            return
