"""Random hosts, small and odd, with every feature; their addresses come from one small pool."""

from __future__ import annotations

from typing import Any

import attrs
from hypothesis import strategies as st

from emu.dtypes import RSS_FLOWS
from emu.kernels import KERNELS, KernelProfile
from emu.model.host import Host
from emu.model.masks import CpuSet
from emu.model.nic import XFRM, Cpumap, Gro, Nic, Rss
from emu.model.secrets import Secrets
from emu.model.sockets import Cbpf, Socket, Sockmap
from emu.model.topology import Topology
from tests.strategies.masks import cpu_sets

LOCAL_V4 = ("10.0.0.1", "10.0.0.2")
LOCAL_V6 = ("2001:db8::1",)
CLIENTS_V4 = tuple(f"10.1.0.{host}" for host in range(1, 9))
CLIENTS_V6 = tuple(f"2001:db8:1::{host:x}" for host in range(1, 9))
PORTS = (80, 53, 443)
CLIENT_PORTS = (1024, 1025, 40000, 40001, 65535)


def topologies(cpus: st.SearchStrategy[int] | None = None) -> st.SearchStrategy[Topology]:
    """1 to 9 CPUs mostly, sometimes 64 or 65; nodes; some CPUs offline."""
    small = st.integers(1, 9)
    return (cpus or st.one_of(small, small, small, st.sampled_from((64, 65)))).flatmap(_topology)


@st.composite
def _topology(draw: st.DrawFn, cpus: int) -> Topology:
    nodes = draw(st.integers(1, min(cpus, 3)))
    offline = draw(st.sets(st.integers(0, cpus - 1), max_size=draw(st.sampled_from((0, 0, 2)))))
    return Topology(
        cpus=cpus,
        node_of=tuple(cpu * nodes // cpus for cpu in range(cpus)),
        online=tuple(cpu not in offline or len(offline) == cpus for cpu in range(cpus)),
    )


@st.composite
def rsses(draw: st.DrawFn, rx_queues: int) -> Rss:
    """RSS settings; under a symmetric transform only field sets that the kernel takes."""
    xfrm = draw(st.sampled_from(XFRM))
    paired = ("sdfn", "sd", "fn", "")
    letters = st.sampled_from(paired if xfrm != "none" else (*paired, "s", "d", "sdf", "dn", "f"))
    addresses = st.sampled_from(("sd", "") if xfrm != "none" else ("sd", "", "s", "d"))
    fields = {
        flow: draw(addresses if flow.startswith("ip") else letters)
        for flow in draw(st.sets(st.sampled_from(RSS_FLOWS), max_size=3))
    }
    size = 1 << draw(st.integers(0, 8))
    queues = st.integers(0, rx_queues - 1)
    table = draw(st.one_of(st.just([]), st.lists(queues, min_size=size, max_size=size)))
    key = st.one_of(
        st.none(),
        st.sampled_from(("microsoft", "symmetric")),
        st.binary(min_size=40, max_size=40),
        st.binary(min_size=52, max_size=52),
    )
    return Rss(
        key=draw(key),
        udp_hash=draw(st.sampled_from(("2tuple", "4tuple"))),
        hash_fields=fields,
        input_xfrm=xfrm,
        indirection=table,
    )


@st.composite
def cpumaps(draw: st.DrawFn, topology: Topology) -> Cpumap:
    """cpumap programs of every rule and design."""
    online = st.sampled_from(topology.online_cpus)
    cpus = draw(st.sets(online, min_size=1, max_size=6))
    rule = draw(st.sampled_from(("rx-queue", "hash", "saddr", "fixed")))
    return Cpumap(
        cpus=CpuSet(cpus),
        qsize=draw(st.sampled_from((1, 2, 7, 8, 9, 64, 192))),
        design=draw(st.sampled_from(("merged", "plain", "napi"))),
        rule=rule,
        fixed=draw(st.sampled_from(sorted(cpus))) if rule == "fixed" else None,
    )


@st.composite
def nics(draw: st.DrawFn, topology: Topology, name: str, others: tuple[str, ...] = ()) -> Nic:
    """NICs with 1 to 9 queues each way and everything that can be set on them."""
    rx, tx = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    irq = st.sampled_from(topology.online_cpus)

    def per_queue(queues: int, entries: Any) -> Any:
        some = st.lists(entries, min_size=1, max_size=queues)
        return draw(st.one_of(st.just(()), some, entries))

    def irqs(queues: int) -> Any:
        return draw(st.one_of(st.just(()), st.lists(irq, min_size=queues, max_size=queues)))

    masks = cpu_sets(topology.cpus)
    return Nic(
        name=name,
        rx_queues=rx,
        tx_queues=tx,
        irq_cpus=irqs(rx),
        tx_irq_cpus=irqs(tx),
        rss=draw(rsses(rx)),
        rps_cpus=per_queue(rx, masks),
        xps_cpus=per_queue(tx, masks) if tx > 1 else (),
        xps_rxqs=per_queue(tx, cpu_sets(rx)),
        gro=draw(gros()),
        cpumap=draw(st.one_of(st.none(), st.none(), cpumaps(topology))),
        rx_usecs=draw(st.sampled_from((0, 1, "500ns", 10, "50us", "1ms"))),
        rx_frames=draw(st.sampled_from((0, 0, 1, 2, 64, 65))),
        rx_checksum=draw(st.booleans()),
        hw_hash=draw(st.booleans()),
        forward_to=draw(st.sampled_from((None, name, *others))),
    )


def gros() -> st.SearchStrategy[Gro]:
    """GRO settings, with small sizes too."""
    size = st.sampled_from((65536, 65536, 8192, 3000, 1))
    return st.builds(
        Gro,
        enabled=st.sampled_from((True, True, True, False)),
        rx_udp_gro_forwarding=st.booleans(),
        max_size=size,
        ipv4_max_size=size,
    )


@st.composite
def socket_groups(
    draw: st.DrawFn, topology: Topology, devices: tuple[str, ...], first: int
) -> list[Socket]:
    """One to six sockets on one place: a reuseport group, or a lone socket."""
    v6 = draw(st.booleans())
    local = draw(st.sampled_from((*(LOCAL_V6 if v6 else LOCAL_V4), "::" if v6 else "0.0.0.0")))
    bind = f"[{local}]" if v6 else local
    shared: dict[str, Any] = {
        "proto": draw(st.sampled_from(("tcp", "udp"))),
        "bind": f"{bind}:{draw(st.sampled_from(PORTS))}",
        "reuseport": draw(st.sampled_from((True, True, True, False))),
        "device": draw(st.sampled_from((None, None, *devices))),
        "uid": draw(st.sampled_from((0, 0, 0, 1000))),
        "v6only": v6 and draw(st.booleans()),
    }
    size = draw(st.integers(1, 6)) if shared["reuseport"] else 1
    with_cpu, with_mask = draw(st.booleans()), draw(st.sampled_from((False, False, True)))
    masks, threads = cpu_sets(topology.cpus), cpu_sets(topology.cpus, at_least=1)
    out = []
    for index in range(first, first + size):
        own = dict(shared)
        if with_cpu:
            own["incoming_cpu"] = draw(st.integers(-1, topology.cpus))
        if with_mask:
            own["cpu_mask"] = draw(st.one_of(st.none(), masks))
        if own["reuseport"] and draw(st.integers(0, 9)) == 0:
            own["cbpf"] = draw(cbpfs())
        usable = draw(threads) & topology.online_set
        own["threads"] = usable if usable else topology.online_set
        own["opened"] = draw(st.integers(0, 9)) < 9
        out.append(Socket(name=f"s{index}", **own))
    return out


def cbpfs() -> st.SearchStrategy[Cbpf]:
    """Programs of every kind."""
    return st.one_of(
        st.builds(Cbpf, kind=st.just("fixed"), value=st.integers(0, 7)),
        st.builds(Cbpf, kind=st.just("cpu")),
        st.builds(Cbpf, kind=st.just("payload"), value=st.integers(0, 9)),
    )


@st.composite
def connected(draw: st.DrawFn, topology: Topology, index: int) -> Socket:
    """One connected socket of a client in the pool."""
    v6 = draw(st.booleans())
    local = draw(st.sampled_from(LOCAL_V6 if v6 else LOCAL_V4))
    peer = draw(st.sampled_from(CLIENTS_V6 if v6 else CLIENTS_V4))
    bind, far = (f"[{local}]", f"[{peer}]") if v6 else (local, peer)
    return Socket(
        name=f"s{index}",
        proto=draw(st.sampled_from(("tcp", "udp"))),
        bind=f"{bind}:{draw(st.sampled_from(PORTS))}",
        peer=f"{far}:{draw(st.sampled_from(CLIENT_PORTS))}",
        reuseport=draw(st.sampled_from((False, False, True))),
        threads=CpuSet([draw(st.sampled_from(topology.online_cpus))]),
    )


@st.composite
def socket_lists(
    draw: st.DrawFn, topology: Topology, devices: tuple[str, ...]
) -> tuple[Socket, ...]:
    """Groups and connected sockets; some of them in a sockmap. No two with one 4-tuple."""
    out: list[Socket] = []
    for _ in range(draw(st.integers(0, 4))):
        out.extend(draw(socket_groups(topology, devices, len(out))))
    seen = set()
    for _ in range(draw(st.integers(0, 4))):
        socket = draw(connected(topology, len(out)))
        if (socket.proto, socket.bind, socket.peer) not in seen:
            seen.add((socket.proto, socket.bind, socket.peer))
            out.append(socket)
    out = draw(st.permutations(out))
    return tuple(_with_sockmap(draw, out, topology))


def _with_sockmap(draw: st.DrawFn, sockets: list[Socket], topology: Topology) -> list[Socket]:
    chosen = [socket.name for socket in sockets if draw(st.integers(0, 3)) == 0]
    cpus = st.one_of(st.none(), st.integers(0, topology.cpus - 1))
    out = []
    for socket in sockets:
        if socket.name in chosen:
            target = draw(st.sampled_from((None, *chosen)))
            ingress = target is not None and draw(st.booleans())
            sockmap = Sockmap(cpu=draw(cpus), redirect=target, ingress=ingress)
            socket = attrs.evolve(socket, sockmap=sockmap)
        out.append(socket)
    return out


def kernels() -> st.SearchStrategy[str | KernelProfile]:
    """The shipped kernels, and ones with other switches."""
    other = st.builds(
        lambda name, policy, quirk: KERNELS[name].replace(
            mask_policy=policy, mask_v6_udp_quirk=quirk
        ),
        st.sampled_from(sorted(KERNELS)),
        st.sampled_from(("reject", "boost")),
        st.sampled_from(("none", "primary_only", "hash2_only")),
    )
    return st.one_of(st.sampled_from(sorted(KERNELS)), other)


@st.composite
def hosts(draw: st.DrawFn, cpus: st.SearchStrategy[int] | None = None) -> Host:
    """Valid hosts with every feature."""
    topology = draw(topologies(cpus))
    names = tuple(f"eth{index}" for index in range(draw(st.integers(1, 3))))
    addresses = st.sets(st.sampled_from((*LOCAL_V4, *LOCAL_V6))).map(sorted)
    return Host(
        topology=topology,
        nics=[draw(nics(topology, name, names)) for name in names],
        sockets=draw(socket_lists(topology, names)),
        addresses=draw(st.one_of(st.just(()), addresses)),
        forwarding=draw(st.booleans()),
        kernel=draw(kernels()),
        hz=draw(st.sampled_from((100, 250, 300, 1000))),
        secrets=Secrets.from_seed(draw(st.integers(0, 2**16))),
    )
