"""Sockets: endpoints, states, what the kernel would not take."""

from __future__ import annotations

import ipaddress

import pytest

from emu.dtypes import SockState
from emu.errors import ConfigError
from emu.model.masks import CpuSet
from emu.model.sockets import Cbpf, Socket, Sockmap, parse_endpoint


@pytest.mark.parametrize(
    ("text", "address", "port"),
    [
        ("0.0.0.0:80", "0.0.0.0", 80),
        ("10.0.0.1:65535", "10.0.0.1", 65535),
        ("[::]:53", "::", 53),
        ("[2001:DB8::1]:1", "2001:db8::1", 1),
    ],
)
def test_endpoints(text, address, port):
    assert parse_endpoint(text) == (ipaddress.ip_address(address), port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "80",
        ":80",
        "10.0.0.1",
        "10.0.0.1:",
        "10.0.0.1:x",
        "10.0.0.1:0",
        "10.0.0.1:65536",
        "10.0.0.1:80:80",
        "10.0.0.256:80",
        "010.0.0.1:80",
        "::1:80",
        "[::1]",
        "[::1]80",
        "[10.0.0.1]:80",
        "[fe80::1%eth0]:80",
        "[::ffff:10.0.0.1]:80",
        " 10.0.0.1:80",
        "localhost:80",
    ],
)
def test_bad_endpoints(text):
    with pytest.raises(ConfigError, match=r"^socket 'a': bind: got '.*'; allowed: ") as caught:
        Socket(name="a", bind=text)
    assert caught.value.where == "socket 'a': bind"


@pytest.mark.parametrize(
    ("fields", "state"),
    [
        ({"proto": "tcp"}, SockState.LISTEN),
        ({"proto": "udp"}, SockState.BOUND),
        ({"proto": "tcp", "bind": "10.0.0.1:1", "peer": "10.1.0.1:2"}, SockState.ESTABLISHED),
        ({"proto": "udp", "bind": "[2001:db8::1]:1", "peer": "[::2]:2"}, SockState.ESTABLISHED),
        ({"opened": False}, SockState.CLOSED),
    ],
)
def test_states(fields, state):
    assert Socket(name="a", **fields).state == state


def test_defaults():
    socket = Socket(name="a")
    assert (socket.family, socket.incoming_cpu, socket.threads) == (4, -1, CpuSet([0]))
    assert Socket(name="a", bind="[::]:80").family == 6


@pytest.mark.parametrize("cpu", [-(2**31), -1, 0, 1000, 1048576, 2**31 - 1])
def test_sock_40_incoming_cpu_takes_any_int(cpu):
    assert Socket(name="a", incoming_cpu=cpu).incoming_cpu == cpu


def test_an_empty_cpu_mask_is_legal():
    assert Socket(name="a", cpu_mask=CpuSet()).cpu_mask == CpuSet()


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"proto": "icmp"}, 'proto: got \'icmp\'; allowed: "tcp", "udp"'),
        (
            {"cbpf": Cbpf()},
            "cbpf: got 'fixed'; allowed: none without reuseport: the kernel answers",
        ),
        ({"v6only": True}, "v6only: got True; allowed: false for an IPv4 socket"),
        ({"threads": CpuSet()}, "threads: got ''; allowed: at least one CPU"),
        ({"threads": [0]}, "threads: got [0]; allowed: a CPU set"),
        ({"incoming_cpu": 2**31}, "incoming_cpu: got 2147483648; allowed: a whole number from"),
        ({"uid": -1}, "uid: got -1; allowed: a whole number from 0"),
        ({"bind": 80}, "bind: got 80; allowed: text"),
        (
            {"bind": "10.0.0.1:80", "peer": "[2001:db8::2]:1"},
            "peer: got '[2001:db8::2]:1'; allowed: an IPv4 address, as bind has",
        ),
        (
            {"bind": "10.0.0.1:80", "peer": "0.0.0.0:1"},
            "peer: got '0.0.0.0:1'; allowed: the address of one peer",
        ),
        (
            {"peer": "10.1.0.1:1"},
            "bind: got '0.0.0.0:80'; allowed: one of the host's own addresses for a connected",
        ),
        ({"peer": "10.1.0.1"}, "peer: got '10.1.0.1'; allowed: \"address:port\""),
    ],
)
def test_mistakes(fields, line):
    with pytest.raises(ConfigError) as caught:
        Socket(name="a", **fields)
    assert str(caught.value).startswith(f"socket 'a': {line}")


def test_mistakes_of_programs_and_sockmaps():
    with pytest.raises(ConfigError, match=r"^cbpf: kind: got 'cpus'; .* try \"cpu\"$"):
        Cbpf(kind="cpus")
    with pytest.raises(ConfigError, match=r"^cbpf: value: got -1"):
        Cbpf(value=-1)
    with pytest.raises(ConfigError, match=r"^sockmap: cpu: got -1"):
        Sockmap(cpu=-1)
    with pytest.raises(ConfigError, match=r"^sockmap: ingress: got True; allowed: false without"):
        Sockmap(ingress=True)
