"""How fast RFS chooses CPUs: 64 CPUs, tables of 32768, and flows that all have readers."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

PACKETS = {"core": 1_000_000, "ref": 20_000}
CPUS, ENTRIES, FLOWS = 64, 32_768, 1_000


def module(engine):
    return importlib.import_module(f"emu.{'_core' if engine == 'core' else 'ref'}.rfs")


@pytest.mark.parametrize("engine", ["core", "ref"])
def test_rfs_cpus(benchmark, engine):
    """Packets of one rx queue per second."""
    rows = PACKETS[engine]
    random = np.random.default_rng(1)
    flows = random.integers(1, 2**32, FLOWS, dtype=np.uint32)
    rfs = module(engine).Rfs(ENTRIES, [ENTRIES], CPUS)
    for cpu, flow in enumerate(flows.tolist()):
        rfs.record(flow, cpu % CPUS)
    nothing, online = np.zeros(0, dtype=np.uint16), np.ones(CPUS, dtype=np.uint8)
    asked = (rfs, 0, flows[random.integers(0, FLOWS, rows)], nothing, online)

    cpu, slot = benchmark.pedantic(
        module(engine).rfs_cpus, (*asked, np.zeros(CPUS, dtype=np.uint32)), rounds=5
    )

    assert len(np.unique(cpu[slot >= 0])) == CPUS
    benchmark.extra_info["packets_per_second"] = rows / benchmark.stats["min"]
