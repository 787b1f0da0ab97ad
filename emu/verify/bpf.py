"""The bpf system call, as far as a cpumap and a program of five instructions need it."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct

SYSCALL = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "s390x": 351, "ppc64le": 361}
MAP_CREATE, MAP_UPDATE, MAP_DELETE, PROG_LOAD = 0, 2, 3, 5
TYPE_CPUMAP, PROG_XDP, EXPECTED_XDP, HELPER_REDIRECT_MAP = 16, 6, 0, 51
R0, R1, R2, R3 = range(4)
MOV_K, LD_IMM64, CALL, EXIT, PSEUDO_MAP = 0xB7, 0x18, 0x85, 0x95, 1
_libc = ctypes.CDLL(None, use_errno=True)


def bpf(command: int, attributes: bytes) -> int:
    """One call; a refusal is an OSError."""
    number = SYSCALL.get(platform.machine())
    if number is None:
        raise OSError(f"no number of the bpf call for {platform.machine()}")
    room = ctypes.create_string_buffer(attributes, max(len(attributes), 128))
    result = int(_libc.syscall(number, command, room, len(attributes)))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"no BPF ({os.strerror(code)})")
    return result


def instruction(op: int, target: int, source: int, offset: int, value: int) -> bytes:
    return struct.pack("<BBhi", op, source << 4 | target, offset, value)


def redirect_to(map_handle: int, entry: int) -> bytes:
    """bpf_redirect_map(map, entry, 0), and its verdict."""
    return b"".join(
        (
            instruction(LD_IMM64, R1, PSEUDO_MAP, 0, map_handle),
            instruction(0, 0, 0, 0, 0),
            instruction(MOV_K, R2, 0, 0, entry),
            instruction(MOV_K, R3, 0, 0, 0),
            instruction(CALL, 0, 0, 0, HELPER_REDIRECT_MAP),
            instruction(EXIT, 0, 0, 0, 0),
        )
    )


def load_xdp(code: bytes) -> int:
    """A program's file descriptor."""
    insns = ctypes.create_string_buffer(code, len(code))
    license_text = ctypes.create_string_buffer(b"Apache-2.0")
    log = ctypes.create_string_buffer(1 << 16)
    attributes = struct.pack(
        "IIQQIIQII",
        PROG_XDP,
        len(code) // 8,
        ctypes.addressof(insns),
        ctypes.addressof(license_text),
        1,
        len(log),
        ctypes.addressof(log),
        0,
        0,
    )
    return bpf(PROG_LOAD, attributes)


class Cpumap:
    """A map of CPUs."""

    def __init__(self, entries: int) -> None:
        self.handle = bpf(MAP_CREATE, struct.pack("IIIII", TYPE_CPUMAP, 4, 4, entries, 0))

    def update(self, entry: int, qsize: int) -> None:
        key, value = ctypes.c_uint32(entry), ctypes.c_uint32(qsize)
        where = ctypes.addressof(key), ctypes.addressof(value)
        bpf(MAP_UPDATE, struct.pack("IIQQQ", self.handle, 0, *where, 0))

    def try_update(self, entry: int, qsize: int) -> str:
        """``"OK"``, or the errno's name."""
        try:
            self.update(entry, qsize)
        except OSError as error:
            return errno.errorcode.get(error.errno or 0, "?")
        return "OK"

    def close(self) -> None:
        os.close(self.handle)
