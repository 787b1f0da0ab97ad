"""A plan in a file: what a bug report carries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import numpy as np

from emu import dtypes
from emu.model.packets import Packets
from emu.model.plan import Plan


def dump_plan(plan: Plan, path: str | Path) -> None:
    """Write a plan to an ``.npz`` file that `load_plan` takes."""
    stored: dict[str, Any] = {
        field.name: getattr(plan, field.name)
        for field in attrs.fields(Plan)
        if field.name != "packets"
    }
    for name, array in plan.packets.columns.items():
        stored[f"packets.{name}"] = array
    stored["packets/flow_keys"] = plan.packets.flow_keys
    stored["packets/blob"] = plan.packets.blob
    np.savez_compressed(Path(path), **stored)


def load_plan(path: str | Path) -> Plan:
    """Read a plan that `dump_plan` wrote.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no plan.
    """
    with np.load(Path(path), allow_pickle=False) as stored:
        data = {name: stored[name] for name in stored.files}
    packets = Packets(
        {name: data.pop(f"packets.{name}") for name, _, _ in dtypes.PACKET_COLUMNS},
        flow_keys=data.pop("packets/flow_keys"),
        blob=data.pop("packets/blob"),
    )
    fields: dict[str, Any] = {
        name: int(value) if value.ndim == 0 else value for name, value in data.items()
    }
    return Plan(packets=packets, **fields)
