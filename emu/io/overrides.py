"""What one side of a scenario changes of its base: tables laid over tables, objects by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from emu.errors import ConfigError
from emu.io.hosts import HOST_KEYS
from emu.io.toml import expect, join
from emu.model import checks

Tables = dict[str, Any]
NAMED = ("nic", "socket")
SIDE_KEYS = (*HOST_KEYS, "workload", "machine")


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> Tables:
    """A table with another laid over it; tables in both are merged, all else is replaced."""
    out = dict(base)
    for key, value in over.items():
        old = out.get(key)
        both = isinstance(old, dict) and isinstance(value, dict)
        out[key] = merged(old, value) if both else value  # type: ignore[arg-type]
    return out


def override(base: Tables, over: object, place: str) -> Tables:
    """A base with the changes of one side.

    Args:
        base: ``host`` (a host file's tables), ``workload``, ``machine``.
        over: the side's table: keys of a host file, ``workload`` and ``machine``. ``nic`` and
            ``socket`` as tables name the objects that they change; as lists they replace all.
        place: of *over*, for errors.

    Raises:
        ConfigError: a key that no side has; an object that the base does not have.
    """
    table = expect(over, dict, place)
    for key in table:
        if key not in SIDE_KEYS:
            allowed = checks.listed(SIDE_KEYS)
            raise ConfigError(place, f"key {key!r}", allowed, checks.nearest(key, SIDE_KEYS))
    host, rest = {}, {}
    for key, value in table.items():
        if key in ("workload", "machine"):
            rest[key] = expect(value, dict, join(place, key))
        elif key in NAMED and isinstance(value, dict):
            host[key] = by_name(base["host"].get(key, []), value, join(place, key))
        else:
            host[key] = value
    return merged(base, {"host": host, **rest})


def by_name(tables: Any, over: Tables, place: str) -> list[Any]:
    """A list of tables in which those that are named are changed.

    Raises:
        ConfigError: a name that the list does not have.
    """
    names = [table.get("name") for table in tables]
    out = list(tables)
    for name, change in over.items():
        here = join(place, name)
        if name not in names:
            known = [str(known) for known in names]
            given = f"no {place.rpartition('.')[2]} of that name"
            raise ConfigError(here, given, checks.listed(known), checks.nearest(name, known))
        row = names.index(name)
        out[row] = merged(out[row], expect(change, dict, here))
    return out


def named_place(where: str, host: Tables) -> str:
    """``nic[0].rps_cpus`` as an override spells it: ``nic.eth0.rps_cpus``."""
    found = re.match(r"(nic|socket)\[(\d+)\]", where)
    if found is None:
        return where
    table = host[found[1]][int(found[2])]
    name = table.get("name") if isinstance(table, dict) else None
    return f"{found[1]}.{name}{where[found.end() :]}" if isinstance(name, str) else where
