"""Random small traffic for a random host: trains, odd frames, sent ones; then polls and ops."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Callable

import attrs
import numpy as np
from hypothesis import strategies as st

from emu.intake import from_frames
from emu.model.host import Host
from emu.model.ops import (
    CloseSocket,
    MoveThreads,
    Op,
    OpenSocket,
    SetCpuMask,
    SetIncomingCpu,
    WriteRpsCpus,
    WriteXpsCpus,
    WriteXpsRxqs,
)
from emu.model.packets import Packets
from emu.model.polls import Polls
from emu.model.sockets import parse_endpoint
from emu.result.decisions import Decisions
from tests.strategies import frames as make
from tests.strategies.hosts import (
    CLIENT_PORTS,
    CLIENTS_V4,
    CLIENTS_V6,
    LOCAL_V4,
    LOCAL_V6,
    PORTS,
)
from tests.strategies.masks import cpu_sets

MICROSECOND_PS = 1_000_000
ELSEWHERE = ("192.0.2.7", "2001:db8:ffff::7")
GROUPS = ("224.0.0.5", "ff02::5")
PAYLOAD = bytes(range(256)) * 6
SIZES = (0, 1, 5, 100, 1000, 1448)
TIMES_US = (0, 0, 0, 1, 3, 10, 50, 400, 1000, 4000)


@attrs.frozen
class Flow:
    """Two ends, as a packet towards the host has them."""

    client: str
    cport: int
    local: str
    lport: int

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


def flow(client: str, cport: int, local: str, lport: int) -> Flow:
    """A flow of a client to a local end."""
    return Flow(client, cport, local, lport)


@st.composite
def flows(draw: st.DrawFn, host: Host) -> Flow:
    """A flow of the pools of `tests.strategies.hosts`; mostly one that a socket takes."""
    socket = draw(st.sampled_from((None, *host.sockets)))
    if socket is None:
        v6 = draw(st.booleans())
        local, lport = draw(st.sampled_from(LOCAL_V6 if v6 else LOCAL_V4)), 80
    else:
        address, lport = parse_endpoint(socket.bind)
        v6 = address.version == 6
        anywhere = LOCAL_V6 if v6 else LOCAL_V4
        local = draw(st.sampled_from(anywhere)) if address.is_unspecified else str(address)
        if socket.peer is not None and draw(st.booleans()):
            peer, cport = parse_endpoint(socket.peer)
            return Flow(str(peer), cport, local, lport)
        if v6 and address.is_unspecified and draw(st.booleans()):
            v6, local = False, LOCAL_V4[0]  # what a dual-stack socket takes
    if draw(st.integers(0, 4)) == 0:
        lport = draw(st.sampled_from(PORTS))
    client = draw(st.sampled_from(CLIENTS_V6 if v6 else CLIENTS_V4))
    return Flow(client, draw(st.sampled_from(CLIENT_PORTS)), local, lport)


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


def clean_trains(path: Flow) -> st.SearchStrategy[list[bytes]]:
    """Trains in which nothing is out of the ordinary."""
    tcp = st.builds(
        tcp_frames,
        st.just(path),
        st.integers(1, 20),
        st.sampled_from(SIZES),
        seq=st.sampled_from((0, 1000, 2**32 - 300)),
        options=st.sampled_from((b"", make.TIMESTAMPS)),
        ident_step=st.sampled_from((0, 1)),
        push_last=st.booleans(),
    )
    udp = st.builds(udp_frames, st.just(path), st.integers(1, 12), st.sampled_from(SIZES))
    return st.one_of(tcp, udp)


@st.composite
def long_trains(draw: st.DrawFn, path: Flow) -> list[bytes]:
    """More than one full poll of NAPI."""
    kind = draw(st.sampled_from((tcp_frames, udp_frames)))
    return kind(path, draw(st.sampled_from((64, 65, 130))), draw(st.sampled_from((1, 100))))


@st.composite
def broken_trains(draw: st.DrawFn, path: Flow) -> list[bytes]:
    """A TCP train with a gap, a repeat, another flag, label, ttl or size somewhere in it."""
    ends, seq, out = path.ends(), 1000, []
    for index in range(draw(st.integers(2, 8))):
        odd = draw(
            st.sampled_from(("", "", "gap", "twice", "fin", "syn", "label", "ttl", "small", "frag"))
        )
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


@st.composite
def harmed(draw: st.DrawFn, path: Flow) -> list[bytes]:
    """A train in which some frames are tagged, cut, or have a wrong checksum."""
    out = []
    for frame in draw(clean_trains(path))[:8]:
        harm = draw(st.sampled_from(("", "", "tag", "cut", "l4", "ip", "pad")))
        if harm == "tag":
            frame = make.tag(frame, draw(st.sampled_from((5, 6, 0x2005))))
        elif harm == "cut":
            frame = frame[: draw(st.integers(0, len(frame)))]
        elif harm == "l4":
            frame = frame[:-1] + bytes((frame[-1] ^ 0x5A,))
        elif harm == "ip":
            frame = frame[:24] + bytes((frame[24] ^ 1,)) + frame[25:]
        elif harm == "pad":
            frame += bytes(6)
        out.append(frame)
    return out


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


def oddities(path: Flow) -> st.SearchStrategy[list[bytes]]:
    """Frames that no socket gets: ARP, ICMP, SCTP, other hosts', a group's, nobody's ethertype."""
    ends = path.ends()
    away = Flow(path.client, path.cport, ELSEWHERE[path.v6], path.lport)
    group = Flow(path.client, path.cport, GROUPS[path.v6], path.lport)
    icmp = 58 if path.v6 else 1
    sctp = struct.pack(">HH", path.cport, path.lport) + bytes(8)
    return st.sampled_from(
        (
            [make.eth(0x0806, bytes(28))],
            [make.eth(0x88CC, bytes(46))],
            [wrap(ends, icmp, bytes(8))],
            [wrap(ends, 132, sctp)],
            [wrap(ends, 50, bytes(16))],
            [wrap(ends, 41 if path.v6 else 4, bytes(3))],
            tcp_frames(away, 5),
            udp_frames(away, 3),
            udp_frames(group, 2),
            fragments(path),
        )
    )


@st.composite
def trains(draw: st.DrawFn, host: Host) -> Train:
    """One train of any kind at some time on one of the host's NICs."""
    path = draw(flows(host))
    back = tcp_frames if draw(st.booleans()) else udp_frames
    kinds: tuple[Callable[[], list[bytes]], ...] = (
        lambda: draw(clean_trains(path)),
        lambda: draw(clean_trains(path)),
        lambda: draw(clean_trains(path)),
        lambda: draw(broken_trains(path)),
        lambda: draw(harmed(path)),
        lambda: draw(oddities(path)),
        lambda: back(path, draw(st.integers(1, 3)), back=True),
        lambda: draw(long_trains(path)),
        lambda: draw(st.lists(make.any_frames(), max_size=3)),
    )
    return Train(
        frames=draw(st.sampled_from(kinds))(),
        nic=draw(st.integers(0, len(host.nics) - 1)),
        start_ps=draw(st.sampled_from(TIMES_US)) * MICROSECOND_PS,
        gap_ps=draw(st.sampled_from((0, 0, 1, MICROSECOND_PS // 10, 20 * MICROSECOND_PS))),
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
def traffic(draw: st.DrawFn, host: Host, *, most: int = 5) -> Packets:
    """Up to *most* trains, interleaved by time; at least one packet."""
    chosen = draw(st.lists(trains(host), min_size=1, max_size=most))
    if not any(train.frames for train in chosen):
        chosen.append(Train(udp_frames(draw(flows(host)), 1), 0, 0, 0))
    hashed = draw(st.sampled_from(("none", "none", "none", "l3", "l4", "sw", "sw-l4")))
    return table(
        chosen,
        vlan_accel=draw(st.booleans()),
        ip_summed=draw(st.sampled_from(("none", "none", "none", "unnecessary", "complete"))),
        hash_type=hashed,
        skb_hash=0 if hashed == "none" else draw(st.sampled_from((1, 0x80000000, 0xFFFFFFFF))),
    )


@st.composite
def clean_traffic(draw: st.DrawFn, host: Host, *, most: int = 5) -> Packets:
    """Only clean trains, each flow on one NIC."""
    out, nic_of = [], {}
    for _ in range(draw(st.integers(1, most))):
        path = draw(flows(host))
        nic = nic_of.setdefault(path, draw(st.integers(0, len(host.nics) - 1)))
        start = draw(st.sampled_from(TIMES_US)) * MICROSECOND_PS
        out.append(Train(draw(clean_trains(path)), nic, start, draw(st.sampled_from((0, 1)))))
    return table(out)


@st.composite
def op_lists(draw: st.DrawFn, host: Host, *, most: int = 6) -> list[Op]:
    """Ops that this host takes, in order of time; closed sockets open, open ones close."""
    times = sorted(draw(st.lists(st.sampled_from(TIMES_US), max_size=most)))
    is_open = {socket.name: socket.opened for socket in host.sockets}
    return [draw(one_op(host, time * MICROSECOND_PS, is_open)) for time in times]


@st.composite
def one_op(draw: st.DrawFn, host: Host, at_ps: int, is_open: dict[str, bool]) -> Op:
    """One op; keeps *is_open* up to date."""
    cpus = host.topology.cpus
    masks = cpu_sets(cpus)
    nic = draw(st.sampled_from(host.nics))
    kinds = ["rps", "rxqs", *(["xps"] if nic.tx_queues > 1 else [])]
    if is_open:
        kinds += ["incoming", "mask", "open", "open", "threads", "threads"]
    kind = draw(st.sampled_from(kinds))
    if kind == "rps":
        queue = draw(st.integers(0, nic.rx_queues - 1))
        return WriteRpsCpus(at_ps=at_ps, nic=nic.name, queue=queue, mask=draw(masks))
    if kind in ("xps", "rxqs"):
        queue = draw(st.integers(0, nic.tx_queues - 1))
        if kind == "xps":
            return WriteXpsCpus(at_ps=at_ps, nic=nic.name, queue=queue, mask=draw(masks))
        rxqs = draw(cpu_sets(nic.rx_queues))
        return WriteXpsRxqs(at_ps=at_ps, nic=nic.name, queue=queue, mask=rxqs)
    name = draw(st.sampled_from(sorted(is_open)))
    if kind == "incoming":
        return SetIncomingCpu(at_ps=at_ps, socket=name, cpu=draw(st.integers(-1, cpus)))
    if kind == "mask":
        return SetCpuMask(at_ps=at_ps, socket=name, mask=draw(st.one_of(st.none(), masks)))
    if kind == "threads":
        threads = draw(cpu_sets(cpus, at_least=1))
        return MoveThreads(at_ps=at_ps, socket=name, threads=threads)
    is_open[name] = not is_open[name]
    change = OpenSocket if is_open[name] else CloseSocket
    return change(at_ps=at_ps, socket=name)


@st.composite
def polls_of(draw: st.DrawFn, host: Host, decisions: Decisions) -> Polls:
    """Other polls for the packets of a steer: any cuts, empty and long ones, queues interleaved."""
    first = np.cumsum([0] + [nic.rx_queues for nic in host.nics])
    queue = decisions.arrays["rx_queue"].astype(np.int64)
    whole = np.where(queue >= 0, first[decisions.arrays["nic"]] + queue, -1)
    waiting = {int(q): np.flatnonzero(whole == q).tolist() for q in np.unique(whole[whole >= 0])}
    rows: list[tuple[int, list[int]]] = []
    while waiting:
        q = draw(st.sampled_from(sorted(waiting)))
        size = draw(st.sampled_from((0, 1, 2, 5, 63, 64, 64, 64, 70, 200)))
        rows.append((q, waiting[q][:size]))
        waiting[q] = waiting[q][size:]
        if not waiting[q]:
            del waiting[q]
    steps = draw(st.lists(st.sampled_from((0, 0, 1, 4)), min_size=len(rows), max_size=len(rows)))
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
