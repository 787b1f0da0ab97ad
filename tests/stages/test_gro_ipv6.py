"""GRO at the IPv6 header and its extension headers (GRO-15..18)."""

from __future__ import annotations

import pytest

from emu.dtypes import GroResult
from tests.strategies import frames as make
from tests.strategies.gro import coalesce, segment

HELD, MERGED, NORMAL = GroResult.HELD, GroResult.MERGED, GroResult.NORMAL


def six(payload, offset, **changes):
    return segment(payload, offset, version=6, **changes)


@pytest.mark.parametrize("other", [{"label": 1}, {"label": 0xF0000}])
def test_gro_15_another_label_is_another_flow(engine, other):
    skbs = coalesce(engine("gro"), [six(100, 0), six(100, 100, **other), six(100, 100)])

    assert skbs.members() == [[0, 2], [1]]


@pytest.mark.parametrize("other", [{"hops": 7}, {"traffic_class": 2}, {"traffic_class": 0xF0}])
def test_gro_16_class_and_hop_limit_end_the_aggregate(engine, other):
    skbs = coalesce(engine("gro"), [six(100, 0), six(100, 100, **other)])

    assert skbs.members() == [[0], [1]]
    assert skbs.result.tolist() == [HELD, HELD]


def test_gro_17_another_length_is_a_soft_flush(engine):
    skbs = coalesce(engine("gro"), [six(100, 0), six(100, 100) + bytes(4), six(100, 100)])

    assert skbs.members() == [[0], [1], [2]]
    assert skbs.result.tolist() == [HELD, NORMAL, HELD]


CHAINS = {
    "hop-by-hop": (0, make.extension(0, 6)),
    "routing": (43, make.extension(43, 6)),
    "destination": (60, make.extension(60, 6, 1)),
    "two": (0, make.extension(0, 60) + make.extension(60, 6)),
}


@pytest.mark.parametrize("chain", CHAINS)
def test_gro_18_same_walked_headers_join(engine, chain):
    first, octets = CHAINS[chain]
    header = {"extensions": octets, "first": first}
    other = {"extensions": octets[:-1] + b"\1", "first": first}

    assert coalesce(engine("gro"), [six(100, 0, **header), six(100, 100, **header)]).members() == [
        [0, 1]
    ]
    # Other octets, or none, are another flow: it stays, and grows later.
    frames = [six(100, 0, **header), six(100, 100, **other), six(100, 0), six(100, 100, **header)]
    assert coalesce(engine("gro"), frames).members() == [[0, 3], [1], [2]]


def test_gro_18_same_octets_of_another_kind_differ(engine):
    frames = [
        six(100, 0, extensions=make.extension(0, 6), first=0),
        six(100, 100, extensions=make.extension(0, 6), first=60),
    ]

    assert coalesce(engine("gro"), frames).members() == [[0], [1]]


@pytest.mark.parametrize("kind", [44, 51, 50, 59, 135])
def test_gro_18_other_headers_are_bypass(engine, kind):
    odd = six(100, 100, extensions=make.extension(kind, 6), first=kind)
    skbs = coalesce(engine("gro"), [six(100, 0), odd, six(100, 100)])

    assert skbs.members() == [[1], [0, 2]]
    assert skbs.result.tolist() == [HELD, NORMAL, MERGED]


@pytest.mark.parametrize("nibble", [0, 4, 7])
def test_gro_a2_the_version_is_only_compared(engine, nibble):
    def versioned(frame):
        return frame[:14] + bytes([nibble << 4 | frame[14] & 15]) + frame[15:]

    frames = [versioned(six(100, 0)), six(100, 100), versioned(six(100, 100))]
    assert coalesce(engine("gro"), frames).members() == [[0, 2], [1]]


def test_gro_a11_a_jumbo_header_goes_in(engine):
    frames = [six(20_000, 20_000 * at) for at in range(4)]
    (skb,) = coalesce(engine("gro"), frames, max_size=200_000).table

    assert (skb["segs"], skb["len_bytes"]) == (4, 40 + 8 + 20 + 80_000)
