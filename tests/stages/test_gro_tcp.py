"""GRO of TCP segments (GRO-19..36)."""

from __future__ import annotations

import pytest

from emu.dtypes import GroResult, IpSummed
from tests.strategies import frames as make
from tests.strategies.gro import (
    CWR,
    ECE,
    FIN,
    PSH,
    RST,
    SYN,
    URG,
    coalesce,
    segment,
    spoil,
)

HELD, MERGED, NORMAL = GroResult.HELD, GroResult.MERGED, GroResult.NORMAL
LAST = 153  # an octet of a 100-octet payload


def ends_alone(engine, *frames, **options):
    """The frames behind 100@0: the held packet is completed, each is held anew."""
    skbs = coalesce(engine("gro"), [segment(100, 0), *frames], **options)
    assert skbs.members() == [[at] for at in range(len(frames) + 1)]
    assert skbs.result.tolist() == [HELD] * (len(frames) + 1)


def test_gro_19_a_bad_sum_overtakes(engine):
    skbs = coalesce(
        engine("gro"), [segment(100, 0), spoil(segment(100, 100), LAST), segment(100, 100)]
    )

    assert skbs.members() == [[1], [0, 2]]
    assert skbs.table["ip_summed"].tolist() == [IpSummed.NONE, IpSummed.PARTIAL]


@pytest.mark.parametrize("state", ["unnecessary", "partial"])
def test_gro_19_a_trusted_sum_is_not_looked_at(engine, state):
    bad = [segment(100, 0), spoil(segment(100, 100), LAST)]

    intake = {"ip_summed": state, "csum_start": 34}
    assert coalesce(engine("gro"), bad, intake=intake).members() == [[0, 1]]
    assert len(coalesce(engine("gro"), bad, intake={"ip_summed": "complete"})) == 2


def test_gro_a5_soft_flushed_ones_are_not_verified(engine):
    skbs = coalesce(engine("gro"), [segment(100, 0) + bytes(2)])

    assert skbs.table["ip_summed"].tolist() == [IpSummed.NONE]


@pytest.mark.parametrize(
    ("given", "level", "left", "left_level"),
    [
        ("none", 0, 1, 0),
        ("unnecessary", 0, 1, 0),
        ("unnecessary", 1, 1, 1),
        ("complete", 0, 2, 0),
        ("partial", 0, 3, 0),
    ],
)
def test_gro_a6_checksum_state_of_what_is_not_joined(engine, given, level, left, left_level):
    intake = {"ip_summed": given, "csum_level": level}
    for frames in ([segment(100, 0)], [segment(0, 0)]):
        (skb,) = coalesce(engine("gro"), frames, intake=intake).table
        assert (skb["ip_summed"], skb["csum_level"]) == (left, left_level)


def test_gro_a6_joined_is_partial_and_keeps_the_level(engine):
    frames = [segment(100, 0), segment(100, 100)]
    (skb,) = coalesce(
        engine("gro"), frames, intake={"ip_summed": "unnecessary", "csum_level": 1}
    ).table

    assert (skb["ip_summed"], skb["csum_level"]) == (IpSummed.PARTIAL, 1)


@pytest.mark.parametrize("doff", [0x40, 0xF0])
def test_gro_20_a_bad_doff_overtakes_but_is_verified(engine, doff):
    bad = bytearray(segment(20, 100))
    bad[46] = doff
    bad[34:] = make.l4_sum(bytes(bad[26:30]), bytes(bad[30:34]), 6, bytes(bad[34:]), 16)
    skbs = coalesce(engine("gro"), [segment(100, 0), bytes(bad), segment(100, 100)])

    assert skbs.members() == [[1], [0, 2]]
    assert skbs.table["ip_summed"][0] == IpSummed.UNNECESSARY


def test_gro_21_other_ports_are_another_flow(engine):
    frames = [segment(100, 0), segment(100, 100, sport=1501), segment(100, 100)]

    assert coalesce(engine("gro"), frames).members() == [[0, 2], [1]]


@pytest.mark.parametrize(
    "other", [{"window": 9}, {"flags": ECE}, {"flags": 0x100}, {"flags": 0x200}]
)
def test_gro_22_word_12_must_be_equal(engine, other):
    ends_alone(engine, segment(100, 100, **other))
    same = [segment(100, 0, **other), segment(100, 100, **other)]
    assert coalesce(engine("gro"), same).members() == [[0, 1]]


def test_gro_22_fin_and_psh_may_differ(engine):
    for flag in (FIN, PSH):
        skbs = coalesce(engine("gro"), [segment(100, 0), segment(100, 100, flags=flag)])
        assert skbs.members() == [[0, 1]]


def test_gro_23_cwr_never_joins(engine):
    ends_alone(engine, segment(100, 100, flags=CWR))
    both = [segment(100, 0, flags=CWR), segment(100, 100, flags=CWR)]
    assert coalesce(engine("gro"), both).result.tolist() == [HELD, HELD]


def test_gro_a14_a_held_packet_with_cwr_takes_no_further_segment(engine):
    skbs = coalesce(engine("gro"), [segment(100, 0, flags=CWR), segment(100, 100)])
    assert skbs.result.tolist() == [HELD, HELD]
    assert skbs.members() == [[0], [1]]


def test_gro_24_ack_seq_must_be_equal(engine):
    ends_alone(engine, segment(100, 100, ack=101))


def test_gro_25_options_must_be_equal(engine):
    later = make.TIMESTAMPS[:-1] + b"\3"
    stamped = [segment(100, 100 * at, options=make.TIMESTAMPS) for at in range(2)]
    skbs = coalesce(engine("gro"), [*stamped, segment(100, 200, options=later)])

    assert skbs.members() == [[0, 1], [2]]


@pytest.mark.parametrize("offset", [101, 99, 0, -1])
def test_gro_26_seq_must_follow(engine, offset):
    ends_alone(engine, segment(100, offset))


def test_gro_26_seq_wraps(engine):
    frames = [segment(100, at - 200) for at in (0, 100, 200)]

    assert coalesce(engine("gro"), frames).members() == [[0, 1, 2]]


@pytest.mark.parametrize(("size", "members"), [(100, [[0, 1]]), (1, [[0, 1]]), (101, [[0], [1]])])
def test_gro_27_not_longer_than_the_first(engine, size, members):
    assert coalesce(engine("gro"), [segment(100, 0), segment(size, 100)]).members() == members


def test_gro_28_any_veto_completes_the_held_one(engine):
    ends_alone(engine, segment(100, 100, ttl=9), segment(100, 200, ttl=9, tos=1))
    assert len(coalesce(engine("gro"), [segment(100, 0), segment(100, 100)])) == 1


def test_gro_29_fin_and_psh_are_taken_over(engine):
    frames = [segment(100, 0), segment(100, 100), segment(100, 200, flags=PSH | FIN)]
    skbs = coalesce(engine("gro"), frames)

    assert skbs.table["tcp_flags"].tolist() == [0x10 | PSH | FIN]
    head = skbs.frames()[0][34:54]
    assert head[13] == 0x10 | PSH | FIN
    assert head[4:12] == frames[0][38:46]  # seq and ack of the first


def test_gro_30_a_short_one_ends_what_it_joined(engine):
    skbs = coalesce(engine("gro"), [segment(100, 0), segment(99, 100), segment(99, 199)])

    assert skbs.members() == [[0, 1], [2]]


@pytest.mark.parametrize("flag", [0, SYN, RST, URG, FIN])
def test_gro_31_without_data_it_follows_what_it_ends(engine, flag):
    skbs = coalesce(
        engine("gro"), [segment(100, 0), segment(0, 100, flags=flag), segment(100, 100)]
    )

    assert skbs.members() == [[0], [1], [2]]
    assert skbs.result.tolist() == [HELD, NORMAL, HELD]


@pytest.mark.parametrize("last", [{"payload": 50}, {"flags": PSH}, {"flags": FIN}])
def test_gro_32_a_last_one_completes_at_once(engine, last):
    end = segment(**{"payload": 100, "offset": 100} | last)
    skbs = coalesce(engine("gro"), [segment(100, 0, sport=9), segment(100, 0), end])

    assert skbs.members() == [[1, 2], [0]]
    assert skbs.result.tolist() == [HELD, HELD, MERGED]


@pytest.mark.parametrize("flag", [SYN, RST, URG, PSH, FIN])
def test_gro_33_the_first_of_a_flow_may_not_be_held(engine, flag):
    assert coalesce(engine("gro"), [segment(100, 0, flags=flag)]).result.tolist() == [NORMAL]
    assert coalesce(engine("gro"), [segment(0, 0)]).result.tolist() == [NORMAL]


@pytest.mark.parametrize("flag", [0, ECE, CWR, 0x100])
def test_gro_34_held_with_data(engine, flag):
    assert coalesce(engine("gro"), [segment(100, 0, flags=flag)]).result.tolist() == [HELD]


@pytest.mark.parametrize(("rest", "segs"), [(919, [17]), (920, [16, 1])])
def test_gro_35_below_the_limit(engine, rest, segs):
    frames = [segment(4036, 4036 * at) for at in range(16)] + [segment(rest, 4036 * 16)]
    skbs = coalesce(engine("gro"), frames)

    assert skbs.table["segs"].tolist() == segs


@pytest.mark.parametrize("version", [4, 6])
def test_gro_35_each_family_has_its_limit(engine, version):
    frames = [segment(1000, 1000 * at, version=version) for at in range(8)]
    skbs = coalesce(engine("gro"), frames, max_size=4000, ipv4_max_size=6000)

    assert skbs.table["segs"].tolist() == ([5, 3] if version == 4 else [3, 3, 2])


def test_gro_35_big_tcp_over_ipv4(engine):
    frames = [segment(20_000, 20_000 * at) for at in range(4)]
    skbs = coalesce(engine("gro"), frames, ipv4_max_size=200_000)

    assert skbs.table["len_bytes"].tolist() == [80_040]
    assert skbs.frames()[0][16:18] == b"\0\0"  # no length field says that


def test_gro_36_more_segments_than_page_slots(engine):
    frames = [segment(100, 100 * at) for at in range(60)]

    assert coalesce(engine("gro"), frames).table["segs"].tolist() == [60]
