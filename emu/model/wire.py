"""Bytes of a frame: headers of what a host sends, the shortest frame, what a link adds to each."""

from __future__ import annotations

ETHERNET_BYTES = 14
MTU = 1500
MIN_FRAME_BYTES = 60  # without FCS
WIRE_EXTRA_BYTES = 24  # FCS, preamble, gap
# IP and transport, by protocol and family; TCP with timestamps.
HEADER_BYTES = {("tcp", 4): 52, ("tcp", 6): 72, ("udp", 4): 28, ("udp", 6): 48}
