"""Unfolds a run's plan into its objects."""

from __future__ import annotations

import numpy as np

from emu.model.plan import Array
from emu.model.run_plan import RunPlan
from emu.ref.flow_limit import FlowLimit
from emu.ref.ops import apply_op
from emu.ref.record import SILENT
from emu.ref.rfs import Rfs
from emu.ref.run_cost import Prices, proto_column
from emu.ref.run_lock import Counts, Lock
from emu.ref.run_state import (
    Cpu,
    Flow,
    Link,
    Napi,
    QdiscState,
    Socket,
    Thread,
    TxQueue,
    TxSkb,
)
from emu.ref.setup import make_state
from emu.run_dtypes import DROPS, Latency, Limit
from emu.run_dtypes import Lock as LockKind

XPS_CPUS = 0


class World:
    """Everything that a run is about: the host's objects, and counts of its packets.

    Attributes:
        host: what a steer works on; the leaves that decide take it.
        rows: open loop: rows of the packets in the order in which they arrive.
        sending: skbs that are under way to a qdisc or a ring.
    """

    def __init__(self, plan: RunPlan, arrived: dict[str, Array]) -> None:
        base = plan.base
        self.plan = plan
        self.host = make_state(base, arrived, SILENT)
        for op in base.ops:
            apply_op(self.host, op)
        self.view = self.host.view
        self.latencies: list[int] = plan.latencies.tolist()
        self.limits: list[int] = plan.limits.tolist()
        self.exp_table: list[int] = plan.exp_table.tolist()
        self.jiffy_ps: int = self.latencies[Latency.JIFFY]
        self.hz = base.hz
        self.proto_of = [proto_column(proto) for proto in self.view.ip_proto]
        self.rx_queue: list[int] = arrived["rx_queue"].tolist()
        self.node_of: list[int] = base.node_of.tolist()
        workload = plan.workload[0]
        self.closed = bool(workload["closed"])
        self.response_bytes, self.work = int(workload["response_bytes"]), int(workload["work"])
        self.work_exponential = bool(workload["work_exponential"])
        order = np.argsort(base.packets.arrival_ps, kind="stable").tolist()
        come_in = [row for row in order if self.rx_queue[row] >= 0]  # the others were sent
        self.rows: list[int] = [] if self.closed else come_in
        self.next_row = 0
        self.flows = [Flow(number) for number in range(len(order))] if self.closed else []
        self.lock_counts = {kind: Counts() for kind in LockKind}
        self.cpus = make_cpus(plan)
        self.links = make_links(self)
        self.napis = make_napis(self)
        self.qdiscs = make_qdiscs(self)
        self.txqs = make_txqs(self)
        self.sockets = make_sockets(self)
        self.threads = make_threads(self)
        self.rfs: Rfs | None = None
        if plan.sock_flow_entries:
            sizes = plan.rxq_flow_entries.tolist()
            low_bits = bool(base.rfs_low_bits)
            self.rfs = Rfs(plan.sock_flow_entries, sizes, base.ncpus, low_bits)
        self.backlog_heads = [0] * base.ncpus
        self.sending: set[TxSkb] = set()
        self.drops = [0] * DROPS
        self.arrived = self.repeated = self.dropped = 0
        self.read = self.forwarded = self.skbs = 0
        self.sent = self.tx_dropped = self.tx_done = self.sampled = 0

    def lock(self, kind: LockKind) -> Lock:
        """A lock that counts with those of its kind."""
        return Lock(self.lock_counts[kind])

    def jiffy(self, time_ps: int) -> int:
        """The jiffies counter."""
        return time_ps // self.jiffy_ps

    def limit(self, row: Limit) -> int:
        """A limit of the plan."""
        return self.limits[row]


def make_cpus(plan: RunPlan) -> list[Cpu]:
    """All CPUs, each with its ksoftirqd."""
    prices, threads = Prices(plan), len(plan.threads)
    cpus = [
        Cpu(number, prices, Thread(threads + number, number, [number], is_ksoftirqd=True))
        for number in range(plan.base.ncpus)
    ]
    table_len = 1 << int(plan.limits[Limit.FLOW_LIMIT_BITS])
    low_bits = bool(plan.base.rfs_low_bits)
    for number in np.flatnonzero(plan.flow_limit).tolist():
        cpus[number].flow_limit = FlowLimit(table_len, low_bits)
    return cpus


def make_links(world: World) -> list[Link]:
    """The NICs."""
    plan, out = world.plan, []
    for index, row in enumerate(plan.nics):
        steer = world.host.nics[index]
        out.append(
            Link(
                index=index,
                steer=steer,
                rx_ring=int(row["rx_ring"]),
                tx_ring=int(row["tx_ring"]),
                bql_bytes=int(row["bql_bytes"]),
                ps_per_byte=int(row["ps_per_byte"]),
                map_node=int(row["map_node"]),
                first_txq=int(plan.base.nics[index]["txq_first"]),
                has_cpu_maps=bool(steer.xps.lists(XPS_CPUS)),
                map_used_ps=[-1] * plan.base.ncpus,
            )
        )
    return out


def make_napis(world: World) -> list[Napi]:
    """The NAPIs of the rx queues, and behind them those that have tx queues only."""
    plan = world.plan
    columns = zip(
        plan.napi_cpu.tolist(),
        plan.napi_usecs_ps.tolist(),
        plan.napi_frames.tolist(),
        strict=True,
    )
    out = [
        Napi(number, world.cpus[cpu], usecs_ps, frames)
        for number, (cpu, usecs_ps, frames) in enumerate(columns)
    ]
    for number, (nic, queue) in enumerate(world.host.queue_place):
        napi = out[number]
        napi.link, napi.queue = world.links[nic], queue
        napi.gro = world.host.nics[nic].queues[queue].gro
    return out


def make_qdiscs(world: World) -> list[QdiscState]:
    """The qdiscs, each locked as its NIC's are."""
    plan = world.plan
    kind_of = dict(zip(plan.txq_qdisc.tolist(), plan.nics["qdisc"][plan.txq_nic], strict=True))
    return [
        QdiscState(
            number, int(kind_of[number]), world.lock(LockKind.ROOT), world.lock(LockKind.BUSY)
        )
        for number in range(plan.qdiscs)
    ]


def make_txqs(world: World) -> list[TxQueue]:
    """The tx queues, each joined to the NAPI that completes it."""
    plan, out = world.plan, []
    columns = zip(
        plan.txq_nic.tolist(), plan.txq_napi.tolist(), plan.txq_qdisc.tolist(), strict=True
    )
    for number, (nic, napi, qdisc) in enumerate(columns):
        txq = TxQueue(
            number,
            world.links[nic],
            world.napis[napi],
            world.qdiscs[qdisc],
            world.lock(LockKind.TX),
        )
        txq.napi.txqs.append(txq)
        out.append(txq)
    return out


def make_sockets(world: World) -> list[Socket]:
    """The sockets, in the states that the lookup's tables gave them."""
    plan = world.plan
    states, protos = world.host.lookup.sockets["state"], plan.base.sockets["proto"]
    columns = zip(states.tolist(), protos.tolist(), plan.sockets["rcvbuf_bytes"], strict=True)
    out = [
        Socket(
            number,
            state,
            proto,
            int(rcvbuf),
            world.host.socket_states[number],
            world.lock(LockKind.SOCK),
        )
        for number, (state, proto, rcvbuf) in enumerate(columns)
    ]
    chains = plan.chains.tolist()
    for socket, row in zip(out, plan.sockets, strict=True):
        first = int(row["chain_off"])
        members = chains[first : first + int(row["chain_len"])]
        socket.chain = [out[member] for member in members]
    return out


def make_threads(world: World) -> list[Thread]:
    """The applications' threads, all asleep, each with the sockets that it serves."""
    plan, out = world.plan, []
    cpus = plan.thread_cpus.tolist()
    for number, row in enumerate(plan.threads):
        first = int(row["allow_off"])
        out.append(
            Thread(
                number=number,
                cpu=int(row["cpu"]),
                allowed=cpus[first : first + int(row["allow_len"])],
                event_loop=bool(row["event_loop"]),
            )
        )
    readers = plan.sock_threads.tolist()
    for socket, row in zip(world.sockets, plan.sockets, strict=True):
        first = int(row["thread_off"])
        threads = [out[reader] for reader in readers[first : first + int(row["thread_len"])]]
        if len(threads) == 1:
            socket.reader = threads[0]
        for thread in threads if len(threads) > 1 else []:
            thread.pool = socket
            socket.sleepers.append(thread)
    return out
