"""The door of `dissect`: frames in one blob to the columns of the packet table."""
import numpy as np

from emu import dtypes

from libc.string cimport memcpy

from emu._core.checksum cimport csum_fold
from emu._core.checksum cimport csum_partial
from emu._core.dissect cimport LINK_RAW_IP
from emu._core.dissect cimport dissect_frame
from emu._core.dissect cimport frame_t
from emu._core.dissect cimport needs_flow_key
from emu._core.dissect cimport row_t
from emu._core.types cimport flow_key_t, i32, i64, packets_t, u8, u16, u32, u64


# Columns that no frame says, but the driver: 0 until somebody gives them.
HANDED_UP = (
    "ip_summed", "csum_level", "skb_hash", "hash_type", "gso_type", "gso_size", "gso_segs",
    "csum_start", "csum_off",
)


cdef inline void store_addresses(const packets_t *p, Py_ssize_t i, const row_t *d) noexcept nogil:
    memcpy(<u32 *>p.saddr + 4 * i, d.saddr, 16)
    memcpy(<u32 *>p.daddr + 4 * i, d.daddr, 16)
    memcpy(<u64 *>p.mac + 2 * i, d.mac, 16)


cdef inline void store_row(const packets_t *p, Py_ssize_t i, const row_t *d) noexcept nogil:
    """Write every column that the frame's bytes decide."""
    store_addresses(p, i, d)
    (<u8 *>p.reason)[i] = d.reason
    (<u16 *>p.flags)[i] = d.flags
    (<u8 *>p.family)[i] = d.family
    (<u8 *>p.ip_proto)[i] = d.ip_proto
    (<u16 *>p.ethertype)[i] = d.ethertype
    (<u16 *>p.vlan_tci)[i] = d.vlan_tci
    (<u16 *>p.vlan_tpid)[i] = d.vlan_tpid
    (<u16 *>p.sport)[i] = d.sport
    (<u16 *>p.dport)[i] = d.dport
    (<u32 *>p.flow_label)[i] = d.flow_label
    (<u16 *>p.l3_off)[i] = d.l3_off
    (<u16 *>p.l4_off)[i] = d.l4_off
    (<u8 *>p.ip_b0)[i] = d.ip_b0
    (<u8 *>p.tos)[i] = d.tos
    (<u8 *>p.ttl)[i] = d.ttl
    (<u16 *>p.ip_frag)[i] = d.ip_frag
    (<u16 *>p.ip_id)[i] = d.ip_id
    (<u16 *>p.ip_len)[i] = d.ip_len
    (<u32 *>p.seq)[i] = d.seq
    (<u32 *>p.ack)[i] = d.ack
    (<u32 *>p.tcp_w12)[i] = d.tcp_w12
    (<u16 *>p.udp_len)[i] = d.udp_len
    (<u32 *>p.payload_bytes)[i] = d.payload_bytes


cdef i64 dissect_loop(
    const u8 *blob, const i64 *frame_off, const u32 *cap_bytes, const u32 *wire_bytes,
    const u8 *link, Py_ssize_t n, const packets_t *p, flow_key_t *keys
) noexcept nogil:
    """Dissect n frames into the columns of *p*; answers how many rows of *keys* it filled."""
    cdef Py_ssize_t i
    cdef i64 key_count = 0
    cdef frame_t frame
    cdef row_t row
    for i in range(n):
        frame.data = blob + frame_off[i]
        frame.cap = cap_bytes[i]
        frame.wire = wire_bytes[i]
        dissect_frame(&frame, link[i], &row)
        store_row(p, i, &row)
        (<i64 *>p.opt_off)[i] = -1 if row.opt_off < 0 else frame_off[i] + row.opt_off
        (<i32 *>p.flow_key)[i] = -1
        if needs_flow_key(&frame, link[i], &row, keys + key_count):
            (<i32 *>p.flow_key)[i] = <i32>key_count
            key_count += 1
    return key_count


def dissect_frames(
    const u8[::1] blob, const i64[::1] frame_off, const u32[::1] cap_bytes,
    const u32[::1] wire_bytes, const u8[::1] link
):
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
    cdef Py_ssize_t n = frame_off.shape[0]
    cdef Py_ssize_t i
    if cap_bytes.shape[0] != n or wire_bytes.shape[0] != n or link.shape[0] != n:
        raise ValueError("frame_off, cap_bytes, wire_bytes and link must have one length")
    if n > 0x7FFFFFFF:
        raise ValueError("more than 2**31 - 1 frames")
    for i in range(n):
        if frame_off[i] < 0 or frame_off[i] > blob.shape[0] - <i64>cap_bytes[i]:
            raise ValueError(f"frame {i}: outside the blob")
        if cap_bytes[i] > wire_bytes[i]:
            raise ValueError(
                f"frame {i}: cap_bytes {cap_bytes[i]} above wire_bytes {wire_bytes[i]}"
            )
        if link[i] > LINK_RAW_IP:
            raise ValueError(f"frame {i}: link {link[i]} is neither 0 (Ethernet) nor 1 (raw IP)")
    columns = {
        name: np.empty(n if width == 1 else (n, width), dtype=kind)
        for name, kind, width in dtypes.PACKET_COLUMNS
    }
    for name in HANDED_UP:
        columns[name].fill(0)
    columns["frame_off"][:] = frame_off
    columns["cap_bytes"][:] = cap_bytes
    columns["wire_bytes"][:] = wire_bytes
    # Untouched pages cost nothing, so there is room for a key a packet.
    key_room = np.empty(n, dtype=dtypes.FLOW_KEY)
    cdef i64 key_count = 0
    cdef const u64[::1] overlay = dtypes.addresses(dtypes.PACKET_COLUMNS, columns)
    cdef u64 keys = key_room.__array_interface__["data"][0]
    cdef u8 nothing = 0
    cdef const u8 *octets = &blob[0] if blob.shape[0] else &nothing
    if n:
        with nogil:
            key_count = dissect_loop(
                octets, &frame_off[0], &cap_bytes[0], &wire_bytes[0], &link[0], n,
                <const packets_t *>&overlay[0], <flow_key_t *>keys
            )
    del columns["arrival_ps"], columns["nic"]
    return columns, key_room[:key_count].copy()


def checksum(const u8[::1] data):
    """Answer the folded one's complement sum of uint8[n] in network order; 0xffff = verified."""
    cdef u32 total = csum_fold(csum_partial(&data[0], data.shape[0])) if data.shape[0] else 0
    return ((total & 0xFF) << 8) | (total >> 8)
