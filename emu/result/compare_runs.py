"""Two runs beside each other: time, cycles and counts for one message, before and after."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from emu.result.run import RunResult
from emu.result.run_tables import WORKING, cycles, per_message, words
from emu.result.table import Table
from emu.run_dtypes import DISTANCES, Ctx, Kind, Lock, RunDrop, Stage, Total

Array = NDArray[Any]


def two_sides(heading: str, names: list[str], before: Array, after: Array) -> Table:
    """A table with a row for each name."""
    return Table(
        {heading: words(names), "before": before, "after": after, "change": after - before}
    )


def times(before: RunResult, after: RunResult) -> Table:
    """Percent of the time of all online CPUs by what they did."""
    order = [*WORKING, Ctx.IDLE]
    names = [context.name for context in order]
    return two_sides("context", names, shares(before)[order], shares(after)[order])


def shares(result: RunResult) -> Array:
    """``float64[Ctx]``: percent of the time of all online CPUs."""
    busy = result.total("busy_ps")[list(result.host.topology.online_cpus)].sum(axis=0)
    out: Array = 100 * busy / (result.capacity_ps * len(result.measured))
    return out


def stages(before: RunResult, after: RunResult) -> Table:
    """Cycles for one message by stage."""
    names = [stage.name for stage in Stage]
    return two_sides("stage", names, cells(before).sum(axis=1), cells(after).sum(axis=1))


def cells(result: RunResult) -> Array:
    """``float64[Stage, Kind]``: cycles for one message."""
    return per_message(result, cycles(result).sum(axis=(0, 1)))


def changes(before: RunResult, after: RunResult) -> Table:
    """Cycles for one message by stage and kind; the largest change first."""
    old, new = cells(before), cells(after)
    order = np.argsort(-np.abs(new - old), axis=None, kind="stable")
    stage, kind = np.unravel_index(order, old.shape)
    names = [
        f"{Stage(row).name} {Kind(column).name.lower()}"
        for row, column in zip(stage.tolist(), kind.tolist(), strict=True)
    ]
    return two_sides("cycles", names, old[stage, kind], new[stage, kind])


def counts(before: RunResult, after: RunResult) -> Table:
    """What else was counted, for one message."""
    old, new = counted(before), counted(after)
    names = list(old)
    return two_sides("count", names, np.array(list(old.values())), np.array(list(new.values())))


def counted(result: RunResult) -> dict[str, float]:
    """Counts for one message by name."""
    sums = {
        name: result.total(name).sum(axis=0)
        for name in ("softnet", "sched", "napi", "txq", "qdisc", "transfers")
    }
    locks, drops, totals = (result.total(name) for name in ("locks", "drops", "totals"))
    received = int(drops.sum() - drops[RunDrop.QDISC_DROP])
    amounts = {
        "interrupts": sums["napi"][0],
        "NAPI polls": sums["napi"][1],
        "full polls": sums["napi"][2],
        "time_squeeze": sums["softnet"][2],
        "received_rps": sums["softnet"][3],
        "skbs to the stack": totals[Total.SKBS],
        "IPIs sent": sums["sched"][0],
        "wake-ups": sums["sched"][1],
        "context switches": sums["sched"][2],
        "packets sent": sums["txq"][0],
        "doorbells": sums["txq"][2],
        "tx queue stops": sums["txq"][3],
        "qdisc enqueued": sums["qdisc"][0],
        "qdisc requeued": sums["qdisc"][2],
        "received and dropped": received,
        "dropped by a qdisc": drops[RunDrop.QDISC_DROP],
    }
    amounts |= {f"lines from {name}": sums["transfers"][at] for at, name in enumerate(DISTANCES)}
    for lock in Lock:
        amounts[f"{lock.name} lock contended"] = locks[lock, 1]
        amounts[f"{lock.name} lock wait, ns"] = locks[lock, 2] / 1000
    return {name: float(per_message(result, np.array(amount))) for name, amount in amounts.items()}
