"""A run's threads: how many, where, whose; and the chains of a lookup."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import emu
from emu.dtypes import SockState
from emu.kernels import get_kernel
from emu.model.accept import accept
from emu.model.connections import connections
from emu.model.lower_run import lower_run
from emu.model.masks import CpuSet
from emu.model.sockets import Socket
from emu.model.workloads import SERVER_STYLES, RequestResponse, request_packets
from tests.small_hosts import group, host_of
from tests.stand_in import machine

REQUESTS = request_packets(RequestResponse(flows=30), seed=1)
ANY = {"bind": "0.0.0.0:12865"}
WIDE = CpuSet([1, 3, 6])
WEB = Socket(name="web", threads=WIDE, **ANY)
UDP = Socket(name="udp", proto="udp", threads=WIDE, **ANY)
UDP_ONE = Socket(name="one", proto="udp", bind="0.0.0.0:53", threads=CpuSet([4]))
SHUT = Socket(name="shut", opened=False, bind="0.0.0.0:9")
PEER = Socket(name="peer", bind="10.0.0.1:99", peer="10.1.0.1:1024", threads=CpuSet([2, 5]))


def plan_of(host, style, *, packets=REQUESTS, accepting=False, **fields):
    """A run's plan; with *accepting* the flows are connections first."""
    flows = len(packets)
    workload = RequestResponse(flows=flows, server_style=style, **fields)
    served = None
    if accepting:
        found = emu.steer(host, packets)
        cpus = found.column("app_cpu")
        host, served = accept(host, packets, found.column("socket"), cpus, all_served=True)
    return lower_run(host, packets, machine=machine(), workload=workload, served=served)


def threads_of(plan):
    """(start, allowed CPUs, event loop) of each thread."""
    return [
        (
            int(row["cpu"]),
            plan.thread_cpus[row["allow_off"] : row["allow_off"] + row["allow_len"]].tolist(),
            int(row["event_loop"]),
        )
        for row in plan.threads
    ]


def serving(plan):
    """The threads of each socket."""
    return [
        plan.sock_threads[row["thread_off"] : row["thread_off"] + row["thread_len"]].tolist()
        for row in plan.sockets
    ]


def check_rule(plan):
    """A thread serves any number of exclusive sockets, or one shared one."""
    exclusive: set[int] = set()
    shared: list[int] = []
    for threads in serving(plan):
        if len(threads) == 1:
            exclusive |= set(threads)
        shared += threads if len(threads) > 1 else []
    assert len(shared) == len(set(shared))
    assert not exclusive & set(shared)
    assert exclusive | set(shared) == set(range(len(plan.threads)))
    for cpu, allowed, _ in threads_of(plan):
        assert cpu in allowed
        assert allowed == sorted(set(allowed))


def test_processes():
    plan = plan_of(host_of(UDP, UDP_ONE, SHUT, PEER), "processes")
    assert threads_of(plan) == [(1, [1, 3, 6], 0), (4, [4], 0), (2, [2, 5], 0)]
    assert serving(plan) == [[0], [1], [], [2]]
    check_rule(plan)
    pinned = plan_of(host_of(UDP, UDP_ONE), "processes", pinned=True)
    assert threads_of(pinned) == [(1, [1], 0), (4, [4], 0)]


@pytest.mark.parametrize(("style", "blocks"), [("event-loop", 1), ("pool", 0)])
def test_udp_is_served_by_a_pool(style, blocks):
    plan = plan_of(host_of(UDP, UDP_ONE, SHUT, PEER), style)
    assert threads_of(plan) == [
        (1, [1], blocks),
        (3, [3], blocks),
        (6, [6], blocks),
        (4, [4], blocks),
        (2, [2], 1),
    ]
    assert serving(plan) == [[0, 1, 2], [3], [], [4]]
    check_rule(plan)
    free = plan_of(host_of(UDP, PEER), style, pinned=False)
    assert threads_of(free) == [
        *((cpu, [1, 3, 6], blocks) for cpu in (1, 3, 6)),
        (2, [2, 5], 1),
    ]


def test_a_process_for_each_connection():
    host = host_of(WEB, rx_queues=4)
    plan = plan_of(host, "processes", accepting=True)
    found = emu.steer(host, REQUESTS).column("app_cpu").tolist()
    assert set(found) == {1, 3, 6}
    # thread 0 accepts, thread f + 1 serves flow f
    assert threads_of(plan)[1:] == [(cpu, [1, 3, 6], 0) for cpu in found]
    assert threads_of(plan)[0] == (found[0], [1, 3, 6], 0)
    assert serving(plan) == [[thread] for thread in range(31)]
    assert len(plan.thread_cpus) == 3  # one list for all of them
    check_rule(plan)


@pytest.mark.parametrize("style", ["event-loop", "pool"])
def test_an_event_loop_for_each_listener_and_cpu(style):
    pair = group(2, threads=[WIDE, CpuSet([3, 7])], **ANY)
    host = host_of(*pair)
    plan = plan_of(host, style, accepting=True)
    assert threads_of(plan) == [(cpu, [cpu], 1) for cpu in (1, 3, 6, 3, 7)]
    decisions = emu.steer(host, REQUESTS)
    which = {(0, 1): 0, (0, 3): 1, (0, 6): 2, (1, 3): 3, (1, 7): 4}
    found = zip(
        decisions.column("socket").tolist(), decisions.column("app_cpu").tolist(), strict=True
    )
    assert serving(plan) == [[0], [3], *([which[pair]] for pair in found)]
    assert {threads[0] for threads in serving(plan)} == {0, 1, 2, 3, 4}
    check_rule(plan)
    free = plan_of(host, style, accepting=True, pinned=False)
    assert [allowed for _, allowed, _ in threads_of(free)] == [[1, 3, 6]] * 3 + [[3, 7]] * 2


def test_one_event_loop_for_each_listener():
    """It accepts, and serves every connection that it accepted, on any CPU of its threads."""
    narrow = CpuSet([3, 7])
    host = host_of(*group(2, threads=[WIDE, narrow], **ANY))
    plan = plan_of(host, "threads", accepting=True)
    decisions = emu.steer(host, REQUESTS)
    listener = decisions.column("socket").tolist()
    # each loop starts where its first connection is accepted
    found = decisions.column("app_cpu").tolist()
    starts = [found[listener.index(0)], found[listener.index(1)]]
    assert threads_of(plan) == [(starts[0], [1, 3, 6], 1), (starts[1], [3, 7], 1)]
    assert set(listener) == {0, 1}
    assert serving(plan) == [[0], [1], *([socket] for socket in listener)]
    check_rule(plan)
    pinned = plan_of(host, "threads", accepting=True, pinned=True)
    assert threads_of(pinned) == [(starts[0], [starts[0]], 1), (starts[1], [starts[1]], 1)]
    assert serving(pinned) == serving(plan)


def test_one_event_loop_for_each_udp_or_connected_socket():
    host = host_of(UDP, UDP_ONE, SHUT, PEER, WEB)
    plan = plan_of(host, "threads")
    assert threads_of(plan) == [
        (1, [1, 3, 6], 1),
        (4, [4], 1),
        (2, [2, 5], 1),
        (1, [1, 3, 6], 1),  # a listener without connections has its loop too
    ]
    assert serving(plan) == [[0], [1], [], [2], [3]]
    check_rule(plan)
    pinned = plan_of(host, "threads", pinned=True)
    assert threads_of(pinned) == [(1, [1], 1), (4, [4], 1), (2, [2], 1), (1, [1], 1)]


def test_a_listener_without_connections_is_shared():
    plan = plan_of(host_of(WEB), "event-loop")
    assert serving(plan) == [[0, 1, 2]]
    check_rule(plan)


def test_connections_that_nobody_accepted_are_one_process():
    rows = connections(REQUESTS, threads=(3, 4))
    host = host_of(PEER).replace(connections=rows)
    plan = plan_of(host, "event-loop")
    assert threads_of(plan) == [(2, [2], 1), (3, [3], 1), (4, [4], 1)]
    assert serving(plan) == [[0]] + [[1], [2]] * 15
    free = plan_of(host, "event-loop", pinned=False)
    assert [allowed for _, allowed, _ in threads_of(free)] == [[2, 3, 4, 5]] * 3
    loops = plan_of(host, "threads")  # the declared socket has its own, the others share
    assert threads_of(loops) == [(2, [2, 5], 1), (3, [2, 3, 4, 5], 1), (4, [2, 3, 4, 5], 1)]
    assert serving(loops) == [[0]] + [[1], [2]] * 15
    alone = plan_of(host, "processes")
    assert threads_of(alone)[:3] == [(2, [2, 5], 0), (3, [3], 0), (4, [4], 0)]
    assert len(alone.threads) == 31
    for plan in (free, loops, alone):
        check_rule(plan)


def test_a_connection_that_is_closed_has_no_thread():
    rows = connections(REQUESTS.take(slice(0, 2)), threads=(3,))
    rows["state"][0] = SockState.CLOSED
    for style in SERVER_STYLES:
        plan = plan_of(host_of().replace(connections=rows), style)
        assert serving(plan) == [[], [0]]


@pytest.mark.parametrize("style", SERVER_STYLES)
def test_a_steer_says_where_a_connected_socket_is_read(style):
    """A socket that is connected already starts on the CPU that the flow's mix picks."""
    starts = set()
    for row in range(8):
        packets = REQUESTS.take(slice(row, row + 1))
        one = connections(packets)[0]
        client = ".".join(map(str, one["faddr"][:1].copy().view("u1")))
        peer = f"{client}:{one['fport']}"
        host = host_of(Socket(name="peer", bind="10.0.0.1:12865", peer=peer, threads=WIDE))
        plan = plan_of(host, style, packets=packets, accepting=True)
        found = int(emu.steer(host, packets).column("app_cpu")[0])
        assert plan.threads["cpu"].tolist() == [found]
        starts.add(found)
    assert len(starts) > 1


def test_receive_buffers():
    small = Socket(name="web", threads=WIDE, rcvbuf_bytes=5000, **ANY)
    rows = connections(REQUESTS.take(slice(0, 2)))
    host = host_of(small, UDP_ONE).replace(connections=rows)
    plan = plan_of(host, "processes", accepting=True)
    expected = [5000, 212992, 212992, 212992] + [5000] * 28
    assert plan.sockets["rcvbuf_bytes"].tolist() == expected


def test_no_socket_no_thread():
    plan = plan_of(host_of(), "event-loop")
    assert (len(plan.threads), len(plan.sockets), len(plan.sock_threads)) == (0, 0, 0)


@given(
    st.lists(st.sampled_from((WEB, UDP, UDP_ONE, SHUT, PEER)), max_size=5, unique=True),
    st.sampled_from(SERVER_STYLES),
    st.sampled_from((None, True, False)),
)
def test_no_thread_serves_what_it_must_not(sockets, style, pinned):
    host = host_of(*sockets)
    accepting = WEB in sockets
    plan = plan_of(host, style, accepting=accepting, pinned=pinned)
    check_rule(plan)
    assert len(plan.sockets) == len(sockets) + 30 * accepting
    for row, threads in zip(plan.base.sockets, serving(plan), strict=True):
        assert bool(threads) == (row["state"] != SockState.CLOSED)


def chains_of(plan):
    """The sockets of each socket's chain."""
    return [
        plan.chains[row["chain_off"] : row["chain_off"] + row["chain_len"]].tolist()
        for row in plan.sockets
    ]


def test_chains():
    six = Socket(name="six", proto="udp", bind="[fd00::1]:12865")
    host = host_of(*group(3, **ANY), UDP, UDP_ONE, SHUT, PEER, six)
    legacy = host.replace(kernel="legacy")
    assert chains_of(plan_of(legacy, "processes")) == [
        *([[0, 1, 2]] * 3),
        [3, 7],
        [4],
        [],
        [],
        [3, 7],
    ]
    joined = chains_of(plan_of(legacy, "processes", accepting=True))
    assert joined[8:] == [[]] * 30
    for kernel in ("6.18", get_kernel("legacy").replace(refcnt_in_lookup_line=False)):
        assert chains_of(plan_of(host.replace(kernel=kernel), "processes")) == [[]] * 8
