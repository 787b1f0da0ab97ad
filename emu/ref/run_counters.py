"""The counters of a run as arrays."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from emu.model.plan import Array
from emu.ref.run_state import RxSkb
from emu.run_dtypes import Ctx, Kind, Stage, Total

if TYPE_CHECKING:
    from emu.ref.engine import Run


def counters(run: Run) -> dict[str, Array]:
    """All counters: int64 arrays, shapes as `Run.counters` of both engines gives them."""
    cpus, counts = run.cpus, [cpu.counts for cpu in run.cpus]
    shape = (len(cpus), len(Ctx), len(Stage), len(Kind))
    return {
        "busy_ps": rows((cpu.busy_at(run.until_ps) for cpu in cpus), len(Ctx)),
        "cost": np.array([cpu.cells for cpu in cpus], dtype=np.int64).reshape(shape),
        "transfers": rows((cpu.transfers for cpu in cpus), 4),
        "softnet": rows(
            (
                (c.processed, c.dropped, c.time_squeeze, c.received_rps, c.flow_limited)
                for c in counts
            ),
            5,
        ),
        "sched": rows(((c.ipis, c.wakes, c.switches) for c in counts), 3),
        "napi": rows(((n.interrupts, n.polls, n.full_polls) for n in run.napis), 3),
        "rxq": rows(((n.received, n.lost) for n in run.napis if n.gro is not None), 2),
        "txq": rows(((q.packets, q.bytes, q.doorbells, q.stops) for q in run.txqs), 4),
        "qdisc": rows(((q.enqueued, q.bypassed, q.requeued, q.dropped) for q in run.qdiscs), 4),
        "locks": rows(((c.acquired, c.contended, c.wait_ps) for c in run.lock_counts.values()), 3),
        "sockets": rows(((s.enqueued, s.dropped, s.read) for s in run.sockets), 3),
        "drops": np.array(run.drops, dtype=np.int64),
        "totals": totals(run),
        "steps": np.array(run.steps, dtype=np.int64),
    }


def rows(values: Iterable[Iterable[int]], columns: int) -> Array:
    """A table of counters: int64[n, columns]."""
    return np.array([list(row) for row in values], dtype=np.int64).reshape(-1, columns)


def totals(run: Run) -> Array:
    """``int64[len(Total)]``; what is inside is counted where it is."""
    out = np.zeros(len(Total), dtype=np.int64)
    for entry, value in {
        Total.ARRIVED: run.arrived,
        Total.READ: run.read,
        Total.FORWARDED: run.forwarded,
        Total.DROPPED: run.dropped,
        Total.INSIDE: inside(run),
        Total.SKBS: run.skbs,
        Total.SENT: run.sent,
        Total.TX_DROPPED: run.tx_dropped,
        Total.TX_DONE: run.tx_done,
        Total.TX_INSIDE: tx_inside(run),
        Total.REPEATED: run.repeated,
        Total.SAMPLES: run.sampled,
    }.items():
        out[entry] = value
    return out


def inside(run: Run) -> int:
    """Received packets in rings, GRO, backlogs, deliveries and socket queues."""
    packets = 0
    for napi in run.napis:
        packets += len(napi.ring)
        if napi.gro is not None:
            packets += sum(held.count for bucket in napi.gro.buckets for held in bucket)
            packets += sum(len(skb.members) for skb in napi.gro.rx_list)
    skbs: list[RxSkb] = []
    for cpu in run.cpus:
        skbs += [*cpu.going_up, *cpu.backlog.input, *cpu.backlog.process]
        skbs += [cpu.hand] if cpu.hand is not None else []
    for socket in run.sockets:
        skbs += socket.queue
    return packets + sum(len(skb.skb.members) for skb in skbs)


def tx_inside(run: Run) -> int:
    """Sent skbs in qdiscs, on their way, and in rings."""
    queued = sum(len(qdisc.packets) for qdisc in run.qdiscs)
    return queued + len(run.sending) + sum(len(q.ring) + len(q.entering) for q in run.txqs)
