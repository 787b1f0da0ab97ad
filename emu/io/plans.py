"""A plan in a file: what a bug report carries."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import numpy as np

from emu import dtypes
from emu.model.packets import Packets
from emu.model.plan import Plan

TABLES = ("packets", "inner")


def dump_plan(plan: Plan, path: str | Path) -> None:
    """Write a plan to an ``.npz`` file that `load_plan` takes."""
    stored: dict[str, Any] = {
        field.name: getattr(plan, field.name)
        for field in attrs.fields(Plan)
        if field.name not in TABLES
    }
    for table in TABLES:
        packets: Packets = getattr(plan, table)
        for name, array in packets.columns.items():
            stored[f"{table}.{name}"] = array
        stored[f"{table}/flow_keys"] = packets.flow_keys
        stored[f"{table}/blob"] = packets.blob
    np.savez_compressed(Path(path), **stored)


def load_plan(path: str | Path) -> Plan:
    """Read a plan that `dump_plan` wrote.

    Raises:
        OSError: the file cannot be read.
        ValueError: it is no plan.
    """
    with np.load(Path(path), allow_pickle=False) as stored:
        data = {name: stored[name] for name in stored.files}
    tables: dict[str, Any] = {
        table: Packets(
            {name: data.pop(f"{table}.{name}") for name, _, _ in dtypes.PACKET_COLUMNS},
            flow_keys=data.pop(f"{table}/flow_keys"),
            blob=data.pop(f"{table}/blob"),
        )
        for table in TABLES
    }
    fields: dict[str, Any] = {
        name: int(value) if value.ndim == 0 else value for name, value in data.items()
    }
    return Plan(**tables, **fields)
