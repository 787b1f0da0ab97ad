"""A machine's cost model as tables and as plain values: every figure with its source."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import attrs
import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from emu.model.costs import NO_SOURCE, TABLES, Machine, Row
from emu.model.host import Host
from emu.model.lower_run import lower_distance
from emu.model.topology import Topology
from emu.run_dtypes import COST_ONE, DISTANCES
from emu.units import format_duration_ps

TITLES = {
    "costs": "Costs: cycles of one operation (soft: code, which a calibration may scale)",
    "transfer": "Transfer: one line that another CPU wrote last, by the distance to it",
    "stream": "Stream: one line of a row of them, as the copy to the reader meets them",
    "lines": "Lines: how many one operation touches of an object that another CPU touched last",
    "latencies": "Latencies",
}
SOLIDITY = {
    "A": "read in the primary text",
    "B": "computed from such figures",
    "C": "recalled, to be checked before it decides anything",
    "D": "estimated, or from a weak source",
}


def costs_json(host: Host | None, machine: Machine) -> dict[str, Any]:
    """The whole model as plain values, as ``--json`` prints it (docs/costs.md).

    Args:
        host: whose CPUs' distances are counted; None for the machine alone.
        machine: what things cost.
    """
    out: dict[str, Any] = {
        "machine": {
            "name": machine.name,
            "title": machine.title,
            "khz": machine.khz,
            "overlap": float(machine.overlap),
            "software_factor": float(machine.software_factor),
        },
        "rows": [row_json(row, machine) for row in machine.rows],
        "solidity": solidity(machine),
    }
    if host is not None:
        out["distances"] = pairs(host.topology)
    return out


def row_json(row: Row, machine: Machine) -> dict[str, Any]:
    """One row; cycles also in nanoseconds, and of a line's latency what a run charges."""
    value: Any = row.value
    out: dict[str, Any] = attrs.asdict(row)
    if isinstance(value, tuple):
        out["value"] = dict(zip(("tcp", "udp"), value, strict=True))
    elif isinstance(value, Decimal):
        out["value"] = float(value)
    if row.unit.startswith("cycles"):
        out["ns"] = round(machine.nanoseconds(value), 4)
    if row.table in ("transfer", "stream"):
        out["charged_cycles"] = charged(row, machine)
    return out


def charged(row: Row, machine: Machine) -> float:
    """Cycles that a run charges for one line: its latency with the overlap taken off."""
    array = machine.transfer if row.table == "transfer" else machine.stream
    return float(array[DISTANCES.index(row.name)]) / COST_ONE


def solidity(machine: Machine) -> dict[str, int]:
    """How many rows have each letter."""
    return {letter: sum(row.solid == letter for row in machine.rows) for letter in SOLIDITY}


def pairs(topology: Topology) -> dict[str, int]:
    """How many pairs of two online CPUs have each distance; same_cpu counts the CPUs."""
    online = np.array(topology.online_cpus)
    between = lower_distance(topology)[np.ix_(online, online)]
    counts = np.bincount(between.ravel(), minlength=len(DISTANCES)).tolist()
    return {
        name: count if name == "same_cpu" else count // 2
        for name, count in zip(DISTANCES, counts, strict=True)
    }


def print_costs(host: Host | None, machine: Machine, console: Console) -> None:
    """Print the whole model.

    Args:
        host: whose CPUs' distances are counted; None for the machine alone.
        machine: what things cost.
        console: where to.
    """
    console.print(f"{machine.name}: {machine.title}", markup=False)
    for name in TABLES["machine"]:
        row = next(row for row in machine.of("machine") if row.name == name)
        text = f"{name} {row.value} ({row.unit}, {row.solid}): {source_of(row)}"
        console.print(text, markup=False)
    if machine.software_factor != 1:
        console.print(f"rows of software are times {float(machine.software_factor):.4g}")
    for table, title in TITLES.items():
        console.print(costs_table(table, title, machine))
    if host is not None:
        shown = RichTable(title="Pairs of this host's online CPUs", title_justify="left")
        shown.add_column("distance")
        shown.add_column("pairs", justify="right")
        for distance, count in list(pairs(host.topology).items())[1:]:
            shown.add_row(distance, f"{count:,}")
        console.print(shown)
    counts = solidity(machine)
    for letter, meaning in SOLIDITY.items():
        console.print(f"{letter}: {counts[letter]} rows {meaning}", markup=False)


def costs_table(table: str, title: str, machine: Machine) -> RichTable:
    """One table of a machine, a line for each row."""
    shown = RichTable(title=title, title_justify="left", show_lines=True)
    headings = {
        "costs": ("cycles", "ns", "soft"),
        "transfer": ("latency", "charged", "ns"),
        "stream": ("latency", "charged", "ns"),
        "lines": ("tcp", "udp"),
        "latencies": ("time",),
    }
    shown.add_column(table, no_wrap=True)
    for heading in headings[table]:
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("", no_wrap=True)
    shown.add_column("source")
    for row in machine.of(table):
        text = source_of(row)
        shown.add_row(row.name, *cells(row, machine), row.solid, escape(text))
    return shown


def cells(row: Row, machine: Machine) -> tuple[str, ...]:
    """The figures of a row, as its table shows them."""
    if isinstance(row.value, tuple):
        return tuple(map(str, row.value))
    if row.table == "latencies":
        return (format_duration_ps(int(row.value)),)
    cycles = Decimal(row.value)
    if row.table == "costs":
        return figure(cycles), figure(machine.nanoseconds(cycles)), "yes" if row.software else "no"
    left = charged(row, machine)
    return figure(cycles), figure(left), figure(machine.nanoseconds(left))


def figure(value: Decimal | float) -> str:
    """At most three decimals, and none that say nothing."""
    return f"{value:.3f}".rstrip("0").rstrip(".") if float(value) < 10 else f"{value:,.1f}"


def source_of(row: Row) -> str:
    """Source of a row; of lines, what they are and then the source."""
    return f"{row.why} [{row.source}]" if row.why and row.source != NO_SOURCE else row.source
