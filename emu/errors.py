"""The error classes: a user's mistake is a `ConfigError`, a broken invariant an `EngineFault`."""

from __future__ import annotations


def one_line(text: str) -> str:
    """Text as an error shows it: blanks joined, what a terminal might obey escaped."""
    line = " ".join(text.split())
    if line.isprintable():
        return line
    return "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in line)


class EmuError(Exception):
    """Base of everything that emu raises on purpose."""


class ConfigError(EmuError, ValueError):
    """A user's mistake in one line: where, what was given, what is allowed, the fix.

    The command line prints it and exits with status 2.
    """

    def __init__(self, where: str, given: object, allowed: str, fix: str = "") -> None:
        text = f"{where}: got {given}; allowed: {allowed}"
        if fix:
            text += f"; try {fix}"
        super().__init__(one_line(text))
        self.where = where


class CaptureError(ConfigError):
    """A capture file that cannot be read, or not further than some record."""


class EngineFault(EmuError, RuntimeError):
    """A broken invariant inside an engine: always a bug in emu, never a user's mistake."""


class CoreNotBuilt(EmuError, ImportError):
    """The compiled core is missing; the message names the command that builds it."""
