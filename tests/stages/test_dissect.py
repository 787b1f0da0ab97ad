"""Frames to the packet table: each column and fault, then core against reference."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import emu._core.dissect
import emu.ref.dissect
from emu import dtypes
from emu.dtypes import PacketFlag, Reason
from tests.strategies import frames as make

S4, D4 = bytes((192, 168, 1, 200)), bytes((192, 168, 1, 100))
S6, D6 = bytes.fromhex("fdaa" + "00" * 13 + "02"), bytes.fromhex("fdaa" + "00" * 13 + "01")
CSUM_FLAGS = PacketFlag.IP_CSUM_BAD | PacketFlag.L4_CSUM_BAD


def columns_of(module, *rows):
    """Run the door over (octets, wire_bytes, link) rows or plain frames."""
    rows = [(row, len(row), 0) if isinstance(row, bytes) else row for row in rows]
    cap = np.array([len(row[0]) for row in rows], dtype=np.uint32)
    where = np.cumsum(cap, dtype=np.int64) - cap
    return module.dissect_frames(
        np.frombuffer(b"".join(row[0] for row in rows), dtype=np.uint8),
        where,
        cap,
        np.array([row[1] for row in rows], dtype=np.uint32),
        np.array([row[2] for row in rows], dtype=np.uint8),
    )


def one(module, frame, wire=None, link=0):
    """The columns of one frame as plain values."""
    columns, _ = columns_of(module, (frame, len(frame) if wire is None else wire, link))
    return {name: array[0].tolist() for name, array in columns.items()}


def tcp_frame(**changes):
    payload = changes.pop("payload", b"hello")
    ip = {name: changes.pop(name) for name in ("tos", "ttl", "ident", "frag") if name in changes}
    segment = make.tcp(S4, D4, 1500, 8000, payload, **changes)
    return make.eth(0x0800, make.ipv4(6, S4, D4, segment, **ip))


def test_columns_are_the_declared_ones(engine):
    columns, keys = columns_of(engine("dissect"), tcp_frame())

    declared = {n: (k, w) for n, k, w in dtypes.PACKET_COLUMNS if n not in ("arrival_ps", "nic")}
    assert declared.keys() == columns.keys()
    for name, (kind, width) in declared.items():
        assert columns[name].dtype == np.dtype(kind)
        assert columns[name].shape == ((1,) if width == 1 else (1, width))
    assert keys.dtype == dtypes.FLOW_KEY
    assert len(keys) == 0


def test_tcp_over_ipv4(engine):
    row = one(engine("dissect"), tcp_frame(tos=0xB8, options=make.TIMESTAMPS, seq=5, ack=6))

    expected = {
        "reason": 0, "flags": PacketFlag.HAS_PORTS, "family": 4, "ip_proto": 6, "ethertype": 0x0800,
        "sport": 1500, "dport": 8000, "l3_off": 14, "l4_off": 34, "ip_b0": 0x45, "tos": 0xB8,
        "ttl": 64, "ip_frag": 0x4000, "ip_id": 7, "ip_len": 57, "seq": 5, "ack": 6,
        "tcp_w12": 0x801003E8, "payload_bytes": 5, "opt_off": 54, "flow_key": -1, "frame_off": 0,
        "cap_bytes": 71, "wire_bytes": 71, "vlan_tpid": 0, "udp_len": 0, "flow_label": 0,
    }  # fmt: skip
    assert expected == {name: row[name] for name in expected}
    assert row["saddr"] == [int.from_bytes(S4, "little"), 0, 0, 0]
    mac = make.MACS + b"\x08\0\0\0"
    assert row["mac"] == list(struct.unpack("<QQ", mac))


def test_udp_over_ipv6_behind_extension_headers(engine):
    inner = make.extension(0, 60) + make.extension(60, 17, 1) + make.udp(S6, D6, 7, 9, b"abc")
    row = one(engine("dissect"), make.eth(0x86DD, make.ipv6(0, S6, D6, inner, traffic_class=3)))

    assert row["reason"] == 0
    assert row["flags"] == PacketFlag.HAS_PORTS | PacketFlag.EXT_HEADERS
    assert (row["ip_proto"], row["l4_off"], row["udp_len"], row["payload_bytes"]) == (17, 78, 11, 3)
    assert (row["sport"], row["dport"], row["tos"], row["flow_key"]) == (7, 9, 3, -1)
    assert row["daddr"] == list(struct.unpack("<4I", D6))


def test_tags_outermost_is_stored(engine):
    frame = make.tag(make.tag(tcp_frame(), 0x6005, 0x8100), 0xF00A, 0x88A8)
    row = one(engine("dissect"), frame)

    assert (row["vlan_tpid"], row["vlan_tci"], row["ethertype"]) == (0x88A8, 0xF00A, 0x0800)
    assert (row["l3_off"], row["l4_off"], row["sport"]) == (22, 42, 1500)
    assert not row["flags"] & PacketFlag.VLAN_META


@pytest.mark.parametrize(("depth", "family"), [(15, 4), (16, 0)])
def test_tags_are_followed_15_deep(engine, depth, family):
    frame = tcp_frame()
    for _ in range(depth):
        frame = make.tag(frame, 1)
    row = one(engine("dissect"), frame)

    assert (row["reason"], row["family"], row["l3_off"]) == (0, family, 74)


@pytest.mark.parametrize("frag", [0x2000, 0x2001, 0x0001])
def test_ipv4_fragments_have_no_ports(engine, frag):
    row = one(engine("dissect"), tcp_frame(frag=frag))

    later = PacketFlag.LATER_FRAGMENT if frag & 0x1FFF else PacketFlag(0)
    assert row["flags"] == PacketFlag.FRAGMENT | later
    assert (row["reason"], row["sport"], row["seq"], row["l4_off"]) == (0, 0, 0, 34)


def test_ipv6_fragment_header_ends_it(engine):
    inner = make.extension(44, 6) + make.tcp(S6, D6, 1, 2)
    row = one(engine("dissect"), make.eth(0x86DD, make.ipv6(44, S6, D6, inner)))

    assert row["flags"] == PacketFlag.FRAGMENT | PacketFlag.EXT_BYPASS
    assert (row["reason"], row["ip_proto"], row["l4_off"], row["dport"]) == (0, 6, 62, 0)


def test_ah_in_ipv6_is_stepped_over(engine):
    inner = make.extension(51, 6, 4) + make.tcp(S6, D6, 1, 2)
    row = one(engine("dissect"), make.eth(0x86DD, make.ipv6(51, S6, D6, inner)))

    assert row["flags"] == PacketFlag.HAS_PORTS | PacketFlag.EXT_BYPASS
    assert (row["ip_proto"], row["l4_off"], row["dport"]) == (6, 78, 2)


@pytest.mark.parametrize("proto", [4, 41, 47])
def test_tunnels_are_marked(engine, proto):
    row = one(engine("dissect"), make.eth(0x0800, make.ipv4(proto, S4, D4, bytes(40))))

    assert row["flags"] == PacketFlag.TUNNEL
    assert (row["reason"], row["family"], row["ip_proto"], row["l4_off"]) == (0, 4, proto, 34)


@pytest.mark.parametrize("proto", [33, 132, 136])
def test_other_protocols_with_ports(engine, proto):
    packet = make.ipv4(proto, S4, D4, struct.pack(">HH", 3, 4) + bytes(12))
    row = one(engine("dissect"), make.eth(0x0800, packet))

    assert row["flags"] == PacketFlag.HAS_PORTS
    assert (row["sport"], row["dport"], row["payload_bytes"]) == (3, 4, 0)


@pytest.mark.parametrize("ethertype", [0x0806, 0x88CC, 0x8847, 0x0600])
def test_not_ip(engine, ethertype):
    row = one(engine("dissect"), make.eth(ethertype, bytes(46)))

    assert (row["reason"], row["family"], row["ethertype"]) == (0, 0, ethertype)
    assert (row["flow_key"], row["ip_proto"], row["l3_off"]) == (-1, 0, 14)


FAULTS = {
    "empty": (b"", Reason.EMPTY, 0),
    "link": (tcp_frame()[:13], Reason.TRUNCATED_LINK, 0),
    "tag": (make.tag(tcp_frame(), 1)[:17], Reason.TRUNCATED_LINK, 0),
    "ipv4": (tcp_frame()[:33], Reason.TRUNCATED_L3, 0),
    "ipv6": (make.tcp6(1)[:53], Reason.TRUNCATED_L3, 0),
    "version4": (tcp_frame()[:14] + b"\x65" + tcp_frame()[15:], Reason.BAD_VERSION, 4),
    "version6": (make.udp6(1)[:14] + b"\x40" + make.udp6(1)[15:], Reason.BAD_VERSION, 6),
    "ihl": (tcp_frame()[:14] + b"\x44" + tcp_frame()[15:], Reason.BAD_IHL, 4),
    "options": (tcp_frame()[:14] + b"\x4f" + tcp_frame()[15:50], Reason.TRUNCATED_EXT, 4),
    "ext": (make.eth(0x86DD, make.ipv6(0, S6, D6, b"\6\1" + bytes(13))), Reason.TRUNCATED_EXT, 6),
    "l4": (tcp_frame()[:53], Reason.TRUNCATED_L4, 4),
    "doff4": (tcp_frame()[:46] + b"\x40" + tcp_frame()[47:], Reason.BAD_DOFF, 4),
    "doff15": (tcp_frame()[:46] + b"\xf0" + tcp_frame()[47:], Reason.BAD_DOFF, 4),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_fault_gives_its_reason(engine, fault):
    """Nothing is dropped, and the family that was understood stays."""
    frame, reason, family = FAULTS[fault]
    row = one(engine("dissect"), frame)

    assert (row["reason"], row["family"]) == (reason, family)


def test_bad_doff_keeps_addresses_and_ports(engine):
    frame, _, _ = FAULTS["doff4"]
    row = one(engine("dissect"), frame)

    assert (row["sport"], row["dport"], row["seq"]) == (1500, 8000, 1000)
    assert (row["payload_bytes"], row["opt_off"], row["tcp_w12"] >> 28) == (0, -1, 4)
    assert row["flags"] & PacketFlag.HAS_PORTS


@pytest.mark.parametrize(("kept", "ports"), [(3, False), (4, True)])
def test_cut_transport_header_keeps_ports(engine, kept, ports):
    """The kernel's dissector wants four octets only."""
    row = one(engine("dissect"), tcp_frame()[: 34 + kept])

    assert row["reason"] == Reason.TRUNCATED_L4
    assert (row["sport"], bool(row["flags"] & PacketFlag.HAS_PORTS)) == (1500 * ports, ports)
    assert row["flow_key"] == -1


def test_raw_ip(engine):
    four, six, neither = tcp_frame()[14:], make.udp6(1)[14:], b"\x10\0\0\0"
    columns, _ = columns_of(
        engine("dissect"), (four, len(four), 1), (six, len(six), 1), (neither, 4, 1)
    )

    assert columns["family"].tolist() == [4, 6, 0]
    assert columns["ethertype"].tolist() == [0x0800, 0x86DD, 0]
    assert columns["reason"].tolist() == [0, 0, Reason.BAD_VERSION]
    assert columns["l3_off"].tolist() == [0, 0, 0]
    assert columns["l4_off"].tolist() == [20, 40, 0]
    assert not columns["mac"].any()


@pytest.mark.parametrize("kept", range(0, 67))
def test_snapped_frames_count_as_whole(engine, kept):
    """Lengths are the wire's, no checksum is bad, a header cut off is SNAPPED."""
    frame = bytearray(tcp_frame(options=make.TIMESTAMPS))
    frame[24] ^= 1  # IPv4 checksum
    row = one(engine("dissect"), bytes(frame[:kept]), wire=len(frame))

    assert row["reason"] == (Reason.OK if kept >= 66 else Reason.SNAPPED)
    assert row["flags"] & (CSUM_FLAGS | PacketFlag.SNAP_CUT) == PacketFlag.SNAP_CUT
    assert row["payload_bytes"] == (5 if kept >= 54 else 0)
    assert row["opt_off"] == (54 if kept >= 66 else -1)
    assert row["family"] == (4 if kept >= 34 else 0)


def test_checksums(engine):
    good, bad_ip, bad_l4 = tcp_frame(), bytearray(tcp_frame()), bytearray(tcp_frame())
    bad_ip[24] ^= 1
    bad_l4[-1] ^= 1
    columns, _ = columns_of(engine("dissect"), good, bytes(bad_ip), bytes(bad_l4))

    expected = [0, PacketFlag.IP_CSUM_BAD, PacketFlag.L4_CSUM_BAD]
    assert (columns["flags"] & int(CSUM_FLAGS)).tolist() == expected


def test_gro_a4_checksum_covers_the_padding(engine):
    """The pseudo header's length is what is present, so that a padded frame's sum is off."""
    frame = tcp_frame(payload=b"") + bytes(6)
    row = one(engine("dissect"), frame)

    assert row["flags"] == PacketFlag.HAS_PORTS | PacketFlag.L4_CSUM_BAD | PacketFlag.MALFORMED_LEN
    assert (row["payload_bytes"], row["reason"]) == (6, 0)


@pytest.mark.parametrize("family", [4, 6])
def test_zero_udp_checksum_is_not_bad(engine, family):
    frame = bytearray(make.udp4(1, b"x") if family == 4 else make.udp6(1, b"x"))
    frame[-3:-1] = b"\0\0"
    row = one(engine("dissect"), bytes(frame))

    assert row["flags"] == PacketFlag.HAS_PORTS | PacketFlag.UDP_CSUM_ZERO


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"frame_off": [1]}, "outside the blob"),
        ({"frame_off": [-1]}, "outside the blob"),
        ({"frame_off": [2**63 - 1]}, "outside the blob"),
        ({"wire_bytes": [3]}, "above wire_bytes"),
        ({"link": [2]}, "neither 0"),
        ({"link": [0, 0]}, "one length"),
    ],
)
def test_door_refuses(engine, change, message):
    given_rows = {"frame_off": [0], "cap_bytes": [4], "wire_bytes": [4], "link": [0], **change}
    kinds = {"frame_off": "i8", "cap_bytes": "u4", "wire_bytes": "u4", "link": "u1"}
    arrays = {name: np.array(value, dtype=kinds[name]) for name, value in given_rows.items()}

    with pytest.raises(ValueError, match=message):
        engine("dissect").dissect_frames(np.zeros(4, dtype=np.uint8), **arrays)


def test_no_frames(engine):
    columns, keys = columns_of(engine("dissect"))

    assert all(len(array) == 0 for array in columns.values())
    assert len(keys) == 0


def test_inputs_may_be_read_only_and_overlap(engine):
    frame = tcp_frame()
    columns, _ = engine("dissect").dissect_frames(
        np.frombuffer(frame, dtype=np.uint8),
        np.zeros(2, dtype=np.int64),
        np.full(2, len(frame), dtype=np.uint32),
        np.full(2, len(frame), dtype=np.uint32),
        np.zeros(2, dtype=np.uint8),
    )

    assert columns["sport"].tolist() == [1500, 1500]


def test_extension_chain_beyond_what_l4_off_can_say(engine):
    chain = make.extension(60, 60, 255) * 32 + make.extension(60, 6)
    packet = make.ipv6(60, S6, D6, b"")[:40] + chain + make.tcp(S6, D6, 1, 2)
    row = one(engine("dissect"), make.eth(0x86DD, packet))

    assert (row["reason"], row["ip_proto"]) == (Reason.TRUNCATED_EXT, 60)


def assert_engines_agree(rows):
    core, core_keys = columns_of(emu._core.dissect, *rows)
    ref, ref_keys = columns_of(emu.ref.dissect, *rows)

    for name in ref:
        assert np.array_equal(core[name], ref[name]), name
    assert np.array_equal(core_keys, ref_keys)


@given(st.lists(make.capture_rows(), max_size=6))
def test_core_equals_reference(rows):
    """Well-formed, cut, padded, flipped and snapped frames: every column and every flow key."""
    assert_engines_agree(rows)


@given(st.binary(max_size=90), st.integers(0, 40), st.sampled_from([0, 1]))
def test_core_equals_reference_on_noise(octets, more, link):
    """Octets that are no frame, as such and behind each ethertype."""
    assert_engines_agree(
        [
            (octets, len(octets) + more, link),
            *(
                (make.eth(ethertype, octets), len(octets) + 14 + more, 0)
                for ethertype in (0x0800, 0x86DD, 0x8100)
            ),
        ]
    )


SUMMED = {"tcp4": make.tcp4, "udp4": make.udp4, "tcp6": make.tcp6, "udp6": make.udp6}


@given(st.sampled_from(sorted(SUMMED)), st.binary(max_size=70), st.data())
def test_any_flipped_bit_is_found_by_the_checksum(kind, payload, data):
    """Whole frames verify at every length; one bit off behind the IP header never does."""
    frame = bytearray(SUMMED[kind](3, payload))
    l4_off = 34 if kind.endswith("4") else 54
    bit = data.draw(st.integers(8 * l4_off, 8 * len(frame) - 1))
    hurt = frame.copy()
    hurt[bit // 8] ^= 1 << bit % 8
    for module in (emu._core.dissect, emu.ref.dissect):
        columns, _ = columns_of(module, bytes(frame), bytes(hurt))
        good, bad = columns["flags"].tolist()

        assert not good & CSUM_FLAGS
        assert bad & (PacketFlag.L4_CSUM_BAD | PacketFlag.UDP_CSUM_ZERO)
