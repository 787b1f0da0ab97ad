"""A machine by its name, or from a user's TOML file that may build on another (docs/costs.md)."""

from __future__ import annotations

import os
from pathlib import Path

from emu.errors import ConfigError
from emu.io.toml import load_toml
from emu.model import checks
from emu.model.costs import Machine
from emu.model.machines_toml import DEFAULT, check_preset, get_machine, machine_from_toml


def load_machine(name_or_path: str | Path | Machine) -> Machine:
    """A preset by its name, or a machine from a TOML file; a machine is given back as it is.

    What ends in ``.toml`` or has a folder in it is a file, anything else a preset.

    Raises:
        ConfigError: no such preset; the file, its base, or anything in them, is wrong: one line
            with the file and the place.
    """
    if isinstance(name_or_path, Machine):
        return name_or_path
    if not _is_file(name_or_path):
        return get_machine(name_or_path)  # type: ignore[arg-type]
    return _load(Path(name_or_path), ())


def _is_file(name: object) -> bool:
    if isinstance(name, str):
        return name.endswith(".toml") or os.path.basename(name) != name
    return isinstance(name, Path)


def _load(path: Path, users: tuple[Path, ...]) -> Machine:
    """Read a file; *users* are the files whose base it is, outermost first."""
    chain = (*users, path)
    of_base: list[ConfigError] = []

    def find_base(base: str, where: str) -> Machine:
        if not _is_file(base):
            check_preset(base, where)
            return get_machine(base)
        target = path.parent / base
        if os.path.realpath(target) in map(os.path.realpath, chain):
            names = " -> ".join(str(file) for file in (*chain, target))
            allowed = "a base that does not come back to a file on the way"
            raise ConfigError(where, f"a circle, {names}", allowed, f'"{DEFAULT}"')
        try:
            return _load(target, chain)
        except ConfigError as error:
            of_base.append(error)
            raise

    tables = load_toml(path)
    try:
        return machine_from_toml(tables, find_base)
    except ConfigError as error:
        if error in of_base:
            raise
        raise checks.relocate(error, f"{path}: {error.where}") from None
