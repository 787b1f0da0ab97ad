"""How fast a group of 16 picks: plain, and with SO_INCOMING_CPU (the walk)."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

COUNT = {"core": 1_000_000, "ref": 5_000}


@pytest.mark.parametrize("engine", ["core", "ref"])
@pytest.mark.parametrize("kind", ["plain", "incoming_cpu"])
def test_reuseport_select(benchmark, engine, kind):
    """Picks per second."""
    count = COUNT[engine]
    hashes = np.random.default_rng(1).integers(0, 2**32, count, dtype=np.uint32)
    cpus = (np.arange(count) % 16).astype(np.int32)
    incoming = (
        np.arange(16, dtype=np.int32) if kind == "incoming_cpu" else np.full(16, -1, dtype=np.int32)
    )
    door = importlib.import_module(
        f"emu.{'_core' if engine == 'core' else 'ref'}.reuseport"
    ).reuseport_select

    picks = benchmark.pedantic(door, (hashes, cpus, incoming), rounds=5)

    assert kind == "plain" or (picks == cpus).all()
    benchmark.extra_info["picks_per_second"] = count / benchmark.stats["min"]
