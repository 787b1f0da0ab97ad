"""explain: every stage says what it decided, and nothing is decided otherwise for it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.errors import ConfigError
from emu.explain import explain
from emu.intake import from_frames
from emu.model.host import Host
from emu.model.masks import CpuSet
from emu.model.nic import Cpumap, Nic, Rss
from emu.model.ops import MoveThreads
from emu.model.sockets import Socket, Sockmap
from emu.model.topology import Topology
from emu.steering import steer
from tests.same import assert_same
from tests.strategies import frames as make
from tests.strategies.traffic import Flow, lively_hosts, op_lists, tcp_frames, traffic, udp_frames

WEB = Flow("10.1.0.1", 1024, "10.0.0.1", 80)


def host_of(*sockets, **nic):
    return Host(
        topology=Topology(cpus=4),
        nics=[Nic(name="eth0", **{"rss": Rss(key="microsoft"), **nic})],
        sockets=sockets,
        addresses=["10.0.0.1"],
    )


def stages(explanation):
    return [entry.name for entry in explanation.entries if entry.kind == "note"]


def test_every_stage_of_a_packets_way_speaks_in_order():
    host = host_of(
        Socket(name="web", threads=CpuSet([1, 2])),
        rx_queues=2,
        tx_queues=4,
        rps_cpus=CpuSet([2, 3]),
    )
    packets = from_frames(tcp_frames(WEB, 3))

    said = explain(host, packets, 1)

    named = stages(said)
    wanted = ["direction", "rss", "gro", "rps", "lookup", "thread", "xps"]
    assert [name for name in named if name in wanted] == wanted
    text = str(said)
    assert text.startswith("packet 1: TCP 10.1.0.1:1024 > 10.0.0.1:80, 154 bytes at ")
    for name in wanted:
        assert f"  {name}" in text
    assert text.splitlines()[-1] == "  exact     no: hangs on TXHASH, THREAD"


def test_the_rules_stand_with_their_numbers():
    said = explain(host_of(rps_cpus=CpuSet([2])), from_frames(tcp_frames(WEB, 1)), 0)

    rules = {entry.name: entry for entry in said.entries if entry.kind == "rule"}
    assert rules["R-3.3.2"].said is True
    assert "R-3.3.2 holds" in str(said)
    assert "  exact     yes" in str(said)


def test_the_cpumap_speaks():
    cpumap = Cpumap(cpus=CpuSet([3]), rule="fixed", fixed=3)
    said = explain(host_of(cpumap=cpumap), from_frames(tcp_frames(WEB, 2)), 1)

    assert "cpumap" in stages(said)
    assert "CPU 3" in str(said)


def test_the_sockmap_speaks():
    socket = Socket(
        name="c",
        bind="10.0.0.1:80",
        peer="10.1.0.1:1024",
        sockmap=Sockmap(cpu=3, redirect="c"),
    )

    said = explain(host_of(socket), from_frames(tcp_frames(WEB, 1)), 0)

    assert "sockmap" in stages(said)
    assert "backlog runs on CPU 3" in str(said)


def test_a_sent_packet_speaks_of_its_socket():
    said = explain(host_of(Socket(name="web")), from_frames(tcp_frames(WEB, 1, back=True)), 0)

    assert "sent" in stages(said)
    assert "from socket 0" in str(said)


def test_a_frame_that_is_no_ip_is_described():
    text = str(explain(host_of(), from_frames([make.eth(0x0806, bytes(28)), b""]), 0))

    assert text.startswith("packet 0: ethertype 0x0806, 42 bytes at ")
    assert "UNHANDLED_PROTO" in text
    assert "not dissected: EMPTY" in str(explain(host_of(), from_frames([b""]), 0))


def test_only_the_packet_in_question_is_heard():
    packets = from_frames(udp_frames(WEB, 1) + tcp_frames(WEB, 1))

    said = explain(host_of(), packets, 1)

    assert stages(said).count("direction") == 1
    assert stages(said).count("rss") == 1


@pytest.mark.parametrize("index", [-1, 2, 100])
def test_a_row_that_does_not_exist_is_refused(index):
    packets = from_frames(tcp_frames(WEB, 2))

    with pytest.raises(ConfigError, match=rf"packet {index}; allowed: 0\.\.1"):
        explain(host_of(), packets, index)


def test_an_empty_table_is_refused():
    with pytest.raises(ConfigError, match="the table is empty"):
        explain(host_of(), from_frames([]), 0)


def test_what_steer_refuses_explain_refuses():
    with pytest.raises(ConfigError, match="socket='nobody'"):
        explain(
            host_of(),
            from_frames(tcp_frames(WEB, 1)),
            0,
            ops=[MoveThreads(at_ps=0, socket="nobody", threads=CpuSet([0]))],
        )


def test_plain_values_are_json():
    said = explain(host_of(Socket(name="web")), from_frames(tcp_frames(WEB, 2)), 0)

    plain = json.loads(json.dumps(said.to_json()))

    assert plain["packet"] == 0
    assert len(plain["entries"]) == len(said.entries)
    assert {entry["kind"] for entry in plain["entries"]} == {"rule", "note"}


@settings(max_examples=40)
@given(data=st.data())
def test_explaining_decides_nothing(data):
    host = data.draw(lively_hosts())
    packets = data.draw(traffic(host, most=3))
    ops = data.draw(op_lists(host, most=3))
    index = data.draw(st.integers(0, len(packets) - 1))

    said = explain(host, packets, index, ops=ops)

    steered = steer(host, packets, ops=ops, engine="ref")
    assert_same(said.decisions, steered, host, packets, ops, names=("explained", "steered"))
    assert stages(said)[0] == "direction"
    assert str(said).startswith(f"packet {index}: ")
    json.dumps(said.to_json())
