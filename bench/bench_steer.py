"""How fast a whole steer is: the doors with lowering, and the engines' own loops."""

from __future__ import annotations

import numpy as np
import pytest

from emu.engines import stage
from emu.intake import from_blob
from emu.model.connections import connections
from emu.model.host import Host
from emu.model.lower import lower
from emu.model.masks import CpuSet
from emu.model.nic import Cpumap, Nic, Rss
from emu.model.packets import Packets
from emu.model.sockets import Socket
from emu.model.topology import Topology
from emu.steering import make_polls, steer
from tests.strategies.frames import TIMESTAMPS
from tests.strategies.traffic import Flow, tcp_frames, udp_frames

PACKETS = {"core": 400_000, "ref": 4_000}
FLOWS = 256
ONE_TO_ONE = [CpuSet([cpu]) for cpu in range(16)]


def flow(number: int) -> Flow:
    return Flow(f"10.1.{number >> 8}.{number & 255}", 1024 + number, "10.0.0.1", 80)


def table(kind: str, rows: int) -> Packets:
    """Trains of 8 packets, flow after flow, 1 us apart."""
    build = {
        "tcp": lambda path: tcp_frames(path, 8, 100, options=TIMESTAMPS),
        "udp": lambda path: udp_frames(path, 8, 22),
    }[kind]
    frames = [frame for number in range(FLOWS) for frame in build(flow(number))]
    width, repeat = len(frames[0]), rows // len(frames) + 1
    length = np.full(rows, width, dtype=np.uint32)
    return from_blob(
        np.tile(np.frombuffer(b"".join(frames), dtype=np.uint8), repeat)[: rows * width],
        np.arange(rows, dtype=np.int64) * width,
        length,
        length,
        arrival_ps=np.arange(rows, dtype=np.int64) * 125_000,
    )


def host_for(kind: str, packets: Packets) -> Host:
    """16 CPUs and queues; how packets reach their sockets differs."""
    nic = {
        "rx_queues": 16,
        "tx_queues": 16,
        "xps_cpus": ONE_TO_ONE,
        "rss": Rss(key="microsoft"),
    }
    if kind == "rps":
        nic["rps_cpus"] = CpuSet(range(16))
    if kind == "cpumap":
        nic["cpumap"] = Cpumap(cpus=CpuSet(range(16)), rule="hash")
    proto = "udp" if kind == "udp-group" else "tcp"
    group = [
        Socket(name=f"s{k}", proto=proto, reuseport=True, incoming_cpu=k, threads=CpuSet([k]))
        for k in range(16)
    ]
    return Host(
        topology=Topology(cpus=16),
        nics=[Nic(name="eth0", **nic)],
        sockets=group if kind != "connections" else (),
        connections=connections(packets, threads=range(16)) if kind == "connections" else None,
    )


@pytest.mark.parametrize("engine", ["core", "ref"])
@pytest.mark.parametrize("kind", ["group", "udp-group", "connections", "rps", "cpumap"])
def test_steer(benchmark, engine, kind):
    """Packets per second of the door, lowering and polls included."""
    packets = table("udp" if kind == "udp-group" else "tcp", PACKETS[engine])
    host = host_for(kind, packets)

    got = benchmark.pedantic(steer, (host, packets), {"engine": engine}, rounds=3)

    assert not got.arrays["drop"].any()
    benchmark.extra_info["packets_per_second"] = len(packets) / benchmark.stats["min"]


@pytest.mark.parametrize("engine", ["core", "ref"])
def test_run(benchmark, engine):
    """Packets per second of the loop alone."""
    packets = table("tcp", PACKETS[engine])
    plan = lower(host_for("connections", packets), packets)
    steering = stage(engine, "steer")
    arrived = steering.arrive(plan)
    polls = make_polls(plan, arrived["rx_queue"], engine)

    benchmark.pedantic(steering.run, (plan, arrived, polls), rounds=3)

    benchmark.extra_info["packets_per_second"] = len(packets) / benchmark.stats["min"]


@pytest.mark.parametrize("engine", ["core", "ref"])
def test_arrive(benchmark, engine):
    """Packets per second of direction and RSS."""
    packets = table("tcp", PACKETS[engine])
    plan = lower(host_for("group", packets), packets)

    benchmark.pedantic(stage(engine, "steer").arrive, (plan,), rounds=3)

    benchmark.extra_info["packets_per_second"] = len(packets) / benchmark.stats["min"]
