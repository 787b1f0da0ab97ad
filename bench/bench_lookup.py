"""How fast sockets are found.

A million connections, a group of 16 listeners, a legacy chain of 64; and jhash alone.
"""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from emu import dtypes
from emu.dtypes import SockState
from emu.model.packets import Packets
from tests.strategies.sockets import MASKS, config

SIZES = {"core": (1_000_000, 1_000_000), "ref": (2_000, 2_000)}  # connections, packets
LOCAL = 0x0100000A


def stage(engine, name):
    return importlib.import_module(f"emu.{'_core' if engine == 'core' else 'ref'}.{name}")


def host(connections: int, listeners: int):
    rows = np.zeros(connections + listeners, dtype=dtypes.SOCKET)
    rows["family"], rows["proto"], rows["laddr"][:, 0] = 4, 6, LOCAL
    rows["incoming_cpu"] = rows["mask_off"] = -1
    number = np.random.default_rng(1).permutation(4 * connections)[:connections]
    rows["state"], rows["lport"] = SockState.LISTEN, 80
    rows["reuseport"] = 1
    rows["state"][:connections], rows["lport"][:connections] = SockState.ESTABLISHED, 443
    rows["faddr"][:connections, 0] = (number >> 8) + 0x01000000
    rows["fport"][:connections] = (number & 255) + 1024
    return rows


def traffic(rows, count: int, port: int) -> Packets:
    columns = dtypes.allocate(dtypes.PACKET_COLUMNS, count)
    for name in ("flow_key", "opt_off", "frame_off"):
        columns[name][:] = -1
    chosen = np.random.default_rng(2).integers(0, len(rows), count)
    columns["family"][:], columns["ip_proto"][:], columns["flags"][:] = 4, 6, 1
    columns["daddr"][:, 0], columns["dport"][:] = LOCAL, port
    columns["saddr"][:, 0], columns["sport"][:] = rows["faddr"][chosen, 0], rows["fport"][chosen]
    return Packets(columns)


@pytest.mark.parametrize("engine", ["core", "ref"])
@pytest.mark.parametrize("kind", ["established", "listeners-16", "legacy-64"])
def test_lookup(benchmark, engine, kind):
    """Lookups per second over a table that is built before."""
    connections, count = SIZES[engine]
    listeners = {"established": 0, "listeners-16": 16, "legacy-64": 64}[kind]
    rows = host(connections, listeners)
    packets = traffic(
        rows[:connections], count // (10 if listeners == 64 else 1), 80 if listeners else 443
    )
    kept = rows[connections:] if listeners else rows
    table = stage(engine, "lookup").LookupTable(
        kept, MASKS, 2, config(legacy=listeners == 64, udp_slots=16384)
    )
    zeros = np.zeros(len(packets), dtype=np.int32)

    answers = benchmark.pedantic(table.find_all, (packets, zeros, zeros), rounds=5)

    assert (answers[0] >= 0).all()
    benchmark.extra_info["lookups_per_second"] = len(packets) / benchmark.stats["min"]


@pytest.mark.parametrize("engine", ["core", "ref"])
def test_open(benchmark, engine):
    """Sockets opened per second."""
    connections, _ = SIZES[engine]
    rows = host(connections, 0)
    module = stage(engine, "lookup")
    benchmark.pedantic(module.LookupTable, (rows, MASKS, 2, config()), rounds=3)
    benchmark.extra_info["sockets_per_second"] = connections / benchmark.stats["min"]


@pytest.mark.parametrize("engine", ["core", "ref"])
def test_ehash_v4(benchmark, engine):
    """4-tuples hashed per second."""
    _, count = SIZES[engine]
    rng = np.random.default_rng(3)
    addresses = rng.integers(0, 2**32, (2, count), dtype=np.uint32)
    ports = rng.integers(0, 2**16, (2, count), dtype=np.uint16)
    door = stage(engine, "jhash").ehash_v4
    benchmark.pedantic(door, (addresses[0], ports[0], addresses[1], ports[1], 7), rounds=5)
    benchmark.extra_info["hashes_per_second"] = count / benchmark.stats["min"]
