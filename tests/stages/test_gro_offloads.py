"""GRO of what a device has begun: GSO packets, partial checksums (R-5.2.4, GRO-13, 19, 27, 46)."""

from __future__ import annotations

import pytest

from emu.dtypes import GroResult, IpSummed
from tests.strategies.gro import coalesce, datagram, segment, spoil

HELD, MERGED, NORMAL = GroResult.HELD, GroResult.MERGED, GroResult.NORMAL
TCPV4, DODGY, UDP_L4 = 1 << 0, 1 << 1, 1 << 17


def gso(size: int, segs: int, kind: int = TCPV4):
    return {"gso_size": size, "gso_segs": segs, "gso_type": kind}


def columns(*rows):
    """One list per column."""
    return {name: [row.get(name, 0) for row in rows] for name in gso(0, 0)}


def test_r_5_2_4_trusted_tcp_joins_as_its_segments(engine):
    """No recording has GSO input that is not from user space: from the rule alone."""
    frames = [segment(200, 0), segment(200, 200, ident=2)]
    skbs = coalesce(engine("gro"), frames, intake=columns(gso(100, 2), gso(100, 2)))
    [skb] = skbs.table

    assert (skb["gso_segs"], skb["gso_size"], skb["segs"]) == (4, 100, 2)


@pytest.mark.parametrize("kind", [TCPV4 | DODGY, UDP_L4])
def test_r_5_2_4_others_end_their_flow(engine, kind):
    frames = [segment(100, 0), segment(200, 100, ident=1)]
    skbs = coalesce(engine("gro"), frames, intake=columns({}, gso(100, 2, kind)))

    assert skbs.members() == [[0], [1]]
    assert skbs.result.tolist() == [HELD, NORMAL]
    assert (skbs.table["gso_type"][1], skbs.table["gso_segs"][1]) == (kind, 2)


@pytest.mark.parametrize(("ident", "joins"), [(1, False), (2, True), (0, False)])
def test_gro_13_ids_go_on_behind_all_segments(engine, ident, joins):
    frames = [segment(200, 0), segment(100, 200, ident=ident)]
    skbs = coalesce(engine("gro"), frames, intake=columns(gso(100, 2), {}))

    assert (len(skbs) == 1) == joins


@pytest.mark.parametrize(("size", "joins"), [(100, True), (50, False)])
def test_gro_27_gso_sizes_must_be_equal(engine, size, joins):
    frames = [segment(100, 0), segment(200, 100, ident=1)]
    skbs = coalesce(engine("gro"), frames, intake=columns({}, gso(size, 200 // size)))

    assert (len(skbs) == 1) == joins


def test_gro_30_a_gso_packet_that_is_not_full_ends(engine):
    frames = [segment(150, 0), segment(100, 150, ident=2)]
    skbs = coalesce(engine("gro"), frames, intake=columns(gso(100, 2), {}))

    assert skbs.result.tolist() == [NORMAL, HELD]


def test_gro_46_udp_gso_completes_its_flow(engine):
    frames = [datagram(100), datagram(200)]
    intake = columns({}, gso(100, 2, UDP_L4))
    skbs = coalesce(engine("gro"), frames, intake=intake, udp_forwarding=1)

    assert skbs.members() == [[0], [1]]
    assert skbs.result.tolist() == [HELD, NORMAL]


@pytest.mark.parametrize(("start", "joins"), [(34, True), (54, True), (14, False)])
def test_gro_19_partial_is_trusted_from_its_own_header_on(engine, start, joins):
    """No recording has a sum that begins before the transport header: from the rule alone."""
    frames = [segment(100, 0), spoil(segment(100, 100, ident=1), 60)]
    intake = {"ip_summed": "partial", "csum_start": start, "csum_off": 16}
    skbs = coalesce(engine("gro"), frames, intake=intake)

    assert (len(skbs) == 1) == joins


def test_gro_a6_partial_stays_as_it_came(engine):
    intake = {"ip_summed": "partial", "csum_start": 34, "csum_off": 16}
    [skb] = coalesce(engine("gro"), [segment(100, 0)], intake=intake).table

    assert (skb["ip_summed"], skb["csum_start"], skb["csum_off"]) == (IpSummed.PARTIAL, 34, 16)
