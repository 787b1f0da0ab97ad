"""Summaries of a steer: per queue, CPU, node, socket; drops by reason; what is exact."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
from numpy.typing import NDArray

from emu.dtypes import Direction, Drop, Secret
from emu.result.table import Table

if TYPE_CHECKING:
    from emu.result.decisions import Decisions


@attrs.frozen(kw_only=True, eq=False)
class Summary:
    """Counts of packets and skbs.

    Attributes:
        totals: packets, skbs, packets by direction, polls.
        queues: nic, queue, irq_cpu, packets, skbs.
        cpus: cpu, node, irq packets (interrupt), napi packets (GRO: interrupt or kthread), protocol
            packets (after RPS), app packets (read by threads there), completions (of tx queues).
        nodes: the same per NUMA node, and local: packets whose thread is on the node that processed
            them.
        sockets: socket row, name, packets, skbs, cpus that delivered to it.
        tx_queues: nic, queue, completion_cpu, skbs, cpus that sent through it, remote: skbs that
            another CPU completes.
        drops: reason, packets.
        secrets: name, packets whose decisions hang on it.
    """

    totals: dict[str, int]
    queues: Table
    cpus: Table
    nodes: Table
    sockets: Table
    tx_queues: Table
    drops: Table
    secrets: Table

    def to_json(self) -> dict[str, object]:
        """Plain values, as ``--json`` prints them."""
        out: dict[str, object] = {"totals": self.totals}
        for field in attrs.fields(Summary):
            if field.name != "totals":
                out[field.name] = getattr(self, field.name).rows()
        return out


def summarize(decisions: Decisions) -> Summary:
    """Count what was decided."""
    segs = decisions.skbs["segs"].astype(np.int64)
    return Summary(
        totals=totals(decisions),
        queues=queues_table(decisions),
        cpus=cpus_table(decisions, segs),
        nodes=nodes_table(decisions, segs),
        sockets=sockets_table(decisions, segs),
        tx_queues=tx_queues_table(decisions),
        drops=drops_table(decisions),
        secrets=secrets_table(decisions),
    )


def totals(decisions: Decisions) -> dict[str, int]:
    """Packets by direction, skbs, polls."""
    direction = decisions.arrays["direction"]
    out = {"packets": len(decisions), "skbs": len(decisions.skbs), "polls": len(decisions.polls)}
    for way in Direction:
        out[way.name.lower()] = int((direction == way).sum())
    return out


def queues_table(decisions: Decisions) -> Table:
    """Packets and skbs per rx queue, interrupt CPU beside it."""
    host = decisions.host
    first = np.cumsum([0] + [nic.rx_queues for nic in host.nics])
    arrays = decisions.arrays
    came_in = arrays["rx_queue"] >= 0
    queue = first[arrays["nic"][came_in]] + arrays["rx_queue"][came_in]
    skb = arrays["skb"][came_in]
    begins = skb[skb >= 0]
    head_queue = np.full(len(decisions.skbs), -1, dtype=np.int64)
    head_queue[begins[::-1]] = queue[skb >= 0][::-1]
    return Table(
        {
            "nic": np.array(
                [nic.name for nic in host.nics for _ in range(nic.rx_queues)], dtype=object
            ),
            "queue": np.array(
                [q for nic in host.nics for q in range(nic.rx_queues)], dtype=np.int64
            ),
            "irq_cpu": np.array([cpu for nic in host.nics for cpu in nic.irq_cpus], dtype=np.int64),
            "packets": np.bincount(queue, minlength=first[-1])[: first[-1]],
            "skbs": np.bincount(head_queue[head_queue >= 0], minlength=first[-1])[: first[-1]],
        }
    )


def per_cpu(
    cpus: int, cpu: NDArray[Any], weight: NDArray[np.int64] | None = None
) -> NDArray[np.int64]:
    """Sum of weights per CPU; entries of -1 are nobody's."""
    has = cpu >= 0
    weights = None if weight is None else weight[has]
    return np.bincount(cpu[has], weights=weights, minlength=cpus).astype(np.int64)


def cpus_table(decisions: Decisions, segs: NDArray[np.int64]) -> Table:
    """What each CPU does, in packets."""
    topology = decisions.host.topology
    decided, cpus = decisions.decided, topology.cpus
    sends = (decided["tx_queue"] >= 0).astype(np.int64)
    return Table(
        {
            "cpu": np.arange(cpus),
            "node": np.array(topology.node_of, dtype=np.int64),
            "irq": per_cpu(cpus, decisions.arrays["irq_cpu"]),
            "napi": per_cpu(cpus, decided["napi_cpu"], segs),
            "protocol": per_cpu(cpus, decided["cpu"], segs),
            "app": per_cpu(cpus, decided["app_cpu"], segs),
            "backlog": per_cpu(cpus, decided["backlog_cpu"], segs),
            "completions": per_cpu(cpus, decided["completion_cpu"], sends),
        }
    )


def nodes_table(decisions: Decisions, segs: NDArray[np.int64]) -> Table:
    """What each NUMA node does, in packets, and how much of it stays there."""
    topology = decisions.host.topology
    node_of = np.array(topology.node_of, dtype=np.int64)
    nodes = int(node_of.max()) + 1
    decided = decisions.decided
    both = (decided["cpu"] >= 0) & (decided["app_cpu"] >= 0)
    here, there = node_of[decided["cpu"][both]], node_of[decided["app_cpu"][both]]
    weights = segs[both]

    def sums(node: NDArray[np.int64], weight: NDArray[np.int64]) -> NDArray[np.int64]:
        return np.bincount(node, weights=weight, minlength=nodes).astype(np.int64)

    processed = decided["cpu"] >= 0
    return Table(
        {
            "node": np.arange(nodes),
            "cpus": np.bincount(node_of, minlength=nodes),
            "protocol": sums(node_of[decided["cpu"][processed]], segs[processed]),
            "app": sums(there, weights),
            "local": sums(there[here == there], weights[here == there]),
        }
    )


def sockets_table(decisions: Decisions, segs: NDArray[np.int64]) -> Table:
    """Packets and skbs per socket that got any, and on how many CPUs they were processed."""
    decided = decisions.decided
    has = (decided["socket"] >= 0) & (decided["direction"] == Direction.RECEIVED)
    socket, cpu = decided["socket"][has].astype(np.int64), decided["cpu"][has].astype(np.int64)
    rows, inverse = np.unique(socket, return_inverse=True)
    pairs = np.unique(socket * decisions.host.topology.cpus + cpu)
    cpus = np.bincount(
        np.searchsorted(rows, pairs // decisions.host.topology.cpus), minlength=len(rows)
    )
    names = [socket.name for socket in decisions.host.sockets]
    return Table(
        {
            "socket": rows,
            "name": np.array(
                [
                    names[row] if row < len(names) else f"connection-{row - len(names)}"
                    for row in rows
                ],
                dtype=object,
            ),
            "packets": np.bincount(inverse, weights=segs[has], minlength=len(rows)).astype(
                np.int64
            ),
            "skbs": np.bincount(inverse, minlength=len(rows)),
            "cpus": cpus,
        }
    )


def tx_queues_table(decisions: Decisions) -> Table:
    """Skbs per tx queue in use: how many CPUs share it, how many completions run elsewhere."""
    decided, host = decisions.decided, decisions.host
    has = decided["tx_queue"] >= 0
    rows = decided[has]
    first = np.cumsum([0] + [nic.tx_queues for nic in host.nics])
    queue = first[rows["tx_nic"]] + rows["tx_queue"]
    sender = sending_cpu(rows).astype(np.int64)
    used, inverse = np.unique(queue, return_inverse=True)
    pairs = np.unique(queue[sender >= 0] * host.topology.cpus + sender[sender >= 0])
    senders = np.bincount(np.searchsorted(used, pairs // host.topology.cpus), minlength=len(used))
    remote = (sender >= 0) & (rows["completion_cpu"] != sender)
    nic = np.searchsorted(first, used, side="right") - 1
    return Table(
        {
            "nic": np.array([host.nics[index].name for index in nic], dtype=object),
            "queue": used - first[nic],
            "completion_cpu": np.array(
                [host.nics[n].tx_irq_cpus[q] for n, q in zip(nic, used - first[nic], strict=True)],
                dtype=np.int64,
            ),
            "skbs": np.bincount(inverse, minlength=len(used)),
            "cpus": senders,
            "remote": np.bincount(inverse[remote], minlength=len(used)),
        }
    )


def sending_cpu(decided: NDArray[np.void]) -> NDArray[np.int32]:
    """The CPU that sends: the thread's; the worker's (redirect); the processing one (forwarded)."""
    from emu.dtypes import TxOf

    return np.where(
        decided["tx_of"] == TxOf.FORWARD,
        decided["cpu"],
        np.where(decided["tx_of"] == TxOf.REDIRECT, decided["backlog_cpu"], decided["app_cpu"]),
    ).astype(np.int32)


def drops_table(decisions: Decisions) -> Table:
    """Packets that ended without a socket or a way out, by reason."""
    counts = np.bincount(decisions.arrays["drop"], minlength=len(Drop))
    reasons = [reason for reason in Drop if reason and counts[reason]]
    return Table(
        {
            "reason": np.array([reason.name for reason in reasons], dtype=object),
            "packets": np.array([counts[reason] for reason in reasons], dtype=np.int64),
        }
    )


def secrets_table(decisions: Decisions) -> Table:
    """Packets by the secret that their decisions hang on; EXACT hang on none."""
    secrets = decisions.arrays["secrets"]
    rows = [("EXACT", int((secrets == 0).sum()))]
    rows += [(str(bit.name), int(((secrets & bit) != 0).sum())) for bit in Secret]
    rows = [row for row in rows if row[1]]
    return Table(
        {
            "secret": np.array([name for name, _ in rows], dtype=object),
            "packets": np.array([count for _, count in rows], dtype=np.int64),
        }
    )
