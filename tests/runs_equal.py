"""Both timing engines over random cases: the same steps, counters and samples.

``python -m tests.runs_equal --seed N --cases M`` runs the cases of the seeds N to N + M - 1;
``--case WORD`` the one that a test printed. It stops at the first difference and shows it: which
row, what each engine did there, what came before, and how to see it again.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from emu.engines import stage
from emu.model.run_plan import RunPlan
from emu.run_dtypes import TRACE, Ctx, Step
from tests.choices import Choices, Seeded, said_again
from tests.strategies.runs import US, Case, make_case, plan_of

AHEAD = (0, 1, 64, -1)
TRACE_ROWS = 200_000
FIRST_CUT_PS = 8 * US
ENOUGH_STEPS = 2500
MOST_CUTS = 12  # each twice as late as the one before: 16 ms
SHOWN_BEFORE = 5
FIELDS = tuple(name for name in TRACE.names or () if name != "pad")


@attrs.frozen(kw_only=True, eq=False)
class Outcome:
    """What a run left behind.

    Attributes:
        steps: taken by each advance.
        samples: of each `take_samples`, one after each advance.
    """

    trace: np.ndarray[Any, Any]
    counters: dict[str, np.ndarray[Any, Any]]
    samples: list[np.ndarray[Any, Any]]
    steps: list[int]


def begin(engine: str, plan: RunPlan, *, run_ahead: int = -1, trace_rows: int = TRACE_ROWS) -> Any:
    """A run of that engine, at time 0."""
    arrived = stage(engine, "steer").arrive(plan.base)
    return stage(engine, "engine").Run(plan, arrived, run_ahead=run_ahead, trace_rows=trace_rows)


def go_on(run: Any, cuts: Sequence[int]) -> Outcome:
    """Advance to each of the cuts."""
    steps, samples = [], []
    for cut in cuts:
        steps.append(run.advance(cut))
        samples.append(run.take_samples().copy())
    return Outcome(trace=run.trace(), counters=run.counters(), samples=samples, steps=steps)


def outcome(engine: str, plan: RunPlan, cuts: Sequence[int], *, run_ahead: int = -1) -> Outcome:
    """A whole run."""
    return go_on(begin(engine, plan, run_ahead=run_ahead), cuts)


def long_enough(plan: RunPlan, enough: int = ENOUGH_STEPS) -> tuple[Outcome, list[int]]:
    """The reference's run until it has taken some thousand steps, and where it was cut."""
    run = begin("ref", plan)
    cuts, steps, samples = [FIRST_CUT_PS << turn for turn in range(MOST_CUTS)], [], []
    for cut in cuts:
        steps.append(run.advance(cut))
        samples.append(run.take_samples().copy())
        if sum(steps) >= enough:
            break
    found = Outcome(trace=run.trace(), counters=run.counters(), samples=samples, steps=steps)
    return found, cuts[: len(steps)]


def said(row: Any) -> str:
    """A row of a trace in words."""
    where = "" if row["cpu"] < 0 else f" cpu {row['cpu']} {Ctx(row['ctx']).name}"
    step = Step(row["step"]).name
    return (
        f"{row['time_ps']} ps{where} {step}({row['arg']}) source {row['source']} cost {row['cost']}"
    )


def differing_trace(left: Any, right: Any, names: tuple[str, str]) -> str:
    """The first row that is not the same, both ways, and the rows before it; "" when none is."""
    rows = min(len(left), len(right))
    wrong = np.zeros(rows, dtype=bool)
    for field in FIELDS:
        wrong |= left[field][:rows] != right[field][:rows]
    first = int(np.argmax(wrong)) if wrong.any() else rows
    if first == rows and len(left) == len(right):
        return ""
    lines = [f"step {first} of {len(left)} ({names[0]}) and {len(right)} ({names[1]}):"]
    for at in range(max(0, first - SHOWN_BEFORE), first):
        lines.append(f"  {at}: both {said(left[at])}")
    for name, trace in zip(names, (left, right), strict=True):
        lines.append(f"  {first}: {name} {said(trace[first]) if first < len(trace) else 'nothing'}")
    return "\n".join(lines)


def differing_counter(left: Any, right: Any, names: tuple[str, str]) -> str:
    """The first counter that is not the same; "" when none is."""
    if left.keys() != right.keys():
        return f"counters: {names[0]} {sorted(left)}, {names[1]} {sorted(right)}"
    for name, mine in left.items():
        other = right[name]
        if mine.shape != other.shape or mine.dtype != other.dtype:
            return (
                f"counter {name}: {names[0]} {mine.dtype}{mine.shape},"
                f" {names[1]} {other.dtype}{other.shape}"
            )
        if not np.array_equal(mine, other):
            place = tuple(int(at) for at in np.argwhere(mine != other)[0])
            return f"counter {name}{place}: {names[0]} {mine[place]}, {names[1]} {other[place]}"
    return ""


def difference(left: Outcome, right: Outcome, names: tuple[str, str]) -> str:
    """What is not the same first: steps, then counters, then samples; "" when nothing is."""
    found = differing_trace(left.trace, right.trace, names)
    found = found or differing_counter(left.counters, right.counters, names)
    if found:
        return found
    mine, other = np.concatenate(left.samples), np.concatenate(right.samples)
    if not np.array_equal(mine, other):
        return f"samples: {names[0]} {mine.tolist()}, {names[1]} {other.tolist()}"
    if sum(left.steps) != sum(right.steps):
        return f"steps: {names[0]} {sum(left.steps)}, {names[1]} {sum(right.steps)}"
    return ""


def compare(case: Case) -> tuple[str, Outcome]:
    """The first difference of the core at any run-ahead and any cut, and the reference's run."""
    plan = plan_of(case)
    ref, cuts = long_enough(plan)
    again = f"python -m tests.runs_equal --case {case.choices}"
    for run_ahead in AHEAD:
        for parts in (cuts, cuts[-1:], odd_cuts(cuts[-1])):
            core = outcome("core", plan, parts, run_ahead=run_ahead)
            name = f"core at run-ahead {run_ahead}, cut into {len(parts)}"
            found = difference(core, ref, (name, "ref"))
            if found:
                return f"{found}\nto see it again: {again}\n{case}", ref
    return "", ref


def odd_cuts(end: int) -> list[int]:
    """Cuts at no round time, some of them close together."""
    return sorted({end * part // 97 + part % 3 for part in (1, 2, 3, 40, 41, 96)} | {end})


def main(words: Sequence[str] | None = None) -> int:
    """Run cases; 1 when there was a difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.runs_equal", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of the first case")
    parser.add_argument("--cases", type=int, default=100, help="how many")
    parser.add_argument("--case", help="the word of one case")
    given = parser.parse_args(words)
    steps = 0
    for number in range(given.seed, given.seed + (1 if given.case else given.cases)):
        pick = said_again(given.case) if given.case else Choices(Seeded(number))
        found, ref = compare(make_case(pick))
        steps += len(ref.trace)
        if found:
            print(f"seed {number}: {found}")
            return 1
    print(f"{1 if given.case else given.cases} cases, {steps} steps: no difference")
    return 0


if __name__ == "__main__":
    sys.exit(main())
