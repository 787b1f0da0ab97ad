"""Summaries and tables of a steer: the numbers of one small host, by hand."""

from __future__ import annotations

import json
import sys

import numpy as np
import pytest

from emu.dtypes import SKB, SKB_DECISION
from emu.errors import ConfigError
from emu.intake import from_frames
from emu.model.connections import connections
from emu.model.host import Host
from emu.model.masks import CpuSet
from emu.model.nic import Nic, Rss
from emu.model.sockets import Socket
from emu.model.topology import Topology
from emu.result.table import Table
from emu.steering import steer
from tests.strategies import frames as make
from tests.strategies.traffic import Flow, tcp_frames, udp_frames

WEB = Flow("10.1.0.1", 1024, "10.0.0.1", 80)
DNS = Flow("10.1.0.1", 1024, "10.0.0.1", 53)
AWAY = Flow("10.1.0.1", 1024, "192.0.2.1", 80)
HOST = Host(
    topology=Topology(cpus=4, node_of=(0, 0, 1, 1)),
    nics=[
        Nic(
            name="eth0",
            rx_queues=2,
            tx_queues=4,
            rss=Rss(key="microsoft", indirection=(1,)),
            irq_cpus=(0, 1),
            tx_irq_cpus=(0, 1, 2, 3),
            rps_cpus=[CpuSet(), CpuSet([3])],
            xps_cpus=[CpuSet([cpu]) for cpu in range(4)],
        )
    ],
    sockets=[
        Socket(name="web", threads=CpuSet([2])),
        Socket(name="dns", proto="udp", bind="0.0.0.0:53", threads=CpuSet([0])),
    ],
    addresses=["10.0.0.1"],
)


@pytest.fixture
def decisions(engine):
    # Queue 1: 3 joined, 2 single, 1 forwarded. Queue 0: 1 ARP frame. 1 sent.
    frames = [
        *tcp_frames(WEB, 3, 100),
        *udp_frames(DNS, 2),
        *udp_frames(AWAY, 1),
        make.eth(0x0806, bytes(28)),
        *tcp_frames(WEB, 1, back=True),
    ]
    return steer(HOST, from_frames(frames), engine=engine.name)


def test_totals(decisions):
    assert decisions.summary().totals == {
        "packets": 8,
        "skbs": 6,
        "polls": 2,
        "received": 5,
        "sent": 1,
        "forwarded": 1,
        "other": 1,
    }


def test_queues(decisions):
    assert decisions.summary().queues.rows() == [
        {"nic": "eth0", "queue": 0, "irq_cpu": 0, "packets": 1, "skbs": 1},
        {"nic": "eth0", "queue": 1, "irq_cpu": 1, "packets": 6, "skbs": 4},
    ]


def test_cpus(decisions):
    cpus = decisions.summary().cpus

    assert cpus["node"].tolist() == [0, 0, 1, 1]
    assert cpus["irq"].tolist() == [1, 6, 0, 0]
    assert cpus["napi"].tolist() == [1, 6, 0, 0]
    assert cpus["protocol"].tolist() == [1, 0, 0, 6]
    # CPU 2 reads the train and sent the sent packet; CPU 0 reads two datagrams.
    assert cpus["app"].tolist() == [2, 0, 4, 0]
    assert cpus["backlog"].tolist() == [0, 0, 0, 0]
    # CPU 2 answers the train and sends one packet, CPU 0 answers twice, CPU 3 forwards.
    assert cpus["completions"].tolist() == [2, 0, 2, 1]


def test_nodes(decisions):
    assert decisions.summary().nodes.rows() == [
        {"node": 0, "cpus": 2, "protocol": 1, "app": 2, "local": 0},
        {"node": 1, "cpus": 2, "protocol": 6, "app": 3, "local": 3},
    ]


def test_sockets(decisions):
    assert decisions.summary().sockets.rows() == [
        {"socket": 0, "name": "web", "packets": 3, "skbs": 1, "cpus": 1},
        {"socket": 1, "name": "dns", "packets": 2, "skbs": 2, "cpus": 1},
    ]


def test_tx_queues(decisions):
    rows = decisions.summary().tx_queues.rows()

    assert [
        (row["nic"], row["queue"], row["skbs"], row["cpus"], row["remote"]) for row in rows
    ] == [
        ("eth0", 0, 2, 1, 0),
        ("eth0", 2, 2, 1, 0),
        ("eth0", 3, 1, 1, 0),
    ]
    assert [row["completion_cpu"] for row in rows] == [0, 2, 3]


def test_drops_and_secrets(decisions):
    summary = decisions.summary()

    assert summary.drops.rows() == [{"reason": "UNHANDLED_PROTO", "packets": 1}]
    assert summary.secrets.rows() == [{"secret": "EXACT", "packets": 8}]


def test_a_summary_is_json(decisions):
    plain = json.loads(json.dumps(decisions.summary().to_json()))

    assert plain["totals"]["packets"] == 8
    assert list(plain) == [
        "totals",
        "queues",
        "cpus",
        "nodes",
        "sockets",
        "tx_queues",
        "drops",
        "secrets",
    ]


def test_connections_have_a_name(engine):
    packets = from_frames(tcp_frames(WEB, 2))
    host = HOST.replace(sockets=(), connections=connections(packets, threads=(3,)))

    summary = steer(host, packets, engine=engine.name).summary()

    assert summary.sockets.rows() == [
        {"socket": 0, "name": "connection-0", "packets": 2, "skbs": 1, "cpus": 1}
    ]
    assert summary.cpus["app"].tolist() == [0, 0, 0, 2]


def test_a_packet_that_became_no_skb_counts_for_its_queue(engine):
    from emu.model.nic import Cpumap

    cpumap = Cpumap(cpus=CpuSet([2]), rule="fixed", fixed=2, qsize=1, design="plain")
    host = HOST.replace_nic("eth0", cpumap=cpumap, rps_cpus=())

    summary = steer(host, from_frames(udp_frames(DNS, 5)), engine=engine.name).summary()

    assert summary.totals["packets"] == 5
    assert summary.queues["packets"].tolist() == [0, 5]
    assert summary.queues["skbs"].tolist() == [0, 1]
    assert summary.drops.rows() == [{"reason": "CPUMAP_RING_FULL", "packets": 4}]
    assert summary.cpus["napi"].tolist() == [0, 0, 1, 0]


def test_one_row_per_packet_as_a_frame(decisions):
    frame = decisions.to_pandas()

    assert len(frame) == 8
    assert frame["skb"].tolist() == decisions.arrays["skb"].tolist()
    assert frame["socket"].tolist() == decisions.column("socket").tolist()


def test_one_row_per_skb_as_a_frame(decisions):
    frame = decisions.skbs_to_pandas()

    assert len(frame) == 6
    wanted = {*SKB.names, *SKB_DECISION.names} - {"pad"}
    assert set(frame.columns) == wanted
    assert frame["segs"].sum() == 8


def test_without_pandas_the_tables_say_so(decisions, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)

    with pytest.raises(ConfigError, match="pip install pandas"):
        decisions.to_pandas()


def test_a_table_refuses_columns_of_different_lengths():
    with pytest.raises(ValueError, match=r"\[1, 2\] rows"):
        Table({"a": np.zeros(1), "b": np.zeros(2)})


def test_an_empty_table_has_no_rows():
    assert len(Table({})) == 0
    assert Table({"a": np.zeros(0)}).rows() == []
