"""A scenario as a TOML file: a host, a workload, what changes, what was published of it.

docs/scenario.md has the whole format.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from emu.errors import ConfigError
from emu.io.hosts import host_from_toml
from emu.io.overrides import Tables, named_place, override
from emu.io.toml import Reader, build, expect, join, load_toml, read_list, read_table
from emu.io.workloads import machine_from_toml, workload_from_toml
from emu.model import checks
from emu.model.costs import Machine
from emu.model.host import Host
from emu.model.machines_toml import DEFAULT
from emu.model.published import Calibration, Published
from emu.model.workloads import RequestResponse, Workload
from emu.timing import MAX_SEEDS, time_ps

MAIN = "main"
ALSO_KEYS = ("label", "text", "both", "before", "after")


@attrs.frozen(kw_only=True, eq=False)
class Side:
    """One thing to run: a host, a workload, a machine.

    ``redraw_secrets``: the host names no secrets, so each seed draws its own.
    """

    host: Host
    workload: Workload
    machine: Machine
    redraw_secrets: bool


@attrs.frozen(kw_only=True, eq=False)
class Case:
    """Two sides to compare. Sides with the same content are the same object."""

    label: str
    text: str
    before: Side
    after: Side


@attrs.frozen(kw_only=True, eq=False)
class Scenario:
    """What a scenario file says.

    Attributes:
        title, text: for people; *text*: what the publication says of its machine and load.
        seed, seeds: the first seed, and how many.
        duration, warmup: texts such as ``"50ms"``.
        cases: the main case first, then one for each ``[[also]]``.
        published: rows of the publication's table.
        calibrate: which of them *before* is fitted to; None: nothing is.
    """

    title: str
    text: str
    seed: int
    seeds: int
    duration: str
    warmup: str
    cases: tuple[Case, ...]
    published: tuple[Published, ...]
    calibrate: Calibration | None

    def sides(self) -> list[Side]:
        """Every different side, in order."""
        both = (side for case in self.cases for side in (case.before, case.after))
        return list({id(side): side for side in both}.values())


def load_scenario(path: str | Path) -> Scenario:
    """Read a scenario from a TOML file; files in it are relative to it.

    Raises:
        ConfigError: the file, or anything in it, is wrong: one line with the file and the place.
    """
    try:
        return scenario_from_toml(load_toml(path), Path(path).parent)
    except ConfigError as error:
        if error.where == str(path):
            raise
        raise checks.relocate(error, f"{path}: {error.where}") from None


def scenario_from_toml(tables: Tables, folder: Path = Path()) -> Scenario:
    """Make a scenario from the tables of a TOML file.

    Args:
        tables: what `load_toml` answers.
        folder: where the files that it names are.

    Raises:
        ConfigError: one line with the place: ``after.nic.eth0.xps_cpus``.
    """
    changes = dict.fromkeys(("before", "after", "also"))
    values = read_table(tables, "", TOP_LEVEL | changes, ("title", "host", "workload"))
    label = values.get("label", MAIN)
    cases = make_cases(tables, _Maker(folder), label)
    labels = [case.label for case in cases]
    published = tuple(
        _published(item, f"published[{index}]", labels)
        for index, item in enumerate(values.get("published", []))
    )
    calibrate = values.get("calibrate")
    if calibrate is not None:
        check_calibration(calibrate, published, cases)
    return Scenario(
        title=values["title"],
        text=values.get("text", "").strip(),
        seed=values.get("seed", 1),
        seeds=values.get("seeds", 1),
        duration=values.get("duration", "50ms"),
        warmup=values.get("warmup", "10ms"),
        cases=cases,
        published=published,
        calibrate=calibrate,
    )


def make_cases(tables: Tables, maker: _Maker, label: str) -> tuple[Case, ...]:
    """The main case and its variants."""
    base = {
        "host": maker.host_tables(tables["host"]),
        "workload": expect(tables["workload"], dict, "workload"),
        "machine": maker.machine_tables(tables.get("machine", DEFAULT)),
    }
    maker.side(base, base, "")
    ends = {name: override(base, tables.get(name, {}), name) for name in ("before", "after")}
    cases = [
        Case(
            label=label,
            text="",
            **{name: maker.side(ends[name], base, name) for name in ends},
        )
    ]
    also = read_list(tables.get("also", []), "also", lambda value, place: (value, place))
    for value, place in also:
        keys: dict[str, Reader | None] = dict.fromkeys(ALSO_KEYS)
        read_table(value, place, keys | {"label": _text, "text": _text}, ("label",))
        if value["label"] in [case.label for case in cases]:
            where = join(place, "label")
            raise ConfigError(where, checks.shown(value["label"]), "a label that no other has")
        sides = {}
        for name in ends:
            both = override(ends[name], value.get("both", {}), join(place, "both"))
            own = override(both, value.get(name, {}), join(place, name))
            blamed = name if name in value else "both"
            sides[name] = maker.side(own, ends[name], join(place, blamed))
        cases.append(Case(label=value["label"], text=value.get("text", ""), **sides))
    return tuple(cases)


class _Maker:
    """Makes sides of tables; equal tables give the same object."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.host_file: Path | None = None
        self.made: dict[str, Any] = {}

    def once(self, kind: str, tables: object, make: Callable[[], Any]) -> Any:
        """What was made of equal tables before, or what *make* makes now."""
        key = kind + json.dumps(tables, sort_keys=True, default=repr)
        if key not in self.made:
            self.made[key] = make()
        return self.made[key]

    def host_tables(self, value: object) -> Tables:
        """``[host]``, or the tables of the file that ``host`` names."""
        if isinstance(value, str):
            self.host_file = self.folder / value
            return load_toml(self.host_file)
        if not isinstance(value, dict):
            allowed = "a table as in a host file, or the name of a host file"
            raise ConfigError("host", checks.shown(value), allowed, '"host.toml"')
        return value

    def machine_tables(self, value: object) -> Tables:
        """``[machine]``, or a name as a table."""
        return {"name": value} if isinstance(value, str) else expect(value, dict, "machine")

    def side(self, tables: Tables, base: Tables, place: str) -> Side:
        """One side.

        Args:
            tables: ``host``, ``workload``, ``machine``.
            base: those that it was made from: what differs is *place*'s doing.
            place: of the side; "" for the base itself.
        """

        def where(part: str) -> str:
            return part if tables[part] == base[part] or not place else join(place, part)

        host = self.once("host", tables["host"], lambda: self.host(tables["host"], place))
        workload = self.once(
            "workload",
            tables["workload"],
            lambda: workload_from_toml(tables["workload"], where("workload"), self.folder),
        )
        machine = self.once(
            "machine",
            tables["machine"],
            lambda: machine_from_toml(tables["machine"], where("machine"), self.folder),
        )
        redraw = "secrets" not in tables["host"]
        parts = {"host": host, "workload": workload, "machine": machine}
        return self.once(  # type: ignore[no-any-return]
            "side", tables, lambda: Side(**parts, redraw_secrets=redraw)
        )

    def host(self, tables: Tables, place: str) -> Host:
        """A host; its errors are told of the file, or of the side that changed it."""
        try:
            return host_from_toml(tables)
        except ConfigError as error:
            where = error.where
            if place:
                where = join(place, named_place(where, tables))
            elif self.host_file is not None:
                where = f"{self.host_file}: {where}"
            else:
                where = join("host", where)
            raise checks.relocate(error, where) from None


def _text(value: Any, place: str) -> str:
    text: str = expect(value, str, place)
    if not text.strip():
        raise ConfigError(place, checks.shown(value), "text that is not empty")
    return text


def _whole(low: int, high: int) -> Reader:
    def read(value: Any, place: str) -> int:
        if not checks.is_int(value) or not low <= value <= high:
            allowed = f"a whole number from {low} to {high}"
            raise ConfigError(place, checks.shown(value), allowed)
        return int(value)

    return read


def _time(least_ps: int) -> Reader:
    def read(value: Any, place: str) -> str:
        time_ps(value, place, least=least_ps)
        return str(value)

    return read


def _calibration(value: Any, place: str) -> Calibration:
    names = [field.name for field in attrs.fields(Calibration)]
    made: Calibration = build(Calibration, read_table(value, place, dict.fromkeys(names)), place)
    return made


TOP_LEVEL: dict[str, Reader | None] = {
    "title": _text,
    "text": lambda value, place: expect(value, str, place),
    "label": _text,
    "machine": None,
    "seed": _whole(0, 2**63),
    "seeds": _whole(1, MAX_SEEDS),
    "duration": _time(1),
    "warmup": _time(0),
    "host": None,
    "workload": None,
    "published": lambda value, place: expect(value, list, place),
    "calibrate": _calibration,
}


def _published(value: Any, place: str, labels: list[str]) -> Published:
    names = [field.name for field in attrs.fields(Published)]
    table = read_table(value, place, dict.fromkeys(names), names[1:])
    row: Published = build(Published, {"label": labels[0], **table}, place)
    if row.label not in labels:
        where = join(place, "label")
        allowed = checks.listed(labels)
        fix = checks.nearest(row.label, labels)
        raise ConfigError(where, checks.shown(row.label), allowed, fix)
    return row


def check_calibration(
    calibrate: Calibration, published: tuple[Published, ...], cases: tuple[Case, ...]
) -> None:
    """Refuse to fit to what was not published, and what has no clients.

    Raises:
        ConfigError: a label that is fitted has no row of the metric, or an open loop.
    """
    labels = [case.label for case in cases]
    wanted = [label for label in labels if any(row.label == label for row in published)]
    fitted = wanted if calibrate.each and wanted else labels[:1]
    for label in fitted:
        for metric in calibrate.metrics:
            if not any(row.label == label and row.metric == metric for row in published):
                given = f"{metric!r}, of which {label!r} has no row"
                allowed = "a metric that is published for each label that is fitted"
                fix = "each = false to fit the main one only" if label != labels[0] else ""
                raise ConfigError("calibrate", given, allowed, fix)
    for case in cases:
        if case.label in fitted and not isinstance(case.before.workload, RequestResponse):
            allowed = '"request-response": its clients answer to how fast the host is'
            raise ConfigError("calibrate", f'"open-loop" of {case.label!r}', allowed)
