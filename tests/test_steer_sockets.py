"""Small hosts: which socket and worker gets a packet, and ops in between (docs/steer.md)."""

from __future__ import annotations

import pytest

from emu.dtypes import Drop, LookupStage, Secret, TxOf
from emu.model.masks import CpuSet
from emu.model.ops import (
    CloseSocket,
    MoveThreads,
    OpenSocket,
    SetCpuMask,
    SetIncomingCpu,
    WriteRpsCpus,
    WriteXpsCpus,
    WriteXpsRxqs,
)
from emu.model.sockets import Cbpf, Socket, Sockmap
from tests.small_hosts import (
    ANYONE,
    ONE_TO_ONE,
    OTHER_WEB,
    US,
    WEB,
    group,
    host_of,
    on_queue,
    proxy,
    values,
)
from tests.strategies.traffic import Flow, tcp_frames, udp_frames

# --- sockets -------------------------------------------------------------------------------------


@pytest.mark.parametrize("proto", ["tcp", "udp"])
@pytest.mark.parametrize("cpu", range(4))
def test_sock_43_so_incoming_cpu_takes_the_member_of_the_cpu(decide, proto, cpu):
    members = group(4, proto=proto, incoming_cpu=[0, 1, 2, 3])
    host = host_of(*members, irq_cpus=(cpu,))
    build = tcp_frames if proto == "tcp" else udp_frames

    got = decide(host, build(WEB, 1))

    assert values(got, "socket") == [cpu]


@pytest.mark.parametrize("proto", ["tcp", "udp"])
@pytest.mark.parametrize("cpu", range(4))
def test_sock_24_a_cpu_mask_takes_the_member_of_the_cpu(decide, proto, cpu):
    masks = [CpuSet([0]), CpuSet([1]), CpuSet([2, 3])]
    sockets = [
        Socket(name=f"s{k}", proto=proto, reuseport=True, cpu_mask=mask)
        for k, mask in enumerate(masks)
    ]
    host = host_of(*sockets, irq_cpus=(cpu,))
    build = tcp_frames if proto == "tcp" else udp_frames

    got = decide(host, build(WEB, 1))

    assert values(got, "socket") == [min(cpu, 2)]


def test_a_cbpf_program_names_the_member(decide):
    members = group(4, cbpf=Cbpf(kind="cpu"))

    for cpu in range(4):
        got = decide(host_of(*members, irq_cpus=(cpu,)), tcp_frames(WEB, 1))
        assert values(got, "socket") == [cpu]
        assert values(got, "secrets") == [0]


def test_a_group_without_more_hangs_on_the_socket_hash(decide):
    got = decide(host_of(*group(4)), tcp_frames(WEB, 1))

    assert values(got, "secrets") == [Secret.EHASH]
    assert got.counts["reuseport"] == 1


def test_a_connection_goes_before_its_listener(decide):
    connection = Socket(name="c", bind="10.0.0.1:80", peer="10.1.0.1:1024", threads=CpuSet([3]))

    got = decide(host_of(ANYONE, connection), tcp_frames(WEB, 1) + tcp_frames(OTHER_WEB, 1))

    assert values(got, "socket") == [1, 0]
    assert values(got, "app_cpu") == [3, 0]
    assert values(got, "stage")[0] == LookupStage.ESTABLISHED


def test_a_dual_stack_socket_takes_ipv4(decide):
    both = Socket(name="six", bind="[::]:80")
    only = Socket(name="six", bind="[::]:80", v6only=True)

    assert values(decide(host_of(both), tcp_frames(WEB, 1)), "socket") == [0]
    assert values(decide(host_of(only), tcp_frames(WEB, 1)), "drop") == [Drop.NO_SOCKET]


def test_several_threads_are_a_model_and_marked(decide):
    socket = Socket(name="web", threads=CpuSet([2, 5]))
    flows = [Flow(f"10.1.0.{k}", 1024 + k, "10.0.0.1", 80) for k in range(1, 40)]

    got = decide(host_of(socket), [tcp_frames(path, 1)[0] for path in flows])

    assert set(values(got, "app_cpu")) == {2, 5}
    assert set(values(got, "secrets")) == {Secret.THREAD}


# --- sockmap -------------------------------------------------------------------------------------


def test_sockmap_10_a_named_cpu_runs_the_worker_and_sends(decide):
    host = host_of(*proxy(3), tx_queues=8, xps_cpus=ONE_TO_ONE, irq_cpus=(1,))

    got = decide(host, tcp_frames(WEB, 1))

    assert values(got, "socket") == [0]
    assert values(got, "backlog_cpu") == [3]
    assert values(got, "app_cpu") == [-1]
    assert values(got, "tx_of") == [TxOf.REDIRECT]
    assert values(got, "tx_queue") == [3]
    assert got.counts["sockmap"] == 1


def test_sockmap_10_without_one_the_worker_runs_where_the_skb_came(decide):
    host = host_of(*proxy(None), tx_queues=8, xps_cpus=ONE_TO_ONE, irq_cpus=(1,))

    got = decide(host, tcp_frames(WEB, 1))

    assert values(got, "backlog_cpu") == [1]
    assert values(got, "tx_queue") == [1]


def test_an_ingress_redirect_is_read_by_the_targets_thread(decide):
    host = host_of(*proxy(3, ingress=True), tx_queues=8, xps_cpus=ONE_TO_ONE)

    got = decide(host, tcp_frames(WEB, 1))

    assert values(got, "backlog_cpu") == [3]
    assert values(got, "app_cpu") == [5]
    assert values(got, "tx_of") == [TxOf.NOTHING]
    assert values(got, "tx_queue") == [-1]


@pytest.mark.parametrize(("at_us", "backlog"), [([0, 0], [2, 2]), ([0, 100], [2, 3])])
def test_a_pending_worker_stays_on_the_cpu_that_was_first(decide, at_us, backlog):
    # Two connections feed one target; RPS by queue and poll decides on which CPU each is processed.
    first, target = proxy(None)
    second = Socket(
        name="in2",
        bind="10.0.0.1:80",
        peer="10.1.0.2:1025",
        sockmap=Sockmap(redirect="out"),
    )
    rps = WriteRpsCpus(at_ps=0, nic="eth0", queue=0, mask=CpuSet([2]))
    later = WriteRpsCpus(at_ps=50 * US, nic="eth0", queue=0, mask=CpuSet([3]))
    host = host_of(first, target, second)

    got = decide(host, tcp_frames(WEB, 1) + tcp_frames(OTHER_WEB, 1), at_us, ops=[rps, later])

    assert values(got, "socket") == [0, 2]
    assert values(got, "backlog_cpu") == backlog


def test_two_cpus_that_feed_one_worker_within_a_poll_share_the_first_ones_cpu(decide):
    first, target = proxy(None)
    flows = [Flow("10.1.0.1", 2000 + k, "10.0.0.1", 80) for k in range(8)]
    sources = [
        Socket(
            name=f"in{k}", bind="10.0.0.1:80", peer=f"10.1.0.1:{path.cport}", sockmap=first.sockmap
        )
        for k, path in enumerate(flows)
    ]
    host = host_of(*sources, target, rps_cpus=CpuSet([2, 3]))

    got = decide(host, [tcp_frames(path, 1)[0] for path in flows])

    assert set(values(got, "cpu")) == {2, 3}
    assert set(values(got, "backlog_cpu")) == {int(got.decided["cpu"][0])}


# --- ops and time --------------------------------------------------------------------------------


def test_an_op_at_the_instant_of_a_poll_comes_first(decide):
    # Packets at 0, 100, 200 us are polled at 10, 110, 210 us.
    ops = [
        WriteRpsCpus(at_ps=110 * US, nic="eth0", queue=0, mask=CpuSet([4])),
        WriteRpsCpus(at_ps=210 * US + 1, nic="eth0", queue=0, mask=CpuSet([5])),
    ]

    got = decide(host_of(), tcp_frames(WEB, 3), [0, 100, 200], ops=ops)

    assert values(got, "cpu") == [0, 4, 4]


def test_ops_of_one_instant_run_in_the_order_given(decide):
    ops = [
        WriteRpsCpus(at_ps=0, nic="eth0", queue=0, mask=CpuSet([4])),
        WriteRpsCpus(at_ps=0, nic="eth0", queue=0, mask=CpuSet([5])),
    ]

    assert values(decide(host_of(), tcp_frames(WEB, 1), ops=ops), "cpu") == [5]
    assert values(decide(host_of(), tcp_frames(WEB, 1), ops=ops[::-1]), "cpu") == [4]


def test_ops_given_out_of_order_run_in_order_of_time(decide):
    ops = [
        WriteRpsCpus(at_ps=50 * US, nic="eth0", queue=0, mask=CpuSet()),
        WriteRpsCpus(at_ps=0, nic="eth0", queue=0, mask=CpuSet([5])),
    ]

    assert values(decide(host_of(), tcp_frames(WEB, 2), [0, 100], ops=ops), "cpu") == [5, 0]


def test_every_kind_of_op_is_seen_by_the_next_packet_only(decide):
    socket = Socket(name="late", opened=False, threads=CpuSet([1]))
    host = host_of(socket, rx_queues=2, tx_queues=4, rss=on_queue(0))
    ops = [
        OpenSocket(at_ps=50 * US, socket="late"),
        MoveThreads(at_ps=150 * US, socket="late", threads=CpuSet([2])),
        WriteXpsCpus(at_ps=150 * US, nic="eth0", queue=1, mask=CpuSet([2])),
        WriteXpsRxqs(at_ps=250 * US, nic="eth0", queue=3, mask=CpuSet([0])),
        WriteXpsRxqs(at_ps=350 * US, nic="eth0", queue=3, mask=CpuSet()),
        CloseSocket(at_ps=450 * US, socket="late"),
    ]

    got = decide(host, tcp_frames(WEB, 6), [0, 100, 200, 300, 400, 500], ops=ops)

    assert values(got, "socket") == [-1, 0, 0, 0, 0, -1]
    assert values(got, "app_cpu") == [-1, 1, 2, 2, 2, -1]
    assert values(got, "tx_queue")[2:] == [1, 3, 1, -1]
    assert values(got, "secrets") == [0, Secret.TXHASH, 0, 0, 0, 0]


def test_incoming_cpu_and_mask_change_between_packets(decide):
    host = host_of(*group(2, proto="udp", incoming_cpu=[0, 1]), irq_cpus=(1,))
    ops = [
        SetIncomingCpu(at_ps=50 * US, socket="s1", cpu=0),
        SetIncomingCpu(at_ps=50 * US, socket="s0", cpu=1),
    ]
    assert values(decide(host, udp_frames(WEB, 2), [0, 100], ops=ops), "socket") == [1, 0]

    host = host_of(*group(2, proto="udp", cpu_mask=[CpuSet([1]), CpuSet([2])]), irq_cpus=(1,))
    ops = [
        SetCpuMask(at_ps=50 * US, socket="s0", mask=CpuSet([2])),
        SetCpuMask(at_ps=50 * US, socket="s1", mask=CpuSet([1])),
    ]
    assert values(decide(host, udp_frames(WEB, 2), [0, 100], ops=ops), "socket") == [0, 1]
