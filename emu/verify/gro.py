"""Live decisions of GRO: a batch is one poll of a threaded NAPI (docs/verify.md)."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from emu.verify import links
from emu.verify.frames import gro_case
from emu.verify.taps import GroTap, Pinned, Sender

NONE, UNNECESSARY, PARTIAL = 0, 1, 3
NEEDS_CSUM, DATA_VALID = 1, 2
CONFIGURATIONS = (
    ("base", False, False),
    ("fwd", True, False),
    ("flist", False, True),
    ("fwdflist", True, True),
)


def napi_thread(device: str) -> int:
    """The thread of the device's NAPI."""
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                name = (process / "comm").read_text().strip()
            except OSError:
                continue
            if name.startswith(f"napi/{device}"[:15]):
                return int(process.name)
    raise OSError(f"{device} has no thread of its NAPI")


class World:
    """A pair of devices whose receiver polls in a thread that shares a CPU with the sender."""

    def __init__(self) -> None:
        # A name that no other device of the machine has: threads are seen everywhere.
        self.sender, self.receiver = f"g{os.getpid() % 100000}a", f"g{os.getpid() % 100000}b"
        links.make_veth(self.sender, self.receiver, mtu=9000)
        links.set_flag(self.sender, links.ETHTOOL_STSO, False)
        links.set_flag(self.receiver, links.ETHTOOL_SGRO, True)
        threaded = Path(f"/sys/class/net/{self.receiver}/threaded")
        if links.write_file(threaded, b"1"):
            raise OSError("no threaded NAPI")
        self.cpu = max(os.sched_getaffinity(0))
        os.sched_setaffinity(napi_thread(self.receiver), {self.cpu})
        self.out, self.tap = Sender(self.sender), GroTap(self.receiver)
        self.features = (False, False)

    def set_features(self, fwd: bool, flist: bool) -> None:
        if self.features != (fwd, flist):
            links.set_features(self.receiver, rx_udp_gro_forwarding=fwd, rx_gro_list=flist)
            self.features = fwd, flist

    def coalesce(self, frames: list[bytes]) -> list[tuple[tuple[int, ...], bytes]]:
        """Send a batch; what the stack got."""
        self.tap.drain(0)
        with Pinned(self.cpu, first=True):
            for frame in frames:
                self.out.send(frame)
        return self.tap.drain(2.0)

    def close(self) -> None:
        self.out.close()
        self.tap.close()
        links.remove(self.sender)


def skb_record(vnet: tuple[int, ...], octets: bytes) -> dict[str, Any]:
    """One skb as a record has it."""
    flags, kind, _, size, start, off = vnet
    summed = PARTIAL if flags & NEEDS_CSUM else UNNECESSARY if flags & DATA_VALID else NONE
    return {
        "len": len(octets) - 14,
        "gso_size": size,
        "gso_kind": kind & 0x7F,
        "ip_summed": summed,
        "csum_start": start if summed == PARTIAL else 0,
        "csum_off": off if summed == PARTIAL else 0,
        "octets": octets.hex(),
    }


def records(rng: random.Random, count: int) -> Iterator[dict[str, Any]]:
    """One record per case."""
    world = World()
    try:
        for number in range(count):
            name, fwd, flist = CONFIGURATIONS[number * len(CONFIGURATIONS) // max(count, 1)]
            world.set_features(fwd, flist)
            frames = gro_case(rng)
            seen = [world.coalesce(frames) for _ in range(2)]
            yield {
                "id": f"verify-{name}-{number}",
                "cfg": name,
                "frames": [frame.hex() for frame in frames],
                "vlan_accel": False,
                "csum_in": "none",
                "feat": {"fwd": int(fwd), "flist": int(flist)},
                "polls": [len(frames)],
                "out": [skb_record(*skb) for skb in seen[0]],
                "equal": seen[0] == seen[1],
                "complete": bool(seen[0]),
            }
    finally:
        world.close()
