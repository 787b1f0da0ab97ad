"""GRO around the headers: who is compared, what is held, how it leaves (GRO-1..5, 47..50)."""

from __future__ import annotations

import numpy as np
import pytest

from emu.dtypes import GroResult, HashType, IpSummed, PacketFlag
from emu.errors import ConfigError
from emu.intake import from_frames
from tests.strategies import frames as make
from tests.strategies.gro import coalesce, segment, settings, train

HELD, MERGED, NORMAL = GroResult.HELD, GroResult.MERGED, GroResult.NORMAL


def pair():
    return [segment(100, 0), segment(100, 100)]


def flows(count, rounds=2):
    """All first segments, then all second ones ..."""
    return [
        segment(100, 100 * turn, sport=1500 + flow)
        for turn in range(rounds)
        for flow in range(count)
    ]


def test_r_5_2_1_without_the_feature_nothing_is_held(engine):
    skbs = coalesce(engine("gro"), pair(), enabled=0)

    assert skbs.result.tolist() == [NORMAL, NORMAL]
    assert skbs.table["ip_summed"].tolist() == [IpSummed.NONE] * 2


@pytest.mark.parametrize("other", [{"skb_hash": [1, 9]}, {"nic": [0, 1]}])
def test_gro_1_hash_and_device_must_be_equal(engine, other):
    skbs = coalesce(engine("gro"), pair(), intake=other)

    assert skbs.members() == [[0], [1]]
    assert skbs.result.tolist() == [HELD, HELD]


@pytest.mark.parametrize("tci", [0x0065, 0x2064, 0x1064])
def test_gro_1_the_tag_in_metadata_counts_with_priority_and_dei(engine, tci):
    tagged = [make.tag(frame, number) for frame, number in zip(pair(), (0x64, tci), strict=True)]
    untagged = [make.tag(pair()[0], 0x64), pair()[1]]
    same = [make.tag(frame, 0x64) for frame in pair()]

    for frames, members in ((tagged, [[0], [1]]), (untagged, [[0], [1]]), (same, [[0, 1]])):
        assert coalesce(engine("gro"), frames, intake={"vlan_accel": True}).members() == members


def test_gro_1_the_kind_of_tag_counts(engine):
    tagged = [make.tag(pair()[0], 0x64), make.tag(pair()[1], 0x64, 0x88A8)]

    assert len(coalesce(engine("gro"), tagged, intake={"vlan_accel": True})) == 2


def test_a_tag_in_the_frame_is_never_held(engine):
    skbs = coalesce(engine("gro"), [make.tag(frame, 5) for frame in pair()])

    assert skbs.result.tolist() == [NORMAL, NORMAL]
    assert skbs.table["len_bytes"].tolist() == [144, 144]  # the tag counts


def test_a_second_tag_stays_in_the_frame(engine):
    frames = [make.tag(make.tag(frame, 5), 6, 0x88A8) for frame in pair()]
    skbs = coalesce(engine("gro"), frames, intake={"vlan_accel": True})

    assert skbs.result.tolist() == [NORMAL, NORMAL]


def test_gro_2_the_ethernet_header_must_be_equal(engine):
    other = [pair()[0], segment(100, 100, macs=bytes(12))]

    assert coalesce(engine("gro"), other).members() == [[0], [1]]
    assert coalesce(engine("gro"), pair()).members() == [[0, 1]]


def test_gro_4_another_flow_leaves_what_is_held_alone(engine):
    frames = [segment(100, 0), segment(100, 0, sport=9), segment(100, 100)]

    assert coalesce(engine("gro"), frames).members() == [[0, 2], [1]]


def test_gro_5_one_held_packet_per_flow(engine):
    frames = [segment(100, 0), segment(100, 500), segment(100, 100), segment(100, 600)]

    assert coalesce(engine("gro"), frames).members() == [[0], [1], [2], [3]]


def test_gro_47_buckets_upwards_then_oldest_first(engine):
    hashes = [7, 3, 15, 0, 11]
    frames = [segment(100, 0, sport=1500 + flow) for flow in range(5)]
    skbs = coalesce(engine("gro"), frames, intake={"skb_hash": hashes})

    assert skbs.members() == [[3], [1], [4], [0], [2]]
    assert skbs.table["hash"].tolist() == [0, 3, 11, 7, 15]


@pytest.mark.parametrize(("hz", "jiffies", "segs"), [(250, [0, 0], [64, 1]), (1000, [0, 0], [65])])
def test_n_7_a_full_poll_flushes_by_hz(engine, hz, jiffies, segs):
    packets = train(65, payload=100)
    skbs = coalesce(engine("gro"), packets, polls=[64, 1], jiffies=jiffies, hz=hz)

    assert sorted(skbs.table["segs"].tolist()) == sorted(segs)


def test_n_7_an_older_jiffy_is_flushed_at_1000_hz(engine):
    packets = train(129, payload=100)
    skbs = coalesce(engine("gro"), packets, polls=[64, 64, 1], jiffies=[4, 5, 5], hz=1000)

    # Held in jiffy 4 and kept by the first poll; the second one's flush finds it old (GRO-A13).
    assert skbs.table["segs"].tolist() == [128, 1]


def test_gro_48_what_is_not_held_overtakes_other_flows(engine):
    frames = [segment(100, 0), segment(0, 0, sport=9), segment(100, 100)]
    skbs = coalesce(engine("gro"), frames)

    assert skbs.members() == [[1], [0, 2]]


def test_gro_49_alone_it_stays_as_it_came(engine):
    skbs = coalesce(
        engine("gro"), [segment(100, 0), segment(100, 0, sport=9), segment(100, 100, sport=9)]
    )

    alone, joined = skbs.table
    assert (alone["gso_size"], alone["gso_type"], alone["ip_summed"]) == (
        0,
        0,
        IpSummed.UNNECESSARY,
    )
    assert (joined["gso_size"], joined["gso_type"], joined["ip_summed"]) == (
        100,
        1 << 30 | 1,
        IpSummed.PARTIAL,
    )


@pytest.mark.parametrize(("count", "skbs"), [(8, 8), (9, 18)])
def test_gro_50_eight_flows_fit_a_bucket_nine_do_not(engine, count, skbs):
    assert len(coalesce(engine("gro"), flows(count))) == skbs


def test_gro_50_joining_does_not_make_younger(engine):
    frames = [*flows(8, 1), segment(100, 100), *flows(9, 1)[8:], segment(100, 200)]
    skbs = coalesce(engine("gro"), frames)

    assert skbs.members()[0] == [0, 8]  # the ninth flow put the oldest out, though it had grown


def test_gro_a12_eight_segments_are_a_batch(engine):
    acks = [segment(0, 0)] * 9
    assert coalesce(engine("gro"), acks).table["after"].tolist() == [8] * 8 + [9]

    # Completed and normal are two appends: seven and the held one make the batch, before the PSH.
    mixed = [*[segment(0, 0)] * 7, segment(100, 0, sport=9), segment(100, 0, sport=9, flags=0x08)]
    skbs = coalesce(engine("gro"), [*mixed, segment(0, 0)])
    assert skbs.table["after"].tolist() == [9] * 8 + [10] * 2


def test_gro_a12_nine_flows_in_turn(engine):
    after = coalesce(engine("gro"), flows(9)).table["after"].tolist()

    assert after == [16] * 8 + [18] * 10


def test_gro_a13_a_merge_does_not_refresh_the_age(engine):
    packets = train(65, payload=100)
    skbs = coalesce(engine("gro"), packets, polls=[64, 1], jiffies=[0, 1], hz=1000)

    assert skbs.table["segs"].tolist() == [65]


def test_a_fresh_skb_has_no_hash_sum_or_tag(engine):
    """A cpumap's kthread: one bucket for all, and checksums are verified again."""
    frames = [make.tag(frame, tci) for frame, tci in zip(pair(), (5, 6), strict=True)]
    intake = {
        "vlan_accel": True, "skb_hash": [1, 2], "hash_type": "l4", "ip_summed": "unnecessary",
        "csum_level": 1,
    }  # fmt: skip
    skbs = coalesce(engine("gro"), frames, intake=intake, fresh_skb=1)

    assert skbs.members() == [[0, 1]]
    assert (skbs.table["hash"][0], skbs.table["hash_type"][0], skbs.table["csum_level"][0]) == (
        0,
        HashType.NONE,
        0,
    )
    assert len(coalesce(engine("gro"), frames, intake=intake)) == 2


def test_no_packets(engine):
    packets = from_frames([])
    none = np.zeros(0, dtype=np.int64)
    skbs, skb_of, result = engine("gro").gro_packets(
        packets, none, none, settings(), packets.skb_hash, packets.hash_type
    )

    assert len(skbs) == len(skb_of) == len(result) == 0


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"poll_counts": [1]}, "1 packets"),
        ({"poll_counts": [3, -1]}, "-1"),
        ({"jiffies": [0]}, "1 values"),
        ({"hash": np.zeros(1, np.uint32)}, "hash: got 1 values"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(engine, change, message):
    packets = from_frames(pair())
    given = {
        "poll_counts": [1, 1], "jiffies": [0, 0], "hash": packets.skb_hash,
        "hash_type": packets.hash_type,
    } | change  # fmt: skip
    if "jiffies" not in change:
        given["jiffies"] = [0] * len(given["poll_counts"])
    given["poll_counts"] = np.array(given["poll_counts"], dtype=np.int64)
    given["jiffies"] = np.array(given["jiffies"], dtype=np.int64)

    with pytest.raises(ConfigError, match=message):
        engine("gro").gro_packets(packets, cfg=settings(), **given)


def test_bytes_that_the_table_has_not_kept_are_not_compared(engine):
    """Extension headers and options without octets: the packet goes up as it is."""
    for family, flag, change in (
        (6, PacketFlag.EXT_HEADERS, {}),
        (4, 0, {"tcp_w12": 8 << 28 | 0x10 << 16}),
    ):
        packets = train(2, family=family)
        columns = {"flags": packets.flags | np.uint16(flag)}
        columns |= {
            name: np.full(2, value, packets.columns[name].dtype) for name, value in change.items()
        }
        skbs = coalesce(engine("gro"), packets.replace(**columns))
        assert skbs.result.tolist() == [NORMAL, NORMAL]
