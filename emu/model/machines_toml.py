"""Machines from the tables of a TOML file, and the presets that emu ships (docs/costs.md)."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from functools import cache
from importlib.resources import files
from typing import Any

from emu.errors import ConfigError
from emu.model import checks
from emu.model.costs import NO_SOURCE, TABLES, Machine, Row, Value, is_software, read_value, unit_of

PRESETS = ("opteron-2010", "xeon-2015", "xeon-2024")
DEFAULT = "xeon-2015"
SOLIDITY = ("A", "B", "C", "D")
VALUE_KEYS = {
    "machine": ("value",),
    "costs": ("cycles",),
    "transfer": ("cycles",),
    "stream": ("cycles",),
    "lines": ("tcp", "udp"),
    "latencies": ("time",),
}
MACHINE_KEYS = ("name", "title", "base", "khz", "overlap")

FindBase = Callable[[str, str], Machine]  # what base = "..." says, place -> the machine


def get_machine(name: str | Machine) -> Machine:
    """The preset of that name; a machine is given back as it is.

    Raises:
        ConfigError: no such preset.
    """
    if isinstance(name, Machine):
        return name
    check_preset(name, "machine")
    return _preset(name)


def check_preset(name: object, where: str) -> None:
    """Refuse a name that is no preset's."""
    if not isinstance(name, str) or name not in PRESETS:
        fix = checks.nearest(name, PRESETS)
        allowed = f"{checks.listed(PRESETS)} or a TOML file"
        raise ConfigError(where, checks.shown(name), allowed, fix)


@cache
def _preset(name: str) -> Machine:
    text = files("emu.model").joinpath("machines", f"{name}.toml").read_text(encoding="utf-8")

    def find_base(base: str, where: str) -> Machine:
        check_preset(base, where)
        return _preset(base)

    return machine_from_toml(tomllib.loads(text), find_base)


def machine_from_toml(tables: dict[str, Any], find_base: FindBase) -> Machine:
    """Make a machine of the tables of a TOML file.

    Args:
        tables: as ``tomllib`` reads them.
        find_base: answers what ``base`` names.

    Raises:
        ConfigError: one line with the place: ``costs.hardirq.cycles``.
    """
    _check_keys(tables, TABLES, "")
    if "machine" not in tables:
        raise ConfigError("machine", "nothing", "a table", '[machine] name = "mine"')
    head = _table(tables["machine"], "machine")
    _check_keys(head, MACHINE_KEYS, "machine")
    name = _text(head, "name", "machine")
    base = find_base(_text(head, "base", "machine"), "machine.base") if "base" in head else None
    known = {row.place: row for row in base.rows} if base else {}
    if base is None and "khz" not in head:
        raise ConfigError("machine.khz", "nothing", "a clock in kHz", "khz = 2600000 for 2.6 GHz")
    rows = dict(known)
    for table, names in TABLES.items():
        given = _table(tables.get(table, {}), table)
        if table != "machine":
            _check_keys(given, names, table)
        for key in names:
            place = f"{table}.{key}"
            if key in given:
                rows[place] = _row(given[key], table, key, known.get(place))
            elif place not in rows:
                raise ConfigError(place, "nothing", "a value", f'base = "{DEFAULT}", which has one')
    title = _text(head, "title", "machine", f"based on {base.name}" if base else name)
    return Machine(name=name, title=title, rows=tuple(rows.values()))


def _row(item: object, table: str, name: str, base: Row | None) -> Row:
    """One row: a bare value, or a table with the value, its source and how solid it is."""
    place = f"{table}.{name}"
    keys = VALUE_KEYS[table]
    said = item if isinstance(item, dict) else {}
    if isinstance(item, dict):
        _check_keys(said, (*keys, "source", "solid", "why"), place)
    value = _value(item, table, name)
    solid = said.get("solid", "D")
    if solid not in SOLIDITY:
        raise ConfigError(f"{place}.solid", checks.shown(solid), checks.listed(SOLIDITY))
    return Row(
        table=table,
        name=name,
        value=value,
        unit=unit_of(table, name),
        source=_text(said, "source", place, NO_SOURCE),
        solid=solid,
        software=is_software(table, name),
        why=_text(said, "why", place, base.why if base else ""),
    )


def _value(item: object, table: str, name: str) -> Value:
    """The value of a row, read as its table has it."""
    place = f"{table}.{name}"
    keys = VALUE_KEYS[table]
    if isinstance(item, dict):
        for key in keys:
            if key not in item:
                raise ConfigError(f"{place}.{key}", "nothing", "a value")
        values = [item[key] for key in keys]
        item = values if table == "lines" else values[0]
        place = place if table == "lines" else f"{place}.{keys[0]}"
    return read_value(table, name, item, place)


def _check_keys(table: dict[str, Any], allowed: Any, place: str) -> None:
    for key in table:
        if key not in allowed:
            fix = checks.nearest(key, allowed)
            raise ConfigError(place or "top level", f"key {key!r}", checks.listed(allowed), fix)


def _table(value: object, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigError(place, checks.shown(value), "a table", f"[{place}]")
    return value


def _text(table: dict[str, Any], key: str, place: str, default: str | None = None) -> str:
    """Text of a key, lines joined."""
    value = table.get(key, default)
    text = " ".join(value.split()) if isinstance(value, str) else ""
    if not text and (key in table or default is None):
        given = checks.shown(value) if key in table else "nothing"
        raise ConfigError(f"{place}.{key}", given, "text that is not empty")
    return text
