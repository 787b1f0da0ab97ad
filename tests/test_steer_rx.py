"""Small hosts: queue, CPU, GRO, cpumap, and where packets end (docs/steer.md)."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from emu.dtypes import Direction, Drop, GroResult, HashType, Secret, TxOf
from emu.intake import from_frames
from emu.model.host import Host
from emu.model.masks import CpuSet
from emu.model.nic import Cpumap, Nic, Rss
from emu.model.polls import Polls
from emu.model.sockets import Socket
from emu.model.topology import Topology
from emu.steering import steer
from tests.small_hosts import (
    ANYONE,
    DNS,
    ONE_TO_ONE,
    US,
    VECTOR,
    WEB,
    host_of,
    on_queue,
    values,
)
from tests.strategies import frames as make
from tests.strategies.traffic import Flow, fragments, segment, tcp_frames, udp_frames, wrap

# --- which queue, which CPU ----------------------------------------------------------------------


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


# --- GRO and polls -------------------------------------------------------------------------------


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


# --- cpumap --------------------------------------------------------------------------------------


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


# --- where packets end ---------------------------------------------------------------------------


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


# --- odds and ends -------------------------------------------------------------------------------


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
