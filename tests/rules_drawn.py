"""Which rules of the reference the tests drew both ways: a rule that always holds proves nothing.

The hooks count `Recorder.rule` while the tests run, add up what the workers of a parallel run
counted, and fail a run of the whole suite that left a rule without one of its outcomes.
"""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from emu.ref.record import Journal, Recorder

REF = Path(__file__).parent.parent / "emu" / "ref"

# A rule that no test can draw both ways says why. Printed with every run.
EXCUSED: dict[str, str] = {}

Drawn = Counter[tuple[str, bool]]
drawn: Drawn = Counter()
KEY = pytest.StashKey[list[str]]()


def listen(kind: type[Recorder]) -> None:
    """Count a recorder's rules before it hears them."""
    heard = kind.rule

    def rule(self: Recorder, name: str, holds: bool, **facts: object) -> bool:
        drawn[name, bool(holds)] += 1
        return heard(self, name, holds, **facts)

    kind.rule = rule  # type: ignore[method-assign]


def implemented_rules(folder: Path = REF) -> dict[str, str]:
    """Every rule that the reference asks, with the file that asks it first.

    Raises:
        ValueError: a rule's name is not spelled where it is asked, so that nobody could find it.
    """
    rules: dict[str, str] = {}
    for path in sorted(folder.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
                continue
            if node.func.attr != "rule" or path.name == "record.py":
                continue
            names = spelled_names(node.args[0]) if node.args else []
            if not names:
                raise ValueError(f"{path.name}:{node.lineno}: rule() wants its name as a literal")
            for name in names:
                rules.setdefault(name, path.name)
    return rules


def spelled_names(node: ast.expr) -> list[str]:
    """The literal names that an argument can be; none when one of them is no literal."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.IfExp):
        first, second = spelled_names(node.body), spelled_names(node.orelse)
        return first + second if first and second else []
    return []


def one_sided(rules: dict[str, str], counts: Drawn, excused: dict[str, str]) -> list[str]:
    """A line per rule that was not drawn both ways."""
    lines = []
    for name, where in sorted(rules.items()):
        missing = [str(way) for way in (True, False) if not counts[name, way]]
        if missing and name not in excused:
            lines.append(f"{name} ({where}) was never {' nor '.join(missing)}")
    lines += [f"{name} is excused, but no rule" for name in excused if name not in rules]
    return lines


def is_whole_run(config: pytest.Config) -> bool:
    """Whether every test was asked for: then a missing outcome is a fault."""
    option = config.option
    chosen = option.keyword or option.markexpr or getattr(option, "lf", False)
    narrowed = option.deselect or option.ignore or option.ignore_glob or option.collectonly
    whole = {str(config.rootpath), *map(str, config.getini("testpaths")), "."}
    return not chosen and not narrowed and set(config.args) <= whole


def pytest_configure(config: pytest.Config) -> None:
    listen(Recorder)
    listen(Journal)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any, error: object) -> None:
    """A worker is done: add what it counted."""
    for name, way, count in getattr(node, "workeroutput", {}).get("rules_drawn", ()):
        drawn[name, way] += count


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["rules_drawn"] = [(*key, count) for key, count in drawn.items()]
        return
    if not is_whole_run(config):
        return
    config.stash[KEY] = one_sided(implemented_rules(), drawn, EXCUSED)
    if config.stash[KEY] and exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    missing = config.stash.get(KEY, None)
    if missing is None:
        return
    rules = implemented_rules()
    both = sum(1 for name in rules if drawn[name, True] and drawn[name, False])
    terminalreporter.section("rules")
    for line in missing:
        terminalreporter.line(f"FAILED {line}", red=True)
    for name, reason in EXCUSED.items():
        terminalreporter.line(f"excused {name}: {reason}")
    terminalreporter.line(f"rules implemented {len(rules)}, drawn both ways {both}")
