"""GRO of IP in IP (GRO-14, GRO-A9, GRO-C3) and of tags in the frame (GRO-6, GRO-7)."""

from __future__ import annotations

import pytest

from emu.dtypes import GroResult, PacketFlag
from emu.intake import from_frames, inner_packets
from tests.strategies import frames as make
from tests.strategies.gro import carry, chain, coalesce, datagram, segment

HELD, MERGED, NORMAL = GroResult.HELD, GroResult.MERGED, GroResult.NORMAL
IPXIP4, IPXIP6, FIXED, FIXED_INNER = 1 << 8, 1 << 9, 1 << 30, 1 << 31
TCPV4, TCPV6, UDP_L4, FRAGLIST = 1 << 0, 1 << 4, 1 << 17, 1 << 18


def stream(version: int, count: int = 3, **header):
    return [
        segment(100, 100 * at, version=version, **({"ident": at} if version == 4 else {}), **header)
        for at in range(count)
    ]


@pytest.mark.parametrize(
    ("outer", "inner", "bits"),
    [
        (4, 4, IPXIP4 | TCPV4),
        (4, 6, IPXIP4 | TCPV6),
        (6, 4, IPXIP6 | TCPV4),
        (6, 6, IPXIP6 | TCPV6),
    ],
)
def test_gro_14_one_level_is_joined(engine, outer, inner, bits):
    skbs = coalesce(engine("gro"), chain(stream(inner), outer))
    [skb] = skbs.table

    assert skb["gso_type"] == bits
    assert (skb["gso_size"], skb["gso_segs"]) == (100, 3)
    assert len(skbs.frames()[0]) == skb["len_bytes"] + 14
    assert skb["csum_start"] == 14 + sum(20 if version == 4 else 40 for version in (outer, inner))


def test_gro_14_both_lengths_and_the_outer_sum_are_brought_up_to_date(engine):
    skbs = coalesce(engine("gro"), chain(stream(4), 4))
    again = from_frames(skbs.frames())

    assert not again.flags[0] & (PacketFlag.IP_CSUM_BAD | PacketFlag.MALFORMED_LEN)
    inner, _ = inner_packets(again)
    assert not inner.flags[0] & (PacketFlag.IP_CSUM_BAD | PacketFlag.MALFORMED_LEN)


def test_gro_14_a_second_level_goes_by(engine):
    frames = [carry(frame, ident=at) for at, frame in enumerate(chain(stream(4), 4))]

    assert coalesce(engine("gro"), frames).result.tolist() == [NORMAL] * 3


def test_gro_14_octets_that_were_not_kept_go_by(engine):
    packets = from_frames(chain(stream(4), 4)).replace(
        **{"frame_off": from_frames(stream(4)).frame_off * 0 - 1}
    )

    assert coalesce(engine("gro"), packets).result.tolist() == [NORMAL] * 3


@pytest.mark.parametrize(
    ("outer_ids", "inner_ids", "bits"),
    [
        ((7, 7), (1, 2), FIXED),
        ((7, 8), (1, 1), FIXED_INNER),
        ((7, 7), (1, 1), FIXED | FIXED_INNER),
        ((7, 8), (1, 2), 0),
        ((7, 9), (1, 2), None),
        ((7, 8), (1, 3), None),
    ],
)
def test_gro_14_outer_ids_have_a_rule_of_their_own(engine, outer_ids, inner_ids, bits):
    frames = [
        carry(segment(100, 100 * at, ident=inner_ids[at]), ident=outer_ids[at]) for at in (0, 1)
    ]
    skbs = coalesce(engine("gro"), frames)
    said = int(skbs.table["gso_type"][0])

    assert (said & ~(IPXIP4 | TCPV4) if len(skbs) == 1 else None) == bits


@pytest.mark.parametrize(("frag", "joins"), [(0x4000, True), (0, False)])
def test_gro_14_outer_is_not_looked_at_with_df_in_older_kernels(engine, frag, joins):
    frames = [
        carry(segment(100, 100 * at, ident=at), ident=ident, frag=frag)
        for at, ident in enumerate((7, 99))
    ]

    assert (len(coalesce(engine("gro"), frames, outer_id_unchecked=1)) == 1) == joins
    assert len(coalesce(engine("gro"), frames)) == 2


def test_gro_c3_fixed_outer_ids_of_6in4_are_not_said(engine):
    frames = [carry(segment(100, 100 * at, version=6), ident=7) for at in (0, 1)]
    [skb] = coalesce(engine("gro"), frames).table

    assert skb["gso_type"] == IPXIP4 | TCPV6


def test_gro_c3_older_kernels_have_one_bit_for_either(engine):
    frames = [carry(segment(100, 100 * at, ident=1), ident=7 + at) for at in (0, 1)]
    [skb] = coalesce(engine("gro"), frames, old_gso_bits=1).table

    assert skb["gso_type"] == IPXIP4 | TCPV4 | 1 << 3


@pytest.mark.parametrize("odd", [{"ttl": 9}, {"tos": 2}])
def test_gro_11_holds_of_the_outer_header_too(engine, odd):
    frames = [carry(segment(100, 0)), carry(segment(100, 100, ident=1), ident=1, **odd)]

    assert coalesce(engine("gro"), frames).members() == [[0], [1]]


def test_gro_a9_udp_in_a_tunnel_is_chained_and_called_plain(engine):
    frames = chain([datagram(100, ident=at) for at in range(2)], 4)
    [skb] = coalesce(engine("gro"), frames, fraglist=1).table

    assert skb["gso_type"] == IPXIP4 | UDP_L4


def test_gro_a9_tcp_in_a_tunnel_is_a_fraglist(engine):
    [skb] = coalesce(engine("gro"), chain(stream(4), 4), fraglist=1).table

    assert skb["gso_type"] == IPXIP4 | TCPV4 | FRAGLIST


def tagged(tci: int, count: int = 2, tpid: int = 0x8100):
    return [make.tag(frame, tci, tpid) for frame in stream(4, count)]


def test_gro_6_tags_in_the_frame_need_the_module(engine):
    assert coalesce(engine("gro"), tagged(5)).result.tolist() == [NORMAL, NORMAL]
    assert coalesce(engine("gro"), tagged(5), vlan_module=1).result.tolist() == [HELD, MERGED]


def test_gro_6_another_tag_is_another_flow(engine):
    frames = [tagged(5, 3)[0], tagged(6, 3)[1], tagged(5, 3)[2]]
    skbs = coalesce(engine("gro"), frames, vlan_module=1)

    assert [result == MERGED for result in skbs.result] == [False, False, False]
    assert len(skbs) == 3


def test_gro_7_tags_count_and_ipv4_gives_the_limit(engine):
    frames = [make.tag(frame, 5) for frame in stream(6, 2)]
    whole = 4 + 40 + 20 + 200
    sizes = [
        len(coalesce(engine("gro"), frames, vlan_module=1, ipv4_max_size=limit, max_size=1))
        for limit in (whole, whole + 1)
    ]

    assert sizes == [2, 1]
