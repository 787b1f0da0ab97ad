"""The four proposals as hosts and traffic shaped like their texts.

Decisions before and after; no time passes yet.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import numpy as np

from emu.dtypes import TxOf
from emu.model.connections import connections
from emu.model.generate import generate
from emu.model.host import Host
from emu.model.masks import CpuSet
from emu.model.nic import Cpumap, Nic
from emu.model.packets import Packets
from emu.model.secrets import Secrets
from emu.model.sockets import Socket, Sockmap
from emu.model.topology import Topology
from emu.result.decisions import Decisions
from emu.steering import steer

Numbers = dict[str, float]
CPUS = 16
SERVER = "10.0.0.1"


@attrs.frozen(kw_only=True)
class Experiment:
    """One proposal: two hosts, one traffic, and what to count.

    Attributes:
        id: name in the JSON output.
        title: what the proposal is.
        text: what its text measured on.
        build: (seed, quick) -> host before, host after, packets.
        count: decisions -> numbers, in the order the table prints them.
    """

    id: str
    title: str
    text: str
    build: Callable[[int, bool], tuple[Host, Host, Packets]]
    count: Callable[[Decisions], Numbers]


@attrs.frozen(kw_only=True)
class Outcome:
    """What an experiment gave."""

    id: str
    title: str
    before: Numbers
    after: Numbers


def run_experiment(experiment: Experiment, *, seed: int, quick: bool, engine: str) -> Outcome:
    """Steer the traffic through both hosts."""
    before, after, packets = experiment.build(seed, quick)
    return Outcome(
        id=experiment.id,
        title=experiment.title,
        before=experiment.count(steer(before, packets, engine=engine)),
        after=experiment.count(steer(after, packets, engine=engine)),
    )


def two_nodes() -> Topology:
    """Sixteen CPUs on two NUMA nodes."""
    return Topology(cpus=CPUS, node_of=(0,) * 8 + (1,) * 8)


def mask_hosts(seed: int, quick: bool) -> tuple[Host, Host, Packets]:
    """SO_INCOMING_CPU_MASK: an echo server per node, reuseport, pinned to its node.

    What the mask decides is which listener takes a new connection, so the traffic is the first
    packets of connections: more than the 200 of the text, so that the shares are not chance. The
    lookup is the text's own, the chain of 2015.
    """
    nodes = CpuSet(range(8)), CpuSet(range(8, 16))
    servers = tuple(
        Socket(name=f"node{node}-{k}", bind="0.0.0.0:7", reuseport=True, threads=cpus)
        for k in range(4)
        for node, cpus in enumerate(nodes)
    )
    before = Host(
        topology=two_nodes(),
        nics=(Nic(name="eth0", rx_queues=CPUS, tx_queues=CPUS),),
        sockets=servers,
        addresses=(SERVER,),
        kernel="legacy",
        secrets=Secrets.from_seed(seed),
    )
    masked = tuple(attrs.evolve(socket, cpu_mask=socket.threads) for socket in servers)
    packets = generate(
        packets=2_000 if quick else 20_000,
        flows=2_000 if quick else 20_000,
        local=f"{SERVER}:7",
        payload_bytes=512,
        seed=seed,
    )
    return before, before.replace(sockets=masked), packets


def count_locality(decisions: Decisions) -> Numbers:
    """Share of packets whose socket's threads are on the packet's node; spread over the sockets."""
    nodes = decisions.summary().nodes
    sockets = decisions.summary().sockets["packets"]
    packets = int(sockets.sum())
    return {
        "on_node_share": int(nodes["local"].sum()) / max(int(nodes["protocol"].sum()), 1),
        "sockets": len(sockets),
        "socket_share_min": float(sockets.min()) / packets,
        "socket_share_max": float(sockets.max()) / packets,
    }


def xps_hosts(seed: int, quick: bool) -> tuple[Host, Host, Packets]:
    """XPS: 16 CPUs, 16 queues, 500 request/response connections of 1 byte, threads on every CPU."""
    packets = generate(
        packets=10_000 if quick else 100_000,
        flows=500,
        local=f"{SERVER}:12865",
        payload_bytes=1,
        seed=seed,
    )
    before = Host(
        topology=two_nodes(),
        nics=(Nic(name="eth0", rx_queues=CPUS, tx_queues=CPUS),),
        connections=connections(packets, threads=tuple(range(CPUS))),
        addresses=(SERVER,),
        secrets=Secrets.from_seed(seed),
    )
    one_each = tuple(CpuSet([cpu]) for cpu in range(CPUS))
    return before, before.replace_nic("eth0", xps_cpus=one_each), packets


def count_sharing(decisions: Decisions) -> Numbers:
    """CPUs that share a tx queue, and the share of completions on another CPU than the sender's."""
    queues = decisions.summary().tx_queues
    skbs = int(queues["skbs"].sum())
    return {
        "cpus_per_tx_queue_mean": float(queues["cpus"].mean()),
        "cpus_per_tx_queue_max": int(queues["cpus"].max()),
        "completed_elsewhere_share": int(queues["remote"].sum()) / skbs,
    }


def cpumap_hosts(seed: int, quick: bool) -> tuple[Host, Host, Packets]:
    """GRO in the cpumap kthread: 16 bulk streams whose trains XDP spreads over four CPUs.

    The before kthread has no GRO; the after one is the NAPI design of the text.
    """
    packets = generate(
        packets=20_000 if quick else 200_000,
        flows=16,
        pattern="trains",
        train=16,
        local=f"{SERVER}:5001",
        payload_bytes=1448,
        seed=seed,
    )
    spread = Cpumap(cpus=CpuSet(range(4, 8)), rule="hash", design="plain", qsize=2048)
    before = Host(
        topology=two_nodes(),
        nics=(Nic(name="eth0", rx_queues=2, tx_queues=CPUS, cpumap=spread),),
        connections=connections(packets, threads=tuple(range(8, 16))),
        addresses=(SERVER,),
        secrets=Secrets.from_seed(seed),
    )
    after = before.replace_nic("eth0", cpumap=attrs.evolve(spread, design="napi"))
    return before, after, packets


def count_skbs(decisions: Decisions) -> Numbers:
    """Skbs per packet on each CPU of the cpumap."""
    cpu = decisions.decided["napi_cpu"]
    segs = decisions.skbs["segs"]
    out: Numbers = {"skbs_per_packet": len(cpu) / int(segs.sum())}
    for number in np.unique(cpu):
        on = cpu == number
        out[f"skbs_per_packet_cpu{number}"] = int(on.sum()) / int(segs[on].sum())
    return out


def sockmap_hosts(seed: int, quick: bool) -> tuple[Host, Host, Packets]:
    """Sockmap affinity: a proxy on loopback; client on CPU 6, server on 5, the worker gets CPU 7.

    Loopback's softirq runs where the client sends, so the one rx queue's interrupt is on CPU 6. The
    proxy's two sockets: what the client's gets is redirected to the server's.
    """
    packets = generate(
        packets=5_000 if quick else 50_000,
        flows=1,
        local="127.0.0.1:10000",
        clients="127.0.0.2",
        payload_bytes=16384,
        pattern="trains",
        train=4,
        seed=seed,
    )
    port = int(packets.sport[0])
    client = f"127.0.0.2:{port}" if packets.saddr[0, 0] == 0x0200007F else "127.0.0.1:1"
    before = Host(
        topology=Topology(cpus=8),
        nics=(Nic(name="lo", irq_cpus=(6,)),),
        sockets=(
            Socket(
                name="proxy-client-side",
                bind="127.0.0.1:10000",
                peer=client,
                threads=CpuSet([4]),
                sockmap=Sockmap(redirect="proxy-server-side"),
            ),
            Socket(
                name="proxy-server-side",
                bind="127.0.0.1:40000",
                peer="127.0.0.1:10001",
                threads=CpuSet([4]),
                sockmap=Sockmap(),
            ),
        ),
        addresses=("127.0.0.1",),
        secrets=Secrets.from_seed(seed),
    )
    after = before.replace_socket("proxy-server-side", sockmap=Sockmap(cpu=7))
    return before, after, packets


def count_backlog(decisions: Decisions) -> Numbers:
    """Where the psock's backlog runs: its CPUs, and how often that is the packet's own."""
    decided = decisions.decided
    redirected = decided["tx_of"] == TxOf.REDIRECT
    rows = decided[redirected]
    cpus, counts = np.unique(rows["backlog_cpu"], return_counts=True)
    out: Numbers = {"on_softirq_cpu_share": float((rows["backlog_cpu"] == rows["cpu"]).mean())}
    for cpu, count in zip(cpus, counts, strict=True):
        out[f"backlog_share_cpu{cpu}"] = float(count) / len(rows)
    return out


EXPERIMENTS = (
    Experiment(
        id="incoming-cpu-mask",
        title="SO_INCOMING_CPU_MASK: listeners pinned to a node",
        text="200 TCP_RR 512/512, reuseport echo server per NUMA node",
        build=mask_hosts,
        count=count_locality,
    ),
    Experiment(
        id="xps",
        title="XPS: one tx queue per CPU",
        text="16 CPUs, 16 queues, 500 netperf TCP_RR of 1 byte",
        build=xps_hosts,
        count=count_sharing,
    ),
    Experiment(
        id="cpumap-gro",
        title="GRO in the cpumap kthread",
        text="tcp_stream, 8 threads, 16 flows",
        build=cpumap_hosts,
        count=count_skbs,
    ),
    Experiment(
        id="sockmap-affinity",
        title="CPU affinity for sockmap",
        text="iperf3 through a sockmap proxy on loopback, client on CPU 6, server on CPU 5",
        build=sockmap_hosts,
        count=count_backlog,
    ),
)
