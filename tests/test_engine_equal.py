"""Both timing engines take the same steps, over random hosts, machines and workloads."""

from __future__ import annotations

from collections import Counter

import attrs
import numpy as np
import pytest
from hypothesis import given, settings

from emu.run_dtypes import Cost
from tests.choices import Choices, Seeded, said_again
from tests.runs_equal import (
    begin,
    compare,
    difference,
    differing_trace,
    go_on,
    long_enough,
    main,
    odd_cuts,
    outcome,
)
from tests.runs_reached import REACHED, reached
from tests.strategies.runs import cases, make_case, plan_of

SEEDED_CASES = 90
DRAWN_CASES = 60


@pytest.fixture(scope="module")
def seen() -> Counter[str]:
    """What the seeded cases reached, added up; every one of them was compared."""
    out: Counter[str] = Counter()
    for seed in range(SEEDED_CASES):
        case = make_case(Choices(Seeded(seed)))
        found, ref = compare(case)
        assert not found, f"seed {seed}: {found}"
        out += reached(plan_of(case), ref)
    return out


@settings(max_examples=DRAWN_CASES)
@given(case=cases())
def test_both_engines_take_the_same_steps(case):
    found, _ = compare(case)

    assert not found, found


@pytest.mark.parametrize("name", REACHED)
def test_the_seeded_cases_reach(name, seen):
    assert seen[name] > 0


@pytest.mark.parametrize("seed", range(4))
def test_cuts_change_nothing(engine, seed):
    """The reference, too, and the samples come in the same order."""
    plan = plan_of(make_case(Choices(Seeded(seed))))
    whole, cuts = long_enough(plan, enough=1000)

    for parts in (cuts[-1:], odd_cuts(cuts[-1]), [cut for cut in cuts for _ in range(2)]):
        again = outcome(engine.name, plan, parts)
        assert not difference(again, whole, (f"{engine.name} cut into {len(parts)}", "ref"))


def test_a_trace_keeps_its_first_rows(engine):
    plan = plan_of(make_case(Choices(Seeded(1))))

    whole, cuts = long_enough(plan, enough=1000)
    short = go_on(begin(engine.name, plan, trace_rows=10), cuts[-1:])

    assert not differing_trace(short.trace, whole.trace[:10], (engine.name, "ref"))
    assert short.steps == [len(whole.trace)]


def test_a_word_makes_its_case_again():
    for seed in range(20):
        case = make_case(Choices(Seeded(seed)))
        again = make_case(said_again(case.choices))

        assert again.choices == case.choices
        assert (again.host, again.seed) == (case.host, case.seed)
        np.testing.assert_array_equal(again.machine.costs, case.machine.costs)


def test_a_difference_is_shown_with_its_steps():
    plan = plan_of(make_case(Choices(Seeded(0))))
    ref, cuts = long_enough(plan, enough=300)
    costs = plan.costs.copy()
    costs[Cost.DRIVER_RX] += 1
    other = outcome("ref", attrs.evolve(plan, costs=costs), cuts)

    said = difference(other, ref, ("one", "two"))

    first = int(np.argmax(ref.trace["cost"] != other.trace["cost"][: len(ref.trace)]))
    assert said.startswith(f"step {first} of ")
    assert f"{first}: one" in said
    assert "RX(" in said


def test_the_command_runs(capsys):
    assert main(["--seed", "3", "--cases", "2"]) == 0
    assert "2 cases" in capsys.readouterr().out
