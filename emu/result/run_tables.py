"""Tables of a run: time per CPU, where the cycles went, counters under the kernel's names."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray
from rich.console import Console

from emu.dtypes import Drop
from emu.result.render import COLUMNS, print_table
from emu.result.table import Table
from emu.run_dtypes import COST_ONE, DISTANCES, Ctx, Kind, Lock, RunDrop, Stage, Total

if TYPE_CHECKING:
    from emu.result.run import RunResult

Array = NDArray[Any]
WORKING = (Ctx.IRQ, Ctx.SOFTIRQ, Ctx.KSOFTIRQD, Ctx.USER)


@attrs.frozen(kw_only=True, eq=False)
class RunSummary:
    """Tables of one run. Counters are sums over its seeds; shares and rates are means.

    Attributes:
        headline: quantity, value, half of the 95 % interval (None for one seed), unit.
        cpus: cpu, node, percent of its time: busy, irq, softirq, ksoftirqd, user, idle.
        contexts: context; cycles for one message by kind; percent of all busy time.
        stages: stage; cycles for one message by kind and in all; percent of all cycles.
        locks: lock, acquired, contended, wait_us in all, wait_ns for one message.
        transfers: distance, lines, lines for one message.
        softnet: per CPU, /proc/net/softnet_stat; with the IPIs, wake-ups and context switches.
        queues: per rx queue: packets, rx_missed, interrupts, polls, polls that were full.
        tx_queues: per tx queue: packets, bytes, doorbells, stops.
        qdiscs: nic, its first tx queue; skbs enqueued, bypassed, requeued, dropped.
        sockets: per socket that got any: skbs enqueued, dropped, read.
        drops: reason, packets.
        totals: counters of the whole host by name, and segs_per_skb.
        conservation: since the start, warm-up included: what came in and where it is; the
            ``lost`` ones are 0, or the engine has a fault.
        cells: every (cpu, context, stage, kind) that has cycles.
    """

    headline: Table
    cpus: Table
    contexts: Table
    stages: Table
    locks: Table
    transfers: Table
    softnet: Table
    queues: Table
    tx_queues: Table
    qdiscs: Table
    sockets: Table
    drops: Table
    totals: dict[str, float]
    conservation: dict[str, int]
    cells: Table

    def to_json(self) -> dict[str, object]:
        """Plain values; the headline is left out, which `RunResult.to_json` has."""
        out: dict[str, object] = {}
        for field in attrs.fields(RunSummary):
            value = getattr(self, field.name)
            if field.name != "headline":
                out[field.name] = value.rows() if isinstance(value, Table) else value
        return out

    def print(self, out: Console) -> None:
        """Draw every table that has something to say."""
        for field in attrs.fields(RunSummary):
            value = getattr(self, field.name)
            if isinstance(value, Table) and field.name != "cells":
                print_table(out, field.name, value)
        for title in ("totals", "conservation"):
            items = getattr(self, title).items()
            out.print(f"{title}: " + ", ".join(f"{name} {value:,}" for name, value in items))

    def __str__(self) -> str:
        out = Console(width=COLUMNS, color_system=None, force_terminal=False, highlight=False)
        with out.capture() as text:
            self.print(out)
        return text.get().rstrip("\n")


def summarize(result: RunResult) -> RunSummary:
    """Make the tables."""
    return RunSummary(
        headline=headline_table(result),
        cpus=cpus_table(result),
        contexts=contexts_table(result),
        stages=stages_table(result),
        locks=locks_table(result),
        transfers=transfers_table(result),
        softnet=softnet_table(result),
        queues=queues_table(result),
        tx_queues=tx_queues_table(result),
        qdiscs=qdiscs_table(result),
        sockets=sockets_table(result),
        drops=drops_table(result),
        totals=totals(result),
        conservation=conservation(result),
        cells=cells_table(result),
    )


UNITS = {"throughput": "messages/s", "cpu": "share of all CPUs"}


def headline_table(result: RunResult) -> Table:
    """The numbers of `RunResult.headline`."""
    rows = result.headline()
    return Table(
        {
            "quantity": words(rows),
            "value": values([one.value for one in rows.values()]),
            "+-": values([one.half_width for one in rows.values()]),
            "unit": words(UNITS.get(name, "us") for name in rows),
        }
    )


def cpus_table(result: RunResult) -> Table:
    """Percent of each CPU's time by what it did."""
    busy = result.total("busy_ps")
    topology = result.host.topology
    share = 100 * busy / (result.duration_ps * len(result.measured))
    columns: dict[str, Array] = {
        "cpu": np.arange(topology.cpus),
        "node": np.array(topology.node_of, dtype=np.int64),
        "busy": share[:, WORKING].sum(axis=1),
    }
    columns |= {context.name.lower(): share[:, context] for context in WORKING}
    return Table(columns | {"idle": share[:, Ctx.IDLE]})


def per_message(result: RunResult, amount: Array) -> Array:
    """float64: an amount divided by the messages; zeros when there were none."""
    if not result.messages:
        return np.zeros(amount.shape)
    out: Array = amount / result.messages
    return out


def cycles(result: RunResult) -> Array:
    """``float64[ncpus, Ctx, Stage, Kind]``, cycles of all seeds."""
    out: Array = result.total("cost") / COST_ONE
    return out


def kinds(result: RunResult, amounts: Array) -> dict[str, Array]:
    """Columns with cycles for one message: base, bytes, lines, and their sum.

    Args:
        result: whose messages.
        amounts: ``float64[n, Kind]``.
    """
    each = per_message(result, amounts)
    return {kind.name.lower(): each[:, kind] for kind in Kind} | {"cycles": each.sum(axis=1)}


def percent(amounts: Array) -> Array:
    """Percent of their sum; zeros when it is none."""
    whole = amounts.sum()
    out: Array = 100 * amounts / whole if whole else np.zeros(amounts.shape)
    return out


def contexts_table(result: RunResult) -> Table:
    """What ran where: cycles by kind, and the time with all waiting in it."""
    cost = cycles(result).sum(axis=(0, 2))[list(WORKING)]
    busy = result.total("busy_ps").sum(axis=0)[list(WORKING)]
    names = words(context.name for context in WORKING)
    return Table({"context": names, **kinds(result, cost), "busy_percent": percent(busy)})


def stages_table(result: RunResult) -> Table:
    """Where the cycles went."""
    cost = cycles(result).sum(axis=(0, 1))
    names = words(stage.name for stage in Stage)
    return Table({"stage": names, **kinds(result, cost), "percent": percent(cost.sum(axis=1))})


def locks_table(result: RunResult) -> Table:
    """How often a lock was taken and how long CPUs waited for it."""
    locks = result.total("locks")
    return Table(
        {
            "lock": words(lock.name for lock in Lock),
            "acquired": locks[:, 0],
            "contended": locks[:, 1],
            "wait_us": locks[:, 2] / 10**6,
            "wait_ns_per_message": per_message(result, locks[:, 2] / 10**3),
        }
    )


def transfers_table(result: RunResult) -> Table:
    """Cache lines that another CPU had written last, by the distance to it."""
    lines = result.total("transfers").sum(axis=0)
    return Table(
        {
            "distance": words(DISTANCES),
            "lines": lines,
            "lines_per_message": per_message(result, lines),
        }
    )


def softnet_table(result: RunResult) -> Table:
    """The columns of /proc/net/softnet_stat, and what the scheduler did."""
    softnet, sched = result.total("softnet"), result.total("sched")
    names = ("processed", "dropped", "time_squeeze", "received_rps", "flow_limit_count")
    more = ("ipis_sent", "wakeups", "context_switches")
    columns = {"cpu": np.arange(len(softnet))}
    columns |= {name: softnet[:, place] for place, name in enumerate(names)}
    return Table(columns | {name: sched[:, place] for place, name in enumerate(more)})


def queues_table(result: RunResult) -> Table:
    """Rx queues and their NAPIs."""
    nics = result.host.nics
    rings, napis = result.total("rxq"), result.total("napi")[: len(result.total("rxq"))]
    return Table(
        {
            "nic": words(nic.name for nic in nics for _ in range(nic.rx_queues)),
            "queue": numbers(queue for nic in nics for queue in range(nic.rx_queues)),
            "irq_cpu": numbers(cpu for nic in nics for cpu in nic.irq_cpus),
            "packets": rings[:, 0],
            "rx_missed": rings[:, 1],
            "interrupts": napis[:, 0],
            "polls": napis[:, 1],
            "full_polls": napis[:, 2],
        }
    )


def tx_queues_table(result: RunResult) -> Table:
    """Tx queues as ``ethtool -S`` counts them."""
    nics, sent = result.host.nics, result.total("txq")
    columns = {
        "nic": words(nic.name for nic in nics for _ in range(nic.tx_queues)),
        "queue": numbers(queue for nic in nics for queue in range(nic.tx_queues)),
        "completion_cpu": numbers(cpu for nic in nics for cpu in nic.tx_irq_cpus),
    }
    counted = ("packets", "bytes", "doorbells", "stops")
    return Table(columns | {name: sent[:, place] for place, name in enumerate(counted)})


def qdiscs_table(result: RunResult) -> Table:
    """Qdiscs, each with the first of its tx queues."""
    plan, nics = result.plan, result.host.nics
    _, first = np.unique(plan.txq_qdisc, return_index=True)
    nic = plan.txq_nic[first]
    begins = np.cumsum([0] + [one.tx_queues for one in nics])
    counted = result.total("qdisc")
    names = ("enqueued", "bypassed", "requeued", "dropped")
    columns = {"nic": words(nics[row].name for row in nic), "queue": first - begins[nic]}
    return Table(columns | {name: counted[:, place] for place, name in enumerate(names)})


def sockets_table(result: RunResult) -> Table:
    """Sockets that got any skb."""
    counted = result.total("sockets")
    rows = np.flatnonzero(counted.any(axis=1))
    given = [socket.name for socket in result.host.sockets]
    names = words(
        given[row] if row < len(given) else f"connection-{row - len(given)}"
        for row in rows.tolist()
    )
    columns: dict[str, Array] = {"socket": rows, "name": names}
    return Table(
        columns
        | {
            name: counted[rows, place]
            for place, name in enumerate(("enqueued", "sk_drops", "read"))
        }
    )


def drop_name(code: int) -> str:
    """The reason's name."""
    return Drop(code).name if code < len(Drop) else RunDrop(code).name


def drops_table(result: RunResult) -> Table:
    """Packets that ended before an application read them, and what transmit dropped."""
    counted = result.total("drops")
    codes = np.flatnonzero(counted)
    return Table({"reason": words(map(drop_name, codes.tolist())), "packets": counted[codes]})


def totals(result: RunResult) -> dict[str, float]:
    """The host's totals by lower-case name; segments per skb of what GRO gave to the stack."""
    counted = result.total("totals")
    out: dict[str, float] = {
        total.name.lower(): int(counted[total])
        for total in Total
        if total not in (Total.INSIDE, Total.TX_INSIDE)
    }
    polled, skbs = int(result.total("rxq")[:, 0].sum()), out["skbs"]
    out["segs_per_skb"] = round(polled / skbs, 3) if skbs else 0.0
    return out


def conservation(result: RunResult) -> dict[str, int]:
    """What came in since the start, what became of it, and what is missing."""
    whole = sum((one.whole for one in result.measured[1:]), result.measured[0].whole.copy())
    names = (Total.ARRIVED, Total.READ, Total.FORWARDED, Total.DROPPED, Total.INSIDE)
    sent = (Total.SENT, Total.TX_DROPPED, Total.TX_DONE, Total.TX_INSIDE)
    out = {total.name.lower(): int(whole[total]) for total in names}
    out["lost"] = int(whole[names[0]] - sum(whole[total] for total in names[1:]))
    out |= {total.name.lower(): int(whole[total]) for total in sent}
    out["tx_lost"] = int(whole[sent[0]] - sum(whole[total] for total in sent[1:]))
    return out


def cells_table(result: RunResult) -> Table:
    """Every cell of cost, in cycles of all seeds."""
    cost = cycles(result)
    cpu, context, stage, kind = np.nonzero(cost)
    return Table(
        {
            "cpu": cpu,
            "context": words(Ctx(code).name for code in context.tolist()),
            "stage": words(Stage(code).name for code in stage.tolist()),
            "kind": words(Kind(code).name for code in kind.tolist()),
            "cycles": cost[cpu, context, stage, kind],
        }
    )


def words(names: Any) -> Array:
    """A column of text."""
    return np.array(list(names), dtype=object)


def numbers(items: Any) -> Array:
    """A column of whole numbers."""
    return np.array(list(items), dtype=np.int64)


def values(items: list[float | None]) -> Array:
    """A column of numbers of which some are missing."""
    return np.array(items, dtype=object)
