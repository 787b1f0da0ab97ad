"""How fast tx queues are chosen and masks written: 64 CPUs, 64 queues."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

PACKETS = {"core": 1_000_000, "ref": 20_000}
QUEUES = CPUS = 64


def module(engine):
    return importlib.import_module(f"emu.{'_core' if engine == 'core' else 'ref'}.xps")


def device(xps, width):
    """Each queue for *width* neighbouring CPUs."""
    out = xps.XpsDevice(QUEUES, QUEUES, CPUS)
    write_all(out, width)
    return out


def write_all(out, width):
    for queue in range(QUEUES):
        bits = sum(1 << (queue + near) % CPUS for near in range(width))
        out.set(0, queue, [bits])


@pytest.mark.parametrize("engine", ["core", "ref"])
@pytest.mark.parametrize("width", [1, 4])
def test_xps_queues(benchmark, engine, width):
    """Lookups per second: one queue a CPU, and four by hash."""
    xps, rows = module(engine), PACKETS[engine]
    draw = np.random.default_rng(1)
    columns = (
        np.full(rows, -1, dtype=np.int32),
        draw.integers(0, CPUS, rows, dtype=np.int32),
        np.zeros(rows, dtype=np.uint32),
        draw.integers(0, 2**32, rows, dtype=np.uint32),
    )

    queue, _ = benchmark.pedantic(xps.xps_queues, (device(xps, width), *columns), rounds=5)

    assert queue.min() >= 0
    benchmark.extra_info["packets_per_second"] = rows / benchmark.stats["min"]


@pytest.mark.parametrize("engine", ["core", "ref"])
def test_pick_queues(benchmark, engine):
    """Picks per second: a quarter keeps the socket's queue, the others look up or hash."""
    xps, rows = module(engine), PACKETS[engine]
    draw = np.random.default_rng(2)
    columns = (
        draw.integers(-1, QUEUES, rows, dtype=np.int32),
        draw.integers(0, 4, rows, dtype=np.uint8) > 0,
        np.ones(rows, dtype=np.uint8),
        np.full(rows, -1, dtype=np.int32),
        np.full(rows, -1, dtype=np.int32),
        draw.integers(0, 2 * CPUS, rows, dtype=np.int32),
        np.zeros(rows, dtype=np.uint32),
        draw.integers(0, 2**32, rows, dtype=np.uint32),
    )

    queue, _, _ = benchmark.pedantic(xps.pick_queues, (device(xps, 2), *columns), rounds=5)

    assert queue.max() < QUEUES
    benchmark.extra_info["packets_per_second"] = rows / benchmark.stats["min"]


@pytest.mark.parametrize("engine", ["core", "ref"])
def test_set(benchmark, engine):
    """64 masks are written to a device that has them already, moved by one CPU each time."""
    out = device(module(engine), 8)
    widths = iter([4, 8] * 500)

    benchmark(lambda: write_all(out, next(widths, 4)))

    assert out.live_maps == 1
    benchmark.extra_info["writes_per_second"] = QUEUES / benchmark.stats["min"]
