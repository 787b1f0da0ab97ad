"""The reference's timing engine: numbers by hand from docs/run.md, and the laws of a run."""

from __future__ import annotations

import attrs
import numpy as np
import pytest

from emu.model.host import Host
from emu.model.machines_toml import get_machine
from emu.model.masks import CpuSet
from emu.model.nic import Nic, Rss
from emu.model.sockets import Socket
from emu.model.topology import Topology
from emu.model.workloads import RequestResponse
from emu.ref.engine import Run
from emu.ref.steer import arrive
from emu.run_dtypes import (
    Cost,
    Ctx,
    Latency,
    Lock,
    RunDrop,
    Stage,
    Step,
    Total,
    Touch,
)
from emu.timing import prepare
from tests.choices import Choices, Seeded
from tests.laws_of_runs import broken_law
from tests.runs_equal import long_enough
from tests.strategies.runs import make_case, plan_of

US = 1_000_000
MACHINE = get_machine("xeon-2015")
SERVER = "0.0.0.0:12865"

# One unit of cost takes one picosecond: the numbers below can be added up by hand.
COSTS = {
    Cost.HARDIRQ: 40,
    Cost.SOFTIRQ: 20,
    Cost.IPI_SEND: 6,
    Cost.IPI_HANDLER: 35,
    Cost.IDLE_EXIT: 30,
    Cost.WAKE: 9,
    Cost.CTX_SWITCH: 10,
    Cost.NAPI_POLL: 10,
    Cost.NAPI_COMPLETE: 7,
    Cost.DRIVER_RX: 15,
    Cost.GRO_PASS: 5,
    Cost.RPS: 17,
    Cost.BACKLOG: 8,
    Cost.IP_RX: 12,
    Cost.LOOKUP: 8,
    Cost.TCP_RX: 25,
    Cost.UDP_RX: 24,
    Cost.LOCK: 2,
    Cost.TCP_RECV: 20,
    Cost.UDP_RECV: 21,
    Cost.RECV_BYTE: 1,
    Cost.SKB_FREE: 4,
    Cost.DEFER_FREE: 3,
    Cost.TCP_SEND: 30,
    Cost.SEND_BYTE: 1,
    Cost.QDISC: 11,
    Cost.QDISC_RUN: 6,
    Cost.DRIVER_TX: 13,
    Cost.DOORBELL: 14,
    Cost.TX_COMPLETE: 16,
}
LINES = {
    Touch.SOCK_RX_READ: 2,
    Touch.SOCK_TX_SEND: 3,
    Touch.SKB_READ: 1,
    Touch.SKB_PROTO: 1,
    Touch.SKB_COMPLETE: 1,
    Touch.WMEM_COMPLETE: 1,
    Touch.TX_RING_COMPLETE: 1,
    Touch.BACKLOG_SPLICE: 2,
}
LATENCIES = {
    Latency.IRQ_DELAY: 100,
    Latency.IPI: 50,
    Latency.SLICE: 10**6,
    Latency.WIRE: 10,
    Latency.TURNAROUND: 1000,
    Latency.RTO: 5000,
    Latency.JIFFY: 10**9,
}


def host_of(*, cpus=2, threads=(1,), proto="tcp", sockets=None, **fields):
    """A host with one NIC whose interrupts are on CPU 0, and one server."""
    hosts = ("netdev_budget", "netdev_max_backlog", "rps_sock_flow_entries", "hz")
    nic = {name: value for name, value in fields.items() if name not in hosts}
    nic = {"rx_queues": 1, "tx_queues": 1, "rx_usecs": "0us", "bql_bytes": 0, **nic}
    nic.setdefault("irq_cpus", (0,) * nic["rx_queues"])
    server = Socket(name="server", proto=proto, bind=SERVER, threads=CpuSet(threads))
    return Host(
        topology=Topology(cpus=cpus),
        nics=[Nic(name="eth0", rss=Rss(key="microsoft", udp_hash="4tuple"), **nic)],
        sockets=sockets or [server],
        **{name: fields[name] for name in hosts if name in fields},
    )


def plan_with(host, *, costs=COSTS, lines=LINES, latencies=LATENCIES, **load):
    """A plan with round numbers in place of a machine's."""
    plan = prepare(host, RequestResponse(**load), machine=MACHINE, seed=1, engine="ref")
    tables = {}
    for name, given in (("costs", costs), ("latencies", latencies), ("lines", lines)):
        tables[name] = np.zeros_like(getattr(plan, name))
        for row, value in given.items():
            tables[name][row] = value
    distances = {
        "transfer": np.array([0, 5, 50, 500]),
        "stream": np.array([0, 2, 20, 200]),
    }
    return attrs.evolve(plan, ps_num=1, ps_den=1, **tables, **distances)


def run_of(plan, until_ps):
    """A run that has come that far."""
    run = Run(plan, arrive(plan.base), trace_rows=100_000)
    run.advance(until_ps)
    return run


def rows_of(run):
    """The trace as (time, cost, step, arg, source, cpu, ctx)."""
    return [
        (
            int(row["time_ps"]),
            int(row["cost"]),
            Step(row["step"]).name,
            *(int(row[name]) for name in ("arg", "source", "cpu")),
            Ctx(row["ctx"]).name,
        )
        for row in run.trace()
    ]


def total(run, which):
    return int(run.counters()["totals"][which])


def dropped(run, reason):
    return int(run.counters()["drops"][reason])


def test_two_requests_step_by_step():
    """Two flows ask at once; CPU 0 has the interrupt, both threads live on CPU 1."""
    plan = plan_with(host_of(), flows=2)
    buckets = [value % 8 for value in arrive(plan.base)["rx_hash"].tolist()]
    first, then = (0, 1) if buckets[0] <= buckets[1] else (1, 0)  # order of GRO's flush
    thread_of = {0: 1, 1: 2}  # thread 0 is the listener's
    run = run_of(plan, 1700)
    assert rows_of(run) == [
        (0, 0, "ARRIVE", 0, 5, -1, "IDLE"),
        (0, 0, "ARRIVE", 1, 6, -1, "IDLE"),
        (100, 40 + 30, "IRQ", 0, 2, 0, "IRQ"),  # out of idle
        (170, 20 + 10, "POLL", 0, 0, 0, "SOFTIRQ"),
        (200, 15 + 5, "RX", 0, 0, 0, "SOFTIRQ"),
        (220, 15 + 5, "RX", 1, 0, 0, "SOFTIRQ"),
        (240, 12 + 8, "PROTO", first, 0, 0, "SOFTIRQ"),
        (260, 25 + 9 + 6, "ENQUEUE", first, 0, 0, "SOFTIRQ"),  # wakes idle CPU 1 for 310
        (300, 12 + 8, "PROTO", then, 0, 0, "SOFTIRQ"),
        (310, 30 + 10, "DISPATCH", thread_of[first], 1, 1, "USER"),
        (320, 25 + 9, "ENQUEUE", then, 0, 0, "SOFTIRQ"),  # CPU 1 is up
        # 2 lines of the socket and 1 of the skb at 5, 1 byte, 1 streamed line at 2
        (350, 20 + 3 * 5 + 1 + 2 + 3, "READ", first, 1, 1, "USER"),
        (354, 7, "COMPLETE", 0, 0, 0, "SOFTIRQ"),
        (361, 4, "KICK", 0, 0, 0, "SOFTIRQ"),  # frees the skb deferred at 350
        (391, 30 + 1 + 3 * 5, "SEND", first, 1, 1, "USER"),
        (437, 11, "QDISC", first, 1, 1, "USER"),
        (448, 2 + 13 + 14, "XMIT", first, 1, 1, "USER"),  # done at 477: interrupt at 577
        (477, 10, "DISPATCH", thread_of[then], 1, 1, "USER"),
        (487, 20 + 3 * 5 + 1 + 2 + 3, "READ", then, 1, 1, "USER"),
        (528, 30 + 1 + 3 * 5, "SEND", then, 1, 1, "USER"),
        (574, 11, "QDISC", then, 1, 1, "USER"),
        (577, 40 + 30, "IRQ", 0, 2, 0, "IRQ"),
        (585, 2 + 13 + 14, "XMIT", then, 1, 1, "USER"),  # done at 614
        # the skb deferred at 487; 2 descriptors, each with an skb and a socket of CPU 1, and the
        # ring's line
        (647, 20 + 4 + 10 + 2 * (16 + 5 + 5) + 5, "POLL", 0, 0, 0, "SOFTIRQ"),
        (738, 7, "COMPLETE", 0, 0, 0, "SOFTIRQ"),
        (1497, 0, "ARRIVE", first, 5 + first, -1, "IDLE"),  # 477 + 10 + 1000 + 10
        (1597, 40 + 30, "IRQ", 0, 2, 0, "IRQ"),
        (1634, 0, "ARRIVE", then, 5 + then, -1, "IDLE"),
        (1667, 20 + 10, "POLL", 0, 0, 0, "SOFTIRQ"),
        (1697, 15 + 5, "RX", first, 0, 0, "SOFTIRQ"),
    ]
    assert run.take_samples().tolist() == [1497, 1634]
    assert run.take_samples().tolist() == []


def test_two_requests_counted():
    """The same run up to 700, amid CPU 0's second poll."""
    counters = run_of(plan_with(host_of(), flows=2), 700).counters()
    busy = counters["busy_ps"]
    assert busy[0, Ctx.IRQ] == 70 + 70
    assert busy[0, Ctx.SOFTIRQ] == (365 - 170) + (700 - 647)
    assert busy[1].tolist() == [700 - 304, 0, 0, 0, 304]  # 310 to 614
    assert counters["cost"][1, Ctx.USER, Stage.COPY].tolist() == [0, 4, 4]
    assert counters["transfers"].tolist() == [[0, 5, 0, 0], [0, 14, 0, 0]]
    assert counters["sched"].tolist() == [[1, 2, 0], [0, 0, 2]]
    assert counters["napi"].tolist() == [[2, 2, 0]]
    assert counters["txq"].tolist() == [[2, 2 * 67, 2, 0]]
    assert counters["qdisc"].tolist() == [[0, 2, 0, 0]]
    assert counters["locks"][Lock.TX].tolist() == [2, 0, 0]
    totals = counters["totals"]
    assert [int(totals[which]) for which in (Total.ARRIVED, Total.READ, Total.SENT)] == [2, 2, 2]
    assert totals[Total.TX_DONE] == 2
    assert counters["softnet"].tolist() == [[2, 0, 0, 0, 0], [0, 0, 0, 0, 0]]


def test_one_udp_request_through_a_locked_qdisc():
    """One CPU, so no line ever moves: UDP reads under its lock, and works in a step of its own."""
    host = host_of(cpus=1, threads=(0,), proto="udp", qdisc="fq_codel")
    rows = rows_of(run_of(plan_with(host, flows=1, proto="udp"), 600))
    assert [row[:3] for row in rows] == [
        (0, 0, "ARRIVE"),
        (100, 40 + 30, "IRQ"),
        (170, 20 + 10, "POLL"),
        (200, 15 + 5, "RX"),
        (220, 12 + 8, "PROTO"),
        (240, 2 + 24 + 9, "ENQUEUE"),
        (275, 7, "COMPLETE"),
        (282, 10, "DISPATCH"),  # the interrupt has paid for the way out of idle
        (292, 2 + 21, "READ"),
        (315, 1 + 4, "WORK"),
        (320, 1, "SEND"),
        (321, 2 + 11, "QDISC"),
        (334, 2 + 13 + 14, "XMIT"),
        (363, 2, "REQDISC"),
        (463, 40 + 30, "IRQ"),
        (533, 20 + 10 + 16, "POLL"),
        (579, 7, "COMPLETE"),
    ]


def test_an_interrupt_splits_an_open_step():
    """One CPU does all: the completion's interrupt comes while the next request is read."""
    latencies = {**LATENCIES, Latency.TURNAROUND: 5000}
    host = host_of(cpus=1, threads=(0,))
    plan = plan_with(host, flows=2, work_cycles=1, latencies=latencies)
    rows = rows_of(run_of(plan, 6000))
    reads = [row for row in rows if row[2] == "READ"]
    sends = [row for row in rows if row[2] == "SEND"]
    start, cost = reads[1][0], reads[1][1]
    assert cost == 20 + 1 + 4 + 1024  # all lines are its own, the skb is freed here
    inside = [row for row in rows if start < row[0] < start + cost and row[5] == 0]
    assert [row[2] for row in inside] == ["IRQ", "POLL", "COMPLETE"]
    assert inside[0][:2] == (rows[inside_xmit(rows)][0] + 29 + 100, 40)
    assert inside[1][0] == inside[0][0] + 40
    assert sends[1][0] == start + cost + sum(row[1] for row in inside)


def inside_xmit(rows):
    """Place of the first XMIT."""
    return next(place for place, row in enumerate(rows) if row[2] == "XMIT")


def test_an_interrupt_lengthens_a_step_with_bottom_halves_off():
    """A second queue's interrupt comes while CPU 0 polls the first."""
    rss = Rss(key="microsoft", indirection=(0, 1))
    host = host_of(rx_queues=2, threads=(1,))
    host = host.replace_nic("eth0", rss=rss)
    latencies = {**LATENCIES, Latency.SPREAD: 130}
    plan = plan_with(host, flows=12, latencies=latencies)
    run = run_of(plan, 400)
    rows = rows_of(run)
    late = [row for row in rows if row[2] == "IRQ"][1]
    before = [row for row in rows if row[5] == 0 and row[0] <= late[0] and row is not late][-1]
    after = next(row for row in rows if row[4] == 0 and row[0] > late[0])
    assert late[1] == 40  # not out of idle
    assert after[0] == before[0] + before[1] + 40
    assert not broken_law(plan, run.trace(), run.counters(), 400)


def test_rps_sends_an_ipi_and_the_backlog_is_polled():
    """CPU 0 hands everything to CPU 1's backlog: KICK at the end, IPI, splice."""
    plan = plan_with(host_of(rps_cpus=CpuSet([1])), flows=2)
    rows = rows_of(run_of(plan, 500))
    assert rows[6:16] == [
        (240, 17, "RPS", rows[6][3], 0, 0, "SOFTIRQ"),
        (257, 17, "RPS", rows[7][3], 0, 0, "SOFTIRQ"),
        (274, 7, "COMPLETE", 0, 0, 0, "SOFTIRQ"),
        (281, 6, "KICK", 0, 0, 0, "SOFTIRQ"),
        (331, 35 + 30, "IPI", 1, 4, 1, "IRQ"),
        (396, 20 + 10 + 2 * 5, "POLL", 1 + 1, 1, 1, "SOFTIRQ"),
        (436, 8 + 5 + 12 + 8, "PROTO", rows[6][3], 1, 1, "SOFTIRQ"),
        (469, 25 + 9, "ENQUEUE", rows[6][3], 1, 1, "SOFTIRQ"),  # CPU 1 is free, not idle
    ]
    counters = run_of(plan, 500).counters()
    assert counters["softnet"].tolist() == [[0, 0, 0, 0, 0], [1, 0, 0, 1, 0]]
    assert counters["sched"][0].tolist() == [1, 0, 0]


def test_full_ring_loses_and_the_client_repeats():
    plan = plan_with(host_of(rx_ring=1), flows=3)
    run = run_of(plan, 5200)
    assert dropped(run, RunDrop.RX_RING_FULL) >= 2
    assert run.counters()["rxq"][0, 1] == dropped(run, RunDrop.RX_RING_FULL)
    again = [row for row in rows_of(run) if row[:3] == (5000, 0, "ARRIVE")]
    assert [row[3] for row in again] == [1, 2]
    assert total(run, Total.REPEATED) == 2


def test_backlog_limit():
    """The queue may be one longer than netdev_max_backlog."""
    plan = plan_with(host_of(rps_cpus=CpuSet([1]), netdev_max_backlog=1), flows=4)
    run = run_of(plan, 500)
    assert dropped(run, RunDrop.CPU_BACKLOG) == 2
    assert run.counters()["softnet"][:, 1].tolist() == [0, 2]
    costs = [row[1] for row in rows_of(run) if row[2] == "RPS"]
    assert costs == [17, 17, 17 + 4, 17 + 4]


def test_receive_buffer():
    """One UDP socket with room for one skb more than its limit, and a slow reader."""
    server = Socket(name="dns", proto="udp", bind=SERVER, threads=CpuSet([1]), rcvbuf_bytes=1)
    host = host_of(sockets=[server])
    plan = plan_with(host, flows=5, proto="udp", work_cycles=100)
    run = run_of(plan, 3000)
    assert dropped(run, RunDrop.SOCKET_RCVBUFF) == run.counters()["sockets"][0, 1] >= 3
    assert total(run, Total.READ) == run.counters()["sockets"][0, 2] >= 1


def many_cpus(**nic):
    """Four threads on four CPUs that share one tx queue."""
    sockets = [
        Socket(name=f"s{cpu}", proto="udp", bind=SERVER, reuseport=True, threads=CpuSet([cpu]))
        for cpu in range(4)
    ]
    return host_of(cpus=4, sockets=sockets, **nic)


def test_noqueue_drops_when_stopped():
    run = run_of(plan_with(many_cpus(qdisc="noqueue", tx_ring=1), flows=24, proto="udp"), 9000)
    counters = run.counters()
    assert dropped(run, RunDrop.QDISC_DROP) == counters["qdisc"][0, 3] >= 1
    assert counters["totals"][Total.TX_DROPPED] == dropped(run, RunDrop.QDISC_DROP)
    assert counters["txq"][0, 3] >= 1
    assert counters["steps"][Step.QDISC] == 0


@pytest.mark.parametrize("qdisc", ["pfifo_fast", "fq_codel", "htb", "noqueue"])
def test_each_qdisc(qdisc):
    """Who meets at one tx queue: the locks of its kind are waited for, and no other."""
    costs = {**COSTS, Cost.QDISC: 300, Cost.DRIVER_TX: 300}
    plan = plan_with(many_cpus(qdisc=qdisc), flows=40, proto="udp", costs=costs)
    run = run_of(plan, 60_000)
    counters = run.counters()
    contended = {lock for lock in Lock if counters["locks"][lock, 1] and lock != Lock.SOCK}
    assert (
        contended
        == {
            "pfifo_fast": set(),
            "fq_codel": {Lock.ROOT, Lock.BUSY},
            "htb": {Lock.ROOT, Lock.BUSY},
            "noqueue": {Lock.TX},
        }[qdisc]
    )
    assert (counters["steps"][Step.REQDISC] > 0) == (qdisc in ("fq_codel", "htb"))
    assert (counters["qdisc"][0, 0] > 0) == (qdisc != "noqueue")
    assert not broken_law(plan, run.trace(), counters, 60_000)


@pytest.mark.parametrize("qdisc", ["pfifo_fast", "fq_codel", "htb"])
def test_a_stopped_queue_is_run_again(qdisc):
    """A ring of one descriptor: what waits is sent from NET_TX after its completion."""
    run = run_of(plan_with(many_cpus(qdisc=qdisc, tx_ring=1), flows=40, proto="udp"), 60_000)
    counters = run.counters()
    assert counters["steps"][Step.NET_TX] > 0
    assert counters["txq"][0, 3] > 0
    # Only a bypass runs into a stopped queue; HTB, which has none, looks before it takes a packet.
    assert (counters["qdisc"][0, 2] > 0) == (qdisc != "htb")
    assert (counters["qdisc"][0, 1] > 0) == (qdisc != "htb")
    assert counters["totals"][Total.SAMPLES] > 40


def test_budget_and_ksoftirqd():
    """A budget of one and softirqs that never come to rest."""
    load = {"flows": 400, "work_cycles": 1}
    latencies = {**LATENCIES, Latency.TURNAROUND: 0, Latency.SLICE: 3000}
    plan = plan_with(host_of(threads=(0,), netdev_budget=1), latencies=latencies, **load)
    run = run_of(plan, 2 * US)
    counters, trace = run.counters(), run.trace()
    assert counters["softnet"][0, 2] > 10
    assert counters["busy_ps"][0, Ctx.KSOFTIRQD] > 0
    dispatched = trace["arg"][trace["step"] == Step.DISPATCH]
    assert (dispatched == len(plan.threads)).any()  # ksoftirqd of CPU 0
    assert not broken_law(plan, trace, counters, 2 * US)


def test_cuts_change_nothing():
    plan = plan_with(many_cpus(qdisc="htb"), flows=20, proto="udp")
    whole, cut = run_of(plan, 20_000), Run(plan, arrive(plan.base), trace_rows=100_000)
    steps = sum(cut.advance(at) for at in (1, 500, 501, 7777, 20_000))
    assert steps == len(whole.trace())
    assert np.array_equal(whole.trace(), cut.trace())
    for name, counter in whole.counters().items():
        assert np.array_equal(counter, cut.counters()[name]), name


@pytest.mark.parametrize("seed", range(40))
def test_laws_on_random_hosts(seed):
    """To see one again: ``tests.strategies.runs.make_case(Choices(Seeded(seed)))``."""
    plan = plan_of(make_case(Choices(Seeded(seed))))
    outcome, cuts = long_enough(plan)
    assert all((samples > 0).all() for samples in outcome.samples)
    broken = broken_law(plan, outcome.trace, outcome.counters, cuts[-1])
    assert not broken, f"seed {seed}: {broken}"
