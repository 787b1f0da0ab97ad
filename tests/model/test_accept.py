"""Connections that exist before a run: made of what a steer of their packets decided."""

from __future__ import annotations

import numpy as np
import pytest

import emu
from emu.dtypes import LookupStage, SockState
from emu.errors import ConfigError
from emu.model.accept import accept, served_by_nobody
from emu.model.connections import connections
from emu.model.masks import CpuSet
from emu.model.sockets import Socket
from emu.model.workloads import RequestResponse, request_packets
from tests.small_hosts import group, host_of, values

REQUESTS = request_packets(RequestResponse(flows=40), seed=1)
UDP_REQUESTS = request_packets(RequestResponse(flows=40, proto="udp"), seed=1)
V6_REQUESTS = request_packets(RequestResponse(flows=40, family=6), seed=1)
ANY = {"bind": "0.0.0.0:12865"}


def accepted(host, packets=REQUESTS, *, all_served=True):
    """The host with its connections, who serves them, and what was decided."""
    decisions = emu.steer(host, packets)
    sockets, cpus = decisions.column("socket"), decisions.column("app_cpu")
    after, served = accept(host, packets, sockets, cpus, all_served=all_served)
    return after, served, decisions


@pytest.mark.parametrize("packets", [REQUESTS, V6_REQUESTS], ids=["v4", "v6"])
def test_each_flow_gets_the_thread_of_its_listener(packets):
    listeners = group(4, bind="[::]:12865", threads=[CpuSet([k, k + 4]) for k in range(4)])
    host = host_of(*listeners, addresses=())
    after, served, before = accepted(host, packets)
    assert len(after.connections) == 40
    assert served.listener.tolist() == values(before, "socket")
    assert after.connections["app_off"].tolist() == values(before, "app_cpu")
    assert served.first_cpu[4:].tolist() == values(before, "app_cpu")
    assert {listener % 4 for listener in served.listener.tolist()} == {0, 1, 2, 3}
    # and the lookup finds them: row f has connection f
    decisions = emu.steer(after, packets)
    assert values(decisions, "socket") == list(range(4, 44))
    assert set(values(decisions, "stage")) == {LookupStage.ESTABLISHED}
    assert values(decisions, "app_cpu") == values(before, "app_cpu")


def test_a_connection_has_its_listeners_device_and_user():
    host = host_of(Socket(name="web", device="eth0", uid=33, **ANY))
    after, _, _ = accepted(host)
    assert set(after.connections["bound_dev"].tolist()) == {1}
    assert set(after.connections["uid"].tolist()) == {33}
    assert values(emu.steer(after, REQUESTS), "socket") == list(range(1, 41))


def test_udp_and_what_is_connected_already_stays():
    host = host_of(Socket(name="udp", proto="udp", threads=CpuSet([2, 5]), **ANY))
    after, served, decisions = accepted(host, UDP_REQUESTS)
    assert after is host
    assert len(served.listener) == 0
    assert served.first_cpu.tolist() == [values(decisions, "app_cpu")[0]]
    rows = connections(REQUESTS.take(slice(0, 10)), threads=(3, 4))
    host = host_of(Socket(name="web", **ANY)).replace(connections=rows)
    after, served, _ = accepted(host)
    assert len(after.connections) == 40
    assert np.array_equal(after.connections[:10], rows)
    assert served.listener.tolist() == [-1] * 10 + [0] * 30
    assert served.first_cpu.tolist() == [0] + [3, 4] * 5 + [0] * 30
    assert (after.connections["state"] == SockState.ESTABLISHED).all()


def test_several_packets_of_a_flow_are_one_connection():
    rows = np.tile(np.arange(5), 3)
    host = host_of(Socket(name="web", **ANY))
    after, served, _ = accepted(host, REQUESTS.take(rows))
    assert after.connections["fport"].tolist() == REQUESTS.sport[:5].tolist()
    assert served.listener.tolist() == [0] * 5


def test_the_first_packet_counts():
    host = host_of(Socket(name="udp", proto="udp", threads=CpuSet([2, 5]), **ANY))
    sockets, cpus = np.array([-1, 0, 0, 0]), np.array([-1, 5, 2, 2])
    _, served = accept(host, UDP_REQUESTS.take(slice(0, 4)), sockets, cpus, all_served=False)
    assert served.first_cpu.tolist() == [5]


UNSERVED = [
    (
        REQUESTS,
        f"flow 0: got no socket for tcp from {'{}'} to 10.0.0.1:12865; allowed: flows that a "
        'socket of the host serves; try a [[socket]] with proto = "tcp", bind = "10.0.0.1:12865"',
    ),
    (
        V6_REQUESTS,
        f"flow 0: got no socket for tcp from {'{}'} to [fd00::1]:12865; allowed: flows that a "
        'socket of the host serves; try a [[socket]] with proto = "tcp", bind = "[fd00::1]:12865"',
    ),
]


@pytest.mark.parametrize(("packets", "line"), UNSERVED, ids=["v4", "v6"])
def test_a_flow_that_nobody_serves(packets, line):
    host = host_of(Socket(name="udp", proto="udp", **ANY), addresses=())
    with pytest.raises(ConfigError) as caught:
        accepted(host, packets)
    start, end = line.split("{}")
    assert str(caught.value).startswith(start)
    assert str(caught.value).endswith(end)
    assert f":{packets.sport[0]} to" in str(caught.value)
    after, served, _ = accepted(host, packets, all_served=False)
    assert after is host
    assert served.first_cpu.tolist() == served_by_nobody(host).first_cpu.tolist() == [-1]


def test_decisions_of_other_packets_are_refused():
    host = host_of(Socket(name="web", **ANY))
    nothing = np.zeros(3, dtype=np.int32)
    with pytest.raises(ConfigError, match=r"^accept: sockets: "):
        accept(host, REQUESTS, nothing, nothing, all_served=True)
    with pytest.raises(ConfigError, match=r"^accept: sockets"):
        accept(host, REQUESTS, np.full(40, 1), np.zeros(40, int), all_served=True)
