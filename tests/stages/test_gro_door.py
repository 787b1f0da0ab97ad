"""`emu.coalesce.gro`: what it takes, what it answers, and the octets of the skbs."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from emu.coalesce import gro
from emu.dtypes import GroResult, IpSummed
from emu.errors import ConfigError
from emu.intake import from_frames
from tests.strategies import frames as make
from tests.strategies.gro import datagram, segment, train

ENGINES = pytest.mark.parametrize("engine", ["core", "ref"])


@ENGINES
def test_without_polls_there_are_full_ones(engine):
    skbs = gro(train(130, payload=100), engine=engine)

    assert skbs.table["segs"].tolist() == [64, 64, 2]
    assert len(skbs) == 3
    assert skbs.members()[2] == [128, 129]
    assert set(skbs.result.tolist()) == {GroResult.HELD, GroResult.MERGED}


@ENGINES
def test_polls_are_counts(engine):
    packets = train(6, payload=100)

    for polls in ([2, 0, 4], np.array([2, 0, 4], dtype=np.uint8)):
        assert gro(packets, polls=polls, engine=engine).table["segs"].tolist() == [2, 4]


@ENGINES
def test_jiffies_come_from_arrivals(engine):
    packets = train(192, payload=10)
    arrival = np.repeat(np.array([0, 10**8, 10**9]), 64)  # 0, 0.1 ms, 1 ms
    packets = packets.replace(arrival_ps=arrival)

    assert gro(packets, hz=1000, engine=engine).table["segs"].tolist() == [192]
    assert gro(packets, hz=1000, jiffies=[0, 1, 2], engine=engine).table["segs"].tolist() == [
        128,
        64,
    ]


@ENGINES
def test_the_kernel_decides_on_fixed_ids(engine):
    packets = from_frames([segment(100, 0, frag=0), segment(100, 100, frag=0)])

    assert len(gro(packets, engine=engine)) == 1
    assert len(gro(packets, kernel="legacy", engine=engine)) == 2


@ENGINES
def test_settings_of_the_device(engine):
    packets = from_frames([datagram(1000)] * 4)

    assert len(gro(packets, engine=engine)) == 4
    forwarded = gro(packets, rx_udp_gro_forwarding=True, ipv4_max_size=3100, engine=engine)
    assert forwarded.table["segs"].tolist() == [3, 1]
    hashed = from_frames([segment(100, 0), segment(100, 100)], skb_hash=[1, 2])
    assert len(gro(hashed, engine=engine)) == 2
    assert len(gro(hashed, cpumap="merged", engine=engine)) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"polls": [1]}, "1 packets"),
        ({"polls": [[2]]}, "whole numbers"),
        ({"polls": [2.0]}, "whole numbers"),
        ({"polls": [2], "jiffies": [1, 2]}, "2 values"),
        ({"hz": 0}, "hz: got 0"),
        ({"hz": "fast"}, "hz"),
        ({"max_size": 0}, "max_size"),
        ({"kernel": "6.99"}, "kernel"),
        ({"engine": "cores"}, "core"),
    ],
)
def test_mistakes_are_one_line(arguments, message):
    with pytest.raises(ConfigError, match=message) as caught:
        gro(train(2), **arguments)

    assert "\n" not in str(caught.value)


def check_frame(frame, family, proto):
    """Lengths say what is there, the IP sum is right, the transport sum is the pseudo header's."""
    l4 = 34 if family == 4 else 54
    if family == 4:
        assert int.from_bytes(frame[16:18], "big") == len(frame) - 14
        assert make.internet_sum(frame[14:34]) == 0
        addresses = frame[26:34]
    else:
        assert int.from_bytes(frame[18:20], "big") == len(frame) - 54
        addresses = frame[22:54]
    pseudo = addresses + struct.pack(">II", len(frame) - l4, proto)
    at = l4 + (16 if proto == 6 else 6)
    assert int.from_bytes(frame[at : at + 2], "big") == ~make.internet_sum(pseudo) & 0xFFFF


@ENGINES
@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("proto", [6, 17])
def test_frames_of_joined_skbs(engine, version, proto):
    build = {
        6: lambda n: segment(50, 50 * n, version=version),
        17: lambda n: datagram(50, version=version),
    }
    packets = from_frames([build[proto](number) for number in range(20)])
    skbs = gro(packets, rx_udp_gro_forwarding=True, engine=engine)

    (frame,) = skbs.frames()
    assert skbs.table["ip_summed"].tolist() == [IpSummed.PARTIAL]
    assert len(frame) == 14 + skbs.table["len_bytes"][0]
    assert frame.endswith(b"a" * 1000)
    check_frame(frame, version, proto)


def test_frames_of_single_skbs_are_the_packets():
    sent = [segment(0, 0), segment(100, 0, sport=9), b"\1\2\3", b""]

    assert gro(from_frames(sent)).frames() == [sent[0], *sent[2:], sent[1]]


def test_frames_above_64_kib_have_a_jumbo_header():
    packets = from_frames([segment(20_000, 20_000 * at, version=6) for at in range(4)])
    (frame,) = gro(packets, max_size=200_000).frames()

    assert frame[18:21] == b"\0\0\0"  # payload_len 0, a hop-by-hop header follows
    assert frame[54:62] == bytes((6, 0, 0xC2, 4)) + struct.pack(">I", len(frame) - 54)
    assert frame[62:64] == struct.pack(">H", 1500)


def test_frames_need_octets():
    with pytest.raises(ConfigError, match=r"packet 0: got 0 of 1502 octets"):
        gro(train(2)).frames()
    snapped = from_frames([segment(100, 0)[:80]], wire_bytes=154)
    with pytest.raises(ConfigError, match=r"80 of 154"):
        gro(snapped).frames()


def test_to_pandas():
    pytest.importorskip("pandas")
    frame = gro(train(3, payload=100)).to_pandas()

    assert frame["segs"].tolist() == [3]
    assert "pad" not in frame
