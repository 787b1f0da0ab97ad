"""Live decisions of XPS: writes of masks with errno and read-back, then packets by map and hash."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

from emu.verify import links
from emu.verify.rps import flow_frame, format_words, random_mask
from emu.verify.taps import MetaTap, Pinned, Sender

QUEUES, WRITES, PACKETS = 8, 10, 6
SINGLE, RX_QUEUES = "x2", 4
ATTRIBUTES = ("xps_cpus", "rps_cpus", "xps_rxqs")


def random_text(rng: random.Random, cpus: int) -> bytes:
    """What somebody might write into a mask's file."""
    good = f"{rng.getrandbits(cpus):x}"
    odd = [
        "", "\n", " ", ",", "g", "0x1", "-1", "0-1", "00", good + "\n", " " + good, good + " ",
        good + ",", "," + good, good.upper(), "1 2", "0,1", "000000000", "f" * 8, good + "z",
        "1" + "0" * (cpus // 4 + 1), good + "\0" + "2", f"{1 << cpus:x}", "1\n2",
    ]  # fmt: skip
    return (good if rng.random() < 0.4 else rng.choice(odd)).encode()


class World:
    """A pair of devices with 8 queues, and one with a single queue."""

    def __init__(self) -> None:
        self.sender, self.receiver = "x0", "x1"
        links.make_veth(self.sender, self.receiver, tx=QUEUES, rx=RX_QUEUES)
        links.make_veth(SINGLE, "x3")
        self.cpus = sorted(os.sched_getaffinity(0))
        self.possible = os.cpu_count() or 1
        self.out, self.tap = Sender(self.sender), MetaTap(self.receiver)

    def reset(self) -> None:
        """No maps."""
        for queue in range(QUEUES):
            links.write_file(links.queue_file(self.sender, f"tx-{queue}", "xps_cpus"), b"0")
            links.write_file(links.queue_file(self.sender, f"tx-{queue}", "xps_rxqs"), b"0")

    def close(self) -> None:
        self.out.close()
        self.tap.close()
        links.remove(self.sender)
        links.remove(SINGLE)


def write_record(rng: random.Random, world: World) -> dict[str, Any]:
    """One write to a file of a mask."""
    attribute = rng.choice(ATTRIBUTES)
    single = rng.random() < 0.2
    device = SINGLE if single else world.sender
    queue = "rx-0" if attribute == "rps_cpus" else "tx-0"
    path = links.queue_file(device, queue, attribute)
    width = (1 if single else RX_QUEUES) if attribute == "xps_rxqs" else world.possible
    links.write_file(path, b"0")
    before, text = links.read_file(path), random_text(rng, width)
    code = links.write_file(path, text)
    return {
        "part": "write",
        "attr": attribute + ("_single_queue" if single else ""),
        "before": before,
        "bytes": text.hex(),
        "len": len(text),
        "errno": code,
        "after": links.read_file(path),
        "cpus": world.possible,
        "queues": 1 if single else RX_QUEUES,
    }


def map_record(rng: random.Random, world: World, number: int) -> dict[str, Any]:
    """Writes in random order, then packets from random CPUs."""
    world.reset()
    ops = []
    for _ in range(rng.randrange(1, WRITES)):
        queue, mask = rng.randrange(QUEUES), random_mask(rng, world.cpus)
        path = links.queue_file(world.sender, f"tx-{queue}", "xps_cpus")
        code = links.write_file(path, format_words(mask).encode())
        ops.append([queue, int(mask, 16), code, (links.read_file(path) or "0").replace(",", "")])
    packets = []
    for _ in range(PACKETS):
        cpu = rng.choice(world.cpus)
        with Pinned(cpu):
            world.out.send(flow_frame(rng))
            seen = world.tap.read()
        if seen is not None:
            packets.append({"cpu": cpu, "queue": seen[1], "hash": seen[2]})
    return {
        "part": "map",
        "case": f"verify-{number}",
        "num_tx": QUEUES,
        "cpus": world.possible,
        "ops": ops,
        "packets": packets,
    }


def records(rng: random.Random, count: int) -> Iterator[dict[str, Any]]:
    """Three writes for every map."""
    world = World()
    try:
        for number in range(count):
            yield map_record(rng, world, number) if number % 4 == 0 else write_record(rng, world)
    finally:
        world.close()
