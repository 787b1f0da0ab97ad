"""Write docs/rules.md: every rule with its tests and the kernels it holds in.

``python -m tools.rules_page`` writes the page; tests/test_rules.py holds it to what the code says.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

from emu.rules import PLACES, Rule, rules

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "rules.md"
HEAD = """# The kernel's rules

Every rule of the kernel's behaviour that has a name in `emu`: what it says, the tests named after
it, the kernels it holds in (all of `python -m emu kernels` when nothing stands there).
*decision*: both engines decide by it, and `explain` and `emu replay` name it. *model*: it holds
where a host is written down or a state is set up. *run*: it is a matter of time
([run.md](run.md)). *out*: not modelled, with the reason.

This page is written by `python -m tools.rules_page` from `emu/rules.toml` and the tests.
"""
HOW = {"decision": "decision", "model": "model", "run": "run", "out": "**out**"}


def tests_by_name() -> dict[str, str]:
    """Every test function, with its file."""
    return {
        node.name: str(path.relative_to(ROOT))
        for path in sorted((ROOT / "tests").rglob("test_*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def tests_of(rule: str, tests: dict[str, str]) -> list[str]:
    """Tests named after a rule, and not after a longer name that begins so."""
    begins = "test_" + re.sub(r"\W", "_", rule).lower()
    return sorted(name for name in tests if (name + "_").startswith(begins + "_"))


def line(rule: Rule, tests: dict[str, str]) -> str:
    """One row of the table."""
    named = tests_of(rule.name, tests)
    files = Counter(Path(tests[name]).stem for name in named)
    where = ", ".join(f"{stem} ({count})" for stem, count in sorted(files.items()))
    says = f"{rule.says} *{rule.why}*" if rule.why else rule.says
    return f"| {rule.name} | {says} | {HOW[rule.where]} | {rule.kernels} | {where} |"


def page() -> str:
    """The whole page."""
    tests = tests_by_name()
    out = [HEAD]
    family = ""
    for rule in rules().values():
        if rule.name.split("-")[0] != family:
            family = rule.name.split("-")[0]
            out.append(f"\n## {family}\n\n| rule | says | how | kernels | tests |")
            out.append("| --- | --- | --- | --- | --- |")
        out.append(line(rule, tests))
    counts = Counter(rule.where for rule in rules().values())
    said = ", ".join(f"{counts[place]} {place}" for place in PLACES)
    out.append(f"\n{len(rules())} rules: {said}.\n")
    return "\n".join(out)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
