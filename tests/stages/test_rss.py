"""RSS: Toeplitz, symmetry, fields, indirection (receive.md 1)."""

from __future__ import annotations

from ipaddress import ip_address

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.dtypes import RSS_FLOWS, HashType, PacketFlag, Reason, RssField
from emu.errors import ConfigError
from emu.intake import from_frames
from tests.strategies import hashing
from tests.strategies.frames import any_frames, eth, ipv4, ipv6, tcp
from tests.strategies.hashing import (
    ADDRESSES,
    ALL,
    MS_KEY,
    PERIODIC_KEY,
    Row,
    rss_row,
    table,
    words,
)

# Source, port, destination, port: 2-tuple and 4-tuple hash of Microsoft's verification suite; then
# 4-tuples with the key of 16-bit period, with SYM_XOR, with SYM_OR_XOR (receive.md 1.2).
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


def hash_tuple(rss, key, source, sport, target, dport):
    """One 4-tuple through the door of its family."""
    ports = np.array([sport], dtype=np.uint16), np.array([dport], dtype=np.uint16)
    if ip_address(source).version == 4:
        return int(rss.toeplitz_v4(key, words(source)[:1], words(target)[:1], *ports)[0])
    return int(rss.toeplitz_v6(key, words(source)[None], words(target)[None], *ports)[0])


def tcp_packet(source, sport, target, dport):
    """A table with one whole TCP segment."""
    saddr, daddr = ip_address(source).packed, ip_address(target).packed
    segment = tcp(saddr, daddr, sport, dport)
    if len(saddr) == 4:
        return from_frames([eth(0x0800, ipv4(6, saddr, daddr, segment))])
    return from_frames([eth(0x86DD, ipv6(6, saddr, daddr, segment))])


@pytest.mark.parametrize("vector", VECTORS, ids=[v[0] for v in VECTORS])
def test_r_1_1_toeplitz_of_the_verification_suite(engine, vector):
    source, sport, target, dport, two_tuple, four_tuple, *_ = vector
    rss = engine("rss")
    addresses = ip_address(source).packed + ip_address(target).packed
    data = np.frombuffer(addresses, dtype=np.uint8)[None]

    assert int(rss.toeplitz(MS_KEY, data)[0]) == two_tuple
    assert hash_tuple(rss, MS_KEY, source, sport, target, dport) == four_tuple


@pytest.mark.parametrize("vector", VECTORS, ids=[v[0] for v in VECTORS])
def test_r_1_3_a_key_of_16_bit_period_is_symmetric(engine, vector):
    source, sport, target, dport, _, _, symmetric, *_ = vector
    rss = engine("rss")

    assert hash_tuple(rss, PERIODIC_KEY, source, sport, target, dport) == symmetric
    assert hash_tuple(rss, PERIODIC_KEY, target, dport, source, sport) == symmetric


def test_r_1_1_padding_the_input_with_zeros_changes_nothing(engine):
    rss = engine("rss")
    short = np.arange(12, dtype=np.uint8)[None]
    padded = np.pad(short, ((0, 0), (0, 24)))

    assert rss.toeplitz(MS_KEY, short) == rss.toeplitz(MS_KEY, padded)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda rss: rss.toeplitz_tables(b"x" * 39), "toeplitz: key: got 39 bytes; allowed: 40"),
        (lambda rss: rss.toeplitz("6d5a", np.zeros((1, 4))), "key: got a str.*bytes.fromhex"),
        (lambda rss: rss.toeplitz(MS_KEY, np.zeros((1, 37), np.uint8)), "w <= 36"),
        (lambda rss: rss.toeplitz(MS_KEY, np.zeros(4, np.uint8)), r"shape \(n, w\)"),
        (lambda rss: rss.toeplitz(MS_KEY, [[0, 256]]), r"data\[0\]: got 256; allowed: 0..255"),
        (lambda rss: rss.toeplitz(MS_KEY, np.full((1, 4), 0.5)), r"got an array of float64"),
        (lambda rss: rss.toeplitz_v4(MS_KEY, [1, 2], [3], [4], [5]), r"daddr: .*shape \(2,\)"),
        (lambda rss: rss.toeplitz_v4(MS_KEY, [1], [3], [70000], [5]), r"sport\[0\]: got 70000"),
        (lambda rss: rss.toeplitz_v4(MS_KEY, [1], [3], [4], [-5]), r"dport\[0\]: got -5"),
        (lambda rss: rss.toeplitz_v4(MS_KEY, [2**70], [3], [4], [5]), r"saddr\[0\]: got 11805"),
        (lambda rss: rss.toeplitz_v6(MS_KEY, [[1, 2, 3]], [[1] * 4], [4], [5]), r"shape \(n, 4\)"),
    ],
)
def test_r_1_1_what_does_not_fit_is_refused(engine, call, message):
    with pytest.raises(ConfigError, match=message):
        call(engine("rss"))


def test_r_1_1_no_rows_are_no_hashes(engine):
    rss = engine("rss")

    assert rss.toeplitz(MS_KEY, np.zeros((0, 12), np.uint8)).shape == (0,)
    assert rss.toeplitz_v4(MS_KEY, [], [], [], []).dtype == np.uint32


def test_r_1_1_tables_are_the_same(engine):
    from emu.ref import rss as ref

    tables = engine("rss").toeplitz_tables(MS_KEY + b"not reached")

    assert tables.dtype == np.uint32
    assert tables.tolist() == ref.toeplitz_tables(MS_KEY).tolist()


@pytest.mark.parametrize(("xfrm", "column"), [(0, 5), (1, 7), (2, 8)])
@pytest.mark.parametrize("vector", VECTORS, ids=[v[0] for v in VECTORS])
def test_r_1_3_packets_through_input_xfrm(engine, vector, xfrm, column):
    source, sport, target, dport = vector[:4]
    rss = engine("rss")
    tables, entries = rss.toeplitz_tables(MS_KEY), np.arange(128, dtype=np.uint32) % 5
    row = rss_row([ALL] * 8, xfrm)

    hashes, types, queues = rss.rss_packets(
        tcp_packet(source, sport, target, dport), row, tables, entries
    )

    assert int(hashes[0]) == vector[column]
    assert types.tolist() == [HashType.L4]
    assert queues.tolist() == [(vector[column] & 127) % 5]


@pytest.mark.parametrize(
    "fields", [0, ADDRESSES, RssField.IP_DST, RssField.L4_B_0_1, ALL, ALL & ~RssField.IP_SRC]
)
def test_r_1_4_fields_are_hashed_in_order(engine, fields):
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
        packet, rss_row(sets), rss.toeplitz_tables(MS_KEY), np.arange(128, dtype=np.uint32)
    )

    expected = (
        int(rss.toeplitz(MS_KEY, np.frombuffer(data, dtype=np.uint8)[None])[0]) if data else 0
    )
    ports = fields & (RssField.L4_B_0_1 | RssField.L4_B_2_3)
    assert hashes.tolist() == [expected]
    assert types.tolist() == [
        HashType.NONE if not fields else HashType.L4 if ports else HashType.L3
    ]
    assert queues.tolist() == [expected & 127]


def test_r_1_4_ip_alone_is_hashed_and_the_rest_goes_to_queue_0(engine):
    rss = engine("rss")
    arp = from_frames([bytes(12) + b"\x08\x06" + bytes(46)])
    entries = np.full(128, 3, dtype=np.uint32)

    hashes, types, queues = rss.rss_packets(
        arp, rss_row([ALL] * 8), rss.toeplitz_tables(MS_KEY), entries
    )

    assert (hashes[0], types[0], queues[0]) == (0, HashType.NONE, 0)


V4 = Row(4, 6, PacketFlag.HAS_PORTS, bytes([10, 1, 0, 2]), bytes([10, 0, 0, 1]), 4096, 80)
V6 = V4._replace(family=6, saddr=bytes(range(16)), daddr=bytes(range(16, 32)))


@pytest.mark.parametrize("row", [V4, V6], ids=["v4", "v6"])
@pytest.mark.parametrize(
    ("change", "flow"),
    [
        ({}, "tcp"),
        ({"proto": 17}, "udp"),
        ({"proto": 132}, "sctp"),
        ({"proto": 136}, "ip"),  # UDPLITE: no set of its own
        ({"proto": 1, "flags": 0}, "ip"),
        ({"flags": PacketFlag.FRAGMENT}, "ip"),
        ({"proto": 17, "flags": PacketFlag.FRAGMENT}, "ip"),
        ({"flags": PacketFlag.HAS_PORTS | PacketFlag.FRAGMENT}, "ip"),
        ({"flags": 0, "reason": Reason.TRUNCATED_L4}, "ip"),
        ({"flags": 0, "reason": Reason.TRUNCATED_EXT}, "ip"),
        ({"reason": Reason.TRUNCATED_L3}, None),
        ({"reason": Reason.BAD_IHL}, None),
        ({"family": 0}, None),
    ],
)
def test_r_1_4_ports_and_protocol_choose_the_field_set(engine, row, change, flow):
    """Only the expected flow type has a field set: a hash says that it was the one looked at."""
    rss = engine("rss")
    sets = [0] * 8
    if flow:
        sets[RSS_FLOWS.index(f"{flow}{row.family}")] = ADDRESSES
    tables, entries = rss.toeplitz_tables(MS_KEY), np.arange(128, dtype=np.uint32)

    hashes, types, _ = rss.rss_packets(
        table([row._replace(**change)]), rss_row(sets), tables, entries
    )
    others = rss.rss_packets(
        table([row._replace(**change)]),
        rss_row([ADDRESSES if not bits else 0 for bits in sets]),
        tables,
        entries,
    )

    data = np.frombuffer(row.saddr + row.daddr, dtype=np.uint8)[None]
    assert types.tolist() == [HashType.L3 if flow else HashType.NONE]
    assert hashes.tolist() == (rss.toeplitz(MS_KEY, data).tolist() if flow else [0])
    if flow:
        assert others[1].tolist() == [HashType.NONE]


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        (ADDRESSES, HashType.L3),
        (RssField.IP_DST, HashType.L3),
        (RssField.L4_B_0_1, HashType.L4),
        (RssField.IP_SRC | RssField.L4_B_2_3, HashType.L4),
        (ALL, HashType.L4),
    ],
)
def test_r_1_4_l4_is_what_a_hash_with_a_port_covers(engine, fields, kind):
    rss = engine("rss")
    tables, entries = rss.toeplitz_tables(MS_KEY), np.zeros(128, np.uint32)

    _, types, _ = rss.rss_packets(table([V4, V6]), rss_row([fields] * 8), tables, entries)

    assert types.tolist() == [kind, kind]


def test_r_1_4_each_nic_has_its_own_key_and_table(engine):
    rss = engine("rss")
    rows = np.concatenate([rss_row([ALL] * 8, indirection=4), rss_row([ALL] * 8, indirection=8)])
    rows[1]["table_off"], rows[1]["indir_off"] = 36 * 256, 4
    tables = np.concatenate([rss.toeplitz_tables(key) for key in (MS_KEY, PERIODIC_KEY)])
    entries = np.concatenate([np.arange(4), np.arange(8) + 100]).astype(np.uint32)

    hashes, _, queues = rss.rss_packets(table([V4, V4._replace(nic=1)]), rows, tables, entries)

    columns = [words(address)[:1] for address in ("10.1.0.2", "10.0.0.1")]
    expected = [
        int(rss.toeplitz_v4(key, *columns, [4096], [80])[0]) for key in (MS_KEY, PERIODIC_KEY)
    ]
    assert hashes.tolist() == expected
    assert queues.tolist() == [expected[0] & 3, 100 + (expected[1] & 7)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"indir_len": 0}, "power of two"),
        ({"indir_len": 3}, "power of two"),
        ({"indir_len": 256}, "power of two"),
        ({"indir_off": 1}, "inside the 128 entries"),
        ({"table_off": 1}, "table_off: got 1"),
        ({"xfrm": 3}, "SYM_OR_XOR"),
        ({"fields": 1 << 8}, "fields of tcp4: got 0x100"),
    ],
)
def test_r_1_4_what_a_lookup_could_leave_is_refused(engine, change, message):
    rss = engine("rss")
    rows, tables, entries = (
        rss_row([ALL] * 8),
        rss.toeplitz_tables(MS_KEY),
        np.zeros(128, np.uint32),
    )
    for name, value in change.items():
        rows[name] = value

    with pytest.raises(ConfigError, match=message):
        rss.rss_packets(table([V4]), rows, tables, entries)


def test_r_1_4_rows_of_another_kind_are_refused(engine):
    rss = engine("rss")
    tables, entries = rss.toeplitz_tables(MS_KEY), np.zeros(128, np.uint32)

    with pytest.raises(ConfigError, match=r"rows of emu\.dtypes\.RSS"):
        rss.rss_packets(table([V4]), np.zeros(1, dtype="u4"), tables, entries)
    with pytest.raises(ConfigError, match=r"nic column: got 1; allowed: rows of rss, 0\.\.0"):
        rss.rss_packets(table([V4._replace(nic=1)]), rss_row([ALL] * 8), tables, entries)
    with pytest.raises(ConfigError, match="below 2"):
        rss.rss_packets(table([V4]), rss_row([ALL] * 8), tables, np.full(128, 2**31))


@given(row=hashing.rows(), bits=st.integers(0, 15), xfrm=st.sampled_from([1, 2]), key=hashing.keys)
def test_r_1_3_input_xfrm_is_symmetric(row, bits, xfrm, key):
    """A field set that has both of a pair or none hashes both directions alike."""
    from emu._core import rss

    paired = (ADDRESSES if bits & 1 else 0) | ((ALL & ~ADDRESSES) if bits & 2 else 0)
    back = row._replace(saddr=row.daddr, daddr=row.saddr, sport=row.dport, dport=row.sport)

    hashes, types, _ = rss.rss_packets(
        table([row, back]),
        rss_row([paired] * 8, xfrm, 1),
        rss.toeplitz_tables(key),
        np.zeros(1, np.uint32),
    )

    assert hashes[0] == hashes[1]
    assert types[0] == types[1]


@given(
    rows=st.lists(hashing.rows(nics=2), max_size=12),
    fields=hashing.field_sets,
    xfrm=st.sampled_from([0, 1, 2]),
    key=hashing.keys,
    bits=st.integers(0, 7),
)
def test_core_and_reference_agree_on_every_field_set(rows, fields, xfrm, key, bits):
    from emu._core import rss as core
    from emu.ref import rss as ref

    packets = table(rows)
    nics = np.concatenate([rss_row(fields, xfrm, 1 << bits), rss_row([ALL] * 8, 0, 1)])
    entries = np.arange(1 << bits, dtype=np.uint32) * 7 % 5
    tables = core.toeplitz_tables(key)

    for left, right in zip(
        core.rss_packets(packets, nics, tables, entries),
        ref.rss_packets(packets, nics, tables, entries),
        strict=True,
    ):
        assert left.dtype == right.dtype
        assert left.tolist() == right.tolist()


@given(
    rows=st.lists(hashing.rows(), max_size=8),
    key=hashing.keys,
)
def test_core_and_reference_agree_on_tuples(rows, key):
    from emu._core import rss as core
    from emu.ref import rss as ref

    packets = table([row for row in rows if row.family])
    ports = packets.sport, packets.dport
    v4 = packets.saddr[:, 0], packets.daddr[:, 0], *ports
    v6 = packets.saddr, packets.daddr, *ports

    assert core.toeplitz_v4(key, *v4).tolist() == ref.toeplitz_v4(key, *v4).tolist()
    assert core.toeplitz_v6(key, *v6).tolist() == ref.toeplitz_v6(key, *v6).tolist()


@pytest.mark.parametrize("rule", ["R-1.3", "R-1.4.ip", "R-1.4.ports", "R-1.4.fields", "R-1.4.l4"])
def test_every_rule_is_asked_both_ways(rule):
    from emu.ref import rss
    from emu.ref.record import Journal

    journal = Journal()
    rows = [
        V4,
        V6,
        V4._replace(family=0),
        V4._replace(flags=PacketFlag.FRAGMENT),
        V4._replace(nic=1),
    ]
    sets = [ALL, 0, 0, ADDRESSES] + [ALL] * 4
    nics = np.concatenate([rss_row(sets), rss_row([0] * 8), rss_row(sets, xfrm=1)])
    rows += [V4._replace(nic=2)]

    rss.rss_packets(table(rows), nics, rss.toeplitz_tables(MS_KEY), np.zeros(128, int), journal)

    assert {entry.said for entry in journal.entries if entry.name == rule} == {True, False}


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
def test_core_and_reference_agree_on_frames(frames, fields, xfrm, key, bits):
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
