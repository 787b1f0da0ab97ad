"""GRO at the IPv4 header (GRO-8..12)."""

from __future__ import annotations

import pytest

from emu.dtypes import GroResult, IpSummed
from tests.strategies import frames as make
from tests.strategies.gro import coalesce, network, segment, spoil

HELD, MERGED, NORMAL = GroResult.HELD, GroResult.MERGED, GroResult.NORMAL
FIXED = 1 << 30 | 1


def idents(*numbers, frag=0x4000):
    return [segment(100, 100 * at, ident=ident, frag=frag) for at, ident in enumerate(numbers)]


@pytest.mark.parametrize(
    "odd",
    [
        segment(100, 100, frag=0x2000),
        segment(100, 100, frag=0x4001),
        segment(100, 100, ip_options=bytes(4)),
        spoil(segment(100, 100), 24),
        network(4, 47, bytes(40)),
        network(4, 1, bytes(40)),
    ],
    ids=["MF", "offset", "options", "checksum", "GRE", "ICMP"],
)
def test_gro_8_bypass_leaves_its_flow_alone_and_overtakes(engine, odd):
    skbs = coalesce(engine("gro"), [segment(100, 0), odd, segment(100, 100)])

    assert skbs.members() == [[1], [0, 2]]
    assert skbs.result.tolist() == [HELD, NORMAL, MERGED]
    assert skbs.table["ip_summed"][0] == IpSummed.NONE  # nobody looked at its sum


@pytest.mark.parametrize(
    "odd",
    [segment(100, 100) + bytes(6), segment(100, 100)[:-1], segment(100, 100, frag=0xC000)],
    ids=["padding", "cut", "evil bit"],
)
def test_gro_9_soft_flush_completes_its_flow_first(engine, odd):
    skbs = coalesce(engine("gro"), [segment(100, 0), odd, segment(100, 100)])

    assert skbs.members() == [[0], [1], [2]]
    assert skbs.result.tolist() == [HELD, NORMAL, HELD]
    assert skbs.table["ip_summed"].tolist() == [
        IpSummed.UNNECESSARY,
        IpSummed.NONE,
        IpSummed.UNNECESSARY,
    ]


def test_gro_9_alone_it_goes_up(engine):
    assert coalesce(engine("gro"), [segment(100, 0) + bytes(6)]).result.tolist() == [NORMAL]


def test_gro_10_addresses_make_the_flow(engine):
    other = make.eth(0x0800, make.ipv4(6, b"\1\2\3\4", b"\1\2\3\5", make.tcp(
        b"\1\2\3\4", b"\1\2\3\5", 1500, 8000, b"a" * 100, seq=200, ack=100, window=65535
    ), ident=0, ttl=8))  # fmt: skip
    skbs = coalesce(engine("gro"), [segment(100, 0), other, segment(100, 100)])

    assert skbs.members() == [[0, 2], [1]]


@pytest.mark.parametrize("other", [{"ttl": 7}, {"tos": 2}, {"tos": 0x10}, {"frag": 0}])
def test_gro_11_ttl_tos_and_df_end_the_aggregate(engine, other):
    skbs = coalesce(engine("gro"), [segment(100, 0), segment(100, 100, **other)])

    assert skbs.members() == [[0], [1]]
    assert skbs.result.tolist() == [HELD, HELD]


@pytest.mark.parametrize("frag", [0x4000, 0])
@pytest.mark.parametrize(
    ("numbers", "members"),
    [
        ((8, 9), [[0, 1]]),
        ((8, 8), [[0, 1]]),
        ((8, 9, 10), [[0, 1, 2]]),
        ((8, 8, 8), [[0, 1, 2]]),
        ((8, 9, 9), [[0, 1], [2]]),
        ((8, 8, 9), [[0, 1], [2]]),
        ((8, 10), [[0], [1]]),
        ((8, 7), [[0], [1]]),
        ((65535, 0, 1), [[0, 1, 2]]),
    ],
)
def test_gro_12_the_id_stands_still_or_rises(engine, frag, numbers, members):
    skbs = coalesce(engine("gro"), idents(*numbers, frag=frag))

    assert skbs.members() == members


def test_gro_12_fixed_shows_in_the_type(engine):
    assert coalesce(engine("gro"), idents(8, 8)).table["gso_type"].tolist() == [FIXED]
    assert coalesce(engine("gro"), idents(8, 9)).table["gso_type"].tolist() == [1]


def test_gro_12_fixed_needs_df_in_older_kernels(engine):
    older = {"fixed_id_needs_df": 1}

    assert len(coalesce(engine("gro"), idents(8, 8, frag=0), **older)) == 2
    assert len(coalesce(engine("gro"), idents(8, 8), **older)) == 1


def test_gro_c3_only_ipv4_says_fixed(engine):
    four = [segment(100, 0), segment(100, 100)]
    six = [segment(100, 0, version=6), segment(100, 100, version=6)]

    assert coalesce(engine("gro"), four).table["gso_type"].tolist() == [FIXED]
    assert coalesce(engine("gro"), idents(8, 9)).table["gso_type"].tolist() == [1]
    assert coalesce(engine("gro"), six).table["gso_type"].tolist() == [1 << 4]


def test_gro_a1_few_protocols_have_handlers(engine):
    """And IP in IP of zeros is no packet."""
    results = [
        coalesce(engine("gro"), [network(4, proto, bytes(40))]).result[0] for proto in range(6)
    ]

    assert results == [NORMAL] * 6


@pytest.mark.parametrize("kept", [13, 14, 20, 33, 34, 40, 53])
def test_gro_a3_shorter_than_a_header_is_bypass(engine, kept):
    skbs = coalesce(engine("gro"), [segment(100, 0), segment(100, 100)[:kept], segment(100, 100)])

    assert skbs.members() == [[1], [0, 2]]
    assert skbs.table["ip_summed"][0] == IpSummed.NONE
