"""Hosts: everything is checked against everything."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings

from emu.errors import ConfigError
from emu.kernels import get_kernel
from emu.model.host import Host
from emu.model.masks import CpuSet
from emu.model.nic import Cpumap, Nic, default_indirection
from emu.model.sockets import Socket, Sockmap
from emu.model.topology import Topology
from tests.strategies.hosts import hosts
from tests.strategies.sockets import socket_rows


def host(cpus=4, nic=None, **fields):
    """A host with one NIC."""
    nics = [Nic(name="eth0", **(nic or {}))]
    return Host(**({"topology": Topology(cpus=cpus), "nics": nics} | fields))


def test_interrupts_are_settled_on_online_cpus():
    topology = Topology.from_lists(cpus=4, offline="1")
    settled = host(topology=topology, nic={"rx_queues": 5, "tx_queues": 7}).nics[0]
    assert settled.irq_cpus == (0, 2, 3, 0, 2)
    assert settled.tx_irq_cpus == (0, 2, 3, 0, 2, 0, 2)


def test_given_interrupts_stay():
    settled = host(nic={"rx_queues": 2, "irq_cpus": [3, 1], "tx_queues": 3}).nics[0]
    assert (settled.irq_cpus, settled.tx_irq_cpus) == ((3, 1), (3, 1, 3))


@pytest.mark.parametrize("cpus", [1, 2, 64, 65, 256, 4096])
def test_sizes(cpus):
    queues = min(cpus * 2, 4000)
    every = CpuSet((1 << cpus) - 1)
    masks = {"rps_cpus": every, "xps_cpus": every} if cpus > 1 else {"rps_cpus": every}
    nic = {"rx_queues": queues, "tx_queues": queues, **({} if cpus == 1 else masks)}
    made = host(cpus, nic, sockets=[Socket(name="a", threads=every)])
    assert made.nics[0].irq_cpus == tuple(queue % cpus for queue in range(queues))


def test_defaults():
    made = host()
    assert (made.kernel, made.hz, made.forwarding, made.addresses) == ("6.18", 250, True, ())
    assert made.profile is get_kernel("6.18")
    assert made.jiffy_ps == 4 * 10**9
    assert host(kernel=get_kernel("legacy")).kernel == "legacy"


S = Socket(name="a")


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"nics": []}, "host: nics: got none; allowed: at least one NIC"),
        ({"nics": None}, "host: nics: got None; allowed: a list with a Nic"),
        ({"topology": 4}, "host: topology: got 4; allowed: a Topology"),
        (
            {"nics": [Nic(name="e"), Nic(name="e")]},
            "nic 1: name: got 'e'; allowed: a name that nic 0 does not have; try \"e-2\"",
        ),
        (
            {"sockets": [S, S]},
            "socket 1: name: got 'a'; allowed: a name that socket 0 does not have",
        ),
        ({"sockets": [3]}, "host: sockets[0]: got 3; allowed: a Socket"),
        ({"nic": {"irq_cpus": [4]}}, "nic 'eth0': irq_cpus[0]: got 4; allowed: CPUs 0-3"),
        ({"nic": {"tx_irq_cpus": [9]}}, "nic 'eth0': tx_irq_cpus[0]: got 9; allowed: CPUs 0-3"),
        (
            {"nic": {"rps_cpus": CpuSet([1, 4])}},
            "nic 'eth0': rps_cpus[0]: got '1,4'; allowed: CPUs 0-3",
        ),
        (
            {"nic": {"tx_queues": 2, "xps_cpus": [CpuSet(), CpuSet([64])]}},
            "nic 'eth0': xps_cpus[1]: got '64'; allowed: CPUs 0-3",
        ),
        (
            {"nic": {"cpumap": Cpumap(cpus=CpuSet([4]))}},
            "nic 'eth0': cpumap.cpus: got '4'; allowed: CPUs 0-3",
        ),
        (
            {"nic": {"forward_to": "eth1"}},
            "nic 'eth0': forward_to: got 'eth1'; allowed: \"eth0\"; try \"eth0\"",
        ),
        (
            {"topology": Topology.from_lists(cpus=4, offline="1"), "nic": {"irq_cpus": [1]}},
            "nic 'eth0': irq_cpus[0]: got 1; allowed: a CPU that is online (0,2-3)",
        ),
        (
            {"sockets": [Socket(name="a", threads=CpuSet([4]))]},
            "socket 'a': threads: got '4'; allowed: CPUs 0-3",
        ),
        (
            {
                "topology": Topology.from_lists(cpus=4, offline="1"),
                "sockets": [Socket(name="a", threads=CpuSet([1, 2]))],
            },
            "socket 'a': threads: got '1-2'; allowed: CPUs that are online (0,2-3)",
        ),
        (
            {"sockets": [Socket(name="a", cpu_mask=CpuSet([4]))]},
            "socket 'a': cpu_mask: got '4'; allowed: CPUs 0-3",
        ),
        (
            {"sockets": [Socket(name="a", device="eth1")]},
            "socket 'a': device: got 'eth1'; allowed: \"eth0\"",
        ),
        (
            {"sockets": [Socket(name="a", sockmap=Sockmap(cpu=4))]},
            "socket 'a': sockmap.cpu: got 4; allowed: CPUs 0-3",
        ),
        (
            {"sockets": [Socket(name="abc", sockmap=Sockmap(redirect="abd"))]},
            "socket 'abc': sockmap.redirect: got 'abd'; allowed: \"abc\"; try \"abc\"",
        ),
        (
            {"sockets": [S, Socket(name="b", sockmap=Sockmap(redirect="a"))]},
            "socket 'b': sockmap.redirect: got 'a'; allowed: a socket that is in a sockmap itself",
        ),
        ({"addresses": ["10.0.0"]}, "host: addresses[0]: got '10.0.0'; allowed: an IPv4 or IPv6"),
        (
            {"addresses": ["fe80::1%1"]},
            "host: addresses[0]: got 'fe80::1%1'; allowed: an address w",
        ),
        ({"kernel": "6.2"}, 'kernel: got \'6.2\'; allowed: "6.18", "6.12", "6.1", '),
        ({"hz": 0}, "host: hz: got 0; allowed: a whole number from 24 to 1200"),
        ({"forwarding": 1}, "host: forwarding: got 1; allowed: true or false"),
        ({"secrets": 1}, "host: secrets: got 1; allowed: Secrets"),
        ({"connections": [1]}, "host: connections: got list; allowed: a one-dimensional SOCKET"),
        (
            {"connections": np.zeros(2)},
            "host: connections: got float64; allowed: a one-dimensional SOCKET array",
        ),
    ],
)
def test_mistakes(fields, line):
    with pytest.raises(ConfigError) as caught:
        host(**fields)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_an_offline_cpu_may_stay_in_a_mask():
    topology = Topology.from_lists(cpus=4, offline="1")
    made = host(topology=topology, nic={"rps_cpus": CpuSet([1, 2])})
    assert made.nics[0].rps_cpus == (CpuSet([1, 2]),)


def test_connections_pass_through_untouched():
    rows = socket_rows([{"lport": 80}] * 3)
    made = host(connections=rows)
    assert made.connections is rows
    assert made == host(connections=rows.copy()) != host()
    other = rows.copy()
    other["lport"][1] = 81
    assert made != host(connections=other)


def test_replace():
    made = host(nic={"rx_queues": 2}, sockets=[S])
    assert made.replace(hz=1000).hz == 1000
    four = made.replace_nic("eth0", rx_queues=4)
    assert four.nic("eth0").irq_cpus == (0, 1, 2, 3)
    assert four.nic("eth0").rss.indirection == default_indirection(4)
    assert made.replace_socket("a", incoming_cpu=3).socket("a").incoming_cpu == 3
    assert made.replace(topology=Topology(cpus=1)).nics[0].irq_cpus == (0, 0)
    with pytest.raises(ConfigError, match=r"^nic: got 'eth1'; allowed: \"eth0\"; try \"eth0\"$"):
        made.replace_nic("eth1", rx_queues=1)
    with pytest.raises(ConfigError, match=r"replace: got 'rx_quues'; .*; try \"rx_queues\"$"):
        made.replace_nic("eth0", rx_quues=1)
    with pytest.raises(ConfigError, match=r"^socket: got 'b'"):
        made.replace_socket("b")
    with pytest.raises(ConfigError, match=r"^host: replace: got 'hzz'"):
        made.replace(hzz=1)


@settings(max_examples=50)
@given(hosts())
def test_random_hosts_are_whole_and_pickle(made):
    cpus = made.topology.cpus
    for nic in made.nics:
        assert len(nic.irq_cpus) == nic.rx_queues
        assert len(nic.tx_irq_cpus) == nic.tx_queues
        assert all(made.topology.online[cpu] for cpu in nic.irq_cpus + nic.tx_irq_cpus)
        assert all(mask.bits < 1 << cpus for mask in nic.rps_cpus + nic.xps_cpus)
    assert pickle.loads(pickle.dumps(made)) == made == made.replace()
