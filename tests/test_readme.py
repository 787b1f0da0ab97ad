"""What the README shows is what happens."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest

import emu

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def at_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with the scenarios where the README has them, for files that its examples write."""
    shutil.copytree(ROOT / "emu" / "scenarios", tmp_path / "emu" / "scenarios")
    monkeypatch.chdir(tmp_path)


@pytest.mark.usefixtures("at_root")
def test_the_examples_run_as_they_stand() -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    names: dict[str, object] = {}

    for block in blocks:
        exec(block, names)

    assert len(blocks) == 2
    packets = names["packets"]
    assert isinstance(packets, emu.Packets)
    assert len(emu.read_capture("out.pcap")) == len(packets)


@pytest.mark.usefixtures("at_root")
def test_the_explanation_is_the_one_that_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    first = re.search(r"```python\n(.*?)```", README, flags=re.DOTALL)
    shown = re.search(r"```\n(packet 4: .*?)\n```", README, flags=re.DOTALL)
    assert first is not None
    assert shown is not None

    exec(first[1], {})

    assert capsys.readouterr().out.strip() == shown[1].strip()
