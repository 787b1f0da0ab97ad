"""How fast psock workers are scheduled: 256 psocks, half of them with a named CPU."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

SCHEDULES = {"core": 1_000_000, "ref": 20_000}
PSOCKS = 256


def module(engine):
    return importlib.import_module(f"emu.{'_core' if engine == 'core' else 'ref'}.sockmap")


@pytest.mark.parametrize("engine", ["core", "ref"])
def test_psock_cpus(benchmark, engine):
    """Schedules per second; the workers run after each 64."""
    rows, draw = SCHEDULES[engine], np.random.default_rng(1)
    named = np.where(np.arange(PSOCKS) % 2, np.arange(PSOCKS) % 8, -1).astype(np.int32)
    which = draw.integers(0, PSOCKS, rows, dtype=np.uint32)
    now = draw.integers(0, 8, rows, dtype=np.int32)

    answer = benchmark.pedantic(module(engine).psock_cpus, (named, which, now, 64), rounds=5)

    assert (answer.min(), answer.max()) == (0, 7)
    benchmark.extra_info["schedules_per_second"] = rows / benchmark.stats["min"]


@pytest.mark.parametrize("engine", ["core", "ref"])
def test_psock(benchmark, engine):
    """One schedule and one run through the op door."""
    psock = module(engine).Psock(3)

    def once():
        psock.schedule(1)
        psock.run()

    benchmark(once)

    assert not psock.pending
