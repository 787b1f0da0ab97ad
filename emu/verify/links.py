"""Devices in the child's namespace: made with ip, set by sysfs and the ethtool ioctl."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
import subprocess
from pathlib import Path

SIOCETHTOOL = 0x8946
ETHTOOL_STSO, ETHTOOL_SGRO = 0x1F, 0x2C
ETHTOOL_GSTRINGS, ETHTOOL_GSSET_INFO, ETHTOOL_SFEATURES = 0x1B, 0x37, 0x3B
ETH_SS_FEATURES, NAME_BYTES = 4, 32
QUEUES = Path("/sys/class/net")
NETLINK_ROUTE, RTM_SETLINK, NLM_F_REQUEST, NLM_F_ACK = 0, 19, 1, 4
IFLA_XDP, IFLA_XDP_FD, IFLA_XDP_FLAGS, NLA_F_NESTED = 43, 1, 3, 0x8000
XDP_FLAGS_DRV_MODE = 1 << 2


def ip(*words: str) -> None:
    """Run ip; a refusal is an OSError with what it said."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, timeout=30, check=False)
    if done.returncode != 0:
        raise OSError(f"ip {' '.join(words)}: {done.stderr.strip()}")


def make_veth(name: str, peer: str, *, tx: int = 1, rx: int = 1, mtu: int = 1500) -> None:
    """A pair of quiet veth devices, up: no addresses, no ARP, no IPv6 of their own."""
    queues = ("numtxqueues", str(tx), "numrxqueues", str(rx))
    ip("link", "add", name, *queues, "type", "veth", "peer", "name", peer, *queues)
    for place, device in enumerate((name, peer)):
        mac = ("02:00:00:00:00:aa", "02:00:00:00:00:bb")[place]
        ip("link", "set", device, "address", mac, "mtu", str(mtu), "arp", "off")
        ip("link", "set", device, "addrgenmode", "none")
    for device in (name, peer):
        ip("link", "set", device, "up")


def remove(name: str) -> None:
    ip("link", "del", name)


def write_file(path: Path, octets: bytes) -> int:
    """Write in one call; the errno, 0 for none."""
    try:
        handle = os.open(path, os.O_WRONLY)
    except OSError as error:
        return error.errno or 0
    try:
        os.write(handle, octets)
    except OSError as error:
        return error.errno or 0
    finally:
        os.close(handle)
    return 0


def read_file(path: Path) -> str | None:
    """What a file says; None when the kernel refuses."""
    try:
        return path.read_text(encoding="ascii").strip()
    except OSError:
        return None


def queue_file(device: str, queue: str, name: str) -> Path:
    """Such as ``tx-0/xps_cpus``."""
    return QUEUES / device / "queues" / queue / name


def ethtool(device: str, command: ctypes.Array[ctypes.c_char]) -> None:
    """One ethtool ioctl."""
    request = struct.pack("16sP", device.encode(), ctypes.addressof(command))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCETHTOOL, request.ljust(40, b"\0"))


def set_flag(device: str, command: int, on: bool) -> None:
    """A flag of the older interface: tso, gro."""
    ethtool(device, ctypes.create_string_buffer(struct.pack("II", command, on), 8))


def feature_names(device: str) -> list[str]:
    """Names of the device's features, by number."""
    info = ctypes.create_string_buffer(
        struct.pack("IIQI", ETHTOOL_GSSET_INFO, 0, 1 << ETH_SS_FEATURES, 0), 20
    )
    ethtool(device, info)
    count = struct.unpack_from("I", info.raw, 16)[0]
    room = ctypes.create_string_buffer(
        struct.pack("III", ETHTOOL_GSTRINGS, ETH_SS_FEATURES, count), 12 + count * NAME_BYTES
    )
    ethtool(device, room)
    names = room.raw[12 : 12 + count * NAME_BYTES]
    return [
        names[at : at + NAME_BYTES].split(b"\0")[0].decode()
        for at in range(0, len(names), NAME_BYTES)
    ]


def set_features(device: str, **wanted: bool) -> None:
    """Features by name, underscores for dashes.

    Raises:
        OSError: the device has no such feature.
    """
    names = feature_names(device)
    blocks = [[0, 0] for _ in range((len(names) + 31) // 32)]
    for name, on in wanted.items():
        name = name.replace("_", "-")
        if name not in names:
            raise OSError(f"{device} has no feature {name}")
        number = names.index(name)
        blocks[number // 32][0] |= 1 << number % 32
        blocks[number // 32][1] |= on << number % 32
    octets = struct.pack("II", ETHTOOL_SFEATURES, len(blocks))
    octets += b"".join(struct.pack("II", *block) for block in blocks)
    ethtool(device, ctypes.create_string_buffer(octets, len(octets)))


def attach_xdp(device: str, program: int) -> None:
    """Attach a program to the device's driver: RTM_SETLINK with IFLA_XDP."""
    index = socket.if_nametoindex(device)
    flags = struct.pack("HHI", 8, IFLA_XDP_FLAGS, XDP_FLAGS_DRV_MODE)
    handle = struct.pack("HHi", 8, IFLA_XDP_FD, program)
    nested = handle + flags
    attribute = struct.pack("HH", 4 + len(nested), IFLA_XDP | NLA_F_NESTED) + nested
    body = struct.pack("BxHiII", socket.AF_UNSPEC, 0, index, 0, 0) + attribute
    head = struct.pack("IHHII", 16 + len(body), RTM_SETLINK, NLM_F_REQUEST | NLM_F_ACK, 1, 0)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE) as link:
        link.bind((0, 0))
        link.send(head + body)
        answer = link.recv(8192)
    code = -struct.unpack_from("i", answer, 16)[0]
    if code:
        raise OSError(code, f"no XDP on veth ({os.strerror(code)})")
