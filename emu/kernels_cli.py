"""``python -m emu kernels``: what differs between the kernels that can be modelled."""

from __future__ import annotations

from typing import Any

import attrs
from rich.table import Table

from emu.cli import JsonOption, check_json, write_json
from emu.kernels import DIFFERENCES, KERNELS
from emu.result.render import console

YES_NO = {True: "yes", False: "no"}


def kernels(json_file: JsonOption = None) -> None:
    """Print each difference between kernels, since when, and where it was read or seen."""
    check_json(json_file)
    if json_file != "-":
        out = console()
        out.print(differences())
        out.print("\n? nobody has read or seen it there: taken from the nearest kernel known\n")
        for field, since, source in DIFFERENCES:
            out.print(f"{field}: {since} ({source})", markup=False, soft_wrap=True)
    write_json(json_file, kernels_json())


def differences() -> Table:
    """A row per difference, a column per kernel."""
    table = Table(box=None, pad_edge=False)
    for name in ("field", *KERNELS):
        table.add_column(name, overflow="fold")
    for field, _, _ in DIFFERENCES:
        table.add_row(field, *(value_in(name, field) for name in KERNELS))
    return table


def value_in(kernel: str, field: str) -> str:
    """A field's value, with a question mark when it has no source there."""
    profile = KERNELS[kernel]
    value = getattr(profile, field)
    said = YES_NO[value] if isinstance(value, bool) else str(value)
    return f"{said} ?" if field in profile.unsourced else said


def kernels_json() -> dict[str, Any]:
    """The same as JSON."""
    return {
        "schema": "emu.kernels",
        "version": 1,
        "differences": [
            {"field": field, "since": since, "source": source}
            for field, since, source in DIFFERENCES
        ],
        "kernels": {
            name: {**attrs.asdict(profile), "unsourced": sorted(profile.unsourced)}
            for name, profile in KERNELS.items()
        },
    }
