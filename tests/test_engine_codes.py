"""The codes of a run stand twice, in emu/run_dtypes.py and in the core: they are the same."""

from __future__ import annotations

from enum import IntEnum

import pytest

from emu import run_dtypes
from tests.source_tree import CORE, cython_blocks

CODES = CORE / "run_codes.pxd"
PREFIXES: dict[str, type[IntEnum]] = {
    "AT_": run_dtypes.Stage,
    "COST_": run_dtypes.Cost,
    "CTX_": run_dtypes.Ctx,
    "KIND_": run_dtypes.Kind,
    "LATENCY_": run_dtypes.Latency,
    "LIMIT_": run_dtypes.Limit,
    "LOCK_": run_dtypes.Lock,
    "LOST_": run_dtypes.RunDrop,
    "QDISC_": run_dtypes.Qdisc,
    "STEP_": run_dtypes.Step,
    "TOTAL_": run_dtypes.Total,
    "TOUCH_": run_dtypes.Touch,
}
COUNTS: dict[str, int] = {
    "CELLS": len(run_dtypes.Stage) * len(run_dtypes.Kind),
    "CONTEXTS": len(run_dtypes.Ctx),
    "COSTS": len(run_dtypes.Cost),
    "DROPS": run_dtypes.DROPS,
    "KINDS": len(run_dtypes.Kind),
    "LATENCIES": len(run_dtypes.Latency),
    "LIMITS": len(run_dtypes.Limit),
    "LOCKS": len(run_dtypes.Lock),
    "STAGES": len(run_dtypes.Stage),
    "STEPS": len(run_dtypes.Step),
    "TOTALS": len(run_dtypes.Total),
    "TOUCHES": len(run_dtypes.Touch),
}


def spelled() -> dict[str, int]:
    """Every constant of the file, by name."""
    values: dict[str, int] = {}
    for block in cython_blocks(CODES):
        for line in block.body:
            name, _, text = line.partition("=")
            values[name.strip()] = int(eval(text, {"__builtins__": {}}, values))
    return values


@pytest.mark.parametrize("prefix", PREFIXES)
def test_each_code_has_its_value_and_none_is_missing(prefix: str) -> None:
    here = {
        name.removeprefix(prefix): value
        for name, value in spelled().items()
        if name.startswith(prefix)
    }

    assert here == {name: int(member) for name, member in PREFIXES[prefix].__members__.items()}


def test_the_counts_are_those_of_the_codes() -> None:
    assert {name: value for name, value in spelled().items() if name in COUNTS} == COUNTS


def test_no_constant_stands_without_a_law() -> None:
    names = [name for name in spelled() if name not in COUNTS]

    assert [name for name in names if not name.startswith(tuple(PREFIXES))] == []


def test_every_code_of_a_run_is_held() -> None:
    """A new enum of the law needs its line here."""
    enums = {
        value
        for value in vars(run_dtypes).values()
        if isinstance(value, type) and issubclass(value, IntEnum) and value is not IntEnum
    }

    assert enums == set(PREFIXES.values())
