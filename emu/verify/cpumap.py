"""Live decisions of cpumap: a tiny XDP program redirects all frames to one entry."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Iterator
from typing import Any

from emu.verify import bpf, links
from emu.verify.frames import gro_case
from emu.verify.gro import skb_record
from emu.verify.taps import GroTap, Pinned, Sender

ENTRIES, QSIZE = 16, 192


class World:
    """Devices whose receiver has the program; the kthread shares a CPU with the sender."""

    def __init__(self) -> None:
        self.sender, self.receiver = "c0", "c1"
        links.make_veth(self.sender, self.receiver, mtu=3000)
        links.set_flag(self.sender, links.ETHTOOL_STSO, False)
        links.set_flag(self.receiver, links.ETHTOOL_SGRO, True)
        self.cpu = max(os.sched_getaffinity(0))
        self.map = bpf.Cpumap(ENTRIES)
        self.map.update(self.cpu, QSIZE)
        self.program = bpf.load_xdp(bpf.redirect_to(self.map.handle, self.cpu))
        links.attach_xdp(self.receiver, self.program)
        self.out, self.tap = Sender(self.sender), GroTap(self.receiver)

    def coalesce(self, frames: list[bytes]) -> list[tuple[tuple[int, ...], bytes]]:
        """Send a batch; what the stack got from the kthread."""
        self.tap.drain(0)
        with Pinned(self.cpu, first=True):
            for frame in frames:
                self.out.send(frame)
        return self.tap.drain(1.0)

    def close(self) -> None:
        self.out.close()
        self.tap.close()
        os.close(self.program)
        self.map.close()
        links.remove(self.sender)


def update_record(rng: random.Random, world: World) -> dict[str, Any]:
    """Updates of a map of 16 entries, with what the kernel answers."""
    possible = os.cpu_count() or 1
    results = []
    for _ in range(8):
        entry = rng.choice([world.cpu, possible, ENTRIES - 1, ENTRIES])
        qsize = rng.choice([1, 192, 16384, 16385, 0])
        results.append([f"E {entry} {qsize}", world.map.try_update(entry, qsize)])
    world.map.update(world.cpu, QSIZE)
    return {"part": "updates", "results": results, "cpus": possible}


def records(rng: random.Random, count: int) -> Iterator[dict[str, Any]]:
    """One record per batch, and one of updates."""
    world = World()
    try:
        for number in range(count):
            if number == 0:
                yield update_record(rng, world)
                time.sleep(0.05)  # entries are replaced after a grace period
                continue
            frames = gro_case(rng)
            seen = [world.coalesce(frames) for _ in range(2)]
            yield {
                "part": "gro", "rule": 0, "id": f"verify-cpumap-{number}", "cfg": "base",
                "frames": [frame.hex() for frame in frames], "vlan_accel": False,
                "csum_in": "none", "feat": {"fwd": 0, "flist": 0}, "polls": [len(frames)],
                "out": [skb_record(*skb) for skb in seen[0]], "equal": seen[0] == seen[1],
                "complete": bool(seen[0]),
            }  # fmt: skip
    finally:
        world.close()
