"""Small hosts: the tx queue of replies and of sent packets (docs/steer.md)."""

from __future__ import annotations

import pytest

from emu.dtypes import Direction, Drop, GroResult, Secret, TxOf
from emu.model.masks import CpuSet
from emu.model.ops import (
    CloseSocket,
    MoveThreads,
    OpenSocket,
)
from emu.model.sockets import Socket
from tests.small_hosts import (
    ANYONE,
    DNS,
    ONE_TO_ONE,
    US,
    WEB,
    group,
    host_of,
    on_queue,
    values,
)
from tests.strategies import frames as make
from tests.strategies.traffic import tcp_frames, udp_frames, wrap

# --- tx queues -----------------------------------------------------------------------------------


@pytest.mark.parametrize("cpu", [0, 3, 7])
def test_xps_one_to_one_answers_on_the_threads_queue(decide, cpu):
    socket = Socket(name="web", threads=CpuSet([cpu]))
    host = host_of(socket, tx_queues=8, xps_cpus=ONE_TO_ONE, tx_irq_cpus=tuple(range(7, -1, -1)))

    got = decide(host, tcp_frames(WEB, 1))

    assert values(got, "tx_of") == [TxOf.REPLY]
    assert values(got, "tx_queue") == [cpu]
    assert values(got, "completion_cpu") == [7 - cpu]
    assert values(got, "secrets") == [0]


def test_without_xps_the_hash_chooses_and_is_marked(decide):
    tcp, udp = ANYONE, Socket(name="dns", proto="udp", bind="0.0.0.0:53")

    got = decide(host_of(tcp, udp, tx_queues=4), tcp_frames(WEB, 1) + udp_frames(DNS, 1))

    assert values(got, "secrets") == [Secret.TXHASH, Secret.FLOW_HASH]


def test_with_one_tx_queue_nothing_hangs_on_a_hash(decide):
    tcp, udp = ANYONE, Socket(name="dns", proto="udp", bind="0.0.0.0:53")

    got = decide(host_of(tcp, udp), tcp_frames(WEB, 1) + udp_frames(DNS, 1))

    assert values(got, "tx_queue") == [0, 0]
    assert values(got, "secrets") == [0, 0]


def test_xps_by_rx_queue_goes_before_xps_by_cpu(decide):
    host = host_of(
        ANYONE,
        rx_queues=4,
        tx_queues=4,
        rss=on_queue(2),
        xps_cpus=ONE_TO_ONE[:4],
        xps_rxqs=[CpuSet(), CpuSet(), CpuSet(), CpuSet([2])],
    )

    assert values(decide(host, tcp_frames(WEB, 1)), "tx_queue") == [3]


@pytest.mark.parametrize(("proto", "queues"), [("udp", [3, 3, 3]), ("tcp", [3, 6, 6])])
def test_connected_udp_keeps_its_queue_and_tcp_follows_its_thread(decide, proto, queues):
    socket = Socket(
        name="c", proto=proto, bind="10.0.0.1:80", peer="10.1.0.1:1024", threads=CpuSet([3])
    )
    host = host_of(socket, tx_queues=8, xps_cpus=ONE_TO_ONE)
    build = tcp_frames if proto == "tcp" else udp_frames
    ops = [MoveThreads(at_ps=50 * US, socket="c", threads=CpuSet([6]))]

    got = decide(host, build(WEB, 3), [0, 100, 200], ops=ops)

    assert values(got, "app_cpu") == [3, 6, 6]
    assert values(got, "tx_queue") == queues


def test_unconnected_udp_follows_its_thread(decide):
    socket = Socket(name="dns", proto="udp", bind="0.0.0.0:53", threads=CpuSet([3]))
    host = host_of(socket, tx_queues=8, xps_cpus=ONE_TO_ONE)
    ops = [MoveThreads(at_ps=50 * US, socket="dns", threads=CpuSet([6]))]

    assert values(decide(host, udp_frames(DNS, 2), [0, 100], ops=ops), "tx_queue") == [3, 6]


def test_a_socket_that_opens_again_has_forgotten_its_queue(decide):
    socket = Socket(
        name="c", proto="udp", bind="10.0.0.1:80", peer="10.1.0.1:1024", threads=CpuSet([3])
    )
    host = host_of(socket, tx_queues=8, xps_cpus=ONE_TO_ONE)
    ops = [
        MoveThreads(at_ps=50 * US, socket="c", threads=CpuSet([6])),
        CloseSocket(at_ps=50 * US, socket="c"),
        OpenSocket(at_ps=60 * US, socket="c"),
    ]

    assert values(decide(host, udp_frames(WEB, 2), [0, 100], ops=ops), "tx_queue") == [3, 6]


# --- sent packets --------------------------------------------------------------------------------


def test_a_sent_packet_is_its_sockets_and_leaves_by_its_threads_queue(decide):
    connection = Socket(name="c", bind="10.0.0.1:80", peer="10.1.0.1:1024", threads=CpuSet([3]))
    host = host_of(connection, tx_queues=8, xps_cpus=ONE_TO_ONE)

    got = decide(host, tcp_frames(WEB, 2, back=True))

    assert values(got, "direction") == [Direction.SENT] * 2
    assert values(got, "rx_queue") == values(got, "irq_cpu") == [-1, -1]
    assert values(got, "napi_cpu") == values(got, "cpu") == [-1, -1]
    assert values(got, "gro") == [GroResult.BYPASS] * 2
    assert values(got, "skb") == [0, 1]
    assert values(got, "socket") == [0, 0]
    assert values(got, "tx_of") == [TxOf.SENT] * 2
    assert values(got, "tx_queue") == [3, 3]
    assert len(got.polls) == 0


def test_a_sent_packet_without_a_socket_or_ports_ends_with_its_reason(decide):
    frames = [
        *tcp_frames(WEB, 1, back=True),
        wrap(WEB.ends(back=True), 1, bytes(8)),
        tcp_frames(WEB, 1, back=True)[0][:40],
    ]

    got = decide(host_of(), frames)

    assert values(got, "drop") == [Drop.NO_SOCKET, Drop.UNHANDLED_PROTO, Drop.NOT_DISSECTED]


def test_a_sent_packet_uses_the_rx_queue_that_its_socket_remembers(decide):
    connection = Socket(name="c", bind="10.0.0.1:80", peer="10.1.0.1:1024")
    host = host_of(
        connection, rx_queues=4, tx_queues=4, rss=on_queue(2), xps_rxqs=[CpuSet(), CpuSet([2])]
    )
    frames = tcp_frames(WEB, 1, back=True) + tcp_frames(WEB, 1) + tcp_frames(WEB, 1, back=True)

    got = decide(host, frames, [0, 100, 200])

    assert values(got, "secrets") == [Secret.TXHASH, 0, 0]
    assert values(got, "tx_queue")[1:] == [1, 1]


def test_a_sent_packet_comes_before_a_poll_of_its_instant(decide):
    # The UDP socket's queue is chosen by the packet that is sent first, on the thread's CPU then.
    connection = Socket(
        name="c", proto="udp", bind="10.0.0.1:80", peer="10.1.0.1:1024", threads=CpuSet([3])
    )
    host = host_of(connection, rx_usecs=0)

    got = decide(host, udp_frames(WEB, 1) + udp_frames(WEB, 1, back=True))

    assert values(got, "direction") == [Direction.RECEIVED, Direction.SENT]
    assert values(got, "skb") == [1, 0]


def test_a_sent_packet_of_a_group_is_the_member_that_the_first_interrupts_cpu_finds(decide):
    members = group(4, proto="udp", bind="0.0.0.0:53", incoming_cpu=[0, 1, 2, 3])
    host = host_of(*members, rx_queues=2, irq_cpus=(2, 1))

    assert values(decide(host, udp_frames(DNS, 1, back=True)), "socket") == [2]


@pytest.mark.parametrize("back", [False, True])
def test_a_tag_in_the_frame_counts_in_the_length_of_an_skb_both_ways(decide, back):
    connection = Socket(name="c", bind="10.0.0.1:80", peer="10.1.0.1:1024")
    plain = tcp_frames(WEB, 1, 100, back=back)[0]
    tagged = make.tag(plain, 5)

    got = decide(host_of(connection), [plain, tagged], [0, 100])

    assert values(got, "direction") == [Direction.SENT if back else Direction.RECEIVED] * 2
    assert got.skbs["len_bytes"].tolist() == [len(plain) - 14, len(tagged) - 14]
