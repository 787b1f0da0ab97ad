"""Which engine takes the decisions: the compiled core, or the plain-Python reference."""

from __future__ import annotations

import importlib
from difflib import get_close_matches
from types import ModuleType

from emu.errors import ConfigError, CoreNotBuilt
from emu.model import checks

PACKAGES = {"core": "emu._core", "ref": "emu.ref"}
BUILD_COMMAND = "pip install -e ."


def check_engine(engine: str) -> None:
    """Refuse an engine that does not exist, with the nearest name."""
    if not isinstance(engine, str) or engine not in PACKAGES:
        given = checks.shown(engine)
        close = get_close_matches(given, PACKAGES, n=1, cutoff=0.3)
        fix = repr(close[0]) if close else ""
        raise ConfigError("engine", given, '"core" or "ref"', fix)


def stage(engine: str, name: str) -> ModuleType:
    """The module of stage *name* in that engine.

    Raises:
        ConfigError: no such engine.
        CoreNotBuilt: the core is not compiled; there is no silent fallback to the reference.
    """
    check_engine(engine)
    path = f"{PACKAGES[engine]}.{name}"
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError as error:
        if engine == "core" and error.name == path:
            raise CoreNotBuilt(
                f"engine: the core ({path}) is not built; build it with: {BUILD_COMMAND}"
            ) from None
        raise
