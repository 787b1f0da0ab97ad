"""The workload and the machine of a scenario: tables become the model's objects."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import attrs

from emu.errors import ConfigError
from emu.io.capture import read_capture
from emu.io.machines import load_machine
from emu.io.overrides import Tables
from emu.io.toml import build, expect, join, read_table
from emu.model import checks
from emu.model.costs import TABLES, Machine
from emu.model.generate import generate
from emu.model.packets import Packets
from emu.model.workloads import OpenLoop, RequestResponse, Workload

KINDS = {"request-response": RequestResponse, "open-loop": OpenLoop}
COST_TABLES = tuple(table for table in TABLES if table != "machine")
MACHINE_KEYS = ("name", "khz", "overlap", *COST_TABLES)


def machine_from_toml(tables: Tables, place: str, folder: Path) -> Machine:
    """A machine by its name, or of the file that ``name`` names, with other values laid over it.

    Raises:
        ConfigError: no such machine; a row that it does not have; a value that none can take.
    """
    values = read_table(tables, place, dict.fromkeys(MACHINE_KEYS), ("name",))
    name = expect(values.pop("name"), str, join(place, "name"))
    for table in values.keys() & set(COST_TABLES):
        expect(values[table], dict, join(place, table))
    base = load_machine(folder / name if name.endswith(".toml") else name)
    try:
        return base.replace(**values) if values else base
    except ConfigError as error:
        field = checks.field_of(error).removeprefix("machine.")  # khz stands beside the tables
        raise checks.relocate(error, join(place, field)) from None


def workload_from_toml(tables: Tables, place: str, folder: Path) -> Workload:
    """A workload of its table: ``kind``, and the fields of its class.

    Args:
        tables: the table.
        place: of it, for errors.
        folder: where a capture that it names is.

    Raises:
        ConfigError: one line with the place.
    """
    kind = tables.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        given = "nothing" if kind is None else checks.shown(kind)
        fix = checks.nearest(kind, KINDS)
        raise ConfigError(join(place, "kind"), given, checks.listed(KINDS), fix)
    names = [field.name for field in attrs.fields(KINDS[kind])]
    rest = {key: value for key, value in tables.items() if key != "kind"}
    if kind == "request-response":
        values = read_table(rest, place, dict.fromkeys(names), ("flows",))
        made: Workload = build(RequestResponse, values, place)
        return made
    names[names.index("packets") :] = ["pcap", "generate", *names[names.index("packets") + 1 :]]
    values = read_table(rest, place, dict.fromkeys(names))
    if ("pcap" in values) == ("generate" in values):
        given = "both pcap and generate" if "pcap" in values else "neither pcap nor generate"
        allowed = "one of them: where the packets come from"
        raise ConfigError(place, given, allowed, 'pcap = "in.pcap"')
    values["packets"] = _packets(values, place, folder)
    for name in ("pcap", "generate"):
        values.pop(name, None)
    made = build(OpenLoop, values, place)
    return made


def _packets(values: dict[str, Any], place: str, folder: Path) -> Packets:
    """The packets of an open loop: from a capture, or generated."""
    if "pcap" in values:
        where = join(place, "pcap")
        path = folder / expect(values["pcap"], str, where)
        try:
            return read_capture(path)
        except ConfigError as error:
            raise checks.relocate(error, f"{where}: {error.where}") from None
    where = join(place, "generate")
    keys = list(inspect.signature(generate).parameters)
    table = read_table(values["generate"], where, dict.fromkeys(keys), ("packets",))
    sizes = table.get("payload_bytes")
    if isinstance(sizes, dict):  # TOML's keys are text
        table["payload_bytes"] = {
            int(size) if size.isdecimal() else size: weight for size, weight in sizes.items()
        }
    packets: Packets = build(generate, table, where)
    return packets
