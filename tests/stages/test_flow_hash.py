"""The stack's own flow hash (receive.md 2.2, 2.4)."""

from __future__ import annotations

from ipaddress import ip_address

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.errors import ConfigError
from emu.intake import from_frames
from tests.strategies.frames import any_frames, eth, ipv4, ipv6, tag, tcp, udp

SECRET = bytes(range(16))
A, B = ip_address("192.168.1.200").packed, ip_address("192.168.1.100").packed
A6, B6 = ip_address("fdaa::2").packed, ip_address("fdaa::1").packed


def tcp4(source, sport, target, dport):
    return eth(0x0800, ipv4(6, source, target, tcp(source, target, sport, dport)))


ROW_1 = tcp4(A, 1500, B, 8000)
M1, M2 = ip_address("66.9.149.187").packed, ip_address("161.142.100.80").packed
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


def test_siphash_2_4_of_its_authors(engine):
    data = np.arange(15, dtype=np.uint8)[None]

    assert int(engine("flow_hash").siphash(SECRET, data)[0]) == 0xA129CA6149BE45E5


@pytest.mark.parametrize("name", VECTORS)
def test_flow_hash_2_4_vectors(engine, name):
    frame, expected, l4 = VECTORS[name]

    hashes, l4s = engine("flow_hash").flow_hash_packets(from_frames([frame]), SECRET)

    assert hashes.tolist() == [expected]
    assert l4s.tolist() == [l4]


def test_flow_hash_of_a_vlan_without_its_dei_bit_is_the_same(engine):
    with_dei = from_frames([tag(ROW_1, 5 | 3 << 13 | 1 << 12)])

    assert engine("flow_hash").flow_hash_packets(with_dei, SECRET)[0].tolist() == [0x334A84A0]


@pytest.mark.parametrize("door", ["siphash", "flow_hash_packets"])
def test_a_key_of_another_length_is_refused(engine, door):
    stage = engine("flow_hash")
    with pytest.raises(ConfigError, match="16 bytes"):
        if door == "siphash":
            stage.siphash(b"short", np.zeros((1, 8), dtype=np.uint8))
        else:
            stage.flow_hash_packets(from_frames([ROW_1]), b"short")
    with pytest.raises(ConfigError, match=r"uint8\[n, w\]"):
        stage.siphash(SECRET, np.zeros(8, dtype=np.uint8))


@given(
    frames=st.lists(any_frames(), min_size=1, max_size=8), key=st.binary(min_size=16, max_size=16)
)
def test_core_and_reference_agree(frames, key):
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
