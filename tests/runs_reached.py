"""What the drawn runs reached: comparing what never happens proves nothing.

Each name of `REACHED` is a thing that both engines must have done; the value says how often it was
in a run, from its plan and outcome.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from emu.dtypes import Drop
from emu.model.run_plan import RunPlan
from emu.run_dtypes import Cost, Ctx, Kind, Latency, Limit, Lock, Qdisc, RunDrop, Stage, Step, Total
from tests.runs_equal import Outcome

Count = Callable[[RunPlan, Outcome], int]


def trace_of(outcome: Outcome, *steps: Step) -> Any:
    """The rows of those kinds."""
    return outcome.trace[np.isin(outcome.trace["step"], steps)]


def step_taken(step: Step) -> Count:
    return lambda plan, outcome: int(outcome.counters["steps"][step])


def dropped(reason: int) -> Count:
    return lambda plan, outcome: int(outcome.counters["drops"][reason])


def contended(lock: Lock) -> Count:
    return lambda plan, outcome: int(outcome.counters["locks"][lock, 1])


def total(which: Total) -> Count:
    return lambda plan, outcome: int(outcome.counters["totals"][which])


def cell(stage: Stage, kind: Kind) -> Count:
    return lambda plan, outcome: int(outcome.counters["cost"][:, :, stage, kind].sum() > 0)


def in_context(ctx: Ctx) -> Count:
    return lambda plan, outcome: int((outcome.trace["ctx"] == ctx).sum())


def counted(name: str, column: int) -> Count:
    return lambda plan, outcome: int(outcome.counters[name][:, column].sum())


def sent_through(kind: Qdisc) -> Count:
    def count(plan: RunPlan, outcome: Outcome) -> int:
        mine = plan.nics["qdisc"][plan.txq_nic] == kind
        return int(outcome.counters["txq"][mine, 0].sum())

    return count


def kicks(plan: RunPlan, outcome: Outcome) -> tuple[int, int]:
    """KICKs that sent IPIs, and KICKs that freed deferred skbs; told apart by what they cost."""
    send, free, entry = (
        int(plan.costs[row]) for row in (Cost.IPI_SEND, Cost.SKB_FREE, Cost.SOFTIRQ)
    )
    with_ipis = with_frees = 0
    for cost in trace_of(outcome, Step.KICK)["cost"].tolist():
        parts = (
            (ipis, rest // free)
            for first in (0, entry)
            for ipis in range(len(plan.napi_cpu) + plan.base.ncpus + 1)
            if (rest := cost - first - ipis * send) >= 0 and rest % free == 0
        )
        ipis, frees = next(parts, (0, 0))
        with_ipis += ipis > 0
        with_frees += frees > 0
    return with_ipis, with_frees


def migrations(plan: RunPlan, outcome: Outcome) -> int:
    """Application threads that were dispatched on another CPU than before."""
    where: dict[int, int] = {}
    moved = 0
    for row in trace_of(outcome, Step.DISPATCH):
        thread, cpu = int(row["arg"]), int(row["cpu"])
        if thread < len(plan.threads):
            moved += where.get(thread, cpu) != cpu
            where[thread] = cpu
    return moved


def pool_wakes(plan: RunPlan, outcome: Outcome) -> int:
    """Threads of pools that got to run."""
    pools = plan.sockets[plan.sockets["thread_len"] > 1]
    members = {
        int(thread)
        for pool in pools
        for thread in plan.sock_threads[pool["thread_off"] :][: pool["thread_len"]]
    }
    return sum(int(row["arg"]) in members for row in trace_of(outcome, Step.DISPATCH))


def splits(plan: RunPlan, outcome: Outcome) -> int:
    """SENDs that an interrupt cut in two: softirq work before the thread's next step."""
    sending: set[int] = set()
    found = 0
    for row in outcome.trace:
        cpu = int(row["cpu"])
        if row["ctx"] == Ctx.USER:
            sending.discard(cpu)
            if row["step"] == Step.SEND:
                sending.add(cpu)
        elif row["ctx"] == Ctx.SOFTIRQ and cpu in sending:
            sending.discard(cpu)
            found += 1
    return found


def restarts(plan: RunPlan, outcome: Outcome) -> int:
    """NET_TX of a qdisc whose tx queue had been stopped."""
    stopped = {
        int(plan.txq_qdisc[queue]) for queue in np.flatnonzero(outcome.counters["txq"][:, 3])
    }
    return sum(int(arg) in stopped for arg in trace_of(outcome, Step.NET_TX)["arg"])


def with_rfs(plan: RunPlan, outcome: Outcome) -> int:
    flows = plan.sock_flow_entries and plan.rxq_flow_entries.any()
    return int(outcome.counters["steps"][Step.RPS]) if flows else 0


def merged(plan: RunPlan, outcome: Outcome) -> int:
    """Packets that GRO joined to others, as far as they were read."""
    return int(outcome.counters["totals"][Total.READ] - outcome.counters["sockets"][:, 2].sum())


def jittered(plan: RunPlan, outcome: Outcome) -> int:
    return int(plan.latencies[Latency.IRQ_JITTER] > 0)


REACHED: dict[str, Count] = {
    **{f"step {step.name}": step_taken(step) for step in Step},
    **{f"drop {reason.name}": dropped(reason) for reason in RunDrop},
    "drop NO_SOCKET": dropped(Drop.NO_SOCKET),
    **{f"qdisc {kind.name}": sent_through(kind) for kind in Qdisc},
    **{f"lock {lock.name} contended": contended(lock) for lock in Lock},
    **{f"context {ctx.name}": in_context(ctx) for ctx in Ctx},
    "time_squeeze": counted("softnet", 2),
    "received_rps": counted("softnet", 3),
    "flow limit": counted("softnet", 4),
    "full poll": counted("napi", 2),
    "stop": counted("txq", 3),
    "bypass": counted("qdisc", 1),
    "requeue": counted("qdisc", 2),
    "restart": restarts,
    "KICK with IPIs": lambda plan, outcome: kicks(plan, outcome)[0],
    "KICK with deferred skbs": lambda plan, outcome: kicks(plan, outcome)[1],
    "pool sleeper woken": pool_wakes,
    "thread migration": migrations,
    "user step split": splits,
    "RFS": with_rfs,
    "GRO merge": merged,
    "forwarded": total(Total.FORWARDED),
    "repeated": total(Total.REPEATED),
    "sample": total(Total.SAMPLES),
    "interrupt jitter": jittered,
    "lines of a lookup's chain": cell(Stage.LOOKUP, Kind.LINES),
    "lines of an XPS map": cell(Stage.XPS, Kind.LINES),
    "lines of a payload": cell(Stage.COPY, Kind.LINES),
    "lines of a free": cell(Stage.FREE, Kind.LINES),
    "legacy": lambda plan, outcome: int(plan.limits[Limit.REFCNT_IN_LOOKUP_LINE]),
    "IPv6": lambda plan, outcome: int((plan.base.packets.family == 6).any()),
}


def reached(plan: RunPlan, outcome: Outcome) -> Counter[str]:
    """How often each thing was in one run."""
    return Counter({name: count(plan, outcome) for name, count in REACHED.items()})
