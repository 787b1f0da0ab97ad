"""Live decisions of RPS: masks of rx queues, packets from several tx queues, their CPUs."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from typing import Any

from emu.verify import links
from emu.verify.frames import LOCAL, PEER, TCP, UDP, ethernet, network, tcp, udp
from emu.verify.taps import MetaTap, Pinned, Sender

QUEUES, PACKETS_PER_CASE, PAYLOAD_BYTES = 4, 8, 500


def flow_frame(rng: random.Random) -> bytes:
    """A packet of some flow, long enough for the taps."""
    version, payload = rng.choice([4, 4, 6]), bytes(PAYLOAD_BYTES)
    ends = (PEER[version], LOCAL[version])
    proto = rng.choice([TCP, UDP])
    make = tcp if proto == TCP else udp
    segment = make(version, payload, ends, sport=rng.randrange(1, 65536))
    return ethernet(version, network(version, proto, segment, ends))


def random_mask(rng: random.Random, cpus: list[int]) -> str:
    """A mask of some of the CPUs; at times of none."""
    return f"{sum(1 << cpu for cpu in cpus if rng.random() < 0.6):x}"


class World:
    """A pair of devices of several queues; the sender's XPS names the tx queue."""

    def __init__(self) -> None:
        self.sender, self.receiver = "r0", "r1"
        links.make_veth(self.sender, self.receiver, tx=QUEUES, rx=QUEUES)
        self.cpus = sorted(os.sched_getaffinity(0))
        self.possible = os.cpu_count() or 1
        self.out, self.tap = Sender(self.sender), MetaTap(self.receiver)
        self.masks = ["0"] * QUEUES

    def set_masks(self, rng: random.Random) -> None:
        for queue in range(QUEUES):
            mask = random_mask(rng, self.cpus)
            code = links.write_file(
                links.queue_file(self.receiver, f"rx-{queue}", "rps_cpus"), mask.encode()
            )
            if not code:
                self.masks[queue] = mask

    def use_queue(self, chosen: int, cpu: int) -> None:
        """All packets that the CPU sends leave by one tx queue."""
        for queue in range(QUEUES):
            mask = f"{1 << cpu:x}" if queue == chosen else "0"
            words = format_words(mask)
            links.write_file(
                links.queue_file(self.sender, f"tx-{queue}", "xps_cpus"), words.encode()
            )

    def close(self) -> None:
        self.out.close()
        self.tap.close()
        links.remove(self.sender)


def format_words(mask: str) -> str:
    """Hex digits in words of 32 bits, as the files want them."""
    if len(mask) <= 8:
        return mask
    digits = mask.rjust(-(-len(mask) // 8) * 8, "0")
    return ",".join(digits[at : at + 8] for at in range(0, len(digits), 8))


def records(rng: random.Random, count: int) -> Iterator[dict[str, Any]]:
    """One record per packet; masks and tx queue change every few."""
    world = World()
    try:
        cpu = world.cpus[0]
        for number in range(count):
            if number % PACKETS_PER_CASE == 0:
                world.set_masks(rng)
                cpu = rng.choice(world.cpus)
                world.use_queue(rng.randrange(QUEUES), cpu)
            frame = flow_frame(rng)
            with Pinned(cpu):
                world.out.send(frame)
                seen = world.tap.read()
            if seen is None:
                world.tap.drain(0.05)
                continue
            went_to, mapping, value = seen
            yield {
                "kind": "verify",
                "frame": frame[:64].hex(),
                "masks": list(world.masks),
                "qm_in": mapping,
                "rxq": max(mapping - 1, 0),
                "scpu": cpu,
                "hash": value,
                "cpu": went_to,
                "cpus": world.possible,
            }
    finally:
        world.close()
