"""Packet sockets: to send whole frames, and to see what came in, with its metadata."""

from __future__ import annotations

import os
import select
import socket
import struct
from types import TracebackType

ETH_P_ALL = 0x0003
SOL_PACKET, PACKET_VNET_HDR = 263, 15
SO_ATTACH_FILTER, SO_RCVBUFFORCE = 26, 33
VNET = struct.Struct("<BBHHHH")
LARGEST = 1 << 20
# Classic BPF: what the packet carries beside its octets.
SKF_AD_OFF, AD_QUEUE, AD_RXHASH, AD_CPU = -0x1000, 24, 32, 36
LD_W_ABS, RSH_K, AND_K, ADD_K, RET_A = 0x20, 0x74, 0x54, 0x04, 0x16
SHORTEST = 100  # a returned octet v is seen as v + SHORTEST octets of the packet


def open_packet(device: str) -> socket.socket:
    """A raw packet socket on one device."""
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(ETH_P_ALL))
    try:
        out.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 26)
    except OSError:
        out.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    out.bind((device, ETH_P_ALL))
    return out


class Sender:
    """Sends frames through a device; it receives nothing."""

    def __init__(self, device: str) -> None:
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
        self.socket.bind((device, 0))

    def send(self, frame: bytes) -> None:
        self.socket.send(frame)

    def close(self) -> None:
        self.socket.close()


class GroTap:
    """What GRO gave to the stack, with virtio's header of each."""

    def __init__(self, device: str) -> None:
        self.socket = open_packet(device)
        self.socket.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)

    def drain(self, seconds: float) -> list[tuple[tuple[int, ...], bytes]]:
        """All that is there once something is: (virtio's fields, octets)."""
        out = []
        while select.select([self.socket], [], [], seconds)[0]:
            octets = self.socket.recv(LARGEST)
            out.append((VNET.unpack_from(octets), octets[VNET.size :]))
            seconds = 0
        return out

    def close(self) -> None:
        self.socket.close()


def octet_filter(field: int, shift: int) -> bytes:
    """A program that answers an octet of a metadata field, as a length."""
    code = [
        (LD_W_ABS, (SKF_AD_OFF + field) & 0xFFFFFFFF),
        (RSH_K, shift),
        (AND_K, 0xFF),
        (ADD_K, SHORTEST),
        (RET_A, 0),
    ]
    return b"".join(struct.pack("HBBI", op, 0, 0, value) for op, value in code)


class MetaTap:
    """CPU, queue mapping and hash of what comes in at a device, an octet per socket.

    Frames must have at least 356 octets.
    """

    FIELDS = ((AD_CPU, 0), (AD_CPU, 8), (AD_QUEUE, 0), *((AD_RXHASH, 8 * k) for k in range(4)))

    def __init__(self, device: str) -> None:
        import ctypes

        self.sockets = []
        for field, shift in self.FIELDS:
            tap = open_packet(device)
            code = octet_filter(field, shift)
            room = ctypes.create_string_buffer(code, len(code))
            program = struct.pack("HP", len(code) // 8, ctypes.addressof(room))
            tap.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, program)
            self.sockets.append(tap)
        self.drain(0)

    def read(self, seconds: float = 2.0) -> tuple[int, int, int] | None:
        """(CPU, queue mapping, hash) of the next packet; None when none came."""
        octets = []
        for tap in self.sockets:
            if not select.select([tap], [], [], seconds)[0]:
                return None
            octets.append(len(tap.recv(LARGEST)) - SHORTEST)
        cpu = octets[0] | octets[1] << 8
        return cpu, octets[2], sum(octet << 8 * k for k, octet in enumerate(octets[3:]))

    def drain(self, seconds: float) -> None:
        """Forget what came so far."""
        for tap in self.sockets:
            while select.select([tap], [], [], seconds)[0]:
                tap.recv(LARGEST)

    def close(self) -> None:
        for tap in self.sockets:
            tap.close()


class Pinned:
    """Run on one CPU within; optionally before all ordinary threads."""

    def __init__(self, cpu: int, *, first: bool = False) -> None:
        self.cpu, self.first = cpu, first
        self.before: set[int] = set()

    def __enter__(self) -> None:
        self.before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {self.cpu})
        if self.first:
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.first:
            os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        os.sched_setaffinity(0, self.before)
