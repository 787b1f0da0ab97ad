"""Recordings as files: JSON lines, gzipped or not."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from emu.errors import ConfigError
from emu.replay.parts import Record

GZIP_MAGIC = b"\x1f\x8b"
MAX_LINE_BYTES = 1 << 28
FORMATS = "JSON lines of recorded decisions (docs/replay.md), gzipped or not"


def read_records(path: str | Path) -> Iterator[tuple[int, Record]]:
    """Line number and record, one after the other.

    Raises:
        ConfigError: the file cannot be read, is broken gzip, or a line is no JSON object.
    """
    where = str(path)
    try:
        with open_text(Path(path)) as lines:
            for number, line in numbered(lines, where):
                if line.strip():
                    yield number, parse(line, f"{where}:{number}")
    except (OSError, EOFError, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ConfigError(where, reason, FORMATS) from None


def numbered(lines: IO[bytes], where: str) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers; none of endless length."""
    number = 0
    while line := lines.readline(MAX_LINE_BYTES):
        number += 1
        if len(line) == MAX_LINE_BYTES:
            raise ConfigError(f"{where}:{number}", "an endless line", FORMATS)
        yield number, line


def open_text(path: Path) -> IO[bytes]:
    """The file's lines, whatever it is packed in."""
    with path.open("rb") as file:
        packed = file.read(2) == GZIP_MAGIC
    return gzip.open(path, "rb") if packed else path.open("rb")  # type: ignore[return-value]


def parse(line: bytes, where: str) -> dict[str, Any]:
    """One record."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(where, str(error).splitlines()[0][:80], FORMATS) from None
    if not isinstance(record, dict):
        raise ConfigError(where, type(record).__name__, FORMATS)
    return record
