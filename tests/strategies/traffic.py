"""Random small traffic for a random host: trains, odd frames, sent ones; then polls and ops."""

from __future__ import annotations

import ipaddress
import struct
from random import Random
from typing import Any

import attrs
import numpy as np
from hypothesis import strategies as st

from emu.intake import from_frames
from emu.model.cpus_in_use import CpusInUse
from emu.model.host import Host
from emu.model.masks import CpuSet
from emu.model.nic import Nic
from emu.model.ops import (
    BindSocket,
    CloseSocket,
    DisconnectSocket,
    MoveThreads,
    Op,
    OpenSocket,
    RouteChange,
    SetCpuMask,
    SetIncomingCpu,
    SetOnline,
    SetTxQueues,
    WriteRpsCpus,
    WriteXpsCpus,
    WriteXpsRxqs,
)
from emu.model.packets import Packets
from emu.model.polls import Polls
from emu.model.sockets import Cbpf, Socket, Sockmap, parse_endpoint
from emu.result.decisions import Decisions
from tests.strategies import frames as make
from tests.strategies.hosts import (
    CLIENT_PORTS,
    CLIENTS_V4,
    CLIENTS_V6,
    LOCAL_V4,
    LOCAL_V6,
    PORTS,
    hosts,
)
from tests.strategies.masks import cpu_sets

MICROSECOND_PS = 1_000_000
ELSEWHERE = ("192.0.2.7", "2001:db8:ffff::7")
GROUPS = ("224.0.0.5", "ff02::5")
PAYLOAD = bytes(range(256)) * 6
SIZES = (0, 1, 5, 100, 1000, 1448)
ODD = ("gap", "twice", "fin", "syn", "label", "ttl", "small", "frag")
TIMES_US = (0, 0, 0, 1, 3, 10, 50, 400, 1000, 4000)


@attrs.frozen
class Flow:
    """Two ends, as a packet towards the host has them."""

    client: str
    cport: int
    local: str
    lport: int
    udp: bool = False

    @property
    def v6(self) -> bool:
        return ":" in self.client

    def ends(self, *, back: bool = False) -> tuple[bytes, bytes, int, int]:
        """Source, destination and ports, as octets; *back*: of a packet that the host sends."""
        client, local = (ipaddress.ip_address(text).packed for text in (self.client, self.local))
        if back:
            return local, client, self.lport, self.cport
        return client, local, self.cport, self.lport


@attrs.frozen
class Train:
    """Frames that follow each other, where the first begins, and what lies between two."""

    frames: list[bytes]
    nic: int
    start_ps: int
    gap_ps: int


def segment(
    kind: str, ends: tuple[bytes, bytes, int, int], payload: bytes, *, seq: int = 1000,
    flags: int = 0x10, options: bytes = b"",
) -> tuple[int, bytes]:  # fmt: skip
    """Protocol and octets of one TCP or UDP segment."""
    saddr, daddr, sport, dport = ends
    if kind == "tcp":
        return 6, make.tcp(
            saddr, daddr, sport, dport, payload, seq=seq, flags=flags, options=options
        )
    return 17, make.udp(saddr, daddr, sport, dport, payload)


def wrap(
    ends: tuple[bytes, bytes, int, int], proto: int, body: bytes, *, ident: int = 7,
    frag: int = 0x4000, label: int = 0, ttl: int = 64,
) -> bytes:  # fmt: skip
    """The Ethernet frame around a segment."""
    saddr, daddr = ends[:2]
    if len(saddr) == 4:
        packet = make.ipv4(proto, saddr, daddr, body, ident=ident & 0xFFFF, frag=frag, ttl=ttl)
        return make.eth(0x0800, packet)
    return make.eth(0x86DD, make.ipv6(proto, saddr, daddr, body, label=label, hops=ttl))


def tcp_frames(
    path: Flow, count: int, size: int = 100, *, back: bool = False, seq: int = 1000,
    options: bytes = b"", ident_step: int = 1, push_last: bool = False,
) -> list[bytes]:  # fmt: skip
    """A train with consecutive sequence numbers: what GRO joins."""
    ends, out = path.ends(back=back), []
    for index in range(count):
        flags = 0x18 if push_last and index == count - 1 else 0x10
        proto, body = segment(
            "tcp", ends, PAYLOAD[:size], seq=(seq + index * size) % 2**32, flags=flags,
            options=options,
        )  # fmt: skip
        out.append(wrap(ends, proto, body, ident=7 + index * ident_step))
    return out


def udp_frames(path: Flow, count: int, size: int = 100, *, back: bool = False) -> list[bytes]:
    """Datagrams of one size."""
    ends = path.ends(back=back)
    return [
        wrap(ends, *segment("udp", ends, PAYLOAD[:size]), ident=7 + index) for index in range(count)
    ]


def fragments(path: Flow) -> list[bytes]:
    """A UDP datagram in two fragments."""
    ends = path.ends()
    proto, body = segment("udp", ends, PAYLOAD[:200])
    if not path.v6:
        return [
            wrap(ends, proto, body[:96], frag=0x2000),
            wrap(ends, proto, body[96:], frag=12),
        ]
    header = struct.pack(">BxHI", proto, 1, 99), struct.pack(">BxHI", proto, 96, 99)
    return [wrap(ends, 44, header[0] + body[:96]), wrap(ends, 44, header[1] + body[96:])]


@attrs.frozen
class Maker:
    """Draws flows and trains with a seeded generator: every kind comes up in few examples."""

    host: Host
    rng: Random

    def one(self, *choices: object) -> Any:
        """One of them."""
        return self.rng.choice(choices)

    def flow(self) -> Flow:
        """A flow of the pools of `tests.strategies.hosts`; mostly one that a socket takes."""
        rng, host = self.rng, self.host
        if not host.sockets or rng.random() < 0.1:
            v6 = rng.random() < 0.5
            local, lport = rng.choice(LOCAL_V6 if v6 else LOCAL_V4), rng.choice(PORTS)
            udp = rng.random() < 0.5
        else:
            socket = rng.choice(host.sockets)
            address, lport = parse_endpoint(socket.bind)
            udp = (socket.proto == "udp") != (rng.random() < 0.05)
            v6 = address.version == 6
            anywhere = LOCAL_V6 if v6 else LOCAL_V4
            local = rng.choice(anywhere) if address.is_unspecified else str(address)
            if socket.peer is not None and rng.random() < 0.8:
                peer, cport = parse_endpoint(socket.peer)
                return Flow(str(peer), cport, local, lport, udp)
            if v6 and address.is_unspecified and rng.random() < 0.3:
                v6, local = False, LOCAL_V4[0]  # what a dual-stack socket takes
        client = rng.choice(CLIENTS_V6 if v6 else CLIENTS_V4)
        return Flow(client, rng.choice(CLIENT_PORTS), local, lport, udp)

    def clean(self, path: Flow) -> list[bytes]:
        """A train in which nothing is out of the ordinary."""
        rng = self.rng
        if path.udp:
            return udp_frames(path, rng.randint(1, 12), rng.choice(SIZES))
        return tcp_frames(
            path,
            rng.randint(1, 20),
            rng.choice(SIZES),
            seq=rng.choice((0, 1000, 2**32 - 300)),
            options=rng.choice((b"", make.TIMESTAMPS)),
            ident_step=rng.choice((0, 1)),
            push_last=rng.random() < 0.5,
        )

    def long(self, path: Flow) -> list[bytes]:
        """More than one full poll of NAPI."""
        build = udp_frames if path.udp else tcp_frames
        return build(path, self.one(64, 65, 130), self.one(1, 100))

    def broken(self, path: Flow) -> list[bytes]:
        """A TCP train with a gap, a repeat, another flag, label, ttl or size somewhere in it."""
        ends, seq, out = path.ends(), 1000, []
        for index in range(self.rng.randint(2, 10)):
            odd = self.one("", "", "", *ODD)
            size = 40 if odd == "small" else 100
            flags = {"fin": 0x11, "syn": 0x02}.get(odd, 0x10)
            seq += {"gap": 7, "twice": -size}.get(odd, 0)
            proto, body = segment("tcp", ends, PAYLOAD[:size], seq=seq % 2**32, flags=flags)
            frame = wrap(
                ends, proto, body, ident=index, frag=0x2000 if odd == "frag" else 0x4000,
                label=5 if odd == "label" else 0, ttl=3 if odd == "ttl" else 64,
            )  # fmt: skip
            out.append(frame)
            seq += size
        return out

    def harmed(self, path: Flow) -> list[bytes]:
        """A train in which some frames are tagged, cut, padded, or have a bit turned."""
        out = []
        for frame in self.clean(path)[:10]:
            harm = self.one("", "", "tag", "cut", "l4", "ip", "pad", "any")
            if harm == "tag":
                frame = make.tag(frame, self.one(5, 6, 0x2005))
            elif harm == "cut":
                frame = frame[: self.rng.randint(0, len(frame))]
            elif harm == "pad":
                frame += bytes(6)
            elif harm:
                at = {"l4": len(frame) - 1, "ip": 24}.get(harm, self.rng.randrange(len(frame)))
                turned = frame[at] ^ (1 << self.rng.randrange(8))
                frame = frame[:at] + bytes((turned,)) + frame[at + 1 :]
            out.append(frame)
        return out

    def odd(self, path: Flow) -> list[bytes]:
        """Frames that no socket gets: ARP, ICMP, SCTP, a group's, nobody's ethertype, fragments."""
        ends = path.ends()
        group = Flow(path.client, path.cport, GROUPS[path.v6], path.lport)
        sctp = struct.pack(">HH", path.cport, path.lport) + bytes(8)
        return self.one(
            [make.eth(0x0806, bytes(28))],
            [make.eth(0x88CC, bytes(46))],
            [wrap(ends, 58 if path.v6 else 1, bytes(8))],
            [wrap(ends, 132, sctp)],
            [wrap(ends, 50, bytes(16))],
            [wrap(ends, 41 if path.v6 else 4, bytes(3))],
            udp_frames(group, 2),
            fragments(path),
        )

    def away(self, path: Flow) -> list[bytes]:
        """A train to another host."""
        return self.clean(attrs.evolve(path, local=ELSEWHERE[path.v6]))

    def sent(self, path: Flow) -> list[bytes]:
        """What the host answers."""
        build = udp_frames if path.udp else tcp_frames
        return build(path, self.rng.randint(1, 3), back=True)

    def train(self) -> Train:
        """One train of any kind at some time on one of the host's NICs."""
        kinds = (
            (self.clean,) * 8 + (self.broken, self.harmed, self.odd) + (self.away, self.sent) * 2
        )
        kind = self.rng.choice(kinds) if self.rng.random() < 0.95 else self.long
        return Train(
            frames=kind(self.flow()),
            nic=self.rng.randrange(len(self.host.nics)),
            start_ps=self.rng.choice(TIMES_US) * MICROSECOND_PS,
            gap_ps=self.one(0, 0, 1, MICROSECOND_PS // 10, 20 * MICROSECOND_PS),
        )


def makers(host: Host) -> st.SearchStrategy[Maker]:
    """Makers of any seed."""
    return generators(host).map(lambda rng: Maker(host, rng))


def generators(host: Host) -> st.SearchStrategy[Random]:
    """Seeded generators; another host draws otherwise from the same seed."""
    return st.integers(0, 2**32 - 1).map(lambda seed: Random(f"{seed} {host!r}"))


@st.composite
def lively_hosts(draw: st.DrawFn) -> Host:
    """Hosts as `hosts` draws them, mostly with addresses, more sockets, and sockmaps among them."""
    host = draw(hosts())
    rng = draw(generators(host))
    changes: dict[str, Any] = {"sockets": [*host.sockets, *more_sockets(host, rng)]}
    if rng.random() < 0.7:
        changes["addresses"] = [*LOCAL_V4, *LOCAL_V6]
    if rng.random() < 0.5:
        changes["rps_sock_flow_entries"] = rng.choice((1, 3, 64))
    changes["kernel"] = rng.choice((host.kernel, host.kernel, "6.12"))
    host = host.replace(**changes)
    for nic in host.nics:
        host = host.replace_nic(nic.name, **rare_settings(nic, rng))
    return host


def rare_settings(nic: Nic, rng: Random) -> dict[str, Any]:
    """Flow tables, traffic classes and fraglists, each on some NICs."""
    out: dict[str, Any] = {}
    if rng.random() < 0.5:
        out["rps_flow_cnt"] = rng.choice((1, 2, 100))
    if rng.random() < 0.3:
        out["gro"] = attrs.evolve(nic.gro, rx_gro_list=True)
    if nic.tx_queues > 1 and rng.random() < 0.4:
        first = rng.randint(1, nic.tx_queues - 1)
        out["tc_queues"] = (first, rng.randint(1, nic.tx_queues - first))
        out["prio_tc"] = tuple(rng.randint(0, 1) for _ in range(16))
    return out


def more_sockets(host: Host, rng: Random) -> list[Socket]:
    """A few groups, and connections of which some are in a sockmap."""
    taken = {(socket.proto, socket.bind, socket.peer) for socket in host.sockets}
    out: list[Socket] = []
    for _ in range(rng.randint(0, 2)):
        out += more_members(host, rng, len(out))
    for _ in range(rng.randint(0, 5)):
        socket = one_connection(host, rng, len(out))
        key = (socket.proto, socket.bind, socket.peer)
        if key not in taken:
            taken.add(key)
            out.append(socket)
    linked = [socket.name for socket in out if socket.peer and rng.random() < 0.5]
    out = [with_options(socket, rng) for socket in out]
    return [
        attrs.evolve(socket, sockmap=sockmap_of(rng, linked, host.topology.cpus))
        if socket.name in linked
        else socket
        for socket in out
    ]


def with_options(socket: Socket, rng: Random) -> Socket:
    """A priority, and UDP_GRO, on some."""
    udp_gro = socket.proto == "udp" and rng.random() < 0.3
    return attrs.evolve(socket, udp_gro=udp_gro, priority=rng.choice((0, 0, 1, 6)))


def more_members(host: Host, rng: Random, first: int) -> list[Socket]:
    """A reuseport group that steers in one way."""
    online, few = host.topology.online_cpus, min(host.topology.cpus, 8)
    local = rng.choice(("0.0.0.0", "[::]", *LOCAL_V4, f"[{LOCAL_V6[0]}]"))
    proto, bind = rng.choice(("tcp", "udp")), f"{local}:{rng.choice(PORTS)}"
    steering = rng.choice(("plain", "cpu", "mask", "cbpf"))
    out = []
    for member in range(rng.randint(1, 5)):
        own: dict[str, Any] = {
            "plain": {},
            "cpu": {"incoming_cpu": member},
            "mask": {"cpu_mask": CpuSet(rng.randrange(1 << few))},
            "cbpf": {"cbpf": Cbpf(kind="cpu")},
        }[steering]
        own["threads"] = CpuSet(rng.sample(online, min(len(online), rng.choice((1, 1, 3)))))
        own["opened"] = rng.random() < 0.9
        out.append(Socket(name=f"m{first + member}", proto=proto, bind=bind, reuseport=True, **own))
    return out


def one_connection(host: Host, rng: Random, index: int) -> Socket:
    """A connected socket of a client of the pool."""
    if rng.random() < 0.3:
        local, peer = f"[{LOCAL_V6[0]}]", f"[{rng.choice(CLIENTS_V6)}]"
    else:
        local, peer = rng.choice(LOCAL_V4), rng.choice(CLIENTS_V4)
    return Socket(
        name=f"m{index}",
        proto=rng.choice(("tcp", "udp")),
        bind=f"{local}:{rng.choice(PORTS)}",
        peer=f"{peer}:{rng.choice(CLIENT_PORTS)}",
        threads=CpuSet([rng.choice(host.topology.online_cpus)]),
    )


def sockmap_of(rng: Random, linked: list[str], cpus: int) -> Sockmap:
    """A psock that mostly redirects to another, on a named CPU or not."""
    target = rng.choice((*linked, *linked, None))
    return Sockmap(
        cpu=rng.choice((None, rng.randrange(cpus))),
        redirect=target,
        ingress=target is not None and rng.random() < 0.4,
    )


def table(trains_: list[Train], **columns: object) -> Packets:
    """The trains' packets in order of arrival; at one instant in the trains' order."""
    rows = [
        (train.start_ps + index * train.gap_ps, train.nic, frame)
        for train in trains_
        for index, frame in enumerate(train.frames)
    ]
    rows.sort(key=lambda row: row[0])
    return from_frames(
        [frame for _, _, frame in rows],
        arrival_ps=[time for time, _, _ in rows],
        nic=[nic for _, nic, _ in rows],
        **columns,  # type: ignore[arg-type]
    )


@st.composite
def traffic(draw: st.DrawFn, host: Host, *, most: int = 8) -> Packets:
    """Up to *most* trains, interleaved by time; at least one packet."""
    maker = draw(makers(host))
    chosen = [maker.train() for _ in range(draw(st.integers(1, most)))]
    rng = maker.rng
    hashed = rng.choice(("none", "none", "none", "l3", "l4", "sw", "sw-l4"))
    return table(
        chosen,
        vlan_accel=rng.random() < 0.5,
        ip_summed=rng.choice(("none", "none", "none", "unnecessary", "complete")),
        hash_type=hashed,
        skb_hash=0 if hashed == "none" else rng.choice((1, 0x80000000, 0xFFFFFFFF)),
    )


@st.composite
def clean_traffic(draw: st.DrawFn, host: Host, *, most: int = 5) -> Packets:
    """Only clean trains, each flow on one NIC."""
    maker, nic_of = draw(makers(host)), {}
    out = []
    for _ in range(draw(st.integers(1, most))):
        path = maker.flow()
        nic = nic_of.setdefault(path, maker.rng.randrange(len(host.nics)))
        start = maker.rng.choice(TIMES_US) * MICROSECOND_PS
        out.append(Train(maker.clean(path), nic, start, maker.one(0, 1)))
    return table(out)


@st.composite
def op_lists(draw: st.DrawFn, host: Host, *, most: int = 6) -> list[Op]:
    """Ops that this host takes, in order of time; closed sockets open, open ones close."""
    times = sorted(draw(st.lists(st.sampled_from(TIMES_US), max_size=most)))
    now = HostNow(host)
    return [draw(one_op(host, time * MICROSECOND_PS, now)) for time in times]


class HostNow:
    """What ops have made of a host: they must fit it."""

    def __init__(self, host: Host) -> None:
        self.is_open = {socket.name: socket.opened for socket in host.sockets}
        self.cpus = CpusInUse(host)
        self.tx_queues = {nic.name: nic.tx_queues for nic in host.nics}


@st.composite
def one_op(draw: st.DrawFn, host: Host, at_ps: int, now: HostNow) -> Op:
    """One op; keeps *now* up to date."""
    is_open, in_use = now.is_open, now.cpus
    cpus = host.topology.cpus
    masks = cpu_sets(cpus)
    nic = draw(st.sampled_from(host.nics))
    kinds = ["route", "rps", "rxqs", "tx", *(["xps"] if nic.tx_queues > 1 else [])]
    if is_open:
        kinds += ["incoming", "mask", "open", "open", "threads", "threads"]
    switchable = may_switch(in_use)
    kinds += ["online", "online"] if switchable else []
    kind = draw(st.sampled_from(kinds))
    if kind == "online":
        cpu = draw(st.sampled_from(switchable))
        in_use.set_online("drawn", cpu, not in_use.online[cpu])
        return SetOnline(at_ps=at_ps, cpu=cpu, online=in_use.online[cpu])
    if kind == "route":
        return RouteChange(at_ps=at_ps, family=draw(st.sampled_from([4, 6])))
    if kind == "tx":
        now.tx_queues[nic.name] = draw(st.integers(1, nic.tx_queues))
        return SetTxQueues(at_ps=at_ps, nic=nic.name, queues=now.tx_queues[nic.name])
    if kind == "rps":
        queue = draw(st.integers(0, nic.rx_queues - 1))
        return WriteRpsCpus(at_ps=at_ps, nic=nic.name, queue=queue, mask=draw(masks))
    if kind in ("xps", "rxqs"):
        queue = draw(st.integers(0, now.tx_queues[nic.name] - 1))
        if kind == "xps":
            return WriteXpsCpus(at_ps=at_ps, nic=nic.name, queue=queue, mask=draw(masks))
        rxqs = draw(cpu_sets(nic.rx_queues))
        return WriteXpsRxqs(at_ps=at_ps, nic=nic.name, queue=queue, mask=rxqs)
    name = draw(st.sampled_from(sorted(is_open)))
    socket = host.socket(name)
    if kind == "open" and socket.proto == "udp" and socket.peer and draw(st.booleans()):
        if not is_open[name]:
            is_open[name] = True
            return BindSocket(at_ps=at_ps, socket=name)
        is_open[name] = draw(st.booleans())
        return DisconnectSocket(at_ps=at_ps, socket=name, keeps_port=is_open[name])
    if kind == "incoming":
        return SetIncomingCpu(at_ps=at_ps, socket=name, cpu=draw(st.integers(-1, cpus)))
    if kind == "mask":
        return SetCpuMask(at_ps=at_ps, socket=name, mask=draw(st.one_of(st.none(), masks)))
    if kind == "threads":
        up = [cpu for cpu in range(cpus) if in_use.online[cpu]]
        threads = CpuSet(draw(st.sets(st.sampled_from(up), min_size=1)))
        in_use.move("drawn", name, threads)
        return MoveThreads(at_ps=at_ps, socket=name, threads=threads)
    is_open[name] = not is_open[name]
    change = OpenSocket if is_open[name] else CloseSocket
    return change(at_ps=at_ps, socket=name)


def may_switch(in_use: CpusInUse) -> list[int]:
    """CPUs that may go offline, or come."""
    busy = {cpu for threads in in_use.threads.values() for cpu in threads.cpus} | set(in_use.fixed)
    return [cpu for cpu, up in enumerate(in_use.online) if not up or cpu not in busy]


@st.composite
def polls_of(draw: st.DrawFn, host: Host, decisions: Decisions) -> Polls:
    """Other polls for the packets of a steer: any cuts, empty and long ones, queues interleaved."""
    first = np.cumsum([0] + [nic.rx_queues for nic in host.nics])
    queue = decisions.arrays["rx_queue"].astype(np.int64)
    whole = np.where(queue >= 0, first[decisions.arrays["nic"]] + queue, -1)
    waiting = {int(q): np.flatnonzero(whole == q).tolist() for q in np.unique(whole[whole >= 0])}
    rng = draw(generators(host))
    rows: list[tuple[int, list[int]]] = []
    while waiting:
        q = rng.choice(sorted(waiting))
        size = rng.choice((0, 1, 2, 5, 63, 64, 64, 64, 70, 200))
        rows.append((q, waiting[q][:size]))
        waiting[q] = waiting[q][size:]
        if not waiting[q]:
            del waiting[q]
    steps = [rng.choice((0, 0, 1, 4)) for _ in rows]
    times = np.cumsum(np.array(steps, dtype=np.int64)) * 1000 * MICROSECOND_PS
    count = np.array([len(packets) for _, packets in rows], dtype=np.int32)
    return Polls(
        order=np.array([packet for _, packets in rows for packet in packets], dtype=np.int64),
        queue=np.array([q for q, _ in rows], dtype=np.int32),
        first=np.concatenate([[0], np.cumsum(count, dtype=np.int64)])[:-1],
        count=count,
        time_ps=times,
        jiffy=times // host.jiffy_ps,
    )
