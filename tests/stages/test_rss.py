"""RSS: Toeplitz, symmetry, fields, indirection (receive.md 1)."""

from __future__ import annotations

from ipaddress import ip_address

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.dtypes import RSS, RSS_FLOWS, HashType, RssField
from emu.errors import ConfigError
from emu.intake import from_frames
from tests.strategies.frames import any_frames, eth, ipv4, ipv6, tcp

KEY = bytes.fromhex(
    "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa"
)
SYMMETRIC_KEY = bytes.fromhex("6d5a" * 20)
# Source, port, destination, port: 2-tuple and 4-tuple hash of Microsoft's verification suite; then with the symmetric
# key, with SYM_XOR, with SYM_OR_XOR (receive.md 1.2).
VECTORS = [
    (
        "66.9.149.187",
        2794,
        "161.142.100.80",
        1766,
        0x323E8FC2,
        0x51CCC178,
        0x9FCC9FCC,
        0xAC2B58CA,
        0xA65524FA,
    ),
    (
        "199.92.111.2",
        14230,
        "65.69.140.83",
        4739,
        0xD718262A,
        0xC626B0EA,
        0x60D760D7,
        0x231AC402,
        0x69D9C235,
    ),
    (
        "24.19.198.95",
        12898,
        "12.22.207.184",
        38024,
        0xD2D0A5DE,
        0x5C2B394A,
        0x3A3E3A3E,
        0xF4298103,
        0x886967E2,
    ),
    (
        "38.27.205.30",
        48228,
        "209.142.163.6",
        2217,
        0x82989176,
        0xAFC7327F,
        0xD26ED26E,
        0x4E18FF80,
        0x021058ED,
    ),
    (
        "153.39.163.191",
        44251,
        "202.188.127.2",
        1303,
        0x5D1809C5,
        0x10E828A2,
        0xF23EF23E,
        0x053876B1,
        0xD9FE70E3,
    ),
    (
        "3ffe:2501:200:1fff::7",
        2794,
        "3ffe:2501:200:3::1",
        1766,
        0x2CC18CD5,
        0x40207D3D,
        0x13EB13EB,
        0x5AE081F3,
        0xAEA5D07D,
    ),
    (
        "3ffe:501:8::260:97ff:fe40:efab",
        14230,
        "ff02::1",
        4739,
        0x0F0C461C,
        0xDDE51BBF,
        0x36913691,
        0x3D12F676,
        0xB7EA4926,
    ),
    (
        "3ffe:1900:4545:3:200:f8ff:fe21:67cf",
        44251,
        "fe80::200:f8ff:fe21:67cf",
        38024,
        0x4B61E985,
        0x02D1FEEF,
        0x08090809,
        0xD36F3942,
        0x79207404,
    ),
]
ALL = RssField.IP_SRC | RssField.IP_DST | RssField.L4_B_0_1 | RssField.L4_B_2_3
ADDRESSES = RssField.IP_SRC | RssField.IP_DST


def words(text):
    return np.frombuffer(ip_address(text).packed.ljust(16, b"\0"), dtype="<u4").astype(np.uint32)


def hash_tuple(rss, key, source, sport, target, dport):
    """One 4-tuple through the door of its family."""
    ports = np.array([sport], dtype=np.uint16), np.array([dport], dtype=np.uint16)
    if ip_address(source).version == 4:
        return int(rss.toeplitz_v4(key, words(source)[:1], words(target)[:1], *ports)[0])
    return int(rss.toeplitz_v6(key, words(source)[None], words(target)[None], *ports)[0])


def rss_row(fields, xfrm=0, indirection=128):
    row = np.zeros(1, dtype=RSS)
    row["fields"] = fields
    row["xfrm"], row["indir_len"] = xfrm, indirection
    return row


def tcp_packet(source, sport, target, dport):
    """A table with one whole TCP segment."""
    saddr, daddr = ip_address(source).packed, ip_address(target).packed
    segment = tcp(saddr, daddr, sport, dport)
    if len(saddr) == 4:
        return from_frames([eth(0x0800, ipv4(6, saddr, daddr, segment))])
    return from_frames([eth(0x86DD, ipv6(6, saddr, daddr, segment))])


@pytest.mark.parametrize("vector", VECTORS, ids=[v[0] for v in VECTORS])
def test_rss_1_1_toeplitz_of_the_verification_suite(engine, vector):
    source, sport, target, dport, two_tuple, four_tuple, *_ = vector
    rss = engine("rss")
    addresses = ip_address(source).packed + ip_address(target).packed
    data = np.frombuffer(addresses, dtype=np.uint8)[None]

    assert int(rss.toeplitz(KEY, data)[0]) == two_tuple
    assert hash_tuple(rss, KEY, source, sport, target, dport) == four_tuple


@pytest.mark.parametrize("vector", VECTORS, ids=[v[0] for v in VECTORS])
def test_rss_1_3_a_key_of_16_bit_period_is_symmetric(engine, vector):
    source, sport, target, dport, _, _, symmetric, *_ = vector
    rss = engine("rss")

    assert hash_tuple(rss, SYMMETRIC_KEY, source, sport, target, dport) == symmetric
    assert hash_tuple(rss, SYMMETRIC_KEY, target, dport, source, sport) == symmetric


def test_rss_1_1_padding_the_input_with_zeros_changes_nothing(engine):
    rss = engine("rss")
    short = np.arange(12, dtype=np.uint8)[None]
    padded = np.pad(short, ((0, 0), (0, 24)))

    assert rss.toeplitz(KEY, short) == rss.toeplitz(KEY, padded)


def test_rss_1_1_a_short_key_and_wide_data_are_refused(engine):
    rss = engine("rss")
    with pytest.raises(ConfigError, match="40 bytes"):
        rss.toeplitz_tables(b"x" * 39)
    with pytest.raises(ConfigError, match="w <= 36"):
        rss.toeplitz(KEY, np.zeros((1, 37), dtype=np.uint8))
    with pytest.raises(ConfigError, match="one length"):
        rss.toeplitz_v4(KEY, *(np.zeros(n, dtype=np.uint16) for n in (2, 2, 2, 1)))
    with pytest.raises(ConfigError, match="4 words"):
        rss.toeplitz_v6(KEY, np.zeros((1, 3)), np.zeros((1, 4)), np.zeros(1), np.zeros(1))


@pytest.mark.parametrize(("xfrm", "column"), [(0, 5), (1, 7), (2, 8)])
@pytest.mark.parametrize("vector", VECTORS, ids=[v[0] for v in VECTORS])
def test_rss_1_3_packets_through_input_xfrm(engine, vector, xfrm, column):
    source, sport, target, dport = vector[:4]
    rss = engine("rss")
    tables, table = rss.toeplitz_tables(KEY), np.arange(128, dtype=np.uint32) % 5
    row = rss_row([ALL] * 8, xfrm)

    hashes, types, queues = rss.rss_packets(
        tcp_packet(source, sport, target, dport), row, tables, table
    )

    assert int(hashes[0]) == vector[column]
    assert types.tolist() == [HashType.L4]
    assert queues.tolist() == [(vector[column] & 127) % 5]


@pytest.mark.parametrize(
    "fields", [0, ADDRESSES, RssField.IP_DST, RssField.L4_B_0_1, ALL, ALL & ~RssField.IP_SRC]
)
def test_rss_1_4_chosen_fields_are_hashed_in_order(engine, fields):
    rss = engine("rss")
    parts = {
        RssField.IP_SRC: b"\x0a\x01\x00\x02",
        RssField.IP_DST: b"\x0a\x00\x00\x01",
        RssField.L4_B_0_1: b"\x10\x00",
        RssField.L4_B_2_3: b"\x00\x50",
    }
    data = b"".join(octets for bit, octets in parts.items() if fields & bit)
    packet = tcp_packet("10.1.0.2", 4096, "10.0.0.1", 80)
    sets = [ALL] * 8
    sets[RSS_FLOWS.index("tcp4")] = fields

    hashes, types, queues = rss.rss_packets(
        packet, rss_row(sets), rss.toeplitz_tables(KEY), np.arange(128, dtype=np.uint32)
    )

    expected = int(rss.toeplitz(KEY, np.frombuffer(data, dtype=np.uint8)[None])[0]) if data else 0
    ports = fields & (RssField.L4_B_0_1 | RssField.L4_B_2_3)
    assert hashes.tolist() == [expected]
    assert types.tolist() == [
        HashType.NONE if not fields else HashType.L4 if ports else HashType.L3
    ]
    assert queues.tolist() == [expected & 127]


def test_rss_1_4_without_a_hash_the_packet_goes_to_queue_0(engine):
    rss = engine("rss")
    arp = from_frames([bytes(12) + b"\x08\x06" + bytes(46)])
    table = np.full(128, 3, dtype=np.uint32)

    hashes, types, queues = rss.rss_packets(
        arp, rss_row([ALL] * 8), rss.toeplitz_tables(KEY), table
    )

    assert (hashes[0], types[0], queues[0]) == (0, HashType.NONE, 0)


@pytest.mark.parametrize("size", [0, 3, 256])
def test_a_table_that_a_lookup_could_leave_is_refused(size):
    from emu._core import rss

    packet = tcp_packet("10.1.0.2", 4096, "10.0.0.1", 80)
    with pytest.raises(ConfigError, match="power of two"):
        rss.rss_packets(
            packet,
            rss_row([ALL] * 8, indirection=size),
            rss.toeplitz_tables(KEY),
            np.zeros(128, np.uint32),
        )


@given(
    frames=st.lists(any_frames(), min_size=1, max_size=8),
    fields=st.lists(
        st.sampled_from(
            [0, ADDRESSES, ALL, RssField.L4_B_2_3, RssField.IP_SRC | RssField.L4_B_0_1]
        ),
        min_size=8,
        max_size=8,
    ),
    xfrm=st.sampled_from([0, 1, 2]),
    key=st.binary(min_size=40, max_size=52),
    bits=st.integers(0, 7),
)
def test_core_and_reference_agree(frames, fields, xfrm, key, bits):
    from emu._core import rss as core
    from emu.ref import rss as ref

    packets = from_frames(frames)
    row = rss_row(fields, xfrm, 1 << bits)
    table = np.arange(1 << bits, dtype=np.uint32) * 7 % 5
    tables = core.toeplitz_tables(key)

    for left, right in zip(
        core.rss_packets(packets, row, tables, table),
        ref.rss_packets(packets, row, tables, table),
        strict=True,
    ):
        assert left.dtype == right.dtype
        assert left.tolist() == right.tolist()


@given(key=st.binary(min_size=40, max_size=52), data=st.binary(max_size=36))
def test_tables_say_what_the_bits_say(key, data):
    from emu._core import rss as core
    from emu.ref import rss as ref

    row = np.frombuffer(data, dtype=np.uint8)[None]

    assert core.toeplitz(key, row).tolist() == [ref.toeplitz_bits(key, data)]
