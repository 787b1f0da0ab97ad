"""What an operation costs on a machine: rows with their sources, and the arrays a run takes.

A row is one figure with a unit, a source and a letter for how solid that source is. A `Machine` is
a full set of rows; its arrays are made from them, so that what is printed is what a run is charged.
Machines come from TOML files (`emu.model.machines_toml`, docs/costs.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from emu.errors import ConfigError
from emu.model import checks
from emu.model.cost_values import (
    check_range,
    read_cycles,
    read_factor,
    read_khz,
    read_latency_ps,
    read_line_counts,
    read_overlap,
)
from emu.run_dtypes import COST_ONE, DISTANCES, Cost, Touch

Value = Decimal | int | tuple[int, int]

# The machine's own: memory, locked instructions, interrupts between CPUs, a write to a device.
HARDWARE = frozenset(
    {
        Cost.IPI_SEND,
        Cost.IPI_HANDLER,
        Cost.LOCK,
        Cost.RECV_BYTE,
        Cost.SEND_BYTE,
        Cost.DOORBELL,
        Cost.MAP_MISS_LOCAL,
        Cost.MAP_MISS_REMOTE,
    }
)
PER_BYTE = frozenset({Cost.RECV_BYTE, Cost.SEND_BYTE})

# Tables of a machine, each with the names of its rows.
COSTS = tuple(row.name.lower() for row in Cost)
FAR = DISTANCES[1:]  # a CPU has no distance to itself
LINES = tuple(row.name.lower() for row in Touch)
LATENCIES = ("irq_delay", "irq_jitter", "ipi", "slice", "map_residency")
TABLES: dict[str, tuple[str, ...]] = {
    "machine": ("khz", "overlap"),
    "costs": COSTS,
    "transfer": FAR,
    "stream": FAR,
    "lines": LINES,
    "latencies": LATENCIES,
}
UNITS = {"transfer": "cycles", "stream": "cycles", "lines": "lines", "latencies": "ps"}
LEAST_SLICE_PS = 10**6
NO_SOURCE = "given without a source"


@attrs.frozen(kw_only=True)
class Row:
    """One figure of a machine.

    Attributes:
        table: its table in the TOML file, a key of `TABLES`.
        name: its key there.
        value: cycles as a Decimal; kHz or picoseconds as a whole number; lines of TCP and of UDP.
        unit: of the value.
        source: where it is from, in words.
        solid: "A" read in the primary text, "B" computed from such, "C" recalled, "D" estimated.
        software: whether `Machine.scaled` changes it.
        why: for lines, which fields of which struct they are.
    """

    table: str
    name: str
    value: Value
    unit: str
    source: str
    solid: str
    software: bool = False
    why: str = ""

    @property
    def place(self) -> str:
        """Its full name: ``costs.lock``."""
        return f"{self.table}.{self.name}"


def unit_of(table: str, name: str) -> str:
    """The unit of a row."""
    if table == "machine":
        return "kHz" if name == "khz" else "share"
    if table == "costs":
        return "cycles per byte" if Cost[name.upper()] in PER_BYTE else "cycles"
    return UNITS[table]


def read_value(table: str, name: str, value: object, where: str) -> Value:
    """The value of a row, from what a user wrote.

    Raises:
        ConfigError: not of the row's kind, or out of range.
    """
    if table == "machine":
        return read_khz(value, where) if name == "khz" else read_overlap(value, where)
    if table == "lines":
        return read_line_counts(value, where)
    if table == "latencies":
        return read_latency_ps(value, where, low=LEAST_SLICE_PS if name == "slice" else 0)
    return read_cycles(value, where)


def is_software(table: str, name: str) -> bool:
    """Whether a row is code, which a calibration scales, or the machine's own."""
    return table == "costs" and Cost[name.upper()] not in HARDWARE


def units(cycles: Decimal) -> int:
    """Cycles in 1/1024 cycle, at least one unit."""
    whole = int((cycles * COST_ONE).to_integral_value(ROUND_HALF_EVEN))
    return max(whole, 1)


@attrs.frozen(kw_only=True, eq=False)
class Machine:
    """Every cost of one machine (docs/costs.md). Immutable, its arrays too.

    Attributes:
        name, title: what it is called, and a line about it.
        rows: every row of `TABLES`, in that order.
        software_factor: what the rows of software were multiplied by since the file.
        khz: clock.
        overlap: the share of a line's latency that is left when several are touched together.
        costs: ``int64[len(Cost)]``, 1/1024 cycle.
        transfer, stream: ``int64[4]`` by distance, 1/1024 cycle per line, overlap taken off.
        lines: ``int32[len(Touch), 2]``, lines of TCP and of UDP.
        irq_delay_ps, irq_jitter_ps, ipi_ps, slice_ps, map_residency_ps: see `emu.run_dtypes`.

    Raises:
        ConfigError: a row is missing; a factor brought one out of range.
    """

    name: str
    title: str
    rows: tuple[Row, ...]
    software_factor: Decimal = Decimal(1)
    khz: int = attrs.field(init=False)
    overlap: Decimal = attrs.field(init=False)
    costs: NDArray[np.int64] = attrs.field(init=False, repr=False)
    transfer: NDArray[np.int64] = attrs.field(init=False, repr=False)
    stream: NDArray[np.int64] = attrs.field(init=False, repr=False)
    lines: NDArray[np.int32] = attrs.field(init=False, repr=False)
    irq_delay_ps: int = attrs.field(init=False)
    irq_jitter_ps: int = attrs.field(init=False)
    ipi_ps: int = attrs.field(init=False)
    slice_ps: int = attrs.field(init=False)
    map_residency_ps: int = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        by_place = {row.place: row for row in self.rows}
        for table, names in TABLES.items():
            for name in names:
                if f"{table}.{name}" not in by_place:
                    where = f"machine {checks.shown(self.name)}: {table}.{name}"
                    raise ConfigError(where, "nothing", "a value", 'base = "xeon-2015"')
        for row in by_place.values():
            check_range(row.value, row.table, f"machine {checks.shown(self.name)}: {row.place}")
        ordered = (by_place[f"{table}.{name}"] for table in TABLES for name in TABLES[table])
        settle = object.__setattr__
        settle(self, "rows", tuple(ordered))
        settle(self, "khz", self.value("machine.khz"))
        settle(self, "overlap", self.value("machine.overlap"))
        settle(self, "costs", frozen([units(row.value) for row in self.of("costs")], np.int64))
        for table in ("transfer", "stream"):
            exposed = [0, *(units(row.value * self.overlap) for row in self.of(table))]
            settle(self, table, frozen(exposed, np.int64))
        settle(self, "lines", frozen([row.value for row in self.of("lines")], np.int32))
        for row in self.of("latencies"):
            settle(self, f"{row.name}_ps", row.value)

    def of(self, table: str) -> Iterator[Any]:
        """The rows of one table."""
        return (row for row in self.rows if row.table == table)

    def value(self, place: str) -> Any:
        """The value of one row: ``machine.value("costs.lock")``."""
        return next(row.value for row in self.rows if row.place == place)

    def nanoseconds(self, cycles: Decimal | float) -> float:
        """How long so many cycles take."""
        return float(cycles) * 1e6 / self.khz

    def names(self) -> tuple[str, ...]:
        """What `perturbed` takes: every row but the clock."""
        return tuple(row.place for row in self.rows if row.name != "khz")

    def scaled(self, software_factor: float | Decimal) -> Machine:
        """The same machine with every row of software times a factor.

        Raises:
            ConfigError: no number above 0.
        """
        factor = read_factor(software_factor, f"machine {checks.shown(self.name)}: software_factor")
        rows = (
            attrs.evolve(row, value=row.value * factor) if row.software else row  # type: ignore[operator]
            for row in self.rows
        )
        return self.evolve(rows, software_factor=self.software_factor * factor)

    def replace(
        self,
        *,
        name: str | None = None,
        khz: int | None = None,
        overlap: float | None = None,
        **tables: Mapping[str, Any],
    ) -> Machine:
        """The same machine with other values: ``replace(costs={"lock": 40}, khz=3_000_000)``.

        Tables are those of a TOML file: costs, transfer and stream (cycles, overlap not taken off),
        lines (of TCP and of UDP), latencies ("1.5us", or picoseconds).

        Raises:
            ConfigError: no such table or row; a value that it cannot take.
        """
        where = f"machine {checks.shown(self.name)}"
        if name is not None and (not isinstance(name, str) or not name):
            raise ConfigError(f"{where}: name", checks.shown(name), "text that is not empty")
        for table, values in tables.items():
            known_name(table, [known for known in TABLES if known != "machine"], where, "table")
            if not isinstance(values, Mapping):
                raise ConfigError(f"{where}: {table}", checks.shown(values), "rows and values")
        head = {"khz": khz, "overlap": overlap}
        tables["machine"] = {key: value for key, value in head.items() if value is not None}
        changed: dict[str, Value] = {}
        for table, values in tables.items():
            for key, value in values.items():
                known_name(key, TABLES[table], f"{where}: {table}", "row")
                place = f"{table}.{key}"
                changed[place] = read_value(table, key, value, f"{where}: {place}")
        rows = (self._changed(row, changed) for row in self.rows)
        return self.evolve(rows, name=name or self.name)

    @staticmethod
    def _changed(row: Row, changed: Mapping[str, Value]) -> Row:
        if row.place not in changed:
            return row
        return attrs.evolve(row, value=changed[row.place], source=NO_SOURCE, solid="D")

    def perturbed(self, name: str, factor: float | Decimal) -> Machine:
        """The same machine with one row times a factor: what a sensitivity run changes.

        Lines are whole: they change by at least one when the factor is not 1 and there are any.
        A share stops at 1.

        Args:
            name: ``"costs.lock"``, or ``"lock"`` where no other table has that row.

        Raises:
            ConfigError: no such row, more than one, or no number above 0.
        """
        where = f"machine {checks.shown(self.name)}"
        place = self._place(name, where)
        times = read_factor(factor, f"{where}: factor")
        rows = (
            attrs.evolve(row, value=perturb(row, times)) if row.place == place else row
            for row in self.rows
        )
        return self.evolve(rows)

    def _place(self, name: str, where: str) -> str:
        places = self.names()
        if not isinstance(name, str):
            known_name(name, places, where, "row")
        found = [place for place in places if name in (place, place.split(".")[1])]
        if len(found) > 1:
            raise ConfigError(where, f"row {name!r}", checks.listed(found), f'"{found[0]}"')
        if not found:
            known_name(name, (*places, *(place.split(".")[1] for place in places)), where, "row")
        return found[0]

    def evolve(self, rows: Iterable[Row], **changes: Any) -> Machine:
        """The same machine with other rows."""
        kept = {"name": self.name, "title": self.title, "software_factor": self.software_factor}
        return Machine(rows=tuple(rows), **{**kept, **changes})


def frozen(values: list[Any], dtype: type[Any]) -> NDArray[Any]:
    """An array that nobody writes to."""
    array = np.array(values, dtype=dtype)
    array.flags.writeable = False
    return array


def perturb(row: Row, factor: Decimal) -> Value:
    """The value of a row times a factor, of the same kind."""
    value = row.value
    if isinstance(value, tuple):
        tcp, udp = (more_lines(count, factor) for count in value)
        return tcp, udp
    if isinstance(value, int):
        return int((value * factor).to_integral_value(ROUND_HALF_EVEN))
    return min(value * factor, Decimal(1)) if row.name == "overlap" else value * factor


def more_lines(count: int, factor: Decimal) -> int:
    """A number of lines times a factor."""
    if count == 0 or factor == 1:
        return count
    times = int((count * factor).to_integral_value(ROUND_HALF_EVEN))
    return max(times, count + 1) if factor > 1 else min(times, count - 1)


def known_name(word: object, names: Iterable[str], where: str, what: str) -> None:
    """Refuse a name that is none of those, and say which comes near."""
    choices = tuple(names)
    if not isinstance(word, str) or word not in choices:
        given = f"{what} {checks.shown(word)}"
        raise ConfigError(where, given, checks.listed(choices), checks.nearest(word, choices))
