"""Recorded tx queue choices of live kernels, asked again from an engine.

``python -m tests.replay_xps FILE...`` prints, for both engines and each kind of record, how many
decisions were compared and how many differ. What a kernel was told (masks, classes, connects) is
replayed in the order of the record.
"""

from __future__ import annotations

import gzip
import importlib
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CPUS, RXQS = 0, 1
Record = dict[str, Any]


@dataclass
class Tally:
    """Decisions of one kind of record."""

    compared: int = 0
    differing: int = 0
    examples: list[object] = field(default_factory=list)

    def check(self, ours: object, theirs: object, *about: object) -> None:
        self.compared += 1
        if ours != theirs:
            self.differing += 1
            if len(self.examples) < 3:
                self.examples.append((ours, theirs, *about))


Tallies = dict[str, Tally]


def load(path: Path) -> list[Record]:
    """The records of a file of JSON lines."""
    with gzip.open(path, "rt") as lines:
        return [json.loads(line) for line in lines]


def read_back(device, kind, queue) -> int:
    """A queue's mask as a number."""
    return sum(int(word) << 64 * at for at, word in enumerate(device.mask(kind, queue)))


def write(device, kind, writes) -> None:
    """[queue, mask, errno] in order; what the kernel refused is left out."""
    for queue, mask, errno, *_ in writes:
        if not errno:
            device.set(kind, queue, [int(mask, 16)])


def pick(device, cpu, hash_value, cached=-1, **other):
    """One packet of a local socket."""
    case = {
        "cached": cached,
        "ooo_okay": False,
        "can_store": False,
        "sk_rx": -1,
        "recorded_rx": -1,
        "cpu": cpu,
        "prio": 0,
        "hash": hash_value,
    }
    return device.pick(**(case | other))


# One 2-CPU kernel, 8 tx queues: records with "part".


def replay_map(xps, record: Record, out: Tallies) -> None:
    device = xps.XpsDevice(record["num_tx"], 8, 2)
    for queue, mask, errno, text in record["ops"]:
        out["map writes"].check(device.set(CPUS, queue, [mask]), -errno, record["case"])
        out["map read-backs"].check(read_back(device, CPUS, queue), int(text, 16), record["case"])
    lists = [device.lists(CPUS).get((cpu, 0), []) for cpu in range(2)]
    out["map lists"].check(lists, record["model"], record["case"])
    for queue, text in enumerate(record["readback"]):
        out["map read-backs"].check(read_back(device, CPUS, queue), int(text, 16), record["case"])
    for packet in record["packets"]:
        queue, _, used_hash = pick(device, packet["cpu"], packet["hash"])
        out["map packets"].check(queue, packet["queue"], record["case"], packet["hash"])
        if used_hash:
            out["map hash asked for"].check(packet["hash"] != 0, True, record["case"])


def replay_realqueues(xps, record: Record, out: Tallies) -> None:
    device = xps.XpsDevice(8, 8, 2)
    write(device, CPUS, [(queue, mask, 0) for queue, mask in enumerate(record["before"])])
    out["fewer queues"].check(device.set_real_num_tx(record["real"]), 0)
    for queue, text in enumerate(record["after"][: record["real"]]):
        out["fewer queues"].check(read_back(device, CPUS, queue), int(text, 16), record["real"])
    for cpu, hash_value, queue in record["packets"]:
        out["fewer queues"].check(pick(device, cpu, hash_value)[0], queue, record["real"])


def replay_forward(xps, record: Record, out: Tallies) -> None:
    device = xps.XpsDevice(4, 8, 2)
    if record["midmap"]:
        write(device, CPUS, [(q, f"{mask:x}", 0) for q, mask in enumerate(record["midmap"])])
    recorded = -1 if record["rx_recorded"] is None else record["rx_recorded"]
    queue, _, _ = pick(device, record["rx_cpu"], record["hash"], recorded_rx=recorded)
    out["forwarding"].check(queue, record["queue"], record)


class Sockets:
    """The socket part: one thread moves between CPU 0 (tx queue 2) and CPU 1 (tx queue 5)."""

    def __init__(self, xps) -> None:
        self.device = xps.XpsDevice(8, 8, 2)
        write(self.device, CPUS, [(2, "1", 0), (5, "2", 0)])
        self.rxq_device = xps.XpsDevice(8, 8, 2)
        self.connected = self.tcp = -1
        self.recorded: int | None = None

    def replay(self, record: Record, out: Tallies) -> None:
        if record["proto"] == "udp":
            self.udp(record, out)
        elif record["proto"] == "tcp-rxqs":
            self.rxqs(record, out)
        elif "cpu" in record:
            cpu, sent = record["cpu"], record["queues"]
            for queue in sent:
                ours, self.tcp, _ = pick(
                    self.device, cpu, 0, self.tcp, ooo_okay=True, can_store=True
                )
                theirs = queue if isinstance(queue, int) else queue[0]
                out["TCP sockets"].check(ours, theirs, record)

    def udp(self, record: Record, out: Tallies) -> None:
        cpu = record["cpu"]
        for queue in record["connected"]:
            ours, self.connected, _ = pick(self.device, cpu, 0, self.connected, can_store=True)
            out["UDP connected"].check(ours, queue, record)
        for queue in record["unconnected"]:
            out["UDP unconnected"].check(pick(self.device, cpu, 0)[0], queue, record)

    def rxqs(self, record: Record, out: Tallies) -> None:
        """The previous received packet's rx queue decides; the first record only shows it."""
        if self.recorded is None:
            write(self.rxq_device, RXQS, [(q, m, 0) for q, m in enumerate(record["rxqs"])])
            queue = record["tx"][0][0]
            self.recorded = int(record["rxqs"][queue], 16).bit_length() - 1
        else:
            for queue, hash_value in record["tx"]:
                ours = pick(
                    self.rxq_device,
                    record["cpu"],
                    hash_value,
                    sk_rx=self.recorded,
                    ooo_okay=True,
                    can_store=True,
                )
                out["TCP by rx queue"].check(ours[0], queue, record)
        for mapping in record["rx_qm"]:
            if mapping:
                self.recorded = mapping - 1


# A kernel with 8 CPUs on 2 nodes: records with "t".


def device_of(xps, record: Record, num_rx: int = 16):
    return xps.XpsDevice(record["ntx"], num_rx, 8, node_of=[0] * 4 + [1] * 4)


def check_read_back(device, kind, texts, name: str, out: Tallies) -> None:
    for queue, text in enumerate(texts):
        if text is not None:
            out[f"{name} read-backs"].check(read_back(device, kind, queue), int(text, 16))


def replay_cpus(xps, record: Record, out: Tallies) -> None:
    device = device_of(xps, record)
    write(device, CPUS, record["writes"])
    check_read_back(device, CPUS, record["readback"], "xps_cpus", out)
    for cpu, _, family, hash_value, queue in record["rows"]:
        ours, _, used_hash = pick(device, cpu, hash_value)
        out["xps_cpus packets"].check(ours, queue, record["writes"], cpu, hash_value)
        if family == 4:  # IPv6 senders have computed it already, for the flow label
            out["xps_cpus hash asked for"].check(used_hash, hash_value != 0)


def replay_rxqs(xps, record: Record, out: Tallies) -> None:
    device = device_of(xps, record, record["nrx"])
    write(device, RXQS, record["writes_rxqs"])
    write(device, CPUS, record["writes_cpus"])
    check_read_back(device, RXQS, record["readback_rxqs"], "xps_rxqs", out)
    for rx_queue, cpu, hash_value, queue, next_cpu, next_queue, _ in record["rows"]:
        sk_rx = -1 if rx_queue is None else rx_queue
        ours, cached, _ = pick(device, cpu, hash_value, sk_rx=sk_rx, can_store=True)
        out["xps_rxqs packets"].check(ours, queue, record["writes_rxqs"], rx_queue, hash_value)
        ours, _, _ = pick(device, next_cpu, hash_value, cached, sk_rx=sk_rx, can_store=True)
        out["xps_rxqs packets"].check(ours, next_queue, "second", rx_queue, hash_value)


def replay_forward8(xps, record: Record, out: Tallies) -> None:
    device = device_of(xps, record)
    write(device, CPUS, record["writes"])
    for rx_queue, _, hash_value, cpu, queue in record["rows"]:
        ours, _, _ = pick(device, cpu, hash_value, recorded_rx=rx_queue)
        out["xps_forward packets"].check(ours, queue, record["writes"], rx_queue, cpu)


def replay_mqprio(xps, record: Record, out: Tallies) -> None:
    device = device_of(xps, record)
    device.set_num_tc(record["num_tc"])
    for tc, (count, offset) in enumerate(zip(record["counts"], record["offsets"], strict=True)):
        device.set_tc_queue(tc, count, offset)
    for prio, tc in enumerate(record["prio_map"]):
        device.set_prio_tc(prio, tc)
    write(device, CPUS, record["writes"])
    check_read_back(device, CPUS, record["readback"], "xps_mqprio", out)
    for cpu, prio, _, hash_value, queue in record["rows"]:
        ours, _, _ = pick(device, cpu, hash_value, prio=prio)
        out["xps_mqprio packets"].check(ours, queue, record["writes"], cpu, prio)


def replay_connected_udp(xps, record: Record, out: Tallies) -> None:
    device = device_of(xps, record)
    write(device, CPUS, record["writes"])
    cached = -1
    for op, *given in record["ops"]:
        if op == "xps":
            write(device, CPUS, [given])
        elif op == "connect" or (op == "route_add" and record["fam"] == 4):
            cached = -1  # another route: the socket's queue is forgotten
        elif op == "send":
            cpu, hash_value, queue = given
            ours, cached, _ = pick(device, cpu, hash_value, cached, can_store=True)
            out["xps_connected_udp packets"].check(ours, queue, given)


def replay_tcp_inflight(xps, record: Record, out: Tallies) -> None:
    device = device_of(xps, record)
    write(device, CPUS, record["writes"])
    for sends in record["rows"]:
        cached = -1
        # The application's CPU chooses; another one transmits what a qdisc held back.
        for place, (cpu, _, hash_value, queue) in enumerate(sends):
            okay = place == 0 or not record["held_in_qdisc"]
            ours, cached, _ = pick(device, cpu, hash_value, cached, ooo_okay=okay, can_store=True)
            out["xps_tcp_inflight packets"].check(ours, queue, record["held_in_qdisc"], sends)


def replay_resize(xps, record: Record, out: Tallies) -> None:
    device = xps.XpsDevice(16, 16, 8)
    for action, masks, _ in record["rows"]:
        if action == "start":
            write(device, CPUS, [(queue, mask, 0) for queue, mask in enumerate(masks)])
        elif action.startswith("ethtool"):
            device.set_real_num_tx(int(action.split()[3]))
        check_read_back(device, CPUS, masks, "resize", out)


def replay_hotplug(xps, record: Record, out: Tallies) -> None:
    """CPUs go, xps_cpus of queue 3 is written meanwhile, CPUs come back."""
    device = xps.XpsDevice(8, 8, 8)
    write(device, CPUS, record["xps_writes"])
    before, offline, after = record["xps_readback"]
    check_read_back(device, CPUS, before, "hotplug", out)
    for cpu in record["offline"]:
        device.set_online(cpu, False)
    check_read_back(device, CPUS, offline, "hotplug", out)
    for kind, mask, errno, text in record["writes_while_offline"]:
        if kind == "xps":
            write(device, CPUS, [(3, mask, errno)])
            out["hotplug read-backs"].check(read_back(device, CPUS, 3), int(text, 16))
    for cpu in record["offline"]:
        device.set_online(cpu, True)
    check_read_back(device, CPUS, after, "hotplug", out)
    for cpu, hash_value, queue in record["xps_rows_after_online"][1:]:
        ours, _, _ = pick(device, cpu, hash_value)
        out["hotplug packets"].check(ours, queue, cpu, hash_value)


def replay_veth_senders(xps, record: Record, out: Tallies) -> None:
    """Senders of the veth records without masks: of the others no order of writes is known."""
    devices = [xps.XpsDevice(record[name][0], 16, 8) for name in ("queues_b", "queues_a")]
    cached: dict[tuple[int, ...], int] = defaultdict(lambda: -1)
    for _, proto, side, sport, dport, cpu, queue, hash_value, *_ in record["rows"]:
        if side and record["xps_a"]:
            continue
        kind = record["kinds"].get(str(sport), record["kinds"].get(str(dport)))[0]
        key, connected = (side, sport, dport), kind == "c"
        held = cached[key] if connected else -1
        ours, cached[key], _ = pick(devices[side], cpu, hash_value, held, can_store=connected)
        name = "TCP" if proto == 6 else "UDP connected" if connected else "UDP unconnected"
        out[f"rps_veth senders, {name}"].check(ours, queue, key, cpu, hash_value)


BY_PART: dict[str, Callable[..., None]] = {
    "map": replay_map,
    "realqueues": replay_realqueues,
    "forward": replay_forward,
}
BY_KIND: dict[str, Callable[..., None]] = {
    "xps_cpus": replay_cpus,
    "xps_rxqs": replay_rxqs,
    "xps_forward": replay_forward8,
    "xps_mqprio": replay_mqprio,
    "xps_connected_udp": replay_connected_udp,
    "xps_tcp_inflight": replay_tcp_inflight,
    "resize": replay_resize,
    "hotplug": replay_hotplug,
    "rps_veth": replay_veth_senders,
}


def replay(records: Iterable[Record], xps) -> Tallies:
    """All records that say something about tx queues, against one engine's module."""
    out: Tallies = defaultdict(Tally)
    sockets = Sockets(xps)
    for record in records:
        if record.get("part") == "socket":
            sockets.replay(record, out)
        elif record.get("part") in BY_PART:
            BY_PART[record["part"]](xps, record, out)
        elif record.get("t") in BY_KIND:
            BY_KIND[record["t"]](xps, record, out)
    return dict(out)


def main(paths: list[str]) -> None:
    """Print the tallies of files."""
    records = [record for path in paths for record in load(Path(path))]
    for engine in ("_core", "ref"):
        for name, tally in replay(records, importlib.import_module(f"emu.{engine}.xps")).items():
            print(f"{engine:5} {name:32} {tally.compared:6} compared {tally.differing:4} differ")
            for example in tally.examples:
                print("      ", str(example)[:300])


if __name__ == "__main__":
    main(sys.argv[1:])
