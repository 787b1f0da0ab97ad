"""The count of rules: it finds what the reference asks, and sees what was not drawn."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from emu.ref.record import SILENT, Journal
from emu.rules import PLACES, rule_names, rules
from tests.rules_drawn import drawn, implemented_rules, one_sided
from tests.source_tree import list_files, read
from tools.rules_page import PAGE, page


def test_rules_are_found_where_they_are_asked(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text('if rec.rule(\n    "GRO-1", x > 0, x=x\n): pass\n')
    (tmp_path / "b.py").write_text('rec.rule("GRO-2" if x else "GRO-3", True)\n')

    assert implemented_rules(tmp_path) == {"GRO-1": "a.py", "GRO-2": "b.py", "GRO-3": "b.py"}


def test_a_rule_without_a_spelled_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("rec.rule(name, True)\n")

    with pytest.raises(ValueError, match=r"a\.py:1"):
        implemented_rules(tmp_path)


def test_names_have_one_form() -> None:
    """A family, a dash, a number: as the documents write them."""
    odd = [name for name in implemented_rules() if not re.fullmatch(r"[A-Z]+-[\w.\-]+", name)]

    assert odd == []


def test_both_recorders_are_counted() -> None:
    before = drawn.copy()
    journal = Journal()
    SILENT.rule("TEST-1", True)
    journal.rule("TEST-1", False, why="to be counted")

    assert drawn - before == Counter({("TEST-1", True): 1, ("TEST-1", False): 1})
    assert [entry.said for entry in journal.entries] == [False]


@pytest.mark.parametrize(
    ("counts", "missing"),
    [
        ({}, ["GRO-1 (gro.py) was never True nor False"]),
        ({("GRO-1", True): 9}, ["GRO-1 (gro.py) was never False"]),
        ({("GRO-1", True): 9, ("GRO-1", False): 1}, []),
    ],
)
def test_a_rule_drawn_one_way_is_reported(
    counts: dict[tuple[str, bool], int], missing: list[str]
) -> None:
    assert one_sided({"GRO-1": "gro.py"}, Counter(counts), {}) == missing


def test_an_excuse_ends_with_its_rule() -> None:
    assert one_sided({"GRO-1": "gro.py"}, Counter(), {"GRO-1": "cannot fail"}) == []
    assert one_sided({}, Counter(), {"GRO-1": "cannot fail"}) == ["GRO-1 is excused, but no rule"]


def test_each_numbered_rule_has_a_test_named_after_it() -> None:
    """``GRO-26`` is some ``test_gro_26...``; ``R-1.4.ports`` is some ``test_r_1_4_ports...``."""
    tests = {
        node.name + "_"
        for path in list_files(".py", under="tests")
        for node in ast.walk(ast.parse(read(path)))
        if isinstance(node, ast.FunctionDef)
    }
    rules = {rule: "test_" + re.sub(r"\W", "_", rule).lower() + "_" for rule in implemented_rules()}
    missing = [rule for rule, name in rules.items() if not any(name in test for test in tests)]

    assert not missing, f"no test is named after {', '.join(sorted(missing))}"


def test_every_rule_that_is_asked_has_a_sentence() -> None:
    assert set(implemented_rules()) - set(rule_names()) == set()


def test_what_is_left_out_has_a_reason() -> None:
    for rule in rules().values():
        assert rule.where in PLACES, rule.name
        assert bool(rule.why) == (rule.where == "out"), rule.name
        assert rule.says.endswith("."), rule.name


def test_what_is_left_out_is_not_asked() -> None:
    out = {name for name, rule in rules().items() if rule.where == "out"}

    assert out & set(implemented_rules()) == set()


def test_the_page_of_rules_is_up_to_date() -> None:
    """``python -m tools.rules_page`` writes it."""
    assert PAGE.read_text(encoding="utf-8") == page()
