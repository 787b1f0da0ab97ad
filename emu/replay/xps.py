"""Recorded tx queue choices of a kernel with 2 CPUs: maps, fewer queues, forwarding, sockets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from emu.replay.masks import of_part
from emu.replay.parts import Context, Part, Record, Result
from emu.replay.xps_device import CPUS, RXQS, pick, read_back, write


def replay_map(xps: Any, record: Record, out: Result) -> None:
    cpus, case = record.get("cpus", 2), record["case"]
    device = xps.XpsDevice(record["num_tx"], 8, cpus)
    for queue, mask, errno, text in record["ops"]:
        words = [mask >> 64 * word & 2**64 - 1 for word in range((cpus + 63) // 64)]
        out.compare("map writes", device.set(CPUS, queue, words), -errno, case)
        out.compare("map read-backs", read_back(device, CPUS, queue), int(text, 16), case)
    if "model" in record:
        lists = [device.lists(CPUS).get((cpu, 0), []) for cpu in range(cpus)]
        out.compare("map lists", lists, record["model"], case)
    for queue, text in enumerate(record.get("readback", ())):
        out.compare("map read-backs", read_back(device, CPUS, queue), int(text, 16), case)
    for packet in record["packets"]:
        queue, _, used_hash = pick(device, packet["cpu"], packet["hash"])
        out.compare("map packets", queue, packet["queue"], case, packet["hash"])
        if used_hash:
            out.compare("map hash asked for", packet["hash"] != 0, True, case)


def replay_realqueues(xps: Any, record: Record, out: Result) -> None:
    device = xps.XpsDevice(8, 8, 2)
    write(device, CPUS, [(queue, mask, 0) for queue, mask in enumerate(record["before"])])
    out.compare("fewer queues", device.set_real_num_tx(record["real"]), 0)
    for queue, text in enumerate(record["after"][: record["real"]]):
        out.compare("fewer queues", read_back(device, CPUS, queue), int(text, 16), record["real"])
    for cpu, hash_value, queue in record["packets"]:
        out.compare("fewer queues", pick(device, cpu, hash_value)[0], queue, record["real"])


def replay_forward(xps: Any, record: Record, out: Result) -> None:
    device = xps.XpsDevice(4, 8, 2)
    if record["midmap"]:
        write(device, CPUS, [(q, f"{mask:x}", 0) for q, mask in enumerate(record["midmap"])])
    recorded = -1 if record["rx_recorded"] is None else record["rx_recorded"]
    queue, _, _ = pick(device, record["rx_cpu"], record["hash"], recorded_rx=recorded)
    out.compare("forwarding", queue, record["queue"], record)


class Sockets:
    """The socket part: one thread moves between CPU 0 (tx queue 2) and CPU 1 (tx queue 5)."""

    def __init__(self, xps: Any) -> None:
        self.device = xps.XpsDevice(8, 8, 2)
        write(self.device, CPUS, [(2, "1", 0), (5, "2", 0)])
        self.rxq_device = xps.XpsDevice(8, 8, 2)
        self.connected = self.tcp = -1
        self.recorded: int | None = None

    def replay(self, record: Record, out: Result) -> None:
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
                out.compare("TCP sockets", ours, theirs, record)

    def udp(self, record: Record, out: Result) -> None:
        cpu = record["cpu"]
        for queue in record["connected"]:
            ours, self.connected, _ = pick(self.device, cpu, 0, self.connected, can_store=True)
            out.compare("UDP connected", ours, queue, record)
        for queue in record["unconnected"]:
            out.compare("UDP unconnected", pick(self.device, cpu, 0)[0], queue, record)

    def rxqs(self, record: Record, out: Result) -> None:
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
                out.compare("TCP by rx queue", ours[0], queue, record)
        for mapping in record["rx_qm"]:
            if mapping:
                self.recorded = mapping - 1


def replay_socket(record: Record, context: Context) -> Result:
    """One step of the sockets of this file, which remember the steps before."""
    out = Result()
    sockets = context.shared.setdefault("sockets", Sockets(context.module("xps")))
    sockets.replay(record, out)
    return out


def with_device(
    replay: Callable[[Any, Record, Result], None],
) -> Callable[[Record, Context], Result]:
    """A part of records that stand alone."""

    def part(record: Record, context: Context) -> Result:
        out = Result()
        replay(context.module("xps"), record, out)
        return out

    return part


PARTS = (
    Part("xps/map", of_part("map"), with_device(replay_map)),
    Part("xps/realqueues", of_part("realqueues"), with_device(replay_realqueues)),
    Part("xps/forward", of_part("forward"), with_device(replay_forward)),
    Part("xps/socket", of_part("socket"), replay_socket),
)
