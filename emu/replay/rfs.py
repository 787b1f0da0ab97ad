"""Recorded RFS decisions of a live kernel.

In these records every packet was read from the backlog before the next one came: a flow may change
CPU at once. What hangs on packets that still wait there was not recorded.
"""

from __future__ import annotations

from typing import Any

from emu.model.syscalls import records_flow
from emu.replay.masks import of_kind
from emu.replay.parts import Part, Record, Result
from emu.replay.rps import both, cpus_of

CPUS = 8


class QuietHost:
    """Tables of the recorded kernel (6.12), and backlogs that empty at once."""

    def __init__(
        self,
        rfs: Any,
        sock_entries: int,
        rxq_entries: list[int],
        *,
        cpus: int = CPUS,
        low_bits: bool = True,
    ) -> None:
        self.rfs = rfs.Rfs(sock_entries, rxq_entries, cpus, low_bits=low_bits)
        self.heads, self.online = [0] * cpus, [1] * cpus

    def receive(self, queue: int, cpus: list[int], hash_value: int, came_in_on: int) -> int:
        """CPU that processes the packet."""
        cpu: int
        cpu, slot = self.rfs.choose(queue, hash_value, cpus, self.online, self.heads)
        if cpu < 0:
            return came_in_on
        self.heads[cpu] += 1
        self.rfs.note_tail(queue, slot, self.heads[cpu])
        return cpu


def replay_tun(rfs: Any, record: Record, out: Result) -> None:
    """UDP sockets, and packets that are written to rx queues of a tun."""
    sizes = [int(size) for size in record["rps_flow_cnt_back"]]
    host = QuietHost(
        rfs,
        int(record["sock_flow_entries_back"]),
        sizes,
        cpus=record["n"],
        low_bits=record.get("slots") != "hash_32",
    )
    maps = [cpus_of(mask) for mask in record["masks"]]
    kind = "connected" if record["connected"] else "not connected"
    last_hash: dict[int, int] = {}
    for op, flow, cpu, *rest in record["ops"]:
        if op == "r":
            if record["connected"]:
                host.rfs.record(last_hash.get(flow, 0), cpu)
            continue
        queue, hash_value, went_to = rest
        cpus = maps[queue]
        asked = bool(host.rfs.asks_hash(queue, cpus))
        out.compare("hash computed", asked, hash_value != 0, queue, cpus)
        ours = host.receive(queue, cpus, hash_value, cpu)
        out.compare(f"UDP packets, {kind}", ours, went_to, flow, queue, hash_value, cpus)
        last_hash[flow] = hash_value


def replay_veth(rfs: Any, record: Record, out: Result) -> None:
    """TCP over veth; both ends' sockets write the one global table.

    A connection's hash is the same from its first packet on, which no row shows: that of its first
    row counts from the beginning.
    """
    maps = [cpus_of(mask) for mask in record["masks"]]
    host = QuietHost(rfs, record["sock_flow_entries"], [record["rps_flow_cnt"]] * len(maps))
    rows = record["ops"][::-1]
    at_server = {flow: rest[1] for op, flow, *rest in rows if op == "p"}
    at_client = {flow: rest[0] for op, flow, *rest in rows if op == "q"}
    came_in_on = -1
    for op, flow, *rest in record["ops"]:
        if op == "q":
            continue
        if op == "p":
            mapping, hash_value, went_to = rest
            queue = max(mapping - 1, 0)
            ours = host.receive(queue, maps[queue], hash_value, came_in_on)
            out.compare("TCP packets", ours, went_to, flow, mapping, hash_value)
            continue
        hashes = at_client if op in ("s", "cr") else at_server
        host.rfs.record(hashes.get(flow, 0), rest[0])
        came_in_on = rest[0]


def replay_syscalls(rfs: Any, record: Record, out: Result) -> None:
    """A call on CPU 5 between two packets of a flow that CPU 3 read: does the second follow?"""
    for family, call, _, first_cpu, after_first, second_cpu, after_second in record["rows"]:
        host = QuietHost(rfs, 32, [32])
        hash_value = 0x12345678
        if first_cpu is not None:
            host.rfs.record(hash_value, first_cpu)
            said = host.receive(0, [], hash_value, 0)
            out.compare("packet behind a read", said, after_first, family, call)
        # A socket that received nothing has no hash to record.
        if records_flow(call) and first_cpu is not None:
            host.rfs.record(hash_value, second_cpu)
        said = host.receive(0, [], hash_value, 0)
        out.compare("packet behind the call", said, after_second, family, call)


PARTS = (
    Part("manycpu/rfs_tun", of_kind("rfs_tun"), both(("rfs", replay_tun))),
    Part("manycpu/rfs_syscalls", of_kind("rfs_syscalls"), both(("rfs", replay_syscalls))),
    Part("manycpu/rfs_tcp_veth", of_kind("rfs_tcp_veth"), both(("rfs", replay_veth))),
)
