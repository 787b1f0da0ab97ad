"""Recorded RPS choices of live kernels, asked again from an engine.

``python -m tests.replay_rps FILE...`` prints, for both engines and each kind of record, how many
decisions were compared and how many differ.
"""

from __future__ import annotations

import importlib
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from tests.replay_xps import Record, Tallies, Tally, load


def cpus_of(mask: str | int, online: set[int] | None = None) -> list[int]:
    """The map that a write of the mask makes: ascending, online CPUs only."""
    bits = int(mask, 16) if isinstance(mask, str) else mask
    cpus = [cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1]
    return [cpu for cpu in cpus if online is None or cpu in online]


def queue_of_veth(rps, queue_mapping: int, rx_queues: int) -> int:
    """veth hands the sender's queue_mapping on, and the receiver reads it as its rx queue + 1."""
    recorded = np.array([queue_mapping - 1], dtype=np.int32)
    return int(rps.rps_queues(recorded, rx_queues)[0])


def steer(rps, cpus: list[int], online: np.ndarray, hash_value: int, came_in_on: int) -> int:
    """CPU that processes the packet."""
    table, hashes = np.array(cpus, dtype=np.uint16), np.array([hash_value], dtype=np.uint32)
    chosen = int(rps.rps_cpus(table, online, hashes)[0])
    return chosen if chosen >= 0 else came_in_on


def replay_packet(rps, record: Record, out: Tallies) -> None:
    """A packet over a veth of a 2-CPU machine with 4 queues."""
    queue = queue_of_veth(rps, record["qm_in"], 4)
    recorded = -1 if record["rxq"] is None else record["rxq"]
    out["rx queue"].check(queue, max(recorded, 0), record["qm_in"])
    cpus = cpus_of(record["masks"][queue])
    online = np.ones(2, dtype=np.uint8)
    cpu = steer(rps, cpus, online, record["hash"], record["scpu"])
    out["packets"].check(cpu, record["cpu"], record["hash"], cpus)


def replay_tun(rps, record: Record, out: Tallies) -> None:
    online = np.ones(8, dtype=np.uint8)
    name = record["t"]
    for queue, came_in_on, _, mapping, hash_value, cpu in record["rows"]:
        out[f"{name} rx queue"].check(queue_of_veth(rps, mapping, 16), queue)
        cpus = cpus_of(record["masks"][queue])
        ours = steer(rps, cpus, online, hash_value, came_in_on)
        out[f"{name} packets"].check(ours, cpu, hash_value, cpus)


def replay_veth(rps, record: Record, out: Tallies) -> None:
    online = np.ones(8, dtype=np.uint8)
    sides = (record["queues_a"][1], record["masks_a"]), (record["queues_b"][1], record["masks_b"])
    for row in record["rows"]:
        _, _, side, _, _, came_in_on, _, _, mapping, hash_value, cpu, *_ = row
        rx_queues, masks = sides[side]
        queue = queue_of_veth(rps, mapping, rx_queues)
        cpus = cpus_of(masks[queue]) if queue >= 0 else []
        ours = steer(rps, cpus, online, hash_value, came_in_on)
        out["rps_veth packets"].check(ours, cpu, row, cpus)


def replay_lo(rps, record: Record, out: Tallies) -> None:
    online, cpus = np.ones(8, dtype=np.uint8), cpus_of(record["mask"])
    for row in record["rows"]:
        ours = steer(rps, cpus, online, row[9], row[5])
        out["rps_lo packets"].check(ours, row[10], row, cpus)


def replay_forward(rps, record: Record, out: Tallies) -> None:
    """RPS before forwarding: the CPU that transmits is the one that RPS chose."""
    online, cpus = np.ones(8, dtype=np.uint8), cpus_of(record["rps"])
    for _, came_in_on, hash_value, cpu, _ in record["rows"]:
        if hash_value or not cpus:
            ours = steer(rps, cpus, online, hash_value, came_in_on)
            out["xps_forward, RPS"].check(ours, cpu, hash_value, cpus)


def replay_sym(rps, record: Record, out: Tallies) -> None:
    """Four packets of one hash over all 8 CPUs."""
    online, cpus = np.ones(8, dtype=np.uint8), list(range(8))
    for row in record["rows"]:
        for hash_value, cpu in zip(row[6:10], row[10:14], strict=True):
            out["sym packets"].check(steer(rps, cpus, online, hash_value, -1), cpu, row)


def replay_hotplug(rps, record: Record, out: Tallies) -> None:
    """CPUs go: maps keep them, their packets stay; a mask written meanwhile leaves them out."""
    everyone = set(range(8))
    left = everyone - set(record["offline"])
    maps = [cpus_of(mask) for mask in record["masks"]]
    up = np.array([cpu in left for cpu in range(8)], dtype=np.uint8)

    def check(name: str, online: np.ndarray) -> None:
        for queue, came_in_on, hash_value, cpu in record[name]:
            ours = steer(rps, maps[queue], online, hash_value, came_in_on)
            out[f"hotplug {name}"].check(ours, cpu, queue, hash_value, maps[queue])

    check("rows_while_offline", up)
    for kind, mask, _, text in record["writes_while_offline"]:
        if kind == "rps":
            maps[2] = cpus_of(mask, left)
            out["hotplug read-backs"].check(sum(1 << cpu for cpu in maps[2]), int(text, 16))
    check("rows_queue2_written_while_offline", up)
    check("rows_after_online", np.ones(8, dtype=np.uint8))


BY_KIND: dict[str, Callable[..., None]] = {
    "rps_tun": replay_tun,
    "rps_hotplug": replay_tun,
    "rps_veth": replay_veth,
    "rps_lo": replay_lo,
    "xps_forward": replay_forward,
    "sym": replay_sym,
    "hotplug": replay_hotplug,
}


def replay(records: Iterable[Record], rps) -> Tallies:
    """All records that say something about RPS, against one engine's module."""
    out: Tallies = defaultdict(Tally)
    for record in records:
        if "qm_in" in record:
            replay_packet(rps, record, out)
        elif record.get("t") in BY_KIND:
            BY_KIND[record["t"]](rps, record, out)
    return dict(out)


def main(paths: list[str]) -> None:
    """Print the tallies of files."""
    records = [record for path in paths for record in load(Path(path))]
    for engine in ("_core", "ref"):
        for name, tally in replay(records, importlib.import_module(f"emu.{engine}.rps")).items():
            print(f"{engine:5} {name:42} {tally.compared:6} compared {tally.differing:4} differ")
            for example in tally.examples:
                print("      ", str(example)[:300])


if __name__ == "__main__":
    main(sys.argv[1:])
