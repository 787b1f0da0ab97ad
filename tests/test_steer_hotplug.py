"""CPUs that go offline and come back while packets are steered."""

from __future__ import annotations

import pytest

from emu.errors import ConfigError
from emu.model.host import Host
from emu.model.masks import CpuSet
from emu.model.nic import Cpumap, Nic
from emu.model.ops import MoveThreads, SetOnline, WriteRpsCpus, WriteXpsCpus
from emu.model.sockets import Socket, Sockmap
from emu.model.topology import Topology
from emu.steering import steer
from tests.test_steer_flows import HALF, LOCAL, MS, apart, connected, cpus, datagram, host_of

OFF, ON = False, True


def switch(cpu: int, online: bool, at_ms: float = 0) -> SetOnline:
    return SetOnline(at_ps=int(at_ms * MS), cpu=cpu, online=online)


def test_r_3_3_7_a_packet_stays_where_it_is_while_its_cpu_is_offline(engine):
    host = host_of(entries=0, rps_cpus=[CpuSet([3])])
    ops = [switch(3, OFF, 0.5), switch(3, ON, 1.5)]

    assert cpus(host, [datagram()] * 3, engine, ops) == [3, 0, 3]


def test_r_3_3_5_offline_a_flow_leaves_a_cpu_that_goes(engine):
    host = host_of(connected(cpu=5), entries=64)
    frames = [datagram()] * 5
    ops = [MoveThreads(at_ps=2 * MS + HALF, socket="c", threads=CpuSet([6])), switch(5, OFF, 2.6)]

    # CPU 5 reads from the second packet on; then it is gone, and nobody has read elsewhere yet.
    assert cpus(host, frames, engine)[1:] == [5, 5, 5, 5]
    assert cpus(host, frames, engine, ops)[2:] == [5, 0, 6]


def test_r_3_1_a_mask_written_while_a_cpu_is_offline_leaves_it_out_for_good(engine):
    host = host_of(entries=0, rps_cpus=[CpuSet([3])])
    write = WriteRpsCpus(at_ps=HALF, nic="eth0", queue=0, mask=CpuSet([2, 3]))
    frames = [datagram(sport=port) for port in range(1000, 1020)]

    ops = [switch(3, OFF, 0.1), write, switch(3, ON, 0.9)]

    assert set(cpus(host, frames, engine, ops)[1:]) == {2}
    assert set(cpus(host, frames, engine, [write])[1:]) == {2, 3}


def test_xps_18_a_mask_written_while_a_cpu_is_offline_leaves_it_out_for_good(engine):
    nic = Nic(
        name="eth0", tx_queues=4, irq_cpus=[0], tx_irq_cpus=[0] * 4,
        xps_cpus=[CpuSet([0]), CpuSet(), CpuSet(), CpuSet([5])],
    )  # fmt: skip
    host = Host(
        topology=Topology(cpus=8), nics=[nic], addresses=[LOCAL],
        sockets=[Socket(name="s", proto="udp", bind=f"{LOCAL}:53", threads=CpuSet([6]))],
    )  # fmt: skip
    to_five = MoveThreads(at_ps=2 * MS, socket="s", threads=CpuSet([5]))
    write = WriteXpsCpus(at_ps=MS, nic="eth0", queue=2, mask=CpuSet([5]))
    frames = [datagram(sport=port) for port in range(1000, 1020)]

    def queues(*ops):
        return set(steer(host, apart(frames), ops=ops, engine=engine.name).column("tx_queue")[3:])

    assert queues(write, to_five) == {2, 3}
    assert queues(switch(5, OFF), write, switch(5, ON, 1.5), to_five) == {3}


@pytest.mark.parametrize(
    ("cpu", "ops", "said"),
    [
        (1, [], "CPU 1, which has the interrupt of eth0 rx queue 0"),
        (2, [], "CPU 2, which has the interrupt of eth0 tx queue 0"),
        (3, [], "CPU 3, which has a cpumap kthread of eth0"),
        (4, [], "CPU 4, which has the sockmap worker of s"),
        (
            5,
            [],
            "CPU 5, which has threads of s; allowed: a CPU without threads; try MoveThreads of s",
        ),
        (8, [], "CPU 8; allowed: CPUs 0..7"),
        (6, [MoveThreads(at_ps=1, socket="s", threads=CpuSet([6]))], "has threads of s"),
    ],
)
def test_a_cpu_that_is_in_use_does_not_go(cpu, ops, said, engine):
    nic = Nic(name="eth0", irq_cpus=[1], tx_irq_cpus=[2], cpumap=Cpumap(cpus=CpuSet([3])))
    socket = Socket(
        name="s", proto="tcp", bind=f"{LOCAL}:80", peer="10.0.0.2:9", threads=CpuSet([5]),
        sockmap=Sockmap(cpu=4),
    )  # fmt: skip
    host = Host(topology=Topology(cpus=8), nics=[nic], sockets=[socket], addresses=[LOCAL])

    with pytest.raises(ConfigError) as caught:
        steer(host, apart([datagram()]), ops=[*ops, switch(cpu, OFF, 1)], engine=engine.name)
    assert said in str(caught.value)


def test_threads_do_not_move_to_a_cpu_that_is_offline(engine):
    host = host_of(connected(cpu=5))
    move = MoveThreads(at_ps=MS, socket="c", threads=CpuSet([5, 6]))

    with pytest.raises(ConfigError, match=r"threads=5-6; allowed: CPUs online: 0-5,7"):
        steer(host, apart([datagram()]), ops=[switch(6, OFF), move], engine=engine.name)
    steer(host, apart([datagram()]), ops=[switch(6, OFF), switch(6, ON), move], engine=engine.name)
