"""The Internet checksum (RFC 1071), as a sum of big-endian 16-bit words."""

from __future__ import annotations

import struct

import numpy as np
from numpy.typing import NDArray


def checksum(data: bytes | NDArray[np.uint8]) -> int:
    """Answer the folded one's complement sum of uint8[n] in network order; 0xffff = verified."""
    octets = bytes(data)
    if len(octets) % 2:
        octets += b"\0"
    total: int = sum(struct.unpack(f">{len(octets) // 2}H", octets))
    while total > 0xFFFF:
        total = (total & 0xFFFF) + (total >> 16)
    return total


def l4_checksum(saddr: bytes, daddr: bytes, proto: int, segment: bytes) -> int:
    """Answer the sum of *segment* under its pseudo header; 0xffff = verified."""
    return checksum(saddr + daddr + struct.pack(">II", len(segment), proto) + segment)
