"""Random hosts, machines and workloads for whole runs: small, crowded, and near every limit.

A case is made from choices (`tests.choices`), so that one word of text makes it again.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import attrs
import numpy as np
from hypothesis import strategies as st

from emu.errors import ConfigError
from emu.model.accept import accept
from emu.model.connections import connections
from emu.model.generate import generate
from emu.model.host import Host
from emu.model.lower_run import lower_run
from emu.model.machines_toml import get_machine
from emu.model.masks import CpuSet
from emu.model.nic import Gro, Nic, Rss
from emu.model.packets import Packets
from emu.model.run_plan import RunPlan
from emu.model.secrets import Secrets
from emu.model.sockets import Socket
from emu.model.topology import Topology
from emu.model.workloads import (
    SERVER_STYLES,
    OpenLoop,
    RequestResponse,
    Workload,
    request_packets,
)
from emu.run_dtypes import Cost, Limit
from emu.steering import steer
from tests.choices import Choices

US = 1_000_000
THEMES = ("any", "any", "any", "any", "any", "any", "movers", "trains")
MOVERS = {
    "proto": "tcp",
    "server_style": "processes",
    "pinned": False,
    "turnaround": "0us",
    "request_bytes": 100,
    "response_bytes": 64,
}
PORT = 12865
LOCAL = {4: "10.0.0.1", 6: "[fd00::1]"}
ANY = {4: "0.0.0.0", 6: "[::]"}
ELSEWHERE = {4: "10.0.9.9", 6: "[fd00::99]"}


@attrs.frozen(kw_only=True, eq=False)
class Case:
    """Everything that a run hangs on, and the word that makes it again."""

    host: Host
    packets: Packets
    workload: Workload
    machine: Any
    seed: int
    qdisc_len: int
    ps_per_byte: int
    choices: str

    @property
    def closed(self) -> bool:
        return isinstance(self.workload, RequestResponse)


class Hypothesis:
    """Choices that hypothesis makes, so that it can shrink them."""

    def __init__(self, draw: st.DrawFn) -> None:
        self.draw = draw

    def below(self, bound: int) -> int:
        return self.draw(st.integers(0, bound - 1))


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Cases of every kind."""
    return make_case(Choices(Hypothesis(draw)))


def make_case(pick: Choices) -> Case:
    """One case; a host that cannot serve its workload is given a socket that can."""
    theme = THEMES[pick.below(len(THEMES))]
    topology = make_topology(pick)
    closed = pick.below(3) > 0 or theme == "movers"
    workload = make_closed(pick) if closed and theme != "trains" else make_open(pick)
    if theme == "movers":
        workload = attrs.evolve(workload, **MOVERS)
    host = with_theme(theme, make_host(pick, topology, workload))
    seed = pick.below(2**16)
    if isinstance(workload, OpenLoop):
        packets = workload.packets
        if len(host.nics) > 1:
            packets = packets.replace(nic=(packets.sport % len(host.nics)).astype(np.uint16))
    else:
        packets = request_packets(workload, seed)
        host = with_connections(pick, host, packets)
    return Case(
        host=host,
        packets=packets,
        workload=workload,
        machine=make_machine(pick),
        seed=seed,
        qdisc_len=pick.of(1000, 1000, 2, 5),
        ps_per_byte=pick.of(0, 0, 800, 8000),
        choices=pick.text(),
    )


def with_theme(theme: str, host: Host) -> Host:
    """The host of a theme, for what chance alone meets too seldom."""
    if theme == "movers":  # before 2023: connections whose threads move while packets are in rings
        each = [CpuSet(range(queue, host.topology.cpus, 4)) for queue in range(4)]
        nics = [nic.replace(tx_queues=4, xps_cpus=each, rx_usecs=50) for nic in host.nics]
        everywhere = host.topology.online_set
        sockets = [attrs.evolve(socket, threads=everywhere) for socket in host.sockets]
        return host.replace(nics=nics, sockets=sockets, kernel="legacy")
    if theme == "trains":  # full polls with segments in GRO's hands
        nics = [nic.replace(rx_queues=1, xps_rxqs=(), rx_ring=1024, gro=Gro()) for nic in host.nics]
        return host.replace(nics=nics, hz=1000)
    return host


def make_topology(pick: Choices) -> Topology:
    """1 to 8 CPUs, up to two nodes with up to two caches each, some CPUs offline."""
    cpus = pick.between(1, 8)
    caches = pick.of(1, 1, 2, 4)
    nodes = pick.of(1, 2) if caches > 1 else 1
    llc_of = tuple(cpu * caches // cpus for cpu in range(cpus))
    offline = {pick.below(cpus) for _ in range(2)} if cpus > 2 and pick.chance(4) else set()
    return Topology(
        cpus=cpus,
        node_of=tuple(llc * nodes // caches for llc in llc_of),
        llc_of=llc_of,
        online=tuple(cpu not in offline for cpu in range(cpus)),
    )


def make_host(pick: Choices, topology: Topology, workload: Workload) -> Host:
    """A host around a workload."""
    nics = [make_nic(pick, topology, f"eth{index}") for index in range(pick.of(1, 1, 2))]
    if len(nics) == 2:
        nics = [
            nic.replace(forward_to=other.name) for nic, other in zip(nics, nics[::-1], strict=True)
        ]
    closed = isinstance(workload, RequestResponse)
    return Host(
        topology=topology,
        nics=nics,
        sockets=make_sockets(pick, topology, workload),
        addresses=() if closed else tuple(text.strip("[]") for text in LOCAL.values()),
        forwarding=True,
        kernel=pick.of("6.18", "6.18", "legacy"),
        hz=pick.of(250, 100, 1000, 1000),
        secrets=Secrets.from_seed(pick.below(2**10)),
        netdev_budget=pick.of(300, 1, 8, 70),
        netdev_budget_jiffies=pick.of(2, 1),
        netdev_max_backlog=pick.of(1000, 0, 2, 10),
        rps_sock_flow_entries=pick.of(0, 0, 4, 256),
        flow_limit_cpus=CpuSet(topology.online_cpus) if pick.of(False, True) else CpuSet(),
        flow_limit_table_len=pick.of(4096, 2, 8),
    )


def make_nic(pick: Choices, topology: Topology, name: str) -> Nic:
    """1 to 4 queues each way; interrupts, masks, rings and qdiscs of every kind."""
    online = topology.online_cpus
    every = tuple(range(topology.cpus))
    rx = pick.between(1, 4)
    tx = pick.of(rx, rx, 1, pick.between(1, 4))
    rps = pick.of("no", "no", "all", "each")
    xps = pick.of("no", "one to one", "each") if tx > 1 else "no"
    masks = {
        "all": CpuSet(every),
        "one to one": [CpuSet([cpu for cpu in every if cpu % tx == queue]) for queue in range(tx)],
    }
    return Nic(
        name=name,
        rx_queues=rx,
        tx_queues=tx,
        irq_cpus=[pick.of(*online) for _ in range(rx)],
        tx_irq_cpus=() if pick.below(2) else [pick.of(*online) for _ in range(tx)],
        rss=Rss(key="microsoft", udp_hash=pick.of("4tuple", "2tuple")),
        rps_cpus=masks.get(rps, () if rps == "no" else each_mask(pick, every, rx)),
        xps_cpus=masks.get(xps, () if xps == "no" else each_mask(pick, every, tx)),
        xps_rxqs=each_mask(pick, range(rx), tx) if pick.chance(6) else (),
        gro=Gro(enabled=not pick.chance(5)),
        rx_usecs=pick.of(10, 0, 0, 1, 50),
        rx_frames=pick.of(0, 0, 1, 3, 65),
        hw_hash=not pick.chance(4),
        rx_ring=pick.of(1024, 1024, 1, 3, 16),
        tx_ring=pick.of(1024, 1024, 1, 2, 8),
        qdisc=pick.of("pfifo_fast", "fq_codel", "htb", "noqueue", "htb"),
        bql_bytes=pick.of(0, 0, 1, 200, 3000),
        rps_flow_cnt=pick.of(0, 0, 2, 64),
        xps_node=pick.of(None, None, 0),
    )


def each_mask(pick: Choices, members: Any, queues: int) -> list[CpuSet]:
    """A mask for each queue, empty ones among them."""
    return [CpuSet(pick.some(members)) for _ in range(queues)]


def make_closed(pick: Choices) -> RequestResponse:
    """Up to 40 clients."""
    style = pick.of("processes", *SERVER_STYLES)
    return RequestResponse(
        flows=pick.of(1, 2, 5, 12, 40),
        request_bytes=pick.of(1, 100, 1400),
        response_bytes=pick.of(1, 64, 1200),
        proto=pick.of("tcp", "udp"),
        family=pick.of(4, 6),
        turnaround=pick.of("20us", "0us", "3us"),
        turnaround_mean=pick.of("0us", "10us", "100us"),
        wire=pick.of("5us", "0us", "100ns"),
        rto=pick.of("30us", "200us"),
        spread=pick.of("100us", "0us", "1us"),
        server_style=style,
        pinned=pick.of(None, False, True, False),
        work_cycles=pick.of(0, 100, 5000, 60_000),
        work_exponential=bool(pick.below(2)),
    )


def make_open(pick: Choices) -> OpenLoop:
    """Trains of packets, some of them in bursts at one instant, some for other hosts."""
    family = pick.of(4, 6)
    packets = generate(
        packets=pick.of(20, 90, 300, 600),
        flows=pick.of(1, 2, 6, 24),
        pattern="trains",
        train=pick.of(1, 4, 20),
        interleave=1,
        proto=pick.of("tcp", "udp", "mix"),
        family=family,
        payload_bytes=pick.of(100, 1, 1400),
        local=[
            f"{address[family]}:{port}"
            for address, port in pick.of(
                ((LOCAL, PORT),),
                ((LOCAL, PORT), (ELSEWHERE, 80)),
                ((ELSEWHERE, 80),),
                ((LOCAL, PORT), (LOCAL, 9), (ELSEWHERE, 80)),
            )
        ],
        rate_pps=pick.of(1_000_000, 10_000_000, 200_000),
        timestamps=bool(pick.below(2)),
        seed=pick.below(2**10),
    )
    burst = pick.of(1, 10, 100, 200)
    first = np.arange(len(packets)) // burst * burst
    return OpenLoop(
        packets=packets.replace(arrival_ps=packets.arrival_ps[first]),
        response_bytes=pick.of(-1, 1, 1000),
        server_style=pick.of(*SERVER_STYLES),
        pinned=pick.of(None, True, False),
        work_cycles=pick.of(0, 3000, 40_000),
        work_exponential=bool(pick.below(2)),
    )


def protocols(workload: Workload) -> list[tuple[str, int]]:
    """Protocols and families that the workload's packets have."""
    if isinstance(workload, RequestResponse):
        return [(workload.proto, workload.family)]
    names = {6: "tcp", 17: "udp"}
    packets = workload.packets
    pairs = np.unique(packets.ip_proto.astype(int) * 8 + packets.family)
    return [(names[int(pair) // 8], int(pair) % 8) for pair in pairs]


def make_sockets(pick: Choices, topology: Topology, workload: Workload) -> list[Socket]:
    """A lone socket, or a reuseport group, for each protocol."""
    online = topology.online_cpus
    out: list[Socket] = []
    for proto, family in protocols(workload):
        members = pick.of(1, 1, 2, 4, len(online))
        steered = pick.of("no", "no", "incoming cpu", "masks") if members > 1 else "no"
        shared = {
            "proto": proto,
            "bind": f"{pick.of(ANY, LOCAL)[family]}:{PORT}",
            "reuseport": members > 1,
            "rcvbuf_bytes": pick.of(212992, 1, 2000, 6000),
        }
        spread = pick.below(3) < 2
        for member in range(members):
            own: dict[str, Any] = {}
            if steered == "incoming cpu":
                own["incoming_cpu"] = online[member % len(online)]
            if steered == "masks":
                own["cpu_mask"] = CpuSet(
                    [cpu for cpu in range(topology.cpus) if cpu % members == member]
                )
            threads = CpuSet(online) if spread else CpuSet([online[member % len(online)]])
            out.append(Socket(name=f"s{len(out)}", threads=threads, **shared, **own))
    return out


def with_connections(pick: Choices, host: Host, packets: Packets) -> Host:
    """The same host, some of the flows connected before the run."""
    if not pick.chance(3):
        return host
    rows = connections(packets, threads=host.topology.online_cpus)
    return host.replace(connections=rows[:: pick.of(1, 2)].copy())


def make_machine(pick: Choices) -> Any:
    """A shipped machine with other numbers."""
    preset = get_machine("xeon-2015")
    random = np.random.default_rng(pick.below(2**16))
    factor = pick.of(1, 3, 10)

    def around(numbers: Any, least: int) -> Any:
        if factor == 1:
            return numbers.copy()
        drawn = numbers * np.exp(random.uniform(-np.log(factor), np.log(factor), numbers.shape))
        return np.maximum(drawn.astype(numbers.dtype), least)

    costs = around(preset.costs, 1)
    costs[[Cost.QDISC, Cost.DRIVER_TX]] *= pick.of(1, 1, 30)  # CPUs meet at the locks of transmit
    return SimpleNamespace(
        khz=pick.of(2_400_000, 1_000_000, 3_141_593),
        costs=costs,
        transfer=around(preset.transfer, 0),
        stream=around(preset.stream, 0),
        lines=around(preset.lines, 0),
        irq_delay_ps=pick.of(1 * US, 0, 3 * US),
        irq_jitter_ps=pick.of(US // 5, 0, 2 * US),
        ipi_ps=pick.of(US // 2, 0, 2 * US),
        slice_ps=pick.of(3000 * US, 5 * US, 50 * US),
        map_residency_ps=pick.of(1000 * US, 0, 20 * US),
    )


def plan_of(case: Case) -> RunPlan:
    """What the engines see of a case, made as the door makes it.

    A host that leaves a flow of a closed loop without a socket gets one more.
    """
    host = case.host
    try:
        served = asked(case, host)
    except ConfigError:
        proto, family = protocols(case.workload)[0]
        plain = Socket(
            name="plain",
            proto=proto,
            bind=f"{ANY[family]}:{PORT}",
            threads=host.topology.online_set,
        )
        host = host.replace(sockets=[plain])
        served = asked(case, host)
    accepted, threads = served
    plan = lower_run(
        accepted,
        case.packets,
        machine=case.machine,
        workload=case.workload,
        seed=case.seed,
        served=threads,
    )
    limits = plan.limits.copy()
    limits[Limit.QDISC_LEN] = case.qdisc_len
    nics = plan.nics.copy()
    nics["ps_per_byte"] = case.ps_per_byte  # bursts are faster than any link for a while
    return attrs.evolve(plan, limits=limits, nics=nics)


def asked(case: Case, host: Host) -> Any:
    """Who serves what."""
    made = steer(host, case.packets, engine="ref")
    sockets, cpus = made.column("socket"), made.column("app_cpu")
    return accept(host, case.packets, sockets, cpus, all_served=case.closed)
