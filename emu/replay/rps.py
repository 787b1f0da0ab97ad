"""Recorded RPS choices of live kernels: the rx queue whose map counts, and the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emu.replay.masks import of_kind
from emu.replay.parts import Context, Part, Record, Result
from emu.replay.xps_many import replay_forward8, replay_hotplug, replay_veth_senders


def cpus_of(mask: str | int, online: set[int] | None = None) -> list[int]:
    """The map that a write of the mask makes: ascending, online CPUs only."""
    bits = int(mask, 16) if isinstance(mask, str) else mask
    cpus = [cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1]
    return [cpu for cpu in cpus if online is None or cpu in online]


def queue_of_veth(rps: Any, queue_mapping: int, rx_queues: int) -> int:
    """veth hands the sender's queue_mapping on, and the receiver reads it as its rx queue + 1."""
    recorded = np.array([queue_mapping - 1], dtype=np.int32)
    return int(rps.rps_queues(recorded, rx_queues)[0])


def steer(
    rps: Any, cpus: list[int], online: NDArray[np.uint8], hash_value: int, came_in_on: int
) -> int:
    """CPU that processes the packet."""
    table, hashes = np.array(cpus, dtype=np.uint16), np.array([hash_value], dtype=np.uint32)
    chosen = int(rps.rps_cpus(table, online, hashes)[0])
    return chosen if chosen >= 0 else came_in_on


def replay_packet(rps: Any, record: Record, out: Result) -> None:
    """A packet over a veth."""
    queue = queue_of_veth(rps, record["qm_in"], len(record["masks"]))
    recorded = -1 if record["rxq"] is None else record["rxq"]
    out.compare("rx queue", queue, max(recorded, 0), record["qm_in"])
    cpus = cpus_of(record["masks"][queue])
    online = np.ones(record.get("cpus", 2), dtype=np.uint8)
    cpu = steer(rps, cpus, online, record["hash"], record["scpu"])
    out.compare("packets", cpu, record["cpu"], record["hash"], cpus)


def replay_tun(rps: Any, record: Record, out: Result) -> None:
    online = np.ones(8, dtype=np.uint8)
    name = record["t"]
    for queue, came_in_on, _, mapping, hash_value, cpu in record["rows"]:
        out.compare(f"{name} rx queue", queue_of_veth(rps, mapping, 16), queue, mapping)
        cpus = cpus_of(record["masks"][queue])
        ours = steer(rps, cpus, online, hash_value, came_in_on)
        out.compare(f"{name} packets", ours, cpu, hash_value, cpus)


def replay_veth(rps: Any, record: Record, out: Result) -> None:
    online = np.ones(8, dtype=np.uint8)
    sides = (record["queues_a"][1], record["masks_a"]), (record["queues_b"][1], record["masks_b"])
    for row in record["rows"]:
        _, _, side, _, _, came_in_on, _, _, mapping, hash_value, cpu, *_ = row
        rx_queues, masks = sides[side]
        queue = queue_of_veth(rps, mapping, rx_queues)
        cpus = cpus_of(masks[queue]) if queue >= 0 else []
        ours = steer(rps, cpus, online, hash_value, came_in_on)
        out.compare("rps_veth packets", ours, cpu, row, cpus)


def replay_lo(rps: Any, record: Record, out: Result) -> None:
    online, cpus = np.ones(8, dtype=np.uint8), cpus_of(record["mask"])
    for row in record["rows"]:
        ours = steer(rps, cpus, online, row[9], row[5])
        out.compare("rps_lo packets", ours, row[10], row, cpus)


def replay_forward(rps: Any, record: Record, out: Result) -> None:
    """RPS before forwarding: the CPU that transmits is the one that RPS chose."""
    online, cpus = np.ones(8, dtype=np.uint8), cpus_of(record["rps"])
    for _, came_in_on, hash_value, cpu, _ in record["rows"]:
        if hash_value or not cpus:
            ours = steer(rps, cpus, online, hash_value, came_in_on)
            out.compare("xps_forward, RPS", ours, cpu, hash_value, cpus)


def replay_sym(rps: Any, record: Record, out: Result) -> None:
    """Four packets of one hash over all 8 CPUs."""
    online, cpus = np.ones(8, dtype=np.uint8), list(range(8))
    for row in record["rows"]:
        for hash_value, cpu in zip(row[6:10], row[10:14], strict=True):
            out.compare("sym packets", steer(rps, cpus, online, hash_value, -1), cpu, row)


def replay_hotplug_rps(rps: Any, record: Record, out: Result) -> None:
    """CPUs go: maps keep them, their packets stay; a mask written meanwhile leaves them out."""
    everyone = set(range(8))
    left = everyone - set(record["offline"])
    maps = [cpus_of(mask) for mask in record["masks"]]
    up = np.array([cpu in left for cpu in range(8)], dtype=np.uint8)

    def check(name: str, online: NDArray[np.uint8]) -> None:
        for queue, came_in_on, hash_value, cpu in record[name]:
            ours = steer(rps, maps[queue], online, hash_value, came_in_on)
            out.compare(f"hotplug {name}", ours, cpu, queue, hash_value, maps[queue])

    check("rows_while_offline", up)
    for kind, mask, _, text in record["writes_while_offline"]:
        if kind == "rps":
            maps[2] = cpus_of(mask, left)
            out.compare("hotplug read-backs", sum(1 << cpu for cpu in maps[2]), int(text, 16))
    check("rows_queue2_written_while_offline", up)
    check("rows_after_online", np.ones(8, dtype=np.uint8))


def replay_inputs(rps: Any, record: Record, out: Result) -> None:
    """Packets of one machine with a map of all 8 CPUs; their frames were not recorded."""
    online, cpus = np.ones(8, dtype=np.uint8), list(range(8))
    for case, seen in record["rows"]:
        for hash_value, cpu in seen:
            if hash_value:
                said = steer(rps, cpus, online, hash_value, -1)
                out.compare("hash_inputs packet", said, cpu, case)
            else:
                out.skip("no map, no hash: where it came in is not in the record")


def both(
    *replays: tuple[str, Callable[[Any, Record, Result], None]],
) -> Callable[[Record, Context], Result]:
    """A part that several stages answer for."""

    def part(record: Record, context: Context) -> Result:
        out = Result()
        for stage, replay in replays:
            replay(context.module(stage), record, out)
        return out

    return part


RPS, XPS = "rps", "xps"
PARTS = (
    Part("rps", lambda record: {"qm_in", "masks"} <= set(record), both((RPS, replay_packet))),
    *(
        Part(f"manycpu/{kind}", of_kind(kind), both((RPS, replay)))
        for kind, replay in (
            ("rps_tun", replay_tun),
            ("rps_hotplug", replay_tun),
            ("rps_lo", replay_lo),
            ("sym", replay_sym),
            ("hash_inputs", replay_inputs),
        )
    ),
    *(
        Part(f"manycpu/{kind}", of_kind(kind), both((RPS, first), (XPS, second)))
        for kind, first, second in (
            ("rps_veth", replay_veth, replay_veth_senders),
            ("xps_forward", replay_forward, replay_forward8),
            ("hotplug", replay_hotplug_rps, replay_hotplug),
        )
    ),
)
