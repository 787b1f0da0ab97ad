"""What is no TOML file, or hardly one, is one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from emu.errors import ConfigError
from emu.io import toml
from emu.io.toml import load_toml
from emu.model import checks


def refused(path: Any) -> str:
    """The line that says why a file is not taken."""
    with pytest.raises(ConfigError) as caught:
        load_toml(path)
    line = str(caught.value)
    assert "\n" not in line
    assert len(line) < 400
    return line


def test_what_is_no_path() -> None:
    for path in (None, True, 0, b"host.toml", ["host.toml"]):  # 0 would be standard input
        assert refused(path).startswith("TOML file: got ")
    assert refused("a\0b.toml") == "TOML file: got 'a\\x00b.toml'; allowed: a path without NUL"


def test_a_file_that_never_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(toml, "MAX_FILE_BYTES", 1 << 20)
    path = tmp_path / "long.toml"
    path.write_bytes(b"#" * (1 << 20))
    assert load_toml(path) == {}
    path.write_bytes(b"#" * ((1 << 20) + 1))
    assert "a larger file; allowed: at most 1 MiB" in refused(path)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a = " + "1" * 5000, "a number with thousands of digits"),
        ("a = 0x" + "f" * 5000, "a: got a number with thousands of digits"),
        ("a = { b = [1, [9223372036854775808]] }", "a: b: got 9223372036854775808"),
        ("a = -9223372036854775809", "a: got -9223372036854775809"),
    ],
)
def test_numbers_have_64_bits(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "large.toml"
    path.write_text(text)
    line = refused(path)
    assert line.startswith(str(path))
    assert said in line
    assert "64 bits" in line


def test_the_largest_numbers_are_taken(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    path.write_text("a = 9223372036854775807\nb = -9223372036854775808\n")
    assert load_toml(path) == {"a": 2**63 - 1, "b": -(2**63)}


def test_a_line_is_one_line_whatever_stands_in_it() -> None:
    error = ConfigError("a  file\n", "\x1b[2J", "b\x00c")
    assert str(error) == "a file : got \\x1b[2J; allowed: b\\x00c"
    moved = checks.relocate(ConfigError("a  b", 1, "2"), "x\n y\x07: a  b")
    assert str(moved) == "x y\\x07: a b: got 1; allowed: 2"
