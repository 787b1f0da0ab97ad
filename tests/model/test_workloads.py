"""Workloads: what they settle, whose requests they make, what they refuse."""

from __future__ import annotations

import ipaddress
from decimal import Decimal

import numpy as np
import pytest

from emu.dtypes import PacketFlag
from emu.errors import ConfigError
from emu.model.connections import flow_words
from emu.model.generate import generate
from emu.model.workloads import OpenLoop, RequestResponse, durations_ps, request_packets

NOTHING = generate(packets=0)
TCP4 = generate(packets=3)
MIXED = generate(packets=100, flows=64, proto="mix", family="mix", payload_bytes=10)


def closed(**fields):
    return RequestResponse(**{"flows": 3} | fields)


def test_defaults():
    workload = RequestResponse(flows=7)
    assert (workload.server, workload.proto, workload.family) == ("10.0.0.1:12865", "tcp", 4)
    assert (workload.request_bytes, workload.response_bytes, workload.work) == (1, 1, 0)
    assert closed(family=6).server == "[fd00::1]:12865"
    us = 10**6
    assert durations_ps(workload) == {
        "turnaround": 20 * us,
        "turnaround_mean": 0,
        "wire": 5 * us,
        "rto": 200_000 * us,
        "spread": 100 * us,
    }
    assert OpenLoop(packets=TCP4).response_bytes == -1
    assert set(durations_ps(OpenLoop(packets=TCP4)).values()) == {0}


def test_durations_are_texts_or_microseconds():
    assert closed(turnaround=25, wire="1.5us", spread=0).turnaround == "25us"
    assert durations_ps(closed(turnaround=25, wire="1.5us"))["wire"] == 1_500_000


@pytest.mark.parametrize(
    ("cycles", "work"), [(0, 0), (1, 1024), (0.001, 1), (0.0, 0), (2.5, 2560), (1.999, 2047)]
)
def test_work_is_rounded_to_a_1024th_of_a_cycle(cycles, work):
    assert closed(work_cycles=cycles).work == work


@pytest.mark.parametrize(
    ("style", "pinned"), [("processes", False), ("event-loop", True), ("pool", True)]
)
def test_pinned_by_style(style, pinned):
    assert closed(server_style=style).threads_pinned is pinned
    assert closed(server_style=style, pinned=not pinned).threads_pinned is not pinned


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("proto", ["tcp", "udp"])
def test_a_request_of_each_flow(family, proto):
    workload = closed(flows=500, family=family, proto=proto, request_bytes=64)
    packets = request_packets(workload, seed=3)
    assert len(packets) == 500
    assert len(np.unique(flow_words(packets, np.arange(500)), axis=0)) == 500
    assert set(packets.family.tolist()) == {family}
    assert set(packets.ip_proto.tolist()) == {6 if proto == "tcp" else 17}
    assert set(packets.dport.tolist()) == {12865}
    assert set(packets.payload_bytes.tolist()) == {64}
    assert not packets.arrival_ps.any()
    assert not packets.nic.any()
    assert (packets.flags == PacketFlag.HAS_PORTS).all()
    headers = {("tcp", 4): 66, ("tcp", 6): 86, ("udp", 4): 42, ("udp", 6): 62}[proto, family]
    assert set(packets.wire_bytes.tolist()) == {headers + 64}
    again, other = request_packets(workload, seed=3), request_packets(workload, seed=4)
    assert np.array_equal(packets.sport, again.sport)
    assert np.array_equal(packets.saddr, again.saddr)
    assert not np.array_equal(packets.saddr, other.saddr)


def test_requests_come_from_the_clients_network():
    packets = request_packets(closed(flows=50, clients="192.168.7.0/28", server="10.0.0.9:80"))
    clients = {ipaddress.ip_address(row[0].tobytes()) for row in packets.saddr.copy()}
    assert clients <= set(ipaddress.ip_network("192.168.7.0/28").hosts())
    assert {row[0].tobytes() for row in packets.daddr.copy()} == {bytes([10, 0, 0, 9])}


@pytest.mark.parametrize("family", [4, 6])
@pytest.mark.parametrize("proto", ["tcp", "udp"])
def test_the_largest_message_fills_a_frame(family, proto):
    most = {("tcp", 4): 1448, ("tcp", 6): 1428, ("udp", 4): 1472, ("udp", 6): 1452}[proto, family]
    full = closed(proto=proto, family=family, request_bytes=most, response_bytes=most)
    assert set(request_packets(full).wire_bytes.tolist()) == {1514}
    for field in ("request_bytes", "response_bytes"):
        with pytest.raises(ConfigError) as caught:
            closed(proto=proto, family=family, **{field: most + 1})
        line = f"requestresponse: {field}: got {most + 1}; allowed: at most {most} in one frame"
        assert str(caught.value).startswith(line)


CYCLES = "allowed: 0 to 50000000 with at most three decimals"
REFUSED = [
    ({"flows": 0}, "flows: got 0; allowed: a whole number from 1 to 1000000"),
    ({"flows": -1}, "flows: got -1; allowed: a whole number from 1 to"),
    ({"flows": True}, "flows: got True; allowed: a whole number"),
    ({"flows": 2_000_000}, "flows: got 2000000; allowed: a whole number"),
    (
        {"flows": 30_000, "clients": "10.9.0.1"},
        "flows: got 30000 of IPv4; allowed: at most 28232: 1 client addresses",
    ),
    ({"clients": "10.0.0.0/33"}, "clients: got '10.0.0.0/33'; allowed: an address, or a network"),
    ({"clients": 3}, "clients: got 3; allowed: a list with text"),
    ({"clients": []}, "clients: got (); allowed: at least one"),
    ({"clients": ["10.0.0.0/8", "11.0.0.0/8"]}, "clients: got ('10.0.0.0/8', '11.0.0.0/8');"),
    ({"family": 5}, "family: got 5; allowed: 4 or 6"),
    ({"family": True}, "family: got True; allowed: 4 or 6"),
    ({"proto": "mix"}, 'proto: got \'mix\'; allowed: "tcp", "udp"'),
    ({"server": "0.0.0.0:80"}, "server: got '0.0.0.0:80'; allowed: an IPv4 address that is one"),
    ({"server": "[fd00::1]:80"}, "server: got '[fd00::1]:80'; allowed: an IPv4 address"),
    ({"server": "10.0.0.1"}, "server: got '10.0.0.1'; allowed: \"address:port\""),
    ({"server": 80}, "server: got 80; allowed: text"),
    ({"request_bytes": 0}, "request_bytes: got 0; allowed: a whole number from 1"),
    ({"response_bytes": 0}, "response_bytes: got 0; allowed: a whole number from 1"),
    ({"rto": "0us"}, "rto: got '0us'; allowed: a duration, 1us to 3600s"),
    ({"rto": 0}, "rto: got '0us'; allowed: a duration, 1us to 3600s"),
    ({"turnaround": "-1us"}, "turnaround: got '-1us'; allowed: a number and a unit"),
    ({"turnaround": 1.5}, "turnaround: got 1.5; allowed: a duration or microseconds"),
    ({"turnaround_mean": "4.1s"}, "turnaround_mean: got '4.1s'; allowed: a duration, up to 4s"),
    ({"wire": "3601s"}, "wire: got '3601s'; allowed: a duration, up to 3600s"),
    ({"spread": None}, "spread: got None; allowed: a duration or microseconds"),
    ({"work_cycles": -1}, f"work_cycles: got -1; {CYCLES}"),
    ({"work_cycles": 1.0005}, f"work_cycles: got 1.0005; {CYCLES}"),
    ({"work_cycles": float("nan")}, f"work_cycles: got nan; {CYCLES}"),
    ({"work_cycles": 5e7 + 1}, f"work_cycles: got 50000001.0; {CYCLES}"),
    ({"work_cycles": True}, f"work_cycles: got True; {CYCLES}"),
    ({"work_cycles": "9"}, f"work_cycles: got '9'; {CYCLES}"),
    ({"work_cycles": Decimal("NaN")}, f"work_cycles: got Decimal('NaN'); {CYCLES}"),
    ({"turnaround": "1" * 50 + "us"}, f"turnaround: got '{'1' * 40}'...; allowed: at most 40"),
    ({"family": np.array([4, 6])}, "family: got array([4, 6]); allowed: 4 or 6"),
    ({"server": np.array([1, 2])}, "server: got array([1, 2]); allowed: text"),
    ({"work_exponential": 1}, "work_exponential: got 1; allowed: true or false"),
    ({"server_style": "fork"}, 'server_style: got \'fork\'; allowed: "processes", "event-loop"'),
    ({"pinned": 0}, "pinned: got 0; allowed: true or false"),
]


@pytest.mark.parametrize(("fields", "line"), REFUSED, ids=str)
def test_refused(fields, line):
    with pytest.raises(ConfigError) as caught:
        closed(**fields)
    assert str(caught.value).startswith(f"requestresponse: {line}")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("field", ["flows", "family", "work_cycles", "turnaround", "pinned"])
def test_numbers_that_python_does_not_spell(field):
    with pytest.raises(ConfigError, match=f"{field}: got a number with thousands of digits; all"):
        closed(**{field: 10**5000})


OPEN_REFUSED = [
    ({"packets": NOTHING}, "packets: got an empty table; allowed: at least one packet"),
    ({"packets": [1]}, "packets: got [1]; allowed: Packets"),
    ({"packets": TCP4, "response_bytes": 0}, "response_bytes: got 0; allowed: -1 (no response)"),
    ({"packets": TCP4, "response_bytes": -2}, "response_bytes: got -2; allowed: -1 (no response)"),
    ({"packets": TCP4, "response_bytes": 1449}, "response_bytes: got 1449; allowed: -1 (no"),
    ({"packets": MIXED, "response_bytes": 1429}, "response_bytes: got 1429; allowed: -1 (no"),
    ({"packets": TCP4, "response_bytes": True}, "response_bytes: got True; allowed: -1"),
    ({"packets": TCP4, "work_cycles": -3}, f"work_cycles: got -3; {CYCLES}"),
]


@pytest.mark.parametrize(("fields", "line"), OPEN_REFUSED, ids=str)
def test_open_loops_refused(fields, line):
    with pytest.raises(ConfigError) as caught:
        OpenLoop(**fields)
    assert str(caught.value).startswith(f"openloop: {line}")


def test_open_loop_responses_fit_the_longest_headers():
    assert OpenLoop(packets=TCP4, response_bytes=1448).response_bytes == 1448
    assert OpenLoop(packets=MIXED, response_bytes=1428).response_bytes == 1428
    udp = generate(packets=3, proto="udp", payload_bytes=9)
    assert OpenLoop(packets=udp, response_bytes=1472).response_bytes == 1472
