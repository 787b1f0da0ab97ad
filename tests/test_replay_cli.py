"""``python -m emu replay`` as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

DATA = Path(__file__).parent / "data"
SAMPLE = str(DATA / "rps-sample.jsonl.gz")


def replay(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "emu", "replay", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)


def test_agreement_is_status_0_and_a_table():
    done = replay(SAMPLE)

    assert done.returncode == 0
    assert "0 differ in core, 0 differ in ref" in done.stdout


def test_a_rule_switched_off_is_status_1_and_named(tmp_path):
    target = tmp_path / "out.json"
    done = replay(SAMPLE, "--engine", "ref", "--assume", "R-3.3.7=false", "--json", str(target))

    assert done.returncode == 1
    assert "R-3.3.7 were not assumed to be false" in done.stdout
    assert json.loads(target.read_text())["differs"] is True


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([SAMPLE, "--engine", "fast"], "core, ref or both"),
        ([SAMPLE, "--engine", "core", "--assume", "GRO-26=true"], "--engine ref"),
        ([SAMPLE, "--assume", "GRO-26"], "RULE=true or RULE=false"),
        ([SAMPLE, "--assume", "GRO-2.6=true"], "GRO-26"),
        (["nothing.jsonl"], "no such file"),
        ([SAMPLE, "--kernel", "9"], "kernel"),
    ],
)
def test_a_mistake_is_one_line_and_status_2(words, says):
    done = replay(*words)

    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert says in done.stderr
