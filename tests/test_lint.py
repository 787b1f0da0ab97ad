"""The linters, with the settings of pyproject.toml; ``make lint`` runs this file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.source_tree import ROOT

COMMANDS = {
    "ruff": ["ruff", "check", "--no-cache", "--quiet", "--output-format=concise", "."],
    "format": ["ruff", "format", "--no-cache", "--quiet", "--check", "."],
    "mypy": ["mypy", "--no-error-summary"],
    "cython-lint": ["cython-lint", "emu/_core"],
}


@pytest.mark.parametrize("tool", COMMANDS)
def test_lint(tool: str) -> None:
    program, *arguments = COMMANDS[tool]
    command = [str(Path(sys.executable).parent / program), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    if done.returncode:
        pytest.fail(f"{' '.join(COMMANDS[tool])}\n{done.stdout}{done.stderr}", pytrace=False)
