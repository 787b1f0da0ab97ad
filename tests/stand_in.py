"""A machine for tests of what does not hang on what things cost."""

from __future__ import annotations

import types

import numpy as np

from emu.run_dtypes import Cost, Touch


def machine(khz=2_400_000, **fields):
    """Looks like an `emu.model.costs.Machine`; every cost another number."""
    values = {
        "name": "stand-in",
        "khz": khz,
        "costs": np.arange(1, len(Cost) + 1, dtype=np.int64) * 1024,
        "transfer": np.array([0, 100, 200, 300], dtype=np.int64) * 1024,
        "stream": np.array([0, 10, 20, 30], dtype=np.int64) * 1024,
        "lines": np.arange(2 * len(Touch), dtype=np.int32).reshape(-1, 2) % 5,
        "irq_delay_ps": 1_000_001,
        "irq_jitter_ps": 500_002,
        "ipi_ps": 900_003,
        "slice_ps": 3_000_000_004,
        "map_residency_ps": 50_000_005,
    }
    return types.SimpleNamespace(**values | fields)
