"""A steer's flows: RFS, traffic classes, routes, what GRO asks of sockets (docs/steer.md)."""

from __future__ import annotations

import numpy as np
import pytest

from emu.intake import from_frames
from emu.model.host import Host
from emu.model.masks import CpuSet
from emu.model.nic import Gro, Nic
from emu.model.ops import CloseSocket, MoveThreads, RouteChange, SetIncomingCpu
from emu.model.sockets import Socket
from emu.model.topology import Topology
from emu.steering import steer
from tests.strategies import frames as make

MS = 10**9
HALF = MS // 2  # behind the poll of a packet and before the next
LOCAL, PEER = "10.0.0.1", "10.0.0.2"


def datagram(sport: int = 1000, dport: int = 53, *, tos: int = 0, to: str = LOCAL) -> bytes:
    source, target = (bytes(map(int, end.split("."))) for end in (PEER, to))
    segment = make.udp(source, target, sport, dport, b"x" * 20)
    return make.eth(0x0800, make.ipv4(17, source, target, segment, tos=tos))


def segment(offset: int) -> bytes:
    source, target = (bytes(map(int, end.split("."))) for end in (PEER, LOCAL))
    return make.eth(
        0x0800, make.ipv4(6, source, target, make.tcp(source, target, 9, 80, b"x" * 20, seq=offset))
    )


def apart(frames: list[bytes], gap_ps: int = MS):
    """One frame every millisecond: each is a poll of its own."""
    return from_frames(frames, arrival_ps=[gap_ps * at for at in range(len(frames))])


def connected(name: str = "c", *, cpu: int = 5, sport: int = 1000, **more) -> Socket:
    return Socket(
        name=name, proto="udp", bind=f"{LOCAL}:53", peer=f"{PEER}:{sport}", threads=CpuSet([cpu]),
        **more,
    )  # fmt: skip


def host_of(*sockets: Socket, entries: int = 64, flow_cnt: int = 64, **nic) -> Host:
    return Host(
        topology=Topology(cpus=8),
        nics=[Nic(name="eth0", rps_flow_cnt=flow_cnt, hw_hash=False, **nic)],
        sockets=sockets,
        addresses=[LOCAL],
        rps_sock_flow_entries=entries,
    )


def cpus(host: Host, frames: list[bytes], engine, ops=()) -> list[int]:
    return steer(host, apart(frames), ops=ops, engine=engine.name).column("cpu").tolist()


def test_r_3_2_a_flow_goes_to_the_cpu_that_read_it(engine):
    """The first packet is processed where it came in; its reader is recorded; the next follows."""
    assert cpus(host_of(connected()), [datagram()] * 3, engine) == [0, 5, 5]


@pytest.mark.parametrize("missing", [{"entries": 0}, {"flow_cnt": 0}])
def test_r_3_3_4_tables_are_both_needed(engine, missing):
    assert cpus(host_of(connected(), **missing), [datagram()] * 3, engine) == [0, 0, 0]


def test_r_3_2_unconnected_sockets_record_nothing(engine):
    socket = Socket(name="u", proto="udp", bind=f"{LOCAL}:53", threads=CpuSet([5]))

    assert cpus(host_of(socket), [datagram()] * 3, engine) == [0, 0, 0]


def test_r_3_3_5_a_flow_follows_its_reader_at_once(engine):
    """Nothing waits in a steer: a thread that moves takes its flow with it at the next packet."""
    ops = [MoveThreads(at_ps=MS + HALF, socket="c", threads=CpuSet([2]))]

    assert cpus(host_of(connected()), [datagram()] * 4, engine, ops) == [0, 5, 5, 2]


def test_r_3_3_7_packets_of_other_flows_go_by_the_map(engine):
    host = host_of(connected(), rps_cpus=[CpuSet([3])])

    assert cpus(host, [datagram(), datagram(), datagram(sport=7)], engine) == [3, 5, 3]


@pytest.mark.parametrize(("kernel", "after"), [("6.18", 0), ("6.12", 5)])
def test_r_3_2_forget_a_closed_socket_empties_its_entry(engine, kernel, after):
    ops = [CloseSocket(at_ps=MS + HALF, socket="c")]
    host = host_of(connected()).replace(kernel=kernel)

    assert cpus(host, [datagram()] * 4, engine, ops) == [0, 5, after, after]


def test_sock_42_the_data_path_writes_it_on_connected_sockets(engine):
    """And on no other; what was set stands until a packet comes."""
    other = Socket(name="u", proto="udp", bind=f"{LOCAL}:54", threads=CpuSet([1]))
    quiet = connected("q", sport=9)
    host = host_of(connected(), other, quiet)
    ops = [SetIncomingCpu(at_ps=0, socket="q", cpu=6)]
    done = steer(
        host, apart([datagram(), datagram(), datagram(dport=54)]), ops=ops, engine=engine.name
    )

    assert done.incoming_cpu.tolist() == [5, -1, 6]


def classed(**more) -> Host:
    sockets = (connected("slow", sport=1), connected("fast", sport=2, priority=1))
    return host_of(
        *sockets, tx_queues=8, tc_queues=[4, 4], prio_tc=[0, 1, *[0] * 14], entries=0, **more
    )


def test_xps_31_the_sockets_priority_chooses_the_class(engine):
    frames = [datagram(sport=sport) for sport in (1, 2)]
    queues = steer(classed(), apart(frames), engine=engine.name).column("tx_queue")

    assert (queues[0] < 4, queues[1] >= 4) == (True, True)


def test_xps_31_each_class_has_maps_of_its_own(engine):
    masks = [CpuSet()] * 8
    masks[2] = masks[6] = CpuSet([5])
    frames = [datagram(sport=sport) for sport in (1, 2)]
    done = steer(classed(xps_cpus=masks), apart(frames), engine=engine.name)

    assert done.column("tx_queue").tolist() == [2, 6]


@pytest.mark.parametrize(("tos", "class_of"), [(0, 0), (0x08, 1), (0x10, 2), (0x18, 3)])
def test_xps_31_a_forwarded_packets_tos_is_its_priority(engine, tos, class_of):
    """rt_tos2priority: bulk 2, interactive 6, interactive bulk 4."""
    prio = [0] * 16
    prio[2], prio[6], prio[4] = 1, 2, 3
    host = host_of(tx_queues=8, tc_queues=[2, 2, 2, 2], prio_tc=prio, entries=0)
    frame = datagram(to="10.9.9.9", tos=tos)
    [queue] = steer(host, apart([frame]), engine=engine.name).column("tx_queue")

    assert queue // 2 == class_of


def test_a_route_change_makes_connected_udp_choose_anew(engine):
    """The thread moves, the socket keeps its queue, until its route is another (XPS-32, 35)."""
    masks = [CpuSet([5]), CpuSet([2])]
    host = host_of(connected(), tx_queues=2, xps_cpus=masks, entries=0)
    ops = [
        MoveThreads(at_ps=HALF, socket="c", threads=CpuSet([2])),
        RouteChange(at_ps=MS + HALF, family=6),
        RouteChange(at_ps=2 * MS + HALF, family=4),
    ]
    done = steer(host, apart([datagram()] * 4), ops=ops, engine=engine.name)

    assert done.column("tx_queue").tolist() == [0, 0, 0, 1]


def together(frames: list[bytes]):
    return from_frames(frames, arrival_ps=[0] * len(frames))


@pytest.mark.parametrize(("udp_gro", "skbs"), [(False, 2), (True, 1)])
def test_gro_37_a_udp_gro_socket_has_its_datagrams_joined(engine, udp_gro, skbs):
    socket = Socket(name="u", proto="udp", bind="0.0.0.0:53", udp_gro=udp_gro)
    done = steer(host_of(socket), together([datagram()] * 2), engine=engine.name)

    assert len(done.skbs) == skbs


def test_gro_37_a_closed_one_does_not(engine):
    sockets = [
        Socket(name="u", proto="udp", bind="0.0.0.0:53", udp_gro=True),
        Socket(name="p", proto="udp", bind="0.0.0.0:54"),
    ]
    ops = [CloseSocket(at_ps=0, socket="u")]
    frames = together([datagram()] * 2)

    assert len(steer(host_of(*sockets), frames, ops=ops, engine=engine.name).skbs) == 2


@pytest.mark.parametrize("is_here", [False, True])
def test_gro_45_socket_a_connection_here_is_not_chained(engine, is_here):
    sockets = [Socket(name="l", bind=f"{LOCAL}:80")]
    if is_here:
        sockets.append(Socket(name="c", bind=f"{LOCAL}:80", peer=f"{PEER}:9"))
    host = host_of(*sockets, gro=Gro(rx_gro_list=True))
    done = steer(host, together([segment(0), segment(20)]), engine=engine.name)

    assert len(done.skbs) == 1
    assert bool(done.skbs["gso_type"][0] & 1 << 18) != is_here


def test_what_a_flow_hangs_on_is_kept_with_its_entry(engine):
    """A reader that the model chose among threads: its packets say so from then on."""
    socket = Socket(
        name="c", proto="udp", bind=f"{LOCAL}:53", peer=f"{PEER}:1000", threads=CpuSet([4, 5])
    )
    done = steer(host_of(socket), apart([datagram()] * 2), engine=engine.name)

    assert np.all(done.column("secrets") & 8 != 0)
