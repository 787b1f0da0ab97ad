"""GRO of UDP datagrams that are forwarded (GRO-37..44)."""

from __future__ import annotations

import pytest

from emu.dtypes import GroResult, IpSummed
from tests.strategies.gro import coalesce, datagram, spoil

HELD, MERGED, NORMAL = GroResult.HELD, GroResult.MERGED, GroResult.NORMAL
UDP_L4 = 1 << 17
LAST = 141


def forward(engine, frames, **options):
    return coalesce(engine("gro"), frames, **{"udp_forwarding": 1} | options)


@pytest.mark.parametrize("version", [4, 6])
def test_gro_38_only_with_the_feature(engine, version):
    frames = [datagram(100, version=version)] * 2

    assert forward(engine, frames, udp_forwarding=0).result.tolist() == [NORMAL, NORMAL]
    (skb,) = forward(engine, frames).table
    assert (skb["gso_type"], skb["gso_size"], skb["segs"]) == (UDP_L4, 100, 2)
    assert skb["ip_summed"] == IpSummed.PARTIAL


def test_gro_39_without_a_sum_it_overtakes(engine):
    skbs = forward(engine, [datagram(100), datagram(100, checksum=b"\0\0"), datagram(100)])

    assert skbs.members() == [[1], [0, 2]]


@pytest.mark.parametrize("odd", [datagram(0), datagram(100, length=107), datagram(100, length=8)])
def test_gro_40_the_length_must_be_what_is_there(engine, odd):
    skbs = forward(engine, [datagram(100), odd, datagram(100)])

    assert skbs.members() == [[1], [0, 2]]


def test_gro_41_other_ports_are_another_flow(engine):
    assert forward(engine, [datagram(100), datagram(100, sport=9), datagram(100)]).members() == [
        [0, 2],
        [1],
    ]


@pytest.mark.parametrize(
    "other", [{"payload": 101}, {"payload": 100, "ttl": 9}, {"payload": 100, "ident": 5}]
)
def test_gro_42_a_longer_or_other_one_begins_anew(engine, other):
    skbs = forward(engine, [datagram(100), datagram(**other)])

    assert skbs.members() == [[0], [1]]
    assert skbs.result.tolist() == [HELD, HELD]


def test_gro_43_a_shorter_one_joins_and_ends(engine):
    skbs = forward(engine, [datagram(100), datagram(40), datagram(40)])

    assert skbs.members() == [[0, 1], [2]]


def test_gro_43_sixty_four_segments(engine):
    assert forward(engine, [datagram(10)] * 70).table["segs"].tolist() == [64, 6]


@pytest.mark.parametrize("idents", [(8, 8, 8), (8, 9, 10)])
def test_gro_44_ids_stand_still_or_rise(engine, idents):
    frames = [datagram(100, ident=ident) for ident in idents]

    assert forward(engine, frames).members() == [[0, 1, 2]]
    assert forward(engine, frames).table["gso_type"].tolist() == [UDP_L4]  # never a fixed bit


def test_gro_c1_verified_before_anything_else(engine):
    good, bad = datagram(100), spoil(datagram(100), LAST)

    assert forward(engine, [good], udp_forwarding=0).table["ip_summed"].tolist() == [
        IpSummed.UNNECESSARY
    ]
    assert forward(engine, [bad]).table["ip_summed"].tolist() == [IpSummed.NONE]
    assert forward(engine, [good, bad, good]).members() == [[1], [0, 2]]


def test_gro_c2_no_sum_counts_as_verified(engine):
    bare = datagram(100, checksum=b"\0\0")
    soft = datagram(100, checksum=b"\0\0") + bytes(2)

    assert forward(engine, [bare]).table["ip_summed"].tolist() == [IpSummed.UNNECESSARY]
    assert forward(engine, [soft]).table["ip_summed"].tolist() == [IpSummed.NONE]


def test_gro_a7_padding_leaves_the_held_one_alone(engine):
    assert forward(engine, [datagram(100), datagram(100) + bytes(4), datagram(100)]).members() == [
        [1],
        [0, 2],
    ]


def test_gro_a8_a_merge_that_fails_completes(engine):
    soft = forward(engine, [datagram(100), datagram(100, frag=0xC000)])
    assert soft.members() == [[0], [1]]
    assert soft.result.tolist() == [HELD, NORMAL]

    too_long = forward(engine, [datagram(1000)] * 6, ipv4_max_size=4000)
    assert too_long.table["segs"].tolist() == [3, 3]
    assert too_long.result.tolist() == [HELD, MERGED, MERGED] * 2


def test_udp_stays_below_64_kib(engine):
    skbs = forward(engine, [datagram(20_000)] * 4, ipv4_max_size=200_000)

    assert skbs.table["segs"].tolist() == [3, 1]
