"""The one voice of the model's errors, and the attrs validators that speak it.

A validator names the object and the field: ``nic 'eth0': rx_queues: got 0; allowed: a whole number
from 1 to 65535``.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from math import isfinite
from typing import Any, NoReturn

from emu.errors import ConfigError, one_line

Validator = Callable[[Any, Any, Any], None]
SHOWN_CHARS = 60  # of a value in an error line


def shown(value: object) -> str:
    """The value as an error line shows it: its repr, cut when long."""
    try:
        text = repr(value)
    except ValueError:  # Python spells no number of more than 4300 digits
        text = "a number with thousands of digits"
    return text if len(text) <= SHOWN_CHARS else f"{text[: SHOWN_CHARS - 3]}..."


def label(instance: object) -> str:
    """How an error line calls an object: ``nic 'eth0'``, or ``rss`` for one without a name."""
    kind = type(instance).__name__.lower()
    name = getattr(instance, "name", None)
    return kind if name is None else f"{kind} {shown(name)}"


def nearest(word: object, choices: Iterable[str]) -> str:
    """The closest of some words, quoted for an error line; "" when none is close."""
    text = word if isinstance(word, str) else shown(word)
    matches = get_close_matches(text[:SHOWN_CHARS], list(choices), n=1, cutoff=0.5)
    return f'"{matches[0]}"' if matches else ""


def listed(choices: Iterable[str]) -> str:
    """Words, quoted and joined; a long list is cut."""
    words = [f'"{choice}"' for choice in choices]
    return ", ".join(words) if len(words) <= 12 else ", ".join([*words[:10], f"... ({len(words)})"])


def fail(instance: object, field: str, given: object, allowed: str, fix: str = "") -> NoReturn:
    """Raise the error of one field of an object."""
    raise ConfigError(f"{label(instance)}: {field}", shown(given), allowed, fix)


def relocate(error: ConfigError, where: str) -> ConfigError:
    """The same error, told of another place."""
    moved = type(error).__new__(type(error))
    moved.__dict__.update(error.__dict__)
    moved.args = (one_line(where) + str(error)[len(one_line(error.where)) :],)
    moved.where = where
    return moved


def field_of(error: ConfigError) -> str:
    """The field part of where an error was: ``rps_cpus[3]`` of ``nic 'eth0': rps_cpus[3]``."""
    return error.where.rpartition(": ")[2]


@contextmanager
def of(instance: object, field: str) -> Iterator[None]:
    """Tell every error from inside as one of that field of the object."""
    try:
        yield
    except ConfigError as error:
        raise relocate(error, f"{label(instance)}: {field}") from None


def is_int(value: object) -> bool:
    """Whether the value is a whole number, and no bool."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_number(value: object) -> bool:
    """Whether the value is a finite number, and no bool."""
    whole = isinstance(value, float) and isfinite(value)
    return is_int(value) or whole


def integer(low: int, high: int | None = None) -> Validator:
    """A whole number in low..high."""
    allowed = f"a whole number >= {low}" if high is None else f"a whole number from {low} to {high}"

    def check(instance: object, attribute: Any, value: object) -> None:
        if type(value) is not int or value < low or (high is not None and value > high):
            fail(instance, attribute.name, value, allowed)

    return check


def boolean(instance: Any, attribute: Any, value: Any) -> None:
    """True or false."""
    if type(value) is not bool:
        fix: dict[object, str] = {0: "false", 1: "true", "true": "true", "false": "false"}
        known = value if isinstance(value, (int, str)) else None
        fail(instance, attribute.name, value, "true or false", fix.get(known, ""))


def text(instance: Any, attribute: Any, value: Any) -> None:
    """A name: text without white space, not empty."""
    if not isinstance(value, str) or not value or any(letter.isspace() for letter in value):
        fail(instance, attribute.name, value, "text that is not empty and has no white space")


def one_of(*choices: str) -> Validator:
    """One of some words."""

    def check(instance: object, attribute: Any, value: object) -> None:
        if not isinstance(value, str) or value not in choices:
            fail(instance, attribute.name, value, listed(choices), nearest(value, choices))

    return check


def instance_of(kind: type | tuple[type, ...], allowed: str) -> Validator:
    """An object of that class; *allowed* says so in words."""

    def check(instance: object, attribute: Any, value: object) -> None:
        if not isinstance(value, kind):
            fail(instance, attribute.name, value, allowed)

    return check


def each(kind: type, allowed: str) -> Validator:
    """A tuple with objects of that class only."""

    def check(instance: object, attribute: Any, value: object) -> None:
        items(instance, attribute.name, value, kind, allowed)

    return check


def items(instance: object, field: str, value: object, kind: type, allowed: str) -> None:
    """Refuse anything but a tuple with objects of that class only."""
    if not isinstance(value, tuple):
        fail(instance, field, value, f"a list with {allowed}")
    for index, item in enumerate(value):
        if not isinstance(item, kind) or (kind is int and isinstance(item, bool)):
            fail(instance, f"{field}[{index}]", item, allowed)


def optional(inner: Validator) -> Validator:
    """None, or what the inner validator allows."""

    def check(instance: object, attribute: Any, value: object) -> None:
        if value is not None:
            inner(instance, attribute, value)

    return check


def octets(low: int, high: int | None = None) -> Validator:
    """Bytes, of that length."""
    allowed = f"{low} bytes" if high in (None, low) else f"{low} to {high} bytes"

    def check(instance: object, attribute: Any, value: object) -> None:
        if not isinstance(value, bytes):
            fail(instance, attribute.name, value, allowed)
        if not low <= len(value) <= (low if high is None else high):
            raise ConfigError(
                f"{label(instance)}: {attribute.name}", f"{len(value)} bytes", allowed
            )

    return check


def as_tuple(value: Any) -> Any:
    """A list as a tuple; anything that is no list as it is, for the validator to refuse."""
    return tuple(value) if isinstance(value, (list, tuple, range)) else value


def address(text: object, where: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An IP address.

    Raises:
        ConfigError: not one; a scope ("%eth0"); an IPv4 address mapped into IPv6.
    """
    allowed = "an IPv4 or IPv6 address"
    if not isinstance(text, str):
        raise ConfigError(where, shown(text), allowed, '"10.0.0.1" or "2001:db8::1"')
    try:
        value = ipaddress.ip_address(text)
    except ValueError:
        raise ConfigError(where, shown(text), allowed, '"10.0.0.1" or "2001:db8::1"') from None
    if value.version == 6 and value.scope_id is not None:
        raise ConfigError(where, shown(text), "an address without a scope", text.partition("%")[0])
    if value.version == 6 and value.ipv4_mapped is not None:
        raise ConfigError(where, shown(text), "no mapped address", str(value.ipv4_mapped))
    return value
