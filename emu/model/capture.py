"""What a capture file may hold: link types, limits, faults, and what a walk over it answers."""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

MAX_CAP_BYTES = 256 << 20  # of one frame; more is a broken length, not a frame
MIN_CAP_LIMIT = 256 << 10  # frames longer than the snap length are met in the wild, up to here
MAX_PACKETS = 2**31 - 1
NO_TIME = 2**64 - 1  # ticks of a pcapng packet without a time stamp

ETHERNET, RAW_IP = 0, 1  # dissect's link codes
LINKTYPES = {1: ETHERNET, 12: RAW_IP, 14: RAW_IP, 101: RAW_IP, 228: RAW_IP, 229: RAW_IP}
LINKTYPE_FAMILY = {228: 4, 229: 6}  # these say which IP it must be
LINKTYPE_NAMES = {
    0: "NULL", 1: "ETHERNET", 3: "AX25", 6: "IEEE802_5", 7: "ARCNET_BSD", 8: "SLIP", 9: "PPP",
    10: "FDDI", 12: "RAW", 14: "RAW", 50: "PPP_HDLC", 51: "PPP_ETHER", 100: "ATM_RFC1483",
    101: "RAW", 104: "C_HDLC", 105: "IEEE802_11", 107: "FRELAY", 108: "LOOP", 113: "LINUX_SLL",
    117: "PFLOG", 119: "IEEE802_11_PRISM", 127: "IEEE802_11_RADIOTAP", 143: "DOCSIS",
    187: "BLUETOOTH_HCI_H4", 189: "USB_LINUX", 192: "PPI", 195: "IEEE802_15_4_WITHFCS",
    201: "BLUETOOTH_HCI_H4_WITH_PHDR", 220: "USB_LINUX_MMAPPED", 224: "FC_2",
    227: "CAN_SOCKETCAN", 228: "IPV4", 229: "IPV6", 239: "NFLOG", 247: "INFINIBAND",
    249: "USBPCAP", 252: "WIRESHARK_UPPER_PDU", 253: "NETLINK", 276: "LINUX_SLL2",
}  # fmt: skip
LINKTYPES_ALLOWED = "1 (ETHERNET), 12, 14 or 101 (RAW), 228 (IPV4), 229 (IPV6)"


class CaptureFault(IntEnum):
    """Why a walk over a capture's records ended before the end of the file."""

    NONE = 0
    CUT_HEADER = 1  # the file ends inside a record's or block's header
    CUT_FRAME = 2  # the file ends inside a record or block
    CAP_BYTES = 3  # the kept length is beyond reason, or beyond its block
    BLOCK_BYTES = (
        4  # pcapng: a block length below its kind's least, no multiple of 4, beyond reason
    )
    TRAILER = 5  # pcapng: the length at a block's end differs from the one at its start
    BYTE_ORDER = 6  # pcapng: no byte-order magic in a section header
    VERSION = 7  # pcapng: a section of another major version than 1
    INTERFACE = 8  # pcapng: a packet of an interface that its section has not described


CUTS = (CaptureFault.CUT_HEADER, CaptureFault.CUT_FRAME)


class PcapScan(NamedTuple):
    """The records of a pcap file; ``fault_off`` is the byte at which the faulty one begins."""

    frame_off: NDArray[np.int64]
    cap_bytes: NDArray[np.uint32]
    wire_bytes: NDArray[np.uint32]  # never below cap_bytes
    time_ns: NDArray[np.int64]  # since 1970
    fault: int
    fault_off: int


class PcapngScan(NamedTuple):
    """The packets and interfaces of a pcapng file."""

    frame_off: NDArray[np.int64]
    cap_bytes: NDArray[np.uint32]
    wire_bytes: NDArray[np.uint32]  # never below cap_bytes
    ticks: NDArray[np.uint64]  # as the file has them; NO_TIME without
    interface: NDArray[np.uint32]  # row of the three arrays below
    interface_off: NDArray[np.int64]  # where its description block begins
    interface_big: NDArray[np.uint8]  # its section is big-endian
    interface_number: NDArray[np.uint32]  # its number in its section
    fault: int
    fault_off: int


def linktype_name(number: int) -> str:
    """A link type as an error line shows it: ``113 (LINUX_SLL)``."""
    if 147 <= number <= 162:
        return f"{number} (USER{number - 147})"
    return f"{number} ({LINKTYPE_NAMES.get(number, 'unknown')})"
