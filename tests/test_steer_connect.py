"""UDP sockets that bind, connect and disconnect while packets are steered (SOCK-56, SOCK-73)."""

from __future__ import annotations

import pytest

from emu.errors import ConfigError
from emu.model.host import Host
from emu.model.masks import CpuSet
from emu.model.nic import Nic
from emu.model.ops import BindSocket, DisconnectSocket, OpenSocket
from emu.model.sockets import Socket
from emu.model.topology import Topology
from emu.steering import steer
from tests.test_steer_flows import LOCAL, MS, PEER, apart, connected, datagram

PORTS = range(1000, 1012)


def host_of(*sockets: Socket, kernel: str = "6.18") -> Host:
    return Host(
        topology=Topology(cpus=8), nics=[Nic(name="eth0")], sockets=sockets, addresses=[LOCAL],
        kernel=kernel,
    )  # fmt: skip


def winners(host: Host, engine, *ops) -> list[int]:
    """Sockets of packets from twelve ports, the first of which is the peer's."""
    frames = [datagram(sport=port) for port in PORTS]
    found = steer(host, apart(frames), ops=ops, engine=engine.name).column("socket").tolist()
    return [-1 if sock is None or sock < 0 else sock for sock in found]


def test_sock_73_a_bound_socket_takes_everyones_packets_until_it_connects(engine):
    host = host_of(connected(opened=False))
    bind, connect = BindSocket(at_ps=0, socket="c"), OpenSocket(at_ps=3 * MS, socket="c")

    assert winners(host, engine) == [-1] * 12
    assert winners(host, engine, bind) == [0] * 12
    assert winners(host, engine, bind, connect) == [0] * 3 + [-1] * 9


def test_a_disconnected_socket_takes_everyones_packets_if_it_keeps_its_port(engine):
    host = host_of(connected())

    assert winners(host, engine) == [0] + [-1] * 11
    off = DisconnectSocket(at_ps=4 * MS, socket="c")
    assert winners(host, engine, off) == [0] + [-1] * 3 + [0] * 8
    gone = DisconnectSocket(at_ps=0, socket="c", keeps_port=False)
    assert winners(host, engine, gone) == [-1] * 12
    again = OpenSocket(at_ps=0, socket="c")
    assert winners(host, engine, gone, again) == [0] + [-1] * 11


@pytest.mark.parametrize("kernel", ["6.18", "6.12"])
def test_sock_56_who_connects_takes_no_share_of_its_group(kernel, engine):
    """Since hash4 it leaves the group; before, the choice passes over it."""
    group = [
        connected(opened=False, reuseport=True),
        Socket(name="a", proto="udp", bind=f"{LOCAL}:53", threads=CpuSet([1]), reuseport=True),
    ]
    ops = [BindSocket(at_ps=0, socket="c"), OpenSocket(at_ps=1, socket="c")]

    assert set(winners(host_of(*group, kernel=kernel), engine, ops[0])) == {0, 1}
    assert winners(host_of(*group, kernel=kernel), engine, *ops) == [0] + [1] * 11


@pytest.mark.parametrize(
    ("socket", "said"),
    [
        (Socket(name="s", proto="udp", bind=f"{LOCAL}:53"), "'s', udp without a peer"),
        (Socket(name="s", proto="tcp", bind=f"{LOCAL}:53", peer=f"{PEER}:9"), "tcp with a peer"),
    ],
)
def test_only_udp_sockets_with_a_peer_bind_first(socket, said, engine):
    with pytest.raises(ConfigError, match=rf"ops\[0\] BindSocket: .*{said}; allowed: a UDP"):
        winners(host_of(socket), engine, BindSocket(at_ps=0, socket="s"))
