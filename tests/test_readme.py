"""What the README shows is what happens."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import typer

import emu
from emu import __main__ as command
from emu.bench import cli

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture
def at_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the scenarios where the README has them, for files that its examples write."""
    shutil.copytree(ROOT / "emu" / "scenarios", tmp_path / "emu" / "scenarios")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("at_root")
def test_the_examples_run_as_they_stand() -> None:
    names: dict[str, object] = {}

    for block in BLOCKS:
        exec(block, names)

    packets, result = names["packets"], names["result"]
    assert isinstance(packets, emu.Packets)
    assert len(emu.read_capture("out.pcap")) == len(packets)
    assert isinstance(result, emu.RunResult)


@pytest.mark.usefixtures("at_root")
def test_a_run_prints_what_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = (block for block in BLOCKS if "emu.run(" in block)
    shown = re.search(r"# (<RunResult .*) \.\.\.", block)
    assert shown is not None

    exec(block, {})

    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith(shown[1])
    assert second.startswith("<RunResult ")


def test_the_commands_and_files_that_are_named_exist() -> None:
    named = re.findall(r"^python -m (emu(?:\.bench)?) +([a-z]+)", README, flags=re.MULTILINE)
    known = {"emu": names_of(command.app), "emu.bench": names_of(cli.app)}

    assert len(named) > 4
    assert [(module, word) for module, word in named if word not in known[module]] == []
    links = re.findall(r"\]\(([\w/.-]+)\)", README)
    files = re.findall(r"\b(?:docs|emu|tests)/[\w/-]+\.(?:md|toml|py)\b", README)
    assert {"docs/run.md", "docs/costs.md", "docs/scenario.md"} <= set(links)
    assert [name for name in (*links, *files) if not (ROOT / name).exists()] == []


def names_of(app: typer.Typer) -> set[str]:
    """The subcommands of a command line."""
    return set(typer.main.get_group(app).commands)


@pytest.mark.usefixtures("at_root")
def test_the_explanation_is_the_one_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    shown = re.search(r"```\n(packet 4: .*?)\n```", README, flags=re.DOTALL)
    assert shown is not None

    exec(BLOCKS[0], {})

    assert capsys.readouterr().out.strip() == shown[1].strip()
