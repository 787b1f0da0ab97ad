"""The plan of a run: every array, odd hosts, and each refusal."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from emu.errors import ConfigError
from emu.model.connections import connections
from emu.model.exponential import exp_table
from emu.model.generate import generate
from emu.model.host import Host
from emu.model.lower import table_size
from emu.model.lower_run import lower_run
from emu.model.machines_toml import get_machine
from emu.model.masks import CpuSet
from emu.model.nic import Cpumap, Nic
from emu.model.sockets import Socket, Sockmap
from emu.model.topology import Topology
from emu.model.workloads import OpenLoop, RequestResponse, request_packets
from emu.run_dtypes import Cost, Latency, Limit, Qdisc, Touch
from tests.small_hosts import host_of
from tests.stand_in import machine

UDP = Socket(name="udp", proto="udp", bind="0.0.0.0:12865")
CLOSED = RequestResponse(flows=4, proto="udp")


def plan_of(host, workload=CLOSED, seed=0, packets=None, **fields):
    """A run's plan on the stand-in machine."""
    if packets is None:
        packets = workload.packets if isinstance(workload, OpenLoop) else request_packets(workload)
    return lower_run(host, packets, machine=machine(**fields), workload=workload, seed=seed)


def nics_of(*nics, cpus=8, **fields):
    """A host with these NICs."""
    return Host(topology=Topology(cpus=cpus, **fields), nics=nics, sockets=[UDP])


def test_what_comes_from_the_machine():
    plan, given = plan_of(host_of(UDP)), machine()
    for name in ("costs", "transfer", "stream", "lines"):
        assert np.array_equal(getattr(plan, name), getattr(given, name)), name
    assert (plan.costs.shape, plan.lines.shape) == ((len(Cost),), (len(Touch), 2))
    assert plan.exp_table is exp_table()
    assert plan.latencies[Latency.IRQ_DELAY] == 1_000_001
    assert plan.latencies[Latency.IRQ_JITTER] == 500_002
    assert plan.latencies[Latency.IPI] == 900_003
    assert plan.latencies[Latency.SLICE] == 3_000_000_004
    assert plan.latencies[Latency.MAP_RESIDENCY] == 50_000_005


@pytest.mark.parametrize("khz", [1, 2_400_000, 2_893_411, 3_141_593, 10_000_000])
def test_a_cycle_takes_what_the_clock_says(khz):
    plan = plan_of(host_of(UDP), khz=khz)
    # 1024/1024 cycle takes 1 / (khz * 1000) s
    assert Fraction(1024 * plan.ps_num, plan.ps_den) == Fraction(10**12, khz * 1000)
    assert Fraction(plan.ps_num, plan.ps_den).denominator == plan.ps_den
    assert 45 * 50_000_000 * 1024 * plan.ps_num < 2**63  # the most work that is ever drawn


def test_latencies_of_the_workload():
    workload = RequestResponse(
        flows=1,
        proto="udp",
        wire="7us",
        turnaround="11us",
        turnaround_mean="13us",
        rto="17ms",
        spread="19us",
    )
    plan = plan_of(host_of(UDP, hz=1000), workload)
    us = 10**6
    found = {name.name: int(plan.latencies[name]) for name in Latency}
    assert found["WIRE"] == 7 * us
    assert found["TURNAROUND"] == 11 * us
    assert found["TURNAROUND_MEAN"] == 13 * us
    assert found["RTO"] == 17_000 * us
    assert found["SPREAD"] == 19 * us
    assert found["JIFFY"] == 1000 * us
    opened = plan_of(host_of(UDP), OpenLoop(packets=generate(packets=3)))
    names = (Latency.WIRE, Latency.TURNAROUND, Latency.TURNAROUND_MEAN, Latency.RTO, Latency.SPREAD)
    assert [int(opened.latencies[name]) for name in names] == [0] * 5
    assert opened.latencies[Latency.JIFFY] == 4000 * us


@pytest.mark.parametrize(("hz", "jiffies"), [(24, 1), (100, 1), (250, 1), (1000, 2), (1200, 3)])
def test_softirqs_run_for_two_milliseconds(hz, jiffies):
    assert plan_of(host_of(UDP, hz=hz)).limits[Limit.SOFTIRQ_JIFFIES] == jiffies


def test_limits():
    host = host_of(UDP).replace(
        netdev_budget=64, netdev_budget_jiffies=3, netdev_max_backlog=5, kernel="legacy"
    )
    found = {name.name: int(plan_of(host).limits[name]) for name in Limit}
    assert found == {
        "NETDEV_BUDGET": 64,
        "BUDGET_JIFFIES": 3,
        "MAX_BACKLOG": 5,
        "FLOW_LIMIT_BITS": 12,
        "QDISC_LEN": 1000,
        "SOFTIRQ_JIFFIES": 1,
        "DEFER_FREE": 0,
        "REFCNT_IN_LOOKUP_LINE": 1,
        "WMEM_OOO": 1,
    }
    new = plan_of(host_of(UDP)).limits
    assert [int(new[name]) for name in (Limit.DEFER_FREE, Limit.REFCNT_IN_LOOKUP_LINE)] == [1, 0]
    assert int(new[Limit.WMEM_OOO]) == 0
    assert [int(new[name]) for name in (Limit.NETDEV_BUDGET, Limit.MAX_BACKLOG)] == [300, 1000]


def test_distance():
    topology = Topology(cpus=6, node_of=[0, 0, 0, 0, 1, 1], llc_of=[0, 0, 1, 1, 2, 2])
    host = Host(topology=topology, nics=[Nic(name="eth0")], sockets=[UDP])
    assert plan_of(host).distance.tolist() == [
        [0, 1, 2, 2, 3, 3],
        [1, 0, 2, 2, 3, 3],
        [2, 2, 0, 1, 3, 3],
        [2, 2, 1, 0, 3, 3],
        [3, 3, 3, 3, 0, 1],
        [3, 3, 3, 3, 1, 0],
    ]
    assert plan_of(host_of(UDP, cpus=1)).distance.tolist() == [[0]]


def test_nics():
    host = nics_of(
        Nic(name="a", rx_ring=7, tx_ring=9, qdisc="htb", bql_bytes=3000, link_mbps=10_000),
        Nic(name="b", link_mbps=25_000, xps_node=1),
        Nic(name="c", link_mbps=3, qdisc="fq_codel", xps_node=0),
        Nic(name="d", qdisc="noqueue"),
        node_of=[0] * 4 + [1] * 4,
    )
    nics = plan_of(host).nics
    assert nics["rx_ring"].tolist() == [7, 1024, 1024, 1024]
    assert nics["tx_ring"].tolist() == [9, 1024, 1024, 1024]
    assert nics["bql_bytes"].tolist() == [3000, 0, 0, 0]
    assert nics["ps_per_byte"].tolist() == [800, 320, 2_666_667, 0]
    assert nics["map_node"].tolist() == [-1, 1, 0, -1]
    kinds = [Qdisc.SINGLE, Qdisc.LOCKLESS, Qdisc.LOCKED, Qdisc.NOQUEUE]
    assert nics["qdisc"].tolist() == kinds
    kinds[1] = Qdisc.LOCKED  # pfifo_fast of before 4.16
    assert plan_of(host.replace(kernel="legacy")).nics["qdisc"].tolist() == kinds


def test_qdiscs_by_queue_or_by_nic():
    host = nics_of(
        Nic(name="a", tx_queues=3),
        Nic(name="b", tx_queues=4, qdisc="htb"),
        Nic(name="c", tx_queues=2, qdisc="fq_codel"),
        Nic(name="d", tx_queues=2, qdisc="noqueue"),
        Nic(name="e", qdisc="htb"),
    )
    plan = plan_of(host)
    assert plan.txq_nic.tolist() == [0, 0, 0, 1, 1, 1, 1, 2, 2, 3, 3, 4]
    assert plan.txq_qdisc.tolist() == [0, 1, 2, 3, 3, 3, 3, 4, 5, 6, 7, 8]
    assert plan.qdiscs == 9


def test_tx_queues_share_the_napi_of_their_number():
    host = nics_of(
        Nic(name="a", rx_queues=2, tx_queues=4, rx_usecs=5, rx_frames=3),
        Nic(name="b", rx_queues=3, tx_queues=2, irq_cpus=[1, 2, 3], tx_irq_cpus=[1, 7]),
        Nic(name="c", rx_queues=1, tx_queues=1, irq_cpus=[4], tx_irq_cpus=[4], rx_usecs=0),
    )
    plan = plan_of(host)
    # rx queues 0..5, then tx queues 2 and 3 of a, tx queue 1 of b
    assert plan.napi_cpu.tolist() == [0, 1, 1, 2, 3, 4, 0, 1, 7]
    assert plan.txq_napi.tolist() == [0, 1, 6, 7, 2, 8, 5]
    us = 10**6
    assert plan.napi_usecs_ps.tolist() == [usecs * us for usecs in (5, 5, 10, 10, 10, 0, 5, 5, 10)]
    assert plan.napi_frames.tolist() == [3, 3, 0, 0, 0, 0, 0, 0, 0]
    assert np.array_equal(plan.napi_cpu[:6], plan.base.rxq_irq_cpu)
    assert np.array_equal(plan.napi_cpu[plan.txq_napi], plan.base.txq_irq_cpu)


def test_rfs_tables_are_powers_of_two():
    host = nics_of(
        Nic(name="a", rx_queues=2, rps_flow_cnt=5), Nic(name="b"), Nic(name="c", rps_flow_cnt=1)
    ).replace(rps_sock_flow_entries=1000)
    plan = plan_of(host)
    assert plan.sock_flow_entries == 1024
    assert plan.rxq_flow_entries.tolist() == [8, 8, 0, 1]
    assert plan_of(host_of(UDP)).sock_flow_entries == 0
    assert [table_size(n) for n in (0, 1, 2, 3, 4, 2**24 - 1, 2**24)] == [
        *(0, 1, 2, 4, 4),
        *(2**24, 2**24),
    ]


def test_workloads():
    workload = RequestResponse(
        flows=2, proto="udp", response_bytes=99, work_cycles=1.5, work_exponential=True
    )
    row = plan_of(host_of(UDP), workload).workload[0]
    names = ("closed", "work_exponential", "response_bytes", "work")
    assert [int(row[name]) for name in names] == [1, 1, 99, 1536]
    row = plan_of(host_of(UDP), OpenLoop(packets=generate(packets=2))).workload[0]
    assert [int(row[name]) for name in names] == [0, 0, -1, 0]


def test_the_base_is_a_steers_plan():
    host = host_of(UDP, tx_queues=2, xps_cpus=[CpuSet([0]), CpuSet([1])])
    packets = request_packets(CLOSED)
    plan = plan_of(host, packets=packets, seed=2**64 - 1)
    assert plan.seed == 2**64 - 1
    assert np.array_equal(plan.base.packets.sport, packets.sport)
    assert plan.base.packets.ip_summed.tolist() == [1] * 4  # the NIC vouches for their sums
    assert [int(op["time_ps"]) for op in plan.base.ops] == [0, 0]
    assert len(plan.sockets) == len(plan.base.sockets) == 1


SHAPES = {
    "one of everything": host_of(UDP, cpus=1),
    "offline CPUs": host_of(UDP, cpus=8, offline=(2, 3), rx_queues=8, tx_queues=8),
    "300 CPUs": host_of(
        Socket(name="u", proto="udp", bind="0.0.0.0:12865", threads=CpuSet(range(300))),
        cpus=300,
        rx_queues=300,
        tx_queues=257,
    ),
    "more tx than rx queues": host_of(UDP, rx_queues=1, tx_queues=40),
    "no socket": host_of(),
}
DTYPES = {
    "costs": "i8",
    "transfer": "i8",
    "stream": "i8",
    "lines": "i4",
    "distance": "u1",
    "latencies": "i8",
    "limits": "i8",
    "napi_cpu": "i4",
    "napi_usecs_ps": "i8",
    "napi_frames": "i4",
    "txq_napi": "i4",
    "txq_nic": "i4",
    "txq_qdisc": "i4",
    "thread_cpus": "i4",
    "sock_threads": "i4",
    "chains": "i4",
    "exp_table": "i8",
    "rxq_flow_entries": "u4",
}


@pytest.mark.parametrize("kernel", ["6.18", "legacy"])
@pytest.mark.parametrize("shape", SHAPES)
def test_every_array_of_odd_hosts(shape, kernel):
    host = SHAPES[shape].replace(kernel=kernel)
    plan = plan_of(host)
    for name, dtype in DTYPES.items():
        array = getattr(plan, name)
        assert array.dtype == np.dtype(dtype), name
        assert array.flags.c_contiguous, name
    rxqs, txqs, cpus = len(plan.base.rxq_irq_cpu), len(plan.base.txq_irq_cpu), plan.base.ncpus
    napis = len(plan.napi_cpu)
    assert len(plan.napi_usecs_ps) == len(plan.napi_frames) == napis >= rxqs
    assert len(plan.txq_napi) == len(plan.txq_nic) == len(plan.txq_qdisc) == txqs
    assert len(plan.rxq_flow_entries) == rxqs
    assert plan.distance.shape == (cpus, cpus)
    assert np.array_equal(plan.distance, plan.distance.T)
    assert sorted(set(plan.txq_qdisc.tolist())) == list(range(plan.qdiscs))
    assert set(range(rxqs, napis)) <= set(plan.txq_napi.tolist())
    online = set(host.topology.online_cpus)
    for name in ("napi_cpu", "thread_cpus"):
        assert set(getattr(plan, name).tolist()) <= online, name
    assert set(plan.threads["cpu"].tolist()) <= online


def sockmap_pair():
    """A host with a socket in a sockmap."""
    return host_of(Socket(name="in", sockmap=Sockmap()))


def on_cpu(cpu, psock=0):
    """A host with a connection whose thread stands there."""
    rows = connections(request_packets(RequestResponse(flows=1)), threads=[cpu])
    rows["has_psock"] = psock
    return host_of(cpus=4, offline=(2,)).replace(connections=rows)


LATER = "not in time yet, steer alone knows it"
REFUSED = [
    (
        host_of(UDP, cpumap=Cpumap(cpus=CpuSet([0, 1]))),
        f"nic 'eth0': cpumap: got one on CPUs 0-1; allowed: none: {LATER}",
    ),
    (sockmap_pair(), f"socket 'in': sockmap: got one; allowed: none: {LATER}"),
    (on_cpu(2), "host: connections[0]: thread: got CPU 2; allowed: CPUs that are online (0-1,3)"),
    (on_cpu(9), "host: connections[0]: thread: got CPU 9; allowed: CPUs that are online (0-1,3)"),
    (on_cpu(0, psock=1), f"host: connections[0]: sockmap: got one; allowed: none: {LATER}"),
]


@pytest.mark.parametrize(("host", "line"), REFUSED, ids=[line for _, line in REFUSED])
def test_refused_hosts(host, line):
    with pytest.raises(ConfigError) as caught:
        plan_of(host)
    assert str(caught.value) == line


@pytest.mark.parametrize("seed", [-1, 2**64, True, "0"])
def test_refused_seeds(seed):
    with pytest.raises(ConfigError, match=r"^run: seed: got .*; allowed: a whole number, 0 to"):
        plan_of(host_of(UDP), seed=seed)


def test_refused_packets():
    with pytest.raises(ConfigError, match="packets: got an empty table; allowed: at least one"):
        plan_of(host_of(UDP), packets=generate(packets=0))
    with pytest.raises(ConfigError, match="packet 0: got nic=1; allowed: the host's NICs 0"):
        plan_of(host_of(UDP), OpenLoop(packets=generate(packets=2, nic=1)))


@pytest.mark.parametrize("row", ["hardirq", "recv_byte"])
def test_operations_that_take_too_long(row):
    slow = get_machine("xeon-2015").replace(khz=1000, costs={row: 1_000_000})
    packets = request_packets(CLOSED)
    lower_run(host_of(UDP), packets, machine=slow, workload=CLOSED)
    slow = slow.replace(costs={row: 1_000_000.01})
    with pytest.raises(ConfigError, match=rf"costs\.{row}: got 1000000.010 cycles at 1000 kHz; "):
        lower_run(host_of(UDP), packets, machine=slow, workload=CLOSED)


def test_rings_without_bounds():
    plan_of(host_of(UDP, tx_queues=2048, tx_ring=32768))
    with pytest.raises(ConfigError, match="tx_ring: got 32768 for each of 2049 tx queues; allowed"):
        plan_of(host_of(UDP, tx_queues=2049, tx_ring=32768))


def test_flow_tables_without_bounds():
    fields = {"rx_queues": 65, "rps_flow_cnt": 2**20}
    with pytest.raises(ConfigError, match="rps_flow_cnt: got 1048576 for each of 65 rx queues; al"):
        plan_of(host_of(UDP, **fields).replace(rps_sock_flow_entries=1))
    plan_of(host_of(UDP, **fields))


def test_frames_that_no_device_sends():
    packets = generate(packets=3)
    long = packets.replace(wire_bytes=np.array([60, 2**20, 2**20], dtype=np.uint32))
    plan_of(host_of(UDP), OpenLoop(packets=long))
    long = packets.replace(wire_bytes=np.array([60, 2**20 + 1, 2**32 - 1], dtype=np.uint32))
    with pytest.raises(ConfigError, match="packet 1: got 1048577 bytes on the wire; allowed: at"):
        plan_of(host_of(UDP), OpenLoop(packets=long))


def at_rate(pps, count=1000, **fields):
    """An open loop of frames of 1514 bytes, 1538 on the wire: 812743.8 a second fill 10 Gbit/s."""
    return OpenLoop(packets=generate(packets=count, rate_pps=pps, payload_bytes=1460, **fields))


def test_arrivals_beyond_the_link():
    host = host_of(UDP, link_mbps=10_000)
    plan_of(host, at_rate(812_000))
    plan_of(host, at_rate(1, count=1))
    plan_of(host_of(UDP), at_rate(10**9))  # no limit
    with pytest.raises(ConfigError) as caught:
        plan_of(host, at_rate(813_000))
    assert str(caught.value) == (
        "nic 'eth0': link_mbps: got 10000 for 1000 packets; allowed: a link that takes them: they "
        "need 1229169600 ps and come in 1228782287 ps; try a lower rate, or 0 for no limit"
    )
    packets = at_rate(1000, count=2).packets
    together = OpenLoop(packets=packets.replace(arrival_ps=np.zeros(2, dtype=np.int64)))
    with pytest.raises(ConfigError, match="they need 1230400 ps and come in 0 ps"):
        plan_of(host, together)


def test_small_frames_take_60_bytes_and_the_gap():
    host = host_of(UDP, link_mbps=1000)  # 84 bytes of 8000 ps: 1488095.2 a second
    small = {"packets": 50, "payload_bytes": 0}
    plan_of(host, OpenLoop(packets=generate(rate_pps=1_488_000, **small)))
    with pytest.raises(ConfigError, match="link_mbps: got 1000 for 50 packets"):
        plan_of(host, OpenLoop(packets=generate(rate_pps=1_489_000, **small)))


def test_each_nic_has_its_own_link():
    host = nics_of(Nic(name="a", link_mbps=10_000), Nic(name="b", link_mbps=1000))
    packets = at_rate(200_000).packets
    plan_of(host, OpenLoop(packets=packets))
    on_b = OpenLoop(packets=packets.replace(nic=np.ones(1000, dtype=np.uint16)))
    with pytest.raises(ConfigError, match="nic 'b': link_mbps: got 1000 for 1000 packets"):
        plan_of(host, on_b)
    turns = OpenLoop(packets=packets.replace(nic=np.arange(1000, dtype=np.uint16) % 16 // 15))
    plan_of(host, turns)  # one of 16 on b
