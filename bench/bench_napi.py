"""How fast the interrupt model makes polls: 14 million packets a second over some queues."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

ENGINES = {"core": ("emu._core.napi", 1 << 20), "ref": ("emu.ref.napi", 1 << 14)}
GAP_PS = 70_000
US = 10**6


@pytest.mark.parametrize("engine", ["core", "ref"])
@pytest.mark.parametrize("order", ["in-order", "out-of-order"])
@pytest.mark.parametrize(
    ("queues", "rx_usecs", "rx_frames"),
    [(1, 50, 0), (16, 50, 0), (16, 0, 0), (16, 50, 32), (1024, 50, 0), (4096, 50, 0)],
)
def test_make_polls(benchmark, engine, queues, rx_usecs, rx_frames, order):
    """Packets per second."""
    path, rows = ENGINES[engine]
    random = np.random.default_rng(1)
    queue = random.integers(0, queues, rows).astype(np.int32)
    arrival = np.arange(rows, dtype=np.int64) * GAP_PS
    if order == "out-of-order":
        arrival += random.integers(0, US, rows)
    usecs = np.full(queues, rx_usecs * US, dtype=np.int64)
    frames = np.full(queues, rx_frames, dtype=np.int32)
    door = importlib.import_module(path).make_polls

    polls = benchmark.pedantic(door, (queue, arrival, usecs, frames), rounds=5, warmup_rounds=1)

    benchmark.extra_info["packets_per_second"] = rows / benchmark.stats["min"]
    benchmark.extra_info["polls"] = len(polls[1])
