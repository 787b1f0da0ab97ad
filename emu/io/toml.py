"""Reading TOML tables key by key, with the place of every mistake; and writing them."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from emu.errors import ConfigError
from emu.model import checks

Reader = Callable[[Any, str], Any]  # value, place -> what the model takes
KINDS = {dict: "a table", list: "a list", str: "text", bool: "true or false", int: "a whole number"}
MAX_WIDTH = 100  # of a line that is written
MAX_FILE_BYTES = 64 << 20  # that is read


def load_toml(path: str | Path) -> dict[str, Any]:
    """The tables of a file.

    Raises:
        ConfigError: the file cannot be read, is no UTF-8, or is no TOML.
    """
    if not isinstance(path, (str, Path)):
        raise ConfigError("TOML file", checks.shown(path), "the path of a file", '"host.toml"')
    if "\0" in str(path):
        raise ConfigError("TOML file", checks.shown(str(path)), "a path without NUL")
    try:
        with open(path, "rb") as file:
            text = file.read(MAX_FILE_BYTES + 1)  # a device never ends
        if len(text) > MAX_FILE_BYTES:
            raise ConfigError(str(path), "a larger file", f"at most {MAX_FILE_BYTES >> 20} MiB")
        tables = tomllib.loads(text.decode())
        _check_integers(tables, str(path))
        return tables
    except OSError as error:
        raise ConfigError(
            str(path), error.strerror or "an error", "a file that can be read"
        ) from None
    except UnicodeDecodeError as error:
        given = f"byte {error.object[error.start]:#04x} at offset {error.start}"
        raise ConfigError(str(path), given, "UTF-8 text") from None
    except RecursionError:
        raise ConfigError(str(path), "tables or lists nested too deep", "a host file") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(str(path), f"no TOML: {error}", "TOML 1.0") from None
    except ConfigError:
        raise
    except ValueError:  # a decimal number that Python does not read
        given = "a number with thousands of digits"
        raise ConfigError(str(path), given, "whole numbers of 64 bits") from None


def _check_integers(value: object, place: str) -> None:
    """Refuse whole numbers beyond the 64 bits that TOML has: hexadecimal ones may be of any size.

    Raises:
        ConfigError: there is one.
    """
    if isinstance(value, dict):
        for key, item in value.items():
            _check_integers(item, f"{place}: {key}" if place else key)
    elif isinstance(value, list):
        for item in value:
            _check_integers(item, place)
    elif isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ConfigError(place, checks.shown(value), "a whole number of 64 bits")


def expect(value: object, kind: type, place: str, fix: str = "") -> Any:
    """The value, when it is of that TOML type.

    Raises:
        ConfigError: it is of another.
    """
    if type(value) is not kind:
        raise ConfigError(place, checks.shown(value), KINDS[kind], fix)
    return value


def join(place: str, key: str) -> str:
    """The place of a key in a table."""
    return f"{place}.{key}" if place else key


def read_table(
    value: object, place: str, keys: Mapping[str, Reader | None], required: Iterable[str] = ()
) -> dict[str, Any]:
    """The table's entries, each read by its key's reader (None: taken as it is).

    Raises:
        ConfigError: no table; a key that *keys* does not have; one of *required* missing.
    """
    table = expect(value, dict, place)
    for key in table:
        if key not in keys:
            fix = checks.nearest(key, keys)
            raise ConfigError(place or "top level", f"key {key!r}", checks.listed(keys), fix)
    for key in required:
        if key not in table:
            raise ConfigError(join(place, key), "nothing", f'the key "{key}"')
    out = {}
    for key, item in table.items():
        reader = keys[key]
        out[key] = item if reader is None else reader(item, join(place, key))
    return out


def build(kind: Callable[..., Any], values: Mapping[str, Any], place: str) -> Any:
    """Make a model object; its errors are told of the TOML place."""
    try:
        return kind(**values)
    except ConfigError as error:
        raise checks.relocate(error, join(place, checks.field_of(error))) from None


def read_list(value: object, place: str, reader: Reader) -> list[Any]:
    """A list's items, each read by the reader."""
    items = expect(value, list, place)
    return [reader(item, f"{place}[{index}]") for index, item in enumerate(items)]


def to_toml(value: object, indent: str = "") -> str:
    """A value as TOML spells it; long lists go over several lines.

    Raises:
        TypeError: TOML has no such value.
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        inside = ", ".join(f"{_key(key)} = {to_toml(item)}" for key, item in value.items())
        return f"{{ {inside} }}" if inside else "{}"
    if isinstance(value, (list, tuple)):
        return _list([to_toml(item) for item in value], indent)
    raise TypeError(f"{value!r} has no form in TOML")


def _key(key: str) -> str:
    plain = key.replace("-", "").replace("_", "")
    return key if plain.isascii() and plain.isalnum() else _quoted(key)


def _quoted(text: str) -> str:
    short = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    return (
        '"'
        + "".join(
            short.get(letter, letter if letter.isprintable() else f"\\U{ord(letter):08x}")
            for letter in text
        )
        + '"'
    )


def _list(items: list[str], indent: str) -> str:
    line = ", ".join(items)
    if len(line) <= MAX_WIDTH - 20:
        return f"[{line}]"
    lines, now = [], ""
    for item in items:
        if now and len(now) + len(item) + 2 > MAX_WIDTH - 8:
            lines.append(now)
            now = ""
        now += f"{item}, "
    lines.append(now)
    return "[\n" + "".join(f"{indent}    {text.rstrip()}\n" for text in lines) + f"{indent}]"
