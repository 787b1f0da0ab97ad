"""Compare two steers, and say what is not the same first."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from emu.io.plans import dump_plan
from emu.model.host import Host
from emu.model.lower import lower
from emu.model.ops import Op
from emu.model.packets import Packets
from emu.result.decisions import Decisions

SKB_PADDING = ("pad", "pad0", "pad1")


def first_difference(left: Decisions, right: Decisions, names: tuple[str, str]) -> str:
    """One line about the first packet, skb, poll or count that differs; "" when nothing does."""
    for what, mine, other in (
        ("packet", left.arrays, right.arrays),
        ("skb", fields(left.skbs), fields(right.skbs)),
        ("decision of skb", fields(left.decided), fields(right.decided)),
        ("poll", polls(left), polls(right)),
        ("socket", {"incoming_cpu": left.incoming_cpu}, {"incoming_cpu": right.incoming_cpu}),
    ):
        found = differing_row(what, mine, other, names)
        if found:
            return found
    for stage, count in left.counts.items():
        if right.counts[stage] != count:
            return f"count {stage}: {names[0]} {count}, {names[1]} {right.counts[stage]}"
    return ""


def fields(rows: np.ndarray) -> dict[str, np.ndarray]:
    """A record array as columns, without padding."""
    return {name: rows[name] for name in rows.dtype.names if name not in SKB_PADDING}


def polls(decisions: Decisions) -> dict[str, np.ndarray]:
    """The polls as columns of one length."""
    names = ("queue", "first", "count", "time_ps", "jiffy")
    return {name: getattr(decisions.polls, name) for name in names}


def differing_row(
    what: str,
    left: dict[str, np.ndarray],
    right: dict[str, np.ndarray],
    names: tuple[str, str],
) -> str:
    """The lowest row in which a column is not the same, with every column that differs there."""
    assert left.keys() == right.keys()
    lengths = {len(column) for column in (*left.values(), *right.values())}
    rows = min(lengths)
    wrong = {
        name: np.flatnonzero(column[:rows] != right[name][:rows]) for name, column in left.items()
    }
    first = min((int(at[0]) for at in wrong.values() if len(at)), default=None)
    if first is None:
        if len(lengths) > 1:
            count = len(next(iter(left.values()))), len(next(iter(right.values())))
            return f"{names[0]} has {count[0]} rows of {what}, {names[1]} {count[1]}"
        return ""
    said = [
        f"{name}: {names[0]} {left[name][first]}, {names[1]} {right[name][first]}"
        for name, at in wrong.items()
        if len(at) and at[0] == first
    ]
    return f"{what} {first}: " + "; ".join(said)


def assert_same(
    left: Decisions,
    right: Decisions,
    host: Host,
    packets: Packets,
    ops: Sequence[Op] = (),
    names: tuple[str, str] = ("core", "ref"),
) -> None:
    """Fail with the first difference and the way to see it again."""
    found = first_difference(left, right, names)
    if not found:
        return
    where = Path(tempfile.gettempdir()) / "emu-difference"
    dump_plan(lower(host, packets, ops), where.with_suffix(".plan.npz"))
    np.savez(where.with_suffix(".polls.npz"), order=left.polls.order, **polls(left))
    raise AssertionError(
        f"{found}\n"
        f"to see it again: emu.steering.decide(host, plan, polls, engine) with the plan that\n"
        f"emu.io.plans.load_plan reads from {where}.plan.npz, the polls of {where}.polls.npz,\n"
        f"host = {host!r}\nops = {list(ops)!r}"
    )
