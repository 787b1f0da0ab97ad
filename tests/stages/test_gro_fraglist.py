"""GRO that chains instead of joining: rx-gro-list (GRO-41, GRO-45, GRO-C4..C6, A10)."""

from __future__ import annotations

import pytest

from emu.dtypes import GroResult, IpSummed
from tests.strategies.gro import FIN, PSH, coalesce, datagram, segment

MERGED, HELD, NORMAL = GroResult.MERGED, GroResult.HELD, GroResult.NORMAL
TCPV4, TCPV6, UDP_L4, FRAGLIST = 1 << 0, 1 << 4, 1 << 17, 1 << 18


def chained(engine, frames, **options):
    return coalesce(engine("gro"), frames, fraglist=1, **options)


@pytest.mark.parametrize(("version", "bits"), [(4, TCPV4), (6, TCPV6)])
def test_gro_a10_a_fraglist_says_so_and_keeps_its_headers(engine, version, bits):
    frames = [segment(100, 0, version=version), segment(100, 100, version=version)]
    [skb] = (skbs := chained(engine, frames)).table

    assert (skb["gso_type"], skb["gso_segs"], skb["gso_size"]) == (bits | FRAGLIST, 2, 100)
    assert (skb["ip_summed"], skb["csum_level"]) == (IpSummed.UNNECESSARY, 1)
    assert (skb["csum_start"], skb["csum_off"]) == (0, 0)
    assert skbs.seglens() == [[100]]
    [frame] = skbs.frames()
    at = len(frames[0]) - 120
    assert frame[at : at + 20] == frames[0][at : at + 20]  # the TCP header, checksum included
    assert frame[at + 20 :] == frames[0][at + 20 :] + frames[1][at + 20 :]


def test_gro_a10_joined_packets_are_no_fraglist(engine):
    [skb] = coalesce(engine("gro"), [segment(100, 0), segment(100, 100)]).table

    assert not skb["gso_type"] & FRAGLIST


def test_gro_45_socket_an_established_one_here_means_joining(engine):
    frames = [segment(100, 0), segment(100, 100)]

    assert chained(engine, frames).table["gso_type"][0] & FRAGLIST
    assert not chained(engine, frames, sock=1).table["gso_type"][0] & FRAGLIST


def test_gro_45_held_the_first_segment_decides_for_all(engine):
    frames = [segment(100, 0), segment(100, 100)]

    assert chained(engine, frames, sock=[0, 1]).table["gso_type"][0] & FRAGLIST
    assert not chained(engine, frames, sock=[1, 0]).table["gso_type"][0] & FRAGLIST


def test_gro_45_kernels_without_tcp_fraglists_join(engine):
    [skb] = chained(engine, [segment(100, 0), segment(100, 100)], tcp_fraglist=0).table

    assert not skb["gso_type"] & FRAGLIST


@pytest.mark.parametrize("flag", [PSH, FIN])
def test_gro_45_flags_other_fin_or_psh_is_not_chained(engine, flag):
    skbs = chained(engine, [segment(100, 0), segment(100, 100, flags=flag)])

    assert skbs.members() == [[0], [1]]


def test_gro_45_state_other_checksum_states_are_not_chained(engine):
    """No recording has it: from the rule alone."""
    frames = [segment(100, 0), segment(100, 100)]
    intake = {"ip_summed": "unnecessary", "csum_level": [0, 1]}

    assert chained(engine, frames, intake=intake).members() == [[0], [1]]
    assert chained(engine, frames, intake={**intake, "csum_level": 1}).members() == [[0, 1]]


def test_gro_45_count_64_segments_are_the_most(engine):
    """No recording has it for TCP: from the rule alone."""
    skbs = chained(engine, [segment(10, 10 * at) for at in range(66)], polls=[66])

    assert [len(members) for members in skbs.members()] == [64, 2]


def test_gro_c5_a_shorter_segment_is_chained_and_ends(engine):
    frames = [segment(100, 0), segment(50, 100), segment(100, 150)]

    assert chained(engine, frames).members() == [[0, 1], [2]]


@pytest.mark.parametrize("proto", ["tcp", "udp"])
def test_gro_c4_a_fraglist_stays_below_64_kib_with_headers(engine, proto):
    """The joined packet's own headers count, though they are not in what the skb holds then."""
    make, head = (segment, 40) if proto == "tcp" else (lambda size, _: datagram(size), 28)
    size = 8000
    fit = [make(size, size * at) for at in range(8)]
    last = 65536 - (head + 8 * size) - head - 1  # the largest that still fits
    answers = [
        chained(engine, [*fit, make(last + more, 8 * size)], polls=[9]).members() for more in (0, 1)
    ]

    assert answers == [[[*range(9)]], [[*range(8)], [8]]]


def test_gro_c6_another_checksum_state_goes_by(engine):
    frames = [datagram(100), datagram(100), datagram(100)]
    intake = {"ip_summed": "unnecessary", "csum_level": [0, 1, 0]}
    skbs = chained(engine, frames, intake=intake)

    assert skbs.members() == [[1], [0, 2]]
    assert skbs.result.tolist() == [HELD, NORMAL, MERGED]


def test_gro_41_a_datagram_that_is_to_be_joined_ends_a_fraglist(engine):
    frames = [datagram(100), datagram(100)]
    skbs = chained(engine, frames, sock=[0, 2])

    assert skbs.members() == [[0], [1]]
    assert skbs.result.tolist() == [HELD, NORMAL]
    assert chained(engine, frames, sock=2).members() == [[0, 1]]


def test_gro_38_a_fraglist_needs_no_forwarding(engine):
    [skb] = chained(engine, [datagram(100), datagram(100)]).table

    assert skb["gso_type"] == UDP_L4 | FRAGLIST


def test_gro_37_a_udp_gro_socket_is_asked_for(engine):
    """Without a feature only a socket with UDP_GRO makes datagrams join."""
    frames = [datagram(100), datagram(100)]
    joined = [len(coalesce(engine("gro"), frames, sock=sock)) for sock in (0, 1, 2)]

    assert joined == [2, 2, 1]
    assert len(coalesce(engine("gro"), frames, sock=1, udp_forwarding=1)) == 2
