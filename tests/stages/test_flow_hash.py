"""The stack's own flow hash (receive.md 2.2, 2.4)."""

from __future__ import annotations

from ipaddress import ip_address

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.dtypes import FLOW_KEY, PacketFlag
from emu.errors import ConfigError
from emu.intake import from_frames
from emu.model.packets import Packets
from tests.strategies import hashing
from tests.strategies.frames import any_frames, eth, ipv4, ipv6, tag, tcp, udp
from tests.strategies.hashing import Row, table

SECRET = bytes(range(16))
ZERO_SECRET = bytes.fromhex("a033848c" + "00" * 12)
ROW_1_BLOCK = bytes.fromhex(
    "080006000000000000000000000000000000000000000000000000001f4005dc00000000"
    "c0a80164c0a801c800000000"
)
A, B = ip_address("192.168.1.200").packed, ip_address("192.168.1.100").packed
A6, B6 = ip_address("fdaa::2").packed, ip_address("fdaa::1").packed


def tcp4(source, sport, target, dport):
    return eth(0x0800, ipv4(6, source, target, tcp(source, target, sport, dport)))


ROW_1 = tcp4(A, 1500, B, 8000)
M1, M2 = ip_address("66.9.149.187").packed, ip_address("161.142.100.80").packed
V4 = Row(4, 6, PacketFlag.HAS_PORTS, A, B, 1500, 8000)
VECTORS = {
    "tcp": (ROW_1, 0xB3D5FB99, 1),
    "tcp back": (tcp4(B, 8000, A, 1500), 0xB3D5FB99, 1),
    "addresses swapped": (tcp4(B, 1500, A, 8000), 0xB3D5FB99, 1),
    "ports swapped": (tcp4(A, 8000, B, 1500), 0xB3D5FB99, 1),
    "udp": (eth(0x0800, ipv4(17, A, B, udp(A, B, 1500, 8000))), 0xE711CB3D, 1),
    "first fragment": (
        eth(0x0800, ipv4(6, A, B, tcp(A, B, 1500, 8000), frag=0x2000)),
        0x451ADC4A,
        0,
    ),
    "later fragment": (eth(0x0800, ipv4(6, A, B, bytes(32), frag=3)), 0x451ADC4A, 0),
    "icmp": (eth(0x0800, ipv4(1, A, B, b"\x08" + bytes(15))), 0x101490BF, 0),
    "vlan": (tag(ROW_1, 5 | 3 << 13), 0x334A84A0, 1),
    "v6": (eth(0x86DD, ipv6(6, A6, B6, tcp(A6, B6, 1500, 8000))), 0x2CCF81C2, 1),
    "v6 label": (eth(0x86DD, ipv6(6, A6, B6, tcp(A6, B6, 9, 99), label=0x12345)), 0xC4334247, 1),
    "arp": (eth(0x0806, bytes(46)), 0x145FFB0F, 0),
    "microsoft": (tcp4(M1, 2794, M2, 1766), 0x326DE8C4, 1),
}


def test_siphash_of_its_authors(engine):
    data = np.arange(15, dtype=np.uint8)[None]

    assert int(engine("flow_hash").siphash(SECRET, data)[0]) == 0xA129CA6149BE45E5


@pytest.mark.parametrize("name", VECTORS)
def test_r_2_4_vectors(engine, name):
    frame, expected, l4 = VECTORS[name]

    hashes, l4s = engine("flow_hash").flow_hash_packets(from_frames([frame]), SECRET)

    assert hashes.tolist() == [expected]
    assert l4s.tolist() == [l4]


def test_flow_hash_of_a_vlan_without_its_dei_bit_is_the_same(engine):
    with_dei = from_frames([tag(ROW_1, 5 | 3 << 13 | 1 << 12)])

    assert engine("flow_hash").flow_hash_packets(with_dei, SECRET)[0].tolist() == [0x334A84A0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda stage: stage.siphash(b"short", [[1]]), "key: got 5 bytes; allowed: 16 bytes"),
        (lambda stage: stage.siphash("00" * 8, [[1]]), "got a str; allowed: bytes"),
        (lambda stage: stage.siphash(SECRET, [1, 2]), r"data: got shape \(2,\); allowed: shape"),
        (lambda stage: stage.siphash(SECRET, [[1], [300]]), r"data\[1\]: got 300"),
        (lambda stage: stage.siphash(SECRET, [[0.5]]), "got an array of float64"),
        (lambda stage: stage.flow_hash_packets(table([V4]), bytes(17)), "got 17 bytes"),
    ],
)
def test_what_does_not_fit_is_refused(engine, call, message):
    with pytest.raises(ConfigError, match=message):
        call(engine("flow_hash"))


def test_no_packets_have_no_hashes(engine):
    hashes, l4 = engine("flow_hash").flow_hash_packets(table([]), SECRET)

    assert (hashes.tolist(), l4.tolist()) == ([], [])
    assert engine("flow_hash").siphash(SECRET, np.zeros((0, 40), np.uint8)).shape == (0,)


@pytest.mark.parametrize("length", [40, 44, 48, 72])
def test_r_2_2_a_flow_key_is_hashed_by_its_own_length(engine, length):
    """A row of flow_keys stands for the columns: its octets, its length, its l4."""
    packets = table([V4])
    keys = np.zeros(1, dtype=FLOW_KEY)
    keys["block"][0] = np.arange(72)
    keys["len"], keys["l4"] = length, 1
    packets = Packets({**packets.columns, "flow_key": np.zeros(1, dtype=np.int32)}, flow_keys=keys)
    stage = engine("flow_hash")

    hashes, l4 = stage.flow_hash_packets(packets, SECRET)

    whole = stage.siphash(SECRET, np.arange(length, dtype=np.uint8)[None])
    assert hashes.tolist() == [int(whole[0]) & 0xFFFFFFFF]
    assert l4.tolist() == [1]


@pytest.mark.parametrize("length", [0, 8, 42, 76, 255])
def test_r_2_2_a_flow_key_of_another_length_is_refused(engine, length):
    packets = table([V4])
    keys = np.zeros(1, dtype=FLOW_KEY)
    keys["len"] = length
    packets = Packets({**packets.columns, "flow_key": np.zeros(1, dtype=np.int32)}, flow_keys=keys)

    with pytest.raises(ConfigError, match=rf"flow_keys\[0\]: len: got {length}; allowed: 40"):
        engine("flow_hash").flow_hash_packets(packets, SECRET)


def test_r_2_2_zero_becomes_one(engine):
    """A secret under which the low 32 bits of this flow's SipHash are 0, found by search."""
    stage = engine("flow_hash")
    block = np.frombuffer(ROW_1_BLOCK, dtype=np.uint8)[None]

    hashes, _ = stage.flow_hash_packets(from_frames([ROW_1]), ZERO_SECRET)

    assert int(stage.siphash(ZERO_SECRET, block)[0]) & 0xFFFFFFFF == 0
    assert hashes.tolist() == [1]


@given(row=hashing.rows(), key=hashing.secrets)
def test_r_2_2_all_four_orders_hash_alike(row, key):
    from emu._core import flow_hash

    there = table(
        [
            row,
            row._replace(saddr=row.daddr, daddr=row.saddr),
            row._replace(sport=row.dport, dport=row.sport),
            row._replace(saddr=row.daddr, daddr=row.saddr, sport=row.dport, dport=row.sport),
        ]
    )

    hashes, l4 = flow_hash.flow_hash_packets(there, key)

    assert len(set(hashes.tolist())) == 1
    assert set(l4.tolist()) == {int(row.sport != 0 or row.dport != 0)}
    assert hashes[0] != 0


@given(rows=st.lists(hashing.rows(), max_size=12), key=hashing.secrets)
def test_core_and_reference_agree_on_columns(rows, key):
    from emu._core import flow_hash as core
    from emu.ref import flow_hash as ref

    packets = table(rows)
    for left, right in zip(
        core.flow_hash_packets(packets, key), ref.flow_hash_packets(packets, key), strict=True
    ):
        assert left.dtype == right.dtype
        assert left.tolist() == right.tolist()


def test_every_rule_is_asked_both_ways():
    from emu.ref import flow_hash
    from emu.ref.record import Journal

    journal = Journal()

    flow_hash.flow_hash_packets(from_frames([ROW_1, tag(ROW_1, 5)]), SECRET, journal)

    assert {entry.said for entry in journal.entries if entry.name == "R-2.2"} == {True, False}


@given(
    frames=st.lists(any_frames(), min_size=1, max_size=8), key=st.binary(min_size=16, max_size=16)
)
def test_core_and_reference_agree_on_frames(frames, key):
    from emu._core import flow_hash as core
    from emu.ref import flow_hash as ref

    packets = from_frames(frames)
    for left, right in zip(
        core.flow_hash_packets(packets, key), ref.flow_hash_packets(packets, key), strict=True
    ):
        assert left.dtype == right.dtype
        assert left.tolist() == right.tolist()


@given(data=st.binary(max_size=300), key=st.binary(min_size=16, max_size=16))
def test_siphash_of_any_length_agrees(data, key):
    from emu._core import flow_hash as core
    from emu.ref import flow_hash as ref

    row = np.frombuffer(data, dtype=np.uint8)[None]

    assert core.siphash(key, row).tolist() == ref.siphash(key, row).tolist()
