"""How fast the XDP program's rules name entries, and frames go through bulks and rings."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from emu.dtypes import CpumapDesign, CpumapRule
from emu.intake import from_frames
from tests.strategies import frames as make

PACKETS = {"core": 1_000_000, "ref": 20_000}


def module(engine):
    return importlib.import_module(f"emu.{'_core' if engine == 'core' else 'ref'}.cpumap")


@pytest.mark.parametrize("engine", ["core", "ref"])
@pytest.mark.parametrize("rule", list(CpumapRule), ids=lambda rule: rule.name.lower())
def test_cpumap_targets(benchmark, engine, rule):
    """Packets per second, 1,024 flows."""
    rows = PACKETS[engine]
    flows = from_frames([make.tcp4(number) for number in range(1024)])
    packets = flows.take(np.arange(rows) % 1024)
    cpus, queue = np.arange(8, dtype=np.int32), np.zeros(rows, dtype=np.int32)

    answer = benchmark.pedantic(
        module(engine).cpumap_targets, (packets, rule, cpus, 3, queue), rounds=5
    )

    assert answer.min() >= 0
    benchmark.extra_info["packets_per_second"] = rows / benchmark.stats["min"]


@pytest.mark.parametrize("engine", ["core", "ref"])
def test_cpumap_polls(benchmark, engine):
    """Frames per second through the op door: polls of 64 to 4 entries, drained at once."""
    map_ = module(engine).Cpumap(range(4), [192] * 4)

    def poll():
        for packet in range(64):
            map_.enqueue(0, packet & 3, packet)
        for entry in map_.flush(0):
            while not map_.empty(entry):
                map_.consume(entry)

    benchmark(poll)

    assert map_.take_lost() == []
    benchmark.extra_info["packets_per_second"] = 64 / benchmark.stats["min"]


@pytest.mark.parametrize("engine", ["core", "ref"])
def test_step_flush(benchmark, engine):
    """One decision."""
    step_flush = module(engine).step_flush

    assert benchmark(step_flush, CpumapDesign.MERGED_GRO, 64, False, 1000) == 2
