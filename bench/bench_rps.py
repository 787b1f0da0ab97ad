"""How fast RPS chooses CPUs: a map of 16 of 64 CPUs."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

PACKETS = {"core": 1_000_000, "ref": 20_000}


def module(engine):
    return importlib.import_module(f"emu.{'_core' if engine == 'core' else 'ref'}.rps")


@pytest.mark.parametrize("engine", ["core", "ref"])
def test_rps_cpus(benchmark, engine):
    """Packets of one rx queue per second."""
    rows = PACKETS[engine]
    hashes = np.random.default_rng(1).integers(1, 2**32, rows, dtype=np.uint32)
    cpus, online = np.arange(0, 64, 4, dtype=np.uint16), np.ones(64, dtype=np.uint8)

    answer = benchmark.pedantic(module(engine).rps_cpus, (cpus, online, hashes), rounds=5)

    assert len(np.unique(answer)) == 16
    benchmark.extra_info["packets_per_second"] = rows / benchmark.stats["min"]


@pytest.mark.parametrize("engine", ["core", "ref"])
def test_rps_queues(benchmark, engine):
    """Recorded rx queues per second."""
    rows = PACKETS[engine]
    recorded = np.random.default_rng(1).integers(-1, 10, rows, dtype=np.int32)

    answer = benchmark.pedantic(module(engine).rps_queues, (recorded, 8), rounds=5)

    assert (answer.min(), answer.max()) == (-1, 7)
    benchmark.extra_info["packets_per_second"] = rows / benchmark.stats["min"]
