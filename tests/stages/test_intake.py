"""The doors for frames: what may be given, and what comes of it."""

from __future__ import annotations

import numpy as np
import pytest

from emu.dtypes import HashType, IpSummed, PacketFlag
from emu.errors import ConfigError
from emu.intake import dissect, from_blob, from_frames
from tests.strategies import frames as make

FRAMES = [make.tcp4(1), make.udp6(2, b"x"), make.tag(make.tcp4(3), 0x6005), b""]


@pytest.fixture(params=["core", "ref"])
def engine_name(request):
    return request.param


def test_dissect_is_from_frames():
    assert dissect is from_frames


def test_table_of_frames(engine_name):
    table = from_frames(FRAMES, arrival_ps=[0, 10, 20, 30], nic=2, engine=engine_name)

    assert table.arrival_ps.tolist() == [0, 10, 20, 30]
    assert table.nic.tolist() == [2, 2, 2, 2]
    assert table.family.tolist() == [4, 6, 4, 0]
    assert [table.frame(i) for i in range(4)] == FRAMES
    assert table.ip_summed.tolist() == [IpSummed.NONE] * 4
    assert len(from_frames([], engine=engine_name)) == 0


def test_names_become_codes(engine_name):
    table = from_frames(
        FRAMES[:2],
        ip_summed=["unnecessary", "none"],
        csum_level=[1, 0],
        skb_hash=[0xFFFFFFFF, 0],
        hash_type=["sw-l4", "none"],
        engine=engine_name,
    )

    assert table.ip_summed.tolist() == [IpSummed.UNNECESSARY, IpSummed.NONE]
    assert table.csum_level.tolist() == [1, 0]
    assert table.skb_hash.tolist() == [0xFFFFFFFF, 0]
    assert table.hash_type.tolist() == [HashType.SW_L4, HashType.NONE]


def test_raw_ip_and_snapped(engine_name):
    frame = make.tcp4(1, bytes(100))[14:]
    table = from_frames([frame[:40]], link="raw-ip", wire_bytes=len(frame), engine=engine_name)

    assert table.family.tolist() == [4]
    assert table.payload_bytes.tolist() == [100]
    assert table.flags.tolist() == [PacketFlag.HAS_PORTS | PacketFlag.SNAP_CUT]


def test_accelerated_tag_leaves_the_frame_but_not_the_flow_key(engine_name):
    double = make.tag(make.tcp4(4, b"y"), 7)
    tagged = [make.tag(double, 0x6005, 0x88A8), FRAMES[2], FRAMES[0]]
    inside = from_frames(tagged, engine=engine_name)
    taken = from_frames(tagged, vlan_accel=True, engine=engine_name)

    assert [taken.frame(i) for i in range(3)] == [double, make.tcp4(3), FRAMES[0]]
    again = from_frames([double, make.tcp4(3), FRAMES[0]], engine=engine_name)
    for name in ("mac", "l3_off", "l4_off", "wire_bytes", "cap_bytes", "sport", "payload_bytes"):
        assert np.array_equal(taken.columns[name], again.columns[name]), name
    for name in ("vlan_tci", "vlan_tpid", "ethertype", "flow_key"):
        assert np.array_equal(taken.columns[name], inside.columns[name]), name
    assert np.array_equal(taken.flow_keys, inside.flow_keys)
    assert [flag & PacketFlag.VLAN_META for flag in taken.flags.tolist()] == [128, 128, 0]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"link": "tokenring"}, "link: got 'tokenring'; allowed: ethernet, raw-ip"),
        ({"nic": [1, 2]}, "nic: got an array of shape"),
        ({"nic": -1}, "nic: got -1; allowed: 0 to 65535"),
        ({"arrival_ps": [0.5] * 4}, "arrival_ps: got float64 values"),
        ({"hash_type": ["l4", "l5", "l4", "l4"]}, "hash_type: got 'l5'"),
        ({"wire_bytes": 1}, "frame 0: cap_bytes 54 above wire_bytes 1"),
        ({"engine": "cores"}, "engine: got 'cores'"),
    ],
)
def test_mistakes_are_one_line(change, message):
    with pytest.raises(ConfigError) as caught:
        from_frames(FRAMES, **{"engine": "ref", **change})

    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_blob_is_taken_as_it_is(engine_name):
    blob = np.frombuffer(b"".join(FRAMES[:2]), dtype=np.uint8)
    lengths = [len(frame) for frame in FRAMES[:2]]
    table = from_blob(blob, [0, lengths[0]], lengths, lengths, engine=engine_name)

    assert [table.frame(i) for i in range(2)] == FRAMES[:2]
    assert np.shares_memory(table.blob, blob)
