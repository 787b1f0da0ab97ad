"""Recorded RFS decisions of a live kernel, asked again from an engine.

``python -m tests.replay_rfs FILE...`` prints, for both engines and each kind of record, how many
decisions were compared and how many differ.

In these records every packet was read from the backlog before the next one came: a flow may change
CPU at once. What hangs on packets that still wait there was not recorded.

Left out: the 17 system calls of ``rfs_syscalls`` (which of them record is the sockets' part), and
the line about RFS in ``hotplug`` (it does not name its rx queue; a test has it in words).
"""

from __future__ import annotations

import importlib
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from tests.replay_rps import cpus_of
from tests.replay_xps import Record, Tallies, Tally, load

CPUS = 8
ONLINE = [1] * CPUS


class QuietHost:
    """Tables of the recorded kernel (6.12), and backlogs that empty at once."""

    def __init__(self, rfs, sock_entries: int, rxq_entries: list[int]) -> None:
        self.rfs = rfs.Rfs(sock_entries, rxq_entries, CPUS, low_bits=True)
        self.heads = [0] * CPUS
        self.chosen = 0  # packets that RFS chose for, not the map

    def receive(self, queue: int, cpus: list[int], hash_value: int, came_in_on: int) -> int:
        """CPU that processes the packet."""
        cpu, slot = self.rfs.choose(queue, hash_value, cpus, ONLINE, self.heads)
        self.chosen += slot >= 0
        if cpu < 0:
            return came_in_on
        self.heads[cpu] += 1
        self.rfs.note_tail(queue, slot, self.heads[cpu])
        return cpu


def replay_tun(rfs, record: Record, out: Tallies) -> None:
    """UDP sockets, and packets that are written to rx queues of a tun."""
    sizes = [int(size) for size in record["rps_flow_cnt_back"]]
    host = QuietHost(rfs, int(record["sock_flow_entries_back"]), sizes)
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
        out["hash computed"].check(asked, hash_value != 0, queue, cpus)
        ours = host.receive(queue, cpus, hash_value, cpu)
        out[f"UDP packets, {kind}"].check(ours, went_to, flow, queue, hash_value, cpus)
        last_hash[flow] = hash_value
    out["chosen by RFS"].compared += host.chosen


def replay_veth(rfs, record: Record, out: Tallies) -> None:
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
            out["TCP packets"].check(ours, went_to, flow, mapping, hash_value)
            continue
        hashes = at_client if op in ("s", "cr") else at_server
        host.rfs.record(hashes.get(flow, 0), rest[0])
        came_in_on = rest[0]
    out["chosen by RFS"].compared += host.chosen


BY_KIND = {"rfs_tun": replay_tun, "rfs_tcp_veth": replay_veth}


def replay(records: Iterable[Record], rfs) -> Tallies:
    """All records that RFS alone can answer, against one engine's module."""
    out: Tallies = defaultdict(Tally)
    for record in records:
        if record.get("t") in BY_KIND:
            BY_KIND[record["t"]](rfs, record, out)
    return dict(out)


def main(paths: list[str]) -> None:
    """Print the tallies of files."""
    records = [record for path in paths for record in load(Path(path))]
    for engine in ("_core", "ref"):
        for name, tally in replay(records, importlib.import_module(f"emu.{engine}.rfs")).items():
            print(f"{engine:5} {name:42} {tally.compared:6} compared {tally.differing:4} differ")
            for example in tally.examples:
                print("      ", str(example)[:300])


if __name__ == "__main__":
    main(sys.argv[1:])
