"""Live decisions of RFS: connected sockets read on CPUs, and packets follow their reader.

The global table's size is a sysctl of the whole machine: without one there is nothing to compare.
"""

from __future__ import annotations

import contextlib
import os
import random
import socket
from collections.abc import Iterator
from typing import Any

from emu.verify import links
from emu.verify.frames import LOCAL, PEER, UDP, ethernet, network, udp
from emu.verify.rps import PAYLOAD_BYTES, random_mask
from emu.verify.taps import MetaTap, Pinned, Sender

PORT, FLOWS, STEPS = 9, 6, 40
READ, PACKET = "r", "p"


class World:
    """A pair of devices of one queue, and connected sockets at the receiver."""

    def __init__(self) -> None:
        self.sender, self.receiver = "f0", "f1"
        links.make_veth(self.sender, self.receiver)
        links.ip("addr", "add", f"{LOCAL[4]}/24", "dev", self.receiver)
        self.cpus = sorted(os.sched_getaffinity(0))
        self.possible = os.cpu_count() or 1
        self.out, self.tap = Sender(self.sender), MetaTap(self.receiver)

    def set_queue(self, mask: str, entries: int) -> int:
        """RPS map and flow table of the queue; entries as they read back."""
        links.write_file(links.queue_file(self.receiver, "rx-0", "rps_cpus"), mask.encode())
        path = links.queue_file(self.receiver, "rx-0", "rps_flow_cnt")
        links.write_file(path, str(entries).encode())
        return int(links.read_file(path) or 0)

    def close(self) -> None:
        self.out.close()
        self.tap.close()
        links.remove(self.sender)


class Flow:
    """A socket that is connected to one source port, and that port's packet."""

    def __init__(self, sport: int) -> None:
        ends = PEER[4], LOCAL[4]
        datagram = udp(4, bytes(PAYLOAD_BYTES), ends, sport=sport)
        self.frame = ethernet(4, network(4, UDP, datagram, ends))
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind((LOCAL[4], PORT))
        self.socket.connect((PEER[4], sport))
        self.socket.setblocking(False)

    def read(self) -> None:
        """A read that may find nothing records as well."""
        with contextlib.suppress(BlockingIOError):
            self.socket.recv(2048)

    def close(self) -> None:
        self.socket.close()


def case(rng: random.Random, world: World, table: int, number: int) -> dict[str, Any]:
    """Reads and packets in random order."""
    mask = random_mask(rng, world.cpus)
    entries = world.set_queue(mask, rng.choice([0, 16, 16, 256]))
    flows = [Flow(sport) for sport in rng.sample(range(1, 65536), FLOWS)]
    ops: list[list[Any]] = []
    try:
        for _ in range(STEPS):
            place, cpu = rng.randrange(FLOWS), rng.choice(world.cpus)
            with Pinned(cpu):
                if rng.random() < 0.4:
                    flows[place].read()
                    ops.append([READ, place, cpu])
                    continue
                world.out.send(flows[place].frame)
                seen = world.tap.read()
            if seen is None:
                raise OSError("a packet was lost on the way")
            ops.append([PACKET, place, cpu, 0, seen[2], seen[0]])
    finally:
        for flow in flows:
            flow.close()
    return {
        "t": "rfs_tun", "id": f"verify-rfs-{number}", "n": world.possible, "connected": 1,
        "masks": [mask], "rps_flow_cnt_back": [str(entries)], "sock_flow_entries_back": str(table),
        "ops": ops, "slots": "hash_32",
    }  # fmt: skip


def records(rng: random.Random, count: int) -> Iterator[dict[str, Any]]:
    """One record per case."""
    table = int(os.environ.get("EMU_VERIFY_SOCK_FLOW_ENTRIES", "0"))
    if table == 0:
        raise OSError(
            "net.core.rps_sock_flow_entries is the whole machine's: --machine-wide sets it"
        )
    world = World()
    try:
        for number in range(count):
            yield case(rng, world, table, number)
    finally:
        world.close()
