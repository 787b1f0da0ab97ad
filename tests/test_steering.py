"""The doors: what they refuse, in one line, and the sizes that they take."""

from __future__ import annotations

import numpy as np
import pytest

import emu.engines
from emu.errors import ConfigError, CoreNotBuilt
from emu.intake import from_frames
from emu.model.host import Host
from emu.model.masks import CpuSet
from emu.model.nic import Cpumap, Nic, Rss
from emu.model.ops import (
    CloseSocket,
    MoveThreads,
    SetCpuMask,
    WriteRpsCpus,
    WriteXpsCpus,
    WriteXpsRxqs,
)
from emu.model.polls import Polls
from emu.model.sockets import Socket, Sockmap
from emu.model.topology import Topology
from emu.steering import steer
from tests.same import assert_same
from tests.strategies.traffic import Flow, tcp_frames, udp_frames

WEB = Flow("10.1.0.1", 1024, "10.0.0.1", 80)
HOST = Host(
    topology=Topology(cpus=4),
    nics=[Nic(name="eth0", rx_queues=2, rss=Rss(key="microsoft", indirection=(1,)))],
    sockets=[Socket(name="web")],
)


def packets_of(count=3, **columns):
    return from_frames(tcp_frames(WEB, count), **columns)


def refused(match, **arguments):
    """Steer must refuse with one line."""
    arguments = {"host": HOST, "packets": packets_of(), **arguments}
    with pytest.raises(ConfigError, match=match) as caught:
        steer(arguments.pop("host"), arguments.pop("packets"), **arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_empty_table_is_refused(engine):
    assert "at least one packet" in refused(
        "an empty table", packets=from_frames([]), engine=engine.name
    )


def test_a_nic_that_the_host_lacks_is_refused(engine):
    said = refused("packet 1", packets=packets_of(nic=[0, 1, 2]), engine=engine.name)

    assert "nic=1" in said
    assert "0..0" in said


@pytest.mark.parametrize(("given", "near"), [("reff", "'ref'"), ("cor", "'core'"), ("", "")])
def test_an_unknown_engine_is_refused_with_the_nearest(given, near):
    said = refused("engine", engine=given)

    assert '"core" or "ref"' in said
    assert near in said


def test_without_the_core_there_is_no_silent_fallback(monkeypatch):
    def missing(path):
        raise ModuleNotFoundError(name=path)

    monkeypatch.setattr(emu.engines.importlib, "import_module", missing)

    with pytest.raises(CoreNotBuilt, match="pip install"):
        steer(HOST, packets_of())


WRONG_POLLS = {
    "another queue": (Polls.of_counts([3], queue=0), "packet 0 on queue 0"),
    "too few": (Polls.of_counts([2], queue=1), "packet 2 0 times"),
    "too many": (Polls.of_counts([4], queue=1), "outside 0..2"),
    "going back": (Polls.of_counts([1, 2], queue=1, times_ps=[5, 4]), "time that does not go back"),
}


@pytest.mark.parametrize("kind", WRONG_POLLS)
def test_polls_that_do_not_fit_are_refused(engine, kind):
    polls, match = WRONG_POLLS[kind]

    refused(match, polls=polls, engine=engine.name)


def test_polls_with_a_packet_twice_are_refused(engine):
    polls = Polls.of_counts([3], queue=1)
    polls.order[:] = [0, 1, 1]

    refused("2 times|0 times", polls=polls, engine=engine.name)


def test_polls_that_take_a_sent_packet_are_refused(engine):
    host = HOST.replace(addresses=["10.0.0.1"])
    packets = from_frames(tcp_frames(WEB, 1) + tcp_frames(WEB, 1, back=True))

    refused(
        "only packets that a NIC received",
        host=host,
        packets=packets,
        polls=Polls.of_counts([2], queue=1),
        engine=engine.name,
    )


@pytest.mark.parametrize("queue", [-1, 2, 2**31 - 1])
def test_polls_of_a_queue_that_does_not_exist_are_refused(engine, queue):
    empty_one = Polls(
        order=np.arange(3), queue=[1, queue], first=[0, 3], count=[3, 0], time_ps=[0, 0],
        jiffy=[0, 0],
    )  # fmt: skip

    refused("polls", polls=empty_one, engine=engine.name)


WRONG_OPS = {
    "nic": (WriteRpsCpus(at_ps=0, nic="eth9", queue=0, mask=CpuSet()), "eth9.*eth0"),
    "queue": (WriteRpsCpus(at_ps=0, nic="eth0", queue=2, mask=CpuSet()), "queue=2.*0..1"),
    "cpu": (WriteRpsCpus(at_ps=0, nic="eth0", queue=0, mask=CpuSet([4])), "CPU 4.*0..3"),
    "xps": (WriteXpsCpus(at_ps=0, nic="eth0", queue=0, mask=CpuSet([1])), "ENOENT"),
    "rxqs": (WriteXpsRxqs(at_ps=0, nic="eth0", queue=0, mask=CpuSet([2])), "rx queues 0..1"),
    "socket": (CloseSocket(at_ps=0, socket="wep"), "'web'"),
    "mask": (SetCpuMask(at_ps=0, socket="web", mask=CpuSet([9])), "CPU 9"),
    "threads": (MoveThreads(at_ps=0, socket="web", threads=CpuSet([4])), "CPU 4"),
}


@pytest.mark.parametrize("kind", WRONG_OPS)
def test_ops_on_what_does_not_exist_are_refused(engine, kind):
    op, match = WRONG_OPS[kind]

    refused(match, ops=[op], engine=engine.name)


def test_something_that_is_no_op_is_refused(engine):
    class Later:
        pass

    refused("an op of", ops=[Later()], engine=engine.name)


def test_the_host_and_packets_are_not_written(engine):
    packets = packets_of()
    before = {name: column.copy() for name, column in packets.columns.items()}

    steer(HOST, packets, engine=engine.name)

    for name, column in before.items():
        np.testing.assert_array_equal(column, packets.columns[name])


def everything(cpus):
    """A host of that many CPUs in which each stage reaches its last one."""
    last = CpuSet([cpus - 1])
    return Host(
        topology=Topology(cpus=cpus),
        nics=[
            Nic(name="eth0", rx_queues=2, tx_queues=2, rps_cpus=last, xps_cpus=[CpuSet(), last]),
            Nic(name="eth1", cpumap=Cpumap(cpus=CpuSet([0, cpus - 1]), rule="hash")),
        ],
        sockets=[
            Socket(name="web", reuseport=True, cpu_mask=last, threads=last),
            Socket(name="web2", reuseport=True, cpu_mask=CpuSet([0]), threads=CpuSet([0])),
            Socket(
                name="c",
                bind="10.0.0.1:443",
                peer="10.1.0.1:1024",
                sockmap=Sockmap(cpu=cpus - 1, redirect="c"),
            ),
        ],
    )


@pytest.mark.parametrize("cpus", [1, 2, 64, 65, 256, 4096])
def test_any_number_of_cpus(cpus):
    host = everything(cpus)
    flows = [Flow("10.1.0.1", 1024 + k, "10.0.0.1", 80) for k in range(8)]
    flows.append(Flow("10.1.0.1", 1024, "10.0.0.1", 443))
    frames = [frame for path in flows for frame in tcp_frames(path, 2)]
    packets = from_frames(frames, nic=[k % 4 // 2 for k in range(len(frames))])
    ops = [SetCpuMask(at_ps=0, socket="web2", mask=CpuSet([cpus - 1, 0]))]

    core, ref = (steer(host, packets, ops=ops, engine=engine) for engine in ("core", "ref"))

    assert_same(core, ref, host, packets, ops)
    assert (core.decided["cpu"][core.arrays["skb"][packets.nic == 0]] == cpus - 1).all()
    assert cpus - 1 in core.decided["app_cpu"].tolist()
    assert core.decided["backlog_cpu"].max() == cpus - 1


def test_queues_of_many_nics_are_told_apart(engine):
    host = Host(
        topology=Topology(cpus=8),
        nics=[
            Nic(
                name=f"eth{k}",
                rx_queues=k + 1,
                irq_cpus=(k,) * (k + 1),
                rss=Rss(key="microsoft", indirection=(k,)),
            )
            for k in range(8)
        ],
    )
    packets = from_frames(udp_frames(WEB, 8), nic=list(range(8)))

    got = steer(host, packets, engine=engine.name)

    assert got.arrays["rx_queue"].tolist() == list(range(8))
    assert got.arrays["irq_cpu"].tolist() == list(range(8))
