"""What a packet socket's virtio_net_hdr makes of a frame: PARTIAL checksums and GSO."""

from __future__ import annotations

import struct
from typing import Any

VNET = struct.Struct("<BBHHHH")  # flags, gso_type, hdr_len, gso_size, csum_start, csum_offset
NEEDS_CSUM = 1
GSO_ECN = 0x80
# virtio's gso_type -> SKB_GSO_*; DODGY, since user space says so.
TYPES = {1: 1 << 0, 3: 1 << 16, 4: 1 << 4, 5: 1 << 17}
DODGY, ECN = 1 << 1, 1 << 2
IP_SUMMED = {False: "none", True: "partial"}


def vnet_columns(headers: list[str | None], frames: list[bytes]) -> dict[str, Any]:
    """The columns of a packet table that come from the headers, for `from_frames`.

    Args:
        headers: hex of each frame's header; None for one without.
    """
    columns: dict[str, list[Any]] = {
        name: []
        for name in ("ip_summed", "csum_start", "csum_off", "gso_size", "gso_type", "gso_segs")
    }
    for text, frame in zip(headers, frames, strict=True):
        fields = VNET.unpack(bytes.fromhex(text)) if text else (0,) * 6
        flags, kind, _, size, start, off = fields
        partial = bool(flags & NEEDS_CSUM)
        segs = segments(frame, kind & ~GSO_ECN, size, start) if partial else 0
        columns["ip_summed"].append(IP_SUMMED[partial])
        columns["csum_start"].append(start if partial else 0)
        columns["csum_off"].append(off if partial else 0)
        columns["gso_size"].append(size if segs else 0)
        columns["gso_segs"].append(segs)
        ecn = ECN if kind & GSO_ECN else 0
        columns["gso_type"].append(TYPES[kind & ~GSO_ECN] | DODGY | ecn if segs else 0)
    return columns


def segments(frame: bytes, kind: int, size: int, start: int) -> int:
    """Segments of a GSO frame; 0 when it is none."""
    if kind not in TYPES or size == 0 or len(frame) - (start + 20) <= size:
        return 0
    header = (frame[start + 12] >> 4) * 4 if kind in (1, 4) else 8
    return -(-(len(frame) - start - header) // size)
