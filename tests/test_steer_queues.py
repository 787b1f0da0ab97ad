"""A NIC that uses fewer of its tx queues, and more again, while packets are steered."""

from __future__ import annotations

import pytest

from emu.errors import ConfigError
from emu.model.host import Host
from emu.model.masks import CpuSet
from emu.model.nic import Nic
from emu.model.ops import SetTxQueues, WriteXpsCpus
from emu.model.topology import Topology
from emu.steering import steer
from tests.test_steer_flows import LOCAL, MS, apart, connected, datagram


def host_of(*, masks=(), **nic) -> Host:
    return Host(
        topology=Topology(cpus=8), addresses=[LOCAL],
        nics=[Nic(name="eth0", tx_queues=4, xps_cpus=[CpuSet(mask) for mask in masks], **nic)],
        sockets=[connected(cpu=5)],
    )  # fmt: skip


def resize(at_ms: float, queues: int) -> SetTxQueues:
    return SetTxQueues(at_ps=int(at_ms * MS), nic="eth0", queues=queues)


def queues(host: Host, engine, *ops, packets: int = 6) -> list[int]:
    frames = [datagram()] * packets
    return steer(host, apart(frames), ops=ops, engine=engine.name).column("tx_queue").tolist()


def test_xps_26_a_queue_that_goes_leaves_the_lists_for_good(engine):
    host = host_of(masks=([0], [1], [2], [5]))

    assert queues(host, engine) == [3] * 6
    fewer = queues(host, engine, resize(1.5, 2), resize(3.5, 4))
    assert fewer[:2] == [3, 3]
    assert set(fewer[2:4]) <= {0, 1}
    # CPU 5 has no list any more: what was chosen then is kept, and no mask came back.
    write = WriteXpsCpus(at_ps=4 * MS - 1, nic="eth0", queue=3, mask=CpuSet([5]))
    assert queues(host, engine, resize(1.5, 2), resize(3.5, 4), write)[:4] == fewer[:4]


def test_xps_34_a_socket_chooses_anew_when_its_queue_is_gone(engine):
    host = host_of(masks=([5], [], [], []))
    to_three = [
        WriteXpsCpus(at_ps=0, nic="eth0", queue=0, mask=CpuSet()),
        WriteXpsCpus(at_ps=0, nic="eth0", queue=3, mask=CpuSet([5])),
    ]
    assert queues(host, engine, *to_three) == [3] * 6
    after = queues(host, engine, *to_three, resize(2.5, 1), resize(4.5, 4))
    assert after[:4] == [3, 3, 3, 0]


def test_masks_of_queues_that_are_gone_cannot_be_written(engine):
    write = WriteXpsCpus(at_ps=2 * MS, nic="eth0", queue=3, mask=CpuSet([5]))

    with pytest.raises(
        ConfigError, match=r"ops\[1\] WriteXpsCpus: got queue=3; allowed: 0\.\.1 of"
    ):
        queues(host_of(), engine, resize(1, 2), write)
    with pytest.raises(ConfigError, match=r"ops\[0\] SetTxQueues: got queues=5; allowed: 1\.\.4"):
        queues(host_of(), engine, resize(1, 5))
    with pytest.raises(ConfigError, match=r"ops\[0\] SetTxQueues: got nic='eth1'"):
        queues(host_of(), engine, SetTxQueues(at_ps=0, nic="eth1", queues=1))
