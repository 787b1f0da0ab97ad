"""Recorded tx queue choices of a kernel with 8 CPUs on 2 nodes.

What the kernel was told (masks, classes, connects) is replayed in the order of the record.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from emu.replay.masks import of_kind
from emu.replay.parts import Part, Record, Result
from emu.replay.xps import with_device
from emu.replay.xps_device import CPUS, RXQS, check_read_back, pick, read_back, write


def device_of(xps: Any, record: Record, num_rx: int = 16) -> Any:
    return xps.XpsDevice(record["ntx"], num_rx, 8, node_of=[0] * 4 + [1] * 4)


def replay_cpus(xps: Any, record: Record, out: Result) -> None:
    device = device_of(xps, record)
    write(device, CPUS, record["writes"])
    check_read_back(device, CPUS, record["readback"], "xps_cpus", out)
    for cpu, _, family, hash_value, queue in record["rows"]:
        ours, _, used_hash = pick(device, cpu, hash_value)
        out.compare("xps_cpus packets", ours, queue, record["writes"], cpu, hash_value)
        if family == 4:  # IPv6 senders have computed it already, for the flow label
            out.compare("xps_cpus hash asked for", used_hash, hash_value != 0)


def replay_rxqs(xps: Any, record: Record, out: Result) -> None:
    device = device_of(xps, record, record["nrx"])
    write(device, RXQS, record["writes_rxqs"])
    write(device, CPUS, record["writes_cpus"])
    check_read_back(device, RXQS, record["readback_rxqs"], "xps_rxqs", out)
    for rx_queue, cpu, hash_value, queue, next_cpu, next_queue, _ in record["rows"]:
        sk_rx = -1 if rx_queue is None else rx_queue
        ours, cached, _ = pick(device, cpu, hash_value, sk_rx=sk_rx, can_store=True)
        out.compare("xps_rxqs packets", ours, queue, record["writes_rxqs"], rx_queue, hash_value)
        ours, _, _ = pick(device, next_cpu, hash_value, cached, sk_rx=sk_rx, can_store=True)
        out.compare("xps_rxqs packets", ours, next_queue, "second", rx_queue, hash_value)


def replay_forward8(xps: Any, record: Record, out: Result) -> None:
    device = device_of(xps, record)
    write(device, CPUS, record["writes"])
    for rx_queue, _, hash_value, cpu, queue in record["rows"]:
        ours, _, _ = pick(device, cpu, hash_value, recorded_rx=rx_queue)
        out.compare("xps_forward packets", ours, queue, record["writes"], rx_queue, cpu)


def replay_mqprio(xps: Any, record: Record, out: Result) -> None:
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
        out.compare("xps_mqprio packets", ours, queue, record["writes"], cpu, prio)


def replay_connected_udp(xps: Any, record: Record, out: Result) -> None:
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
            out.compare("xps_connected_udp packets", ours, queue, given)


def replay_tcp_inflight(xps: Any, record: Record, out: Result) -> None:
    device = device_of(xps, record)
    write(device, CPUS, record["writes"])
    for sends in record["rows"]:
        cached = -1
        # The application's CPU chooses; another one transmits what a qdisc held back.
        for place, (cpu, _, hash_value, queue) in enumerate(sends):
            okay = place == 0 or not record["held_in_qdisc"]
            ours, cached, _ = pick(device, cpu, hash_value, cached, ooo_okay=okay, can_store=True)
            out.compare("xps_tcp_inflight packets", ours, queue, record["held_in_qdisc"], sends)


def replay_resize(xps: Any, record: Record, out: Result) -> None:
    device = xps.XpsDevice(16, 16, 8)
    for action, masks, _ in record["rows"]:
        if action == "start":
            write(device, CPUS, [(queue, mask, 0) for queue, mask in enumerate(masks)])
        elif action.startswith("ethtool"):
            device.set_real_num_tx(int(action.split()[3]))
        check_read_back(device, CPUS, masks, "resize", out)


def replay_hotplug(xps: Any, record: Record, out: Result) -> None:
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
            out.compare("hotplug read-backs", read_back(device, CPUS, 3), int(text, 16))
    for cpu in record["offline"]:
        device.set_online(cpu, True)
    check_read_back(device, CPUS, after, "hotplug", out)
    _heading, *rows = record["xps_rows_after_online"]
    for cpu, hash_value, queue in rows:
        ours, _, _ = pick(device, cpu, hash_value)
        out.compare("hotplug packets", ours, queue, cpu, hash_value)


def replay_veth_senders(xps: Any, record: Record, out: Result) -> None:
    """Senders of the veth records without masks: of the others no order of writes is known."""
    devices = [xps.XpsDevice(record[name][0], 16, 8) for name in ("queues_b", "queues_a")]
    cached: dict[tuple[int, ...], int] = defaultdict(lambda: -1)
    for _, proto, side, sport, dport, cpu, queue, hash_value, *_ in record["rows"]:
        if side and record["xps_a"]:
            out.skip("sent while masks were written, in an order that was not recorded")
            continue
        kind = record["kinds"].get(str(sport), record["kinds"].get(str(dport)))[0]
        key, connected = (side, sport, dport), kind == "c"
        held = cached[key] if connected else -1
        ours, cached[key], _ = pick(devices[side], cpu, hash_value, held, can_store=connected)
        name = "TCP" if proto == 6 else "UDP connected" if connected else "UDP unconnected"
        out.compare(f"rps_veth senders, {name}", ours, queue, key, cpu, hash_value)


def replay_txhash(xps: Any, record: Record, out: Result) -> None:
    """Senders on a device without masks: the hash chooses among its 8 queues."""
    device = xps.XpsDevice(8, 8, 8)
    for _, case, sends in record["rows"]:
        for hash_value, queue, _ in sends:
            out.compare("txhash packet", pick(device, 0, hash_value)[0], queue, case, hash_value)


PARTS = tuple(
    Part(f"manycpu/{kind}", of_kind(kind), with_device(replay))
    for kind, replay in (
        ("xps_cpus", replay_cpus),
        ("xps_rxqs", replay_rxqs),
        ("xps_mqprio", replay_mqprio),
        ("xps_connected_udp", replay_connected_udp),
        ("xps_tcp_inflight", replay_tcp_inflight),
        ("resize", replay_resize),
        ("txhash", replay_txhash),
    )
)
