"""Small hosts whose answers stand in docs/steer.md."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from emu.dtypes import Direction, Drop, GroResult, HashType, LookupStage, Secret, TxOf
from emu.intake import from_frames
from emu.model.host import Host
from emu.model.masks import CpuSet
from emu.model.nic import Cpumap, Nic, Rss
from emu.model.ops import (
    CloseSocket,
    MoveThreads,
    OpenSocket,
    SetCpuMask,
    SetIncomingCpu,
    WriteRpsCpus,
    WriteXpsCpus,
    WriteXpsRxqs,
)
from emu.model.polls import Polls
from emu.model.sockets import Cbpf, Socket, Sockmap
from emu.model.topology import Topology
from emu.run import steer
from tests.strategies import frames as make
from tests.strategies.traffic import Flow, fragments, segment, tcp_frames, udp_frames, wrap

US = 1_000_000
WEB = Flow("10.1.0.1", 1024, "10.0.0.1", 80)
OTHER_WEB = Flow("10.1.0.2", 1025, "10.0.0.1", 80)
DNS = Flow("10.1.0.1", 1024, "10.0.0.1", 53)
# Of Microsoft's verification suite: the hash of this flow is 0xc626b0ea, its low 7 bits are 106.
VECTOR = Flow("199.92.111.2", 14230, "65.69.140.83", 4739)
ANYONE = Socket(name="web", bind="0.0.0.0:80")
ONE_TO_ONE = [CpuSet([cpu]) for cpu in range(8)]


def host_of(*sockets, cpus=8, addresses=("10.0.0.1",), forwarding=True, hz=250, offline=(), **nic):
    """A host with one NIC and a known RSS key."""
    nic.setdefault("rss", Rss(key="microsoft"))
    online = tuple(cpu not in offline for cpu in range(cpus))
    return Host(
        topology=Topology(cpus=cpus, online=online),
        nics=[Nic(name="eth0", **nic)],
        sockets=sockets,
        addresses=addresses,
        forwarding=forwarding,
        hz=hz,
    )


def on_queue(queue):
    """RSS that puts every flow on one queue."""
    return Rss(key="microsoft", indirection=(queue,))


@pytest.fixture
def decide(engine):
    """Steer frames (one list, all at time 0 unless said)."""

    def run(host, frames, at_us=0, ops=(), polls=None):
        times = at_us if isinstance(at_us, list) else [at_us] * len(frames)
        packets = from_frames(frames, arrival_ps=[time * US for time in times])
        return steer(host, packets, ops=ops, polls=polls, engine=engine.name)

    return run


def values(decisions, name):
    return decisions.column(name).tolist()


# --- which queue, which CPU ---------------------------------------------------------------------


def test_rss_1_the_low_bits_of_the_hash_choose_the_queue_and_its_interrupt_the_cpu(decide):
    host = host_of(rx_queues=4, irq_cpus=(4, 5, 6, 7), addresses=())

    got = decide(host, tcp_frames(VECTOR, 1))

    assert values(got, "rx_hash") == [0xC626B0EA]
    assert values(got, "rx_hash_type") == [HashType.L4]
    assert values(got, "rx_queue") == [106 % 4]
    assert values(got, "irq_cpu") == values(got, "napi_cpu") == values(got, "cpu") == [6]
    assert values(got, "drop") == [Drop.NO_SOCKET]
    assert values(got, "secrets") == [0]


def test_a_frame_without_a_hash_is_on_queue_0(decide):
    host = host_of(rx_queues=4, rss=Rss(key="microsoft", indirection=(2, 3)))

    got = decide(host, [make.eth(0x0806, bytes(28))])

    assert values(got, "rx_hash_type") == [HashType.NONE]
    assert values(got, "rx_queue") == [0]
    assert values(got, "direction") == [Direction.OTHER]
    assert values(got, "drop") == [Drop.UNHANDLED_PROTO]


def test_an_rss_key_that_was_not_given_is_a_secret_only_with_several_queues(decide):
    one, many = (host_of(rx_queues=n, rss=Rss()) for n in (1, 4))

    assert values(decide(one, tcp_frames(WEB, 1)), "secrets") == [0]
    assert values(decide(many, tcp_frames(WEB, 1)), "secrets") == [Secret.RSS_KEY]


def test_rps_with_one_cpu_moves_every_packet_there_and_is_exact(decide):
    host = host_of(ANYONE, rps_cpus=CpuSet([5]), irq_cpus=(2,))

    got = decide(host, tcp_frames(WEB, 1) + udp_frames(DNS, 1))

    assert values(got, "napi_cpu") == [2, 2]
    assert values(got, "cpu") == [5, 5]
    assert values(got, "secrets") == [0, 0]
    assert got.counts["rps"] == 2


def test_rps_takes_the_drivers_hash_when_it_covers_l4(decide):
    # 0xc626b0ea scaled to 4 is 3.
    host = host_of(rps_cpus=CpuSet([1, 3, 5, 7]), addresses=())

    got = decide(host, tcp_frames(VECTOR, 1))

    assert values(got, "cpu") == [7]
    assert values(got, "secrets") == [0]
    assert got.counts["flow_hash"] == 0


def test_rps_computes_the_hash_when_the_drivers_covers_addresses_only(decide):
    host = host_of(rps_cpus=CpuSet([1, 3]), rss=Rss(key="microsoft", udp_hash="2tuple"))

    got = decide(host, udp_frames(DNS, 2))

    assert values(got, "rx_hash_type") == [HashType.L3, HashType.L3]
    assert values(got, "secrets") == [Secret.FLOW_HASH] * 2
    assert got.counts["flow_hash"] == 2
    assert got.skbs["hash_type"].tolist() == [HashType.SW_L4] * 2


def test_rps_leaves_offline_cpus_out(decide):
    mixed = host_of(rps_cpus=CpuSet([5, 6]), irq_cpus=(2,), offline=(5,))
    nobody = host_of(rps_cpus=CpuSet([5]), irq_cpus=(2,), offline=(5,))

    assert values(decide(mixed, tcp_frames(WEB, 1)), "cpu") == [6]
    assert values(decide(nobody, tcp_frames(WEB, 1)), "cpu") == [2]


def test_each_rx_queue_has_its_own_rps_map(decide):
    rss = Rss(key="microsoft", indirection=(1,))
    host = host_of(rx_queues=2, rss=rss, rps_cpus=[CpuSet([5]), CpuSet([6])])

    assert values(decide(host, tcp_frames(WEB, 1)), "cpu") == [6]


# --- GRO and polls ------------------------------------------------------------------------------


def test_a_train_becomes_one_skb(decide):
    got = decide(host_of(ANYONE), tcp_frames(WEB, 3, 100))

    assert values(got, "skb") == [0, 0, 0]
    assert values(got, "gro") == [GroResult.HELD, GroResult.MERGED, GroResult.MERGED]
    assert got.skbs["segs"].tolist() == [3]
    assert got.skbs["gso_size"].tolist() == [100]
    assert got.skbs["len_bytes"].tolist() == [20 + 20 + 300]
    assert got.skbs["after"].tolist() == [3]
    assert values(got, "socket") == [0, 0, 0]


def test_a_train_over_two_interrupts_is_two_skbs(decide):
    got = decide(host_of(ANYONE), tcp_frames(WEB, 4, 100), [0, 1, 50, 51])

    assert values(got, "skb") == [0, 0, 1, 1]
    assert got.polls.time_ps.tolist() == [10 * US, 60 * US]


@pytest.mark.parametrize(("hz", "segs"), [(250, [64, 1]), (1000, [65])])
def test_a_full_poll_flushes_all_below_hz_1000_and_only_old_ones_from_there(decide, hz, segs):
    got = decide(host_of(ANYONE, hz=hz), tcp_frames(WEB, 65, 100))

    assert got.polls.count.tolist() == [64, 1]
    assert got.skbs["segs"].tolist() == segs


@pytest.mark.parametrize(("second_us", "segs"), [(0, [1, 65]), (1, [1, 64, 1])])
def test_a_napi_completes_unless_its_repoll_follows_at_the_same_instant(decide, second_us, segs):
    # Queue 1 is polled in between: that is another NAPI. ARP has no hash: queue 0.
    host = host_of(ANYONE, hz=1000, rx_queues=2, rss=Rss(key="microsoft", indirection=(1,)))
    polls = Polls(
        order=np.array([*range(64), 65, 64]),
        queue=[1, 0, 1],
        first=[0, 64, 65],
        count=[64, 1, 1],
        time_ps=[0, 0, second_us * US],
        jiffy=[0, 0, 0],
    )

    got = decide(host, [*tcp_frames(WEB, 65, 100), make.eth(0x0806, bytes(28))], polls=polls)

    assert sorted(got.skbs["segs"].tolist()) == sorted(segs)


def test_given_polls_are_taken_as_they_are(decide):
    frames = tcp_frames(WEB, 4, 100)
    polls = Polls.of_counts([1, 3], times_ps=[0, 5 * US])

    got = decide(host_of(ANYONE), frames, polls=polls)

    assert got.skbs["segs"].tolist() == [1, 3]


def test_without_gro_every_packet_is_its_own_skb(decide):
    from emu.model.nic import Gro

    got = decide(host_of(ANYONE, gro=Gro(enabled=False)), tcp_frames(WEB, 3, 100))

    assert got.skbs["segs"].tolist() == [1, 1, 1]
    assert values(got, "gro") == [GroResult.NORMAL] * 3


# --- cpumap -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("design", "segs"), [("merged", [3]), ("napi", [3]), ("plain", [1, 1, 1])])
def test_cpumap_hands_every_frame_to_its_cpu(decide, design, segs):
    cpumap = Cpumap(cpus=CpuSet([3, 6]), rule="fixed", fixed=6, design=design)
    host = host_of(ANYONE, cpumap=cpumap, irq_cpus=(1,))

    got = decide(host, tcp_frames(WEB, 3, 100))

    assert values(got, "irq_cpu") == [1, 1, 1]
    assert values(got, "napi_cpu") == values(got, "cpu") == [6, 6, 6]
    assert got.skbs["segs"].tolist() == segs
    assert got.counts["cpumap"] == 3
    assert values(got, "drop") == [Drop.NONE] * 3


@pytest.mark.parametrize(
    ("rule", "cpu"), [("rx-queue", 4 + 5 % 3), ("saddr", 4 + 10 % 3), ("fixed", 5)]
)
def test_cpumap_rules_name_the_entry(decide, rule, cpu):
    fixed = 5 if rule == "fixed" else None
    cpumap = Cpumap(cpus=CpuSet([4, 5, 6]), rule=rule, fixed=fixed)
    host = host_of(ANYONE, cpumap=cpumap, rx_queues=8, rss=on_queue(5))

    got = decide(host, tcp_frames(Flow("10.1.0.10", 1024, "10.0.0.1", 80), 1))

    assert values(got, "napi_cpu") == [cpu]


def test_a_frame_that_the_rule_does_not_match_stays_on_the_nics_napi(decide):
    cpumap = Cpumap(cpus=CpuSet([6]), rule="saddr")
    host = host_of(ANYONE, cpumap=cpumap, irq_cpus=(1,))

    got = decide(host, [make.eth(0x0806, bytes(28)), *tcp_frames(WEB, 1)])

    assert values(got, "napi_cpu") == [1, 6]
    assert got.counts["cpumap"] == 2  # to pass is a decision too


def test_cpumap_drops_what_does_not_fit_the_ring(decide):
    # The 9th and 17th frame flush the eight before them, the end of the poll the last four: 8 fit.
    cpumap = Cpumap(cpus=CpuSet([6]), rule="fixed", fixed=6, qsize=8, design="plain")
    host = host_of(ANYONE, cpumap=cpumap)

    got = decide(host, tcp_frames(WEB, 20, 100))

    assert values(got, "drop") == [Drop.NONE] * 8 + [Drop.CPUMAP_RING_FULL] * 12
    assert values(got, "skb") == list(range(8)) + [-1] * 12
    assert values(got, "cpu")[8:] == [-1] * 12


def test_cpumap_rings_are_empty_again_at_the_next_poll(decide):
    cpumap = Cpumap(cpus=CpuSet([6]), rule="fixed", fixed=6, qsize=8, design="plain")
    host = host_of(ANYONE, cpumap=cpumap)

    got = decide(host, tcp_frames(WEB, 12, 100), [0] * 6 + [100] * 6)

    assert values(got, "drop") == [Drop.NONE] * 12


def test_behind_a_cpumap_there_is_no_hash_and_no_rx_queue(decide):
    cpumap = Cpumap(cpus=CpuSet([6]), rule="fixed", fixed=6)
    host = host_of(
        ANYONE,
        cpumap=cpumap,
        rx_queues=4,
        tx_queues=4,
        rss=on_queue(3),
        rps_cpus=[CpuSet([2]), CpuSet(), CpuSet(), CpuSet([7])],
        xps_rxqs=[CpuSet(), CpuSet([3])],
    )

    got = decide(host, tcp_frames(WEB, 1))

    assert values(got, "rx_queue") == [3]
    # RPS by queue 0's map; XPS by rx queue does not know the 3.
    assert values(got, "cpu") == [2]
    assert got.decided["secrets"].tolist() == [Secret.TXHASH]
    assert got.skbs["hash_type"].tolist() == [HashType.SW_L4]


def test_a_bad_checksum_behind_a_cpumap_is_found_by_the_stack(decide):
    good = tcp_frames(WEB, 1, 100)[0]
    bad = good[:-1] + bytes((good[-1] ^ 1,))
    cpumap = Cpumap(cpus=CpuSet([6]), rule="fixed", fixed=6)

    for host in (host_of(ANYONE), host_of(ANYONE, cpumap=cpumap)):
        assert values(decide(host, [bad]), "drop") == [Drop.CSUM]


# --- where packets end --------------------------------------------------------------------------


def test_frames_that_no_socket_gets_end_with_their_reason(decide):
    host = host_of(ANYONE, forwarding=False)
    other = Flow("10.1.0.1", 1024, "192.0.2.1", 80)
    good = tcp_frames(WEB, 1, 100)[0]
    frames = [
        tcp_frames(other, 1)[0],
        good[:30],
        good[:24] + bytes((good[24] ^ 1,)) + good[25:],
        *fragments(DNS),
        wrap(WEB.ends(), 1, bytes(8)),
        udp_frames(DNS, 1)[0],
        good,
    ]

    got = decide(host, frames, [100 * k for k in range(len(frames))])

    assert values(got, "drop") == [
        Drop.OTHERHOST,
        Drop.NOT_DISSECTED,
        Drop.CSUM,
        Drop.FRAGMENT,
        Drop.FRAGMENT,
        Drop.UNHANDLED_PROTO,
        Drop.NO_SOCKET,
        Drop.NONE,
    ]


def test_a_group_address_is_received(decide):
    listener = Socket(name="mdns", proto="udp", bind="0.0.0.0:5353")

    got = decide(host_of(listener), udp_frames(Flow("10.1.0.1", 5353, "224.0.0.251", 5353), 1))

    assert values(got, "direction") == [Direction.RECEIVED]
    assert values(got, "socket") == [0]


def test_a_host_without_addresses_receives_everything(decide):
    got = decide(host_of(ANYONE, addresses=()), tcp_frames(Flow("1.1.1.1", 9, "2.2.2.2", 80), 1))

    assert values(got, "direction") == [Direction.RECEIVED]
    assert values(got, "socket") == [0]


@pytest.mark.parametrize(("rx_queue", "tx_queue"), [(0, 0), (2, 2), (3, 0), (5, 2)])
def test_a_forwarded_packet_leaves_by_its_rx_queue_modulo_the_tx_queues(decide, rx_queue, tx_queue):
    host = host_of(
        rx_queues=6, tx_queues=3, rss=on_queue(rx_queue), tx_irq_cpus=(5, 6, 7), irq_cpus=(1,) * 6
    )

    got = decide(host, udp_frames(Flow("10.1.0.1", 1024, "192.0.2.1", 80), 1))

    assert values(got, "direction") == [Direction.FORWARDED]
    assert values(got, "tx_of") == [TxOf.FORWARD]
    assert values(got, "tx_queue") == [tx_queue]
    assert values(got, "completion_cpu") == [5 + tx_queue]
    assert values(got, "secrets") == [0]


def test_xps_of_the_forwarding_cpu_goes_before_the_rx_queue(decide):
    host = host_of(
        rx_queues=4, tx_queues=4, rss=on_queue(3), irq_cpus=(0, 1, 2, 2), xps_cpus=ONE_TO_ONE[:4]
    )

    got = decide(host, udp_frames(Flow("10.1.0.1", 1024, "192.0.2.1", 80), 1))

    assert values(got, "cpu") == [2]
    assert values(got, "tx_queue") == [2]


def test_forwarding_through_another_nic(decide):
    host = Host(
        topology=Topology(cpus=4),
        nics=[
            Nic(name="in", rx_queues=2, rss=on_queue(1), forward_to="out"),
            Nic(name="out", tx_queues=4, tx_irq_cpus=(3, 2, 1, 0)),
        ],
        addresses=["10.0.0.1"],
    )

    got = decide(host, udp_frames(Flow("10.1.0.1", 1024, "192.0.2.1", 80), 1))

    assert values(got, "tx_nic") == [1]
    assert values(got, "tx_queue") == [1]
    assert values(got, "completion_cpu") == [2]


# --- sockets ------------------------------------------------------------------------------------


def group(count, **fields):
    """Members of one reuseport group."""
    names = {name: list(value) for name, value in fields.items() if isinstance(value, list)}
    shared = {name: value for name, value in fields.items() if name not in names}
    return [
        Socket(
            name=f"s{k}",
            reuseport=True,
            **shared,
            **{name: value[k] for name, value in names.items()},
        )
        for k in range(count)
    ]


@pytest.mark.parametrize("proto", ["tcp", "udp"])
@pytest.mark.parametrize("cpu", range(4))
def test_sock_43_so_incoming_cpu_takes_the_member_of_the_cpu(decide, proto, cpu):
    members = group(4, proto=proto, incoming_cpu=[0, 1, 2, 3])
    host = host_of(*members, irq_cpus=(cpu,))
    build = tcp_frames if proto == "tcp" else udp_frames

    got = decide(host, build(WEB, 1))

    assert values(got, "socket") == [cpu]


@pytest.mark.parametrize("proto", ["tcp", "udp"])
@pytest.mark.parametrize("cpu", range(4))
def test_sock_24_a_cpu_mask_takes_the_member_of_the_cpu(decide, proto, cpu):
    masks = [CpuSet([0]), CpuSet([1]), CpuSet([2, 3])]
    sockets = [
        Socket(name=f"s{k}", proto=proto, reuseport=True, cpu_mask=mask)
        for k, mask in enumerate(masks)
    ]
    host = host_of(*sockets, irq_cpus=(cpu,))
    build = tcp_frames if proto == "tcp" else udp_frames

    got = decide(host, build(WEB, 1))

    assert values(got, "socket") == [min(cpu, 2)]


def test_a_cbpf_program_names_the_member(decide):
    members = group(4, cbpf=Cbpf(kind="cpu"))

    for cpu in range(4):
        got = decide(host_of(*members, irq_cpus=(cpu,)), tcp_frames(WEB, 1))
        assert values(got, "socket") == [cpu]
        assert values(got, "secrets") == [0]


def test_a_group_without_more_hangs_on_the_socket_hash(decide):
    got = decide(host_of(*group(4)), tcp_frames(WEB, 1))

    assert values(got, "secrets") == [Secret.EHASH]
    assert got.counts["reuseport"] == 1


def test_a_connection_goes_before_its_listener(decide):
    connection = Socket(name="c", bind="10.0.0.1:80", peer="10.1.0.1:1024", threads=CpuSet([3]))

    got = decide(host_of(ANYONE, connection), tcp_frames(WEB, 1) + tcp_frames(OTHER_WEB, 1))

    assert values(got, "socket") == [1, 0]
    assert values(got, "app_cpu") == [3, 0]
    assert values(got, "stage")[0] == LookupStage.ESTABLISHED


def test_a_dual_stack_socket_takes_ipv4(decide):
    both = Socket(name="six", bind="[::]:80")
    only = Socket(name="six", bind="[::]:80", v6only=True)

    assert values(decide(host_of(both), tcp_frames(WEB, 1)), "socket") == [0]
    assert values(decide(host_of(only), tcp_frames(WEB, 1)), "drop") == [Drop.NO_SOCKET]


def test_several_threads_are_a_model_and_marked(decide):
    socket = Socket(name="web", threads=CpuSet([2, 5]))
    flows = [Flow(f"10.1.0.{k}", 1024 + k, "10.0.0.1", 80) for k in range(1, 40)]

    got = decide(host_of(socket), [tcp_frames(path, 1)[0] for path in flows])

    assert set(values(got, "app_cpu")) == {2, 5}
    assert set(values(got, "secrets")) == {Secret.THREAD}


# --- tx queues ----------------------------------------------------------------------------------


@pytest.mark.parametrize("cpu", [0, 3, 7])
def test_xps_one_to_one_answers_on_the_threads_queue(decide, cpu):
    socket = Socket(name="web", threads=CpuSet([cpu]))
    host = host_of(socket, tx_queues=8, xps_cpus=ONE_TO_ONE, tx_irq_cpus=tuple(range(7, -1, -1)))

    got = decide(host, tcp_frames(WEB, 1))

    assert values(got, "tx_of") == [TxOf.REPLY]
    assert values(got, "tx_queue") == [cpu]
    assert values(got, "completion_cpu") == [7 - cpu]
    assert values(got, "secrets") == [0]


def test_without_xps_the_hash_chooses_and_is_marked(decide):
    tcp, udp = ANYONE, Socket(name="dns", proto="udp", bind="0.0.0.0:53")

    got = decide(host_of(tcp, udp, tx_queues=4), tcp_frames(WEB, 1) + udp_frames(DNS, 1))

    assert values(got, "secrets") == [Secret.TXHASH, Secret.FLOW_HASH]


def test_with_one_tx_queue_nothing_hangs_on_a_hash(decide):
    tcp, udp = ANYONE, Socket(name="dns", proto="udp", bind="0.0.0.0:53")

    got = decide(host_of(tcp, udp), tcp_frames(WEB, 1) + udp_frames(DNS, 1))

    assert values(got, "tx_queue") == [0, 0]
    assert values(got, "secrets") == [0, 0]


def test_xps_by_rx_queue_goes_before_xps_by_cpu(decide):
    host = host_of(
        ANYONE,
        rx_queues=4,
        tx_queues=4,
        rss=on_queue(2),
        xps_cpus=ONE_TO_ONE[:4],
        xps_rxqs=[CpuSet(), CpuSet(), CpuSet(), CpuSet([2])],
    )

    assert values(decide(host, tcp_frames(WEB, 1)), "tx_queue") == [3]


@pytest.mark.parametrize(("proto", "queues"), [("udp", [3, 3, 3]), ("tcp", [3, 6, 6])])
def test_connected_udp_keeps_its_queue_and_tcp_follows_its_thread(decide, proto, queues):
    socket = Socket(
        name="c", proto=proto, bind="10.0.0.1:80", peer="10.1.0.1:1024", threads=CpuSet([3])
    )
    host = host_of(socket, tx_queues=8, xps_cpus=ONE_TO_ONE)
    build = tcp_frames if proto == "tcp" else udp_frames
    ops = [MoveThreads(at_ps=50 * US, socket="c", threads=CpuSet([6]))]

    got = decide(host, build(WEB, 3), [0, 100, 200], ops=ops)

    assert values(got, "app_cpu") == [3, 6, 6]
    assert values(got, "tx_queue") == queues


def test_unconnected_udp_follows_its_thread(decide):
    socket = Socket(name="dns", proto="udp", bind="0.0.0.0:53", threads=CpuSet([3]))
    host = host_of(socket, tx_queues=8, xps_cpus=ONE_TO_ONE)
    ops = [MoveThreads(at_ps=50 * US, socket="dns", threads=CpuSet([6]))]

    assert values(decide(host, udp_frames(DNS, 2), [0, 100], ops=ops), "tx_queue") == [3, 6]


def test_a_socket_that_opens_again_has_forgotten_its_queue(decide):
    socket = Socket(
        name="c", proto="udp", bind="10.0.0.1:80", peer="10.1.0.1:1024", threads=CpuSet([3])
    )
    host = host_of(socket, tx_queues=8, xps_cpus=ONE_TO_ONE)
    ops = [
        MoveThreads(at_ps=50 * US, socket="c", threads=CpuSet([6])),
        CloseSocket(at_ps=50 * US, socket="c"),
        OpenSocket(at_ps=60 * US, socket="c"),
    ]

    assert values(decide(host, udp_frames(WEB, 2), [0, 100], ops=ops), "tx_queue") == [3, 6]


# --- sockmap ------------------------------------------------------------------------------------


def proxy(cpu, *, ingress=False):
    """A connection whose stream is redirected to a second one."""
    return (
        Socket(
            name="in",
            bind="10.0.0.1:80",
            peer="10.1.0.1:1024",
            sockmap=Sockmap(redirect="out", ingress=ingress),
        ),
        Socket(
            name="out",
            bind="10.0.0.1:4000",
            peer="10.1.0.9:80",
            threads=CpuSet([5]),
            sockmap=Sockmap(cpu=cpu),
        ),
    )


def test_sockmap_10_a_named_cpu_runs_the_worker_and_sends(decide):
    host = host_of(*proxy(3), tx_queues=8, xps_cpus=ONE_TO_ONE, irq_cpus=(1,))

    got = decide(host, tcp_frames(WEB, 1))

    assert values(got, "socket") == [0]
    assert values(got, "backlog_cpu") == [3]
    assert values(got, "app_cpu") == [-1]
    assert values(got, "tx_of") == [TxOf.REDIRECT]
    assert values(got, "tx_queue") == [3]
    assert got.counts["sockmap"] == 1


def test_sockmap_10_without_one_the_worker_runs_where_the_skb_came(decide):
    host = host_of(*proxy(None), tx_queues=8, xps_cpus=ONE_TO_ONE, irq_cpus=(1,))

    got = decide(host, tcp_frames(WEB, 1))

    assert values(got, "backlog_cpu") == [1]
    assert values(got, "tx_queue") == [1]


def test_an_ingress_redirect_is_read_by_the_targets_thread(decide):
    host = host_of(*proxy(3, ingress=True), tx_queues=8, xps_cpus=ONE_TO_ONE)

    got = decide(host, tcp_frames(WEB, 1))

    assert values(got, "backlog_cpu") == [3]
    assert values(got, "app_cpu") == [5]
    assert values(got, "tx_of") == [TxOf.NOTHING]
    assert values(got, "tx_queue") == [-1]


@pytest.mark.parametrize(("at_us", "backlog"), [([0, 0], [2, 2]), ([0, 100], [2, 3])])
def test_a_pending_worker_stays_on_the_cpu_that_was_first(decide, at_us, backlog):
    # Two connections feed one target; RPS by queue and poll decides on which CPU each is processed.
    first, target = proxy(None)
    second = Socket(
        name="in2",
        bind="10.0.0.1:80",
        peer="10.1.0.2:1025",
        sockmap=Sockmap(redirect="out"),
    )
    rps = WriteRpsCpus(at_ps=0, nic="eth0", queue=0, mask=CpuSet([2]))
    later = WriteRpsCpus(at_ps=50 * US, nic="eth0", queue=0, mask=CpuSet([3]))
    host = host_of(first, target, second)

    got = decide(host, tcp_frames(WEB, 1) + tcp_frames(OTHER_WEB, 1), at_us, ops=[rps, later])

    assert values(got, "socket") == [0, 2]
    assert values(got, "backlog_cpu") == backlog


def test_two_cpus_that_feed_one_worker_within_a_poll_share_the_first_ones_cpu(decide):
    first, target = proxy(None)
    flows = [Flow("10.1.0.1", 2000 + k, "10.0.0.1", 80) for k in range(8)]
    sources = [
        Socket(
            name=f"in{k}", bind="10.0.0.1:80", peer=f"10.1.0.1:{path.cport}", sockmap=first.sockmap
        )
        for k, path in enumerate(flows)
    ]
    host = host_of(*sources, target, rps_cpus=CpuSet([2, 3]))

    got = decide(host, [tcp_frames(path, 1)[0] for path in flows])

    assert set(values(got, "cpu")) == {2, 3}
    assert set(values(got, "backlog_cpu")) == {int(got.decided["cpu"][0])}


# --- ops and time -------------------------------------------------------------------------------


def test_an_op_at_the_instant_of_a_poll_comes_first(decide):
    # Packets at 0, 100, 200 us are polled at 10, 110, 210 us.
    ops = [
        WriteRpsCpus(at_ps=110 * US, nic="eth0", queue=0, mask=CpuSet([4])),
        WriteRpsCpus(at_ps=210 * US + 1, nic="eth0", queue=0, mask=CpuSet([5])),
    ]

    got = decide(host_of(), tcp_frames(WEB, 3), [0, 100, 200], ops=ops)

    assert values(got, "cpu") == [0, 4, 4]


def test_ops_of_one_instant_run_in_the_order_given(decide):
    ops = [
        WriteRpsCpus(at_ps=0, nic="eth0", queue=0, mask=CpuSet([4])),
        WriteRpsCpus(at_ps=0, nic="eth0", queue=0, mask=CpuSet([5])),
    ]

    assert values(decide(host_of(), tcp_frames(WEB, 1), ops=ops), "cpu") == [5]
    assert values(decide(host_of(), tcp_frames(WEB, 1), ops=ops[::-1]), "cpu") == [4]


def test_ops_given_out_of_order_run_in_order_of_time(decide):
    ops = [
        WriteRpsCpus(at_ps=50 * US, nic="eth0", queue=0, mask=CpuSet()),
        WriteRpsCpus(at_ps=0, nic="eth0", queue=0, mask=CpuSet([5])),
    ]

    assert values(decide(host_of(), tcp_frames(WEB, 2), [0, 100], ops=ops), "cpu") == [5, 0]


def test_every_kind_of_op_is_seen_by_the_next_packet_only(decide):
    socket = Socket(name="late", opened=False, threads=CpuSet([1]))
    host = host_of(socket, rx_queues=2, tx_queues=4, rss=on_queue(0))
    ops = [
        OpenSocket(at_ps=50 * US, socket="late"),
        MoveThreads(at_ps=150 * US, socket="late", threads=CpuSet([2])),
        WriteXpsCpus(at_ps=150 * US, nic="eth0", queue=1, mask=CpuSet([2])),
        WriteXpsRxqs(at_ps=250 * US, nic="eth0", queue=3, mask=CpuSet([0])),
        WriteXpsRxqs(at_ps=350 * US, nic="eth0", queue=3, mask=CpuSet()),
        CloseSocket(at_ps=450 * US, socket="late"),
    ]

    got = decide(host, tcp_frames(WEB, 6), [0, 100, 200, 300, 400, 500], ops=ops)

    assert values(got, "socket") == [-1, 0, 0, 0, 0, -1]
    assert values(got, "app_cpu") == [-1, 1, 2, 2, 2, -1]
    assert values(got, "tx_queue")[2:] == [1, 3, 1, -1]
    assert values(got, "secrets") == [0, Secret.TXHASH, 0, 0, 0, 0]


def test_incoming_cpu_and_mask_change_between_packets(decide):
    host = host_of(*group(2, proto="udp", incoming_cpu=[0, 1]), irq_cpus=(1,))
    ops = [
        SetIncomingCpu(at_ps=50 * US, socket="s1", cpu=0),
        SetIncomingCpu(at_ps=50 * US, socket="s0", cpu=1),
    ]
    assert values(decide(host, udp_frames(WEB, 2), [0, 100], ops=ops), "socket") == [1, 0]

    host = host_of(*group(2, proto="udp", cpu_mask=[CpuSet([1]), CpuSet([2])]), irq_cpus=(1,))
    ops = [
        SetCpuMask(at_ps=50 * US, socket="s0", mask=CpuSet([2])),
        SetCpuMask(at_ps=50 * US, socket="s1", mask=CpuSet([1])),
    ]
    assert values(decide(host, udp_frames(WEB, 2), [0, 100], ops=ops), "socket") == [0, 1]


# --- sent packets -------------------------------------------------------------------------------


def test_a_sent_packet_is_its_sockets_and_leaves_by_its_threads_queue(decide):
    connection = Socket(name="c", bind="10.0.0.1:80", peer="10.1.0.1:1024", threads=CpuSet([3]))
    host = host_of(connection, tx_queues=8, xps_cpus=ONE_TO_ONE)

    got = decide(host, tcp_frames(WEB, 2, back=True))

    assert values(got, "direction") == [Direction.SENT] * 2
    assert values(got, "rx_queue") == values(got, "irq_cpu") == [-1, -1]
    assert values(got, "napi_cpu") == values(got, "cpu") == [-1, -1]
    assert values(got, "gro") == [GroResult.BYPASS] * 2
    assert values(got, "skb") == [0, 1]
    assert values(got, "socket") == [0, 0]
    assert values(got, "tx_of") == [TxOf.SENT] * 2
    assert values(got, "tx_queue") == [3, 3]
    assert len(got.polls) == 0


def test_a_sent_packet_without_a_socket_or_ports_ends_with_its_reason(decide):
    frames = [
        *tcp_frames(WEB, 1, back=True),
        wrap(WEB.ends(back=True), 1, bytes(8)),
        tcp_frames(WEB, 1, back=True)[0][:40],
    ]

    got = decide(host_of(), frames)

    assert values(got, "drop") == [Drop.NO_SOCKET, Drop.UNHANDLED_PROTO, Drop.NOT_DISSECTED]


def test_a_sent_packet_uses_the_rx_queue_that_its_socket_remembers(decide):
    connection = Socket(name="c", bind="10.0.0.1:80", peer="10.1.0.1:1024")
    host = host_of(
        connection, rx_queues=4, tx_queues=4, rss=on_queue(2), xps_rxqs=[CpuSet(), CpuSet([2])]
    )
    frames = tcp_frames(WEB, 1, back=True) + tcp_frames(WEB, 1) + tcp_frames(WEB, 1, back=True)

    got = decide(host, frames, [0, 100, 200])

    assert values(got, "secrets") == [Secret.TXHASH, 0, 0]
    assert values(got, "tx_queue")[1:] == [1, 1]


def test_a_sent_packet_comes_before_a_poll_of_its_instant(decide):
    # The UDP socket's queue is chosen by the packet that is sent first, on the thread's CPU then.
    connection = Socket(
        name="c", proto="udp", bind="10.0.0.1:80", peer="10.1.0.1:1024", threads=CpuSet([3])
    )
    host = host_of(connection, rx_usecs=0)

    got = decide(host, udp_frames(WEB, 1) + udp_frames(WEB, 1, back=True))

    assert values(got, "direction") == [Direction.RECEIVED, Direction.SENT]
    assert values(got, "skb") == [1, 0]


def test_a_sent_packet_of_a_group_is_the_member_that_the_first_interrupts_cpu_finds(decide):
    members = group(4, proto="udp", bind="0.0.0.0:53", incoming_cpu=[0, 1, 2, 3])
    host = host_of(*members, rx_queues=2, irq_cpus=(2, 1))

    assert values(decide(host, udp_frames(DNS, 1, back=True)), "socket") == [2]


# --- odds and ends ------------------------------------------------------------------------------


def test_a_tagged_frame_reaches_its_socket(decide):
    frame = make.tag(tcp_frames(WEB, 1)[0], 5)

    assert values(decide(host_of(ANYONE), [frame]), "socket") == [0]


def test_the_nic_of_a_packet_is_the_device_of_its_lookup(decide, engine):
    sockets = [
        Socket(name="a", device="eth0", threads=CpuSet([1])),
        Socket(name="b", device="eth1", threads=CpuSet([2])),
    ]
    host = Host(
        topology=Topology(cpus=4), nics=[Nic(name="eth0"), Nic(name="eth1")], sockets=sockets
    )
    packets = from_frames(tcp_frames(WEB, 2), nic=[1, 0])

    got = steer(host, packets, engine=engine.name)

    assert values(got, "socket") == [1, 0]
    assert values(got, "tx_nic") == [1, 0]


def test_an_ipv6_flow_reaches_its_socket(decide):
    six = Flow("2001:db8:1::1", 1024, "2001:db8::1", 80)
    host = host_of(Socket(name="web", bind="[2001:db8::1]:80"), addresses=["2001:db8::1"])

    got = decide(host, tcp_frames(six, 3, 100))

    assert values(got, "socket") == [0, 0, 0]
    assert got.skbs["segs"].tolist() == [3]


def test_a_udp_packet_of_no_checksum_is_good(decide):
    ends = DNS.ends()
    proto, body = segment("udp", ends, bytes(10))
    body = body[:6] + struct.pack(">H", 0) + body[8:]
    socket = Socket(name="dns", proto="udp", bind="0.0.0.0:53")

    assert values(decide(host_of(socket), [wrap(ends, proto, body)]), "drop") == [Drop.NONE]
