"""Capture files in, packet tables out; every flavour, and what is refused."""

from __future__ import annotations

import gzip
import importlib
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.dtypes import PACKET_COLUMNS, PacketFlag, Reason
from emu.errors import CaptureError, ConfigError
from emu.intake import from_frames
from emu.io.capture import read_capture
from emu.io.frames import frames_of, write_pcap
from emu.model.capture import MAX_CAP_BYTES
from tests.strategies import captures as files
from tests.strategies import frames as make
from tests.strategies.captures import BASE_NS, Record

DATA = Path(__file__).parents[1] / "data" / "captures"
FRAMES = [make.tcp4(1, b"hello"), make.udp6(2, b"x"), make.tag(make.tcp4(3), 5)]
ROWS = [Record(f, len(f), BASE_NS + 2500 * 1000 * k) for k, f in enumerate(FRAMES)]
EVERYTHING = 2**40


@pytest.fixture(params=["core", "ref"])
def engine_name(request):
    return request.param


@pytest.fixture
def read(tmp_path, engine_name):
    """Read octets as a file."""

    def from_octets(octets, **options):
        path = tmp_path / "some.bin"
        path.write_bytes(octets)
        return read_capture(path, engine=engine_name, **options)

    return from_octets


def refusal(read, octets, **options):
    """The one line that refuses them."""
    with pytest.raises(CaptureError) as caught:
        read(octets, **options)
    assert "\n" not in str(caught.value)
    assert "some.bin" in str(caught.value)
    return str(caught.value)


def check_rows(packets, rows):
    """Frames, lengths, times and interfaces are those of the records."""
    assert [packets.frame(k) for k in range(len(packets))] == [row.frame for row in rows]
    assert packets.wire_bytes.tolist() == [row.wire_bytes for row in rows]
    assert packets.nic.tolist() == [row.interface for row in rows]
    epoch = min((row.time_ns for row in rows), default=0)
    assert packets.epoch_ns == epoch
    assert packets.arrival_ps.tolist() == [(row.time_ns - epoch) * 1000 for row in rows]


def same_table(left, right):
    assert left.epoch_ns == right.epoch_ns
    for name, _, _ in PACKET_COLUMNS:
        assert np.array_equal(left.columns[name], right.columns[name]), name
    assert np.array_equal(left.flow_keys, right.flow_keys)
    assert np.array_equal(left.blob, right.blob)


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("magic", [0xA1B2C3D4, 0xA1B23C4D, 0xA1B2CD34])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_pcap_flavours(read, order, magic, pack):
    packets = read(pack(files.pcap(ROWS, order=order, magic=magic)))

    check_rows(packets, ROWS)
    assert packets.family.tolist() == [4, 6, 4]


def test_nanoseconds_are_kept(read):
    rows = [Record(FRAMES[0], len(FRAMES[0]), BASE_NS + 123_456_789)] * 2
    check_rows(read(files.pcap(rows, magic=0xA1B23C4D)), rows)


def test_times_may_step_back(read):
    packets = read(files.pcap(ROWS[::-1]))

    assert packets.arrival_ps.tolist() == [5_000_000_000, 2_500_000_000, 0]
    assert packets.epoch_ns == BASE_NS


def test_snapped_frames(read):
    packets = read(files.pcap([Record(FRAMES[0][:40], len(FRAMES[0]), BASE_NS)]))

    assert packets.flags[0] & PacketFlag.SNAP_CUT
    assert (packets.cap_bytes[0], packets.wire_bytes[0]) == (40, len(FRAMES[0]))


@pytest.mark.parametrize("wire_bytes", [0, 10])
def test_more_kept_than_on_the_wire_counts_as_the_wire(read, wire_bytes):
    packets = read(files.pcap([Record(FRAMES[0], wire_bytes, BASE_NS)]))

    assert packets.wire_bytes[0] == len(FRAMES[0])
    assert packets.reason[0] == Reason.OK


@pytest.mark.parametrize(
    "octets", [files.pcap([]), files.section(), gzip.compress(files.pcap([]), mtime=0)]
)
def test_no_packets_is_a_table(read, octets):
    packets = read(octets)

    assert len(packets) == 0
    assert packets.epoch_ns == 0


@pytest.mark.parametrize("network", [12, 14, 101, 228])
def test_raw_ip(read, network):
    packets = read(files.pcap([Record(FRAMES[0][14:], 45, BASE_NS)], network=network))

    assert (packets.l3_off[0], packets.dport[0], packets.reason[0]) == (0, 80, Reason.OK)


def test_raw_link_types_that_say_the_family(read):
    packets = read(files.pcap([Record(FRAMES[0][14:], 45, BASE_NS)], network=229))
    assert packets.reason[0] == Reason.BAD_VERSION

    packets = read(files.pcap([Record(FRAMES[1][14:], 49, BASE_NS)], network=229))
    assert (packets.reason[0], packets.family[0]) == (Reason.OK, 6)


def test_other_link_types_are_named(read):
    line = refusal(read, files.pcap(ROWS, network=113))
    assert "got link type 113 (LINUX_SLL) of record 0; allowed: 1 (ETHERNET)" in line
    assert "150 (USER3)" in refusal(read, files.pcap(ROWS, network=150))
    assert "9999 (unknown)" in refusal(read, files.pcap(ROWS, network=9999))

    assert len(read(files.pcap(ROWS, network=9999), linktype=1)) == 3


def test_declared_frame_check_sequence_is_left_out(read):
    rows = [Record(FRAMES[0] + b"FCS!", len(FRAMES[0]) + 4, BASE_NS)]
    plain = read(files.pcap([Record(FRAMES[0], len(FRAMES[0]), BASE_NS)]))
    for octets in (
        files.pcap(rows, network=0x24000001),
        files.section() + files.interface(fcs=4) + files.packet(rows[0]),
    ):
        packets = read(octets)
        assert packets.frame(0) == FRAMES[0]
        assert packets.payload_bytes.tolist() == plain.payload_bytes.tolist()
        assert not packets.flags[0] & PacketFlag.L4_CSUM_BAD


def test_pcapng_interfaces_and_sections(read):
    rows = [
        Record(FRAMES[0], len(FRAMES[0]), BASE_NS, 0),
        Record(FRAMES[1], len(FRAMES[1]), BASE_NS + 10, 1),
        Record(FRAMES[2], len(FRAMES[2]), BASE_NS + 10**9, 0, "obsolete"),
    ]
    octets = files.section() + files.interface() + files.interface(resolution=9)
    octets += files.packet(rows[0]) + files.block(5, b"abc") + files.packet(rows[1], "<", 9)
    octets += files.section(">") + files.interface(">", offset_s=-3)
    octets += files.packet(rows[2], ">", 6, -3)

    check_rows(read(octets), rows)


def test_pcapng_simple_packets(read):
    rows = [
        Record(FRAMES[0][:40], len(FRAMES[0]), None, 0, "simple"),
        Record(FRAMES[1], len(FRAMES[1]), BASE_NS),
        Record(FRAMES[2][:40], len(FRAMES[2]), None, 0, "simple"),
    ]
    octets = files.section() + files.interface(snap=40)
    packets = read(octets + b"".join(files.packet(row) for row in rows))

    assert packets.cap_bytes.tolist() == [40, len(FRAMES[1]), 40]
    assert packets.arrival_ps.tolist() == [0, 0, 0]
    assert packets.epoch_ns == BASE_NS
    assert len(read(octets + files.packet(rows[0]))) == 1


def test_pcapng_link_type_matters_only_with_packets(read):
    octets = files.section() + files.interface(network=113) + files.interface()
    packets = read(octets + files.packet(Record(FRAMES[0], len(FRAMES[0]), BASE_NS, 1)))
    assert packets.nic.tolist() == [1]

    other = files.packet(Record(FRAMES[0], len(FRAMES[0]), BASE_NS))
    assert "link type 113 (LINUX_SLL) of record 0" in refusal(read, octets + other)


@pytest.mark.parametrize("resolution", [0, 3, 6, 9, 10, 18, 40, 0x80, 0x8A, 0xA0, 0xA2, 0xBF, 0xFF])
def test_pcapng_resolutions(read, resolution):
    ticks = min(2**64 - 2, ticks_limit(resolution))
    body = struct.pack("<IIIII", 0, ticks >> 32, ticks & 0xFFFFFFFF, 0, 0)
    octets = files.section() + files.interface(resolution=resolution) + files.block(6, body)
    power = resolution & 127
    expected = ticks * 10**9 // (2**power if resolution & 128 else 10**power)

    assert read(octets).epoch_ns == expected


def ticks_limit(resolution):
    power = resolution & 127
    return (2**62 - 1) * (2**power if resolution & 128 else 10**power) // 10**9


WHOLE = files.pcap(ROWS)
SECTION = files.section() + files.interface()
BROKEN = {
    "empty": (b"", "an empty file"),
    "text": (b"no capture at all", "got the bytes 6e6f2063 at byte 0; allowed: pcap, pcapng"),
    "short": (b"\xd4\xc3", "the bytes d4c3"),
    "zstd": (b"\x28\xb5\x2f\xfd1234", "a zstd file"),
    "file-header": (WHOLE[:20], "a file header that is cut at byte 20"),
    "version": (files.pcap_header(version=(1, 4)), "pcap version 1.4"),
    "record-header": (WHOLE[:30], "record 0 at byte 24: the file ends inside its header"),
    "last-frame": (
        WHOLE[:-1],
        f"record 2 at byte {len(WHOLE) - 16 - len(FRAMES[2])}: the file end",
    ),
    "insane": (
        files.pcap_header(snap=0) + struct.pack("<4I", 0, 0, MAX_CAP_BYTES + 1, 9) + bytes(99),
        "record 0 at byte 24: its kept length is beyond its limit",
    ),
    "above-snap": (
        files.pcap_header(snap=96) + struct.pack("<4I", 0, 0, 262145, 9) + bytes(262145),
        "record 0 at byte 24: its kept length is beyond its limit",
    ),
    "span": (
        files.pcap([Record(b"", 0, 0), Record(b"", 0, BASE_NS)]),
        "record 1 is 1700000000 s after record 0; allowed: times within",
    ),
    "block-length": (SECTION + struct.pack("<3I", 6, 33, 0), "record 0 at byte 60: a block length"),
    "block-short": (SECTION + struct.pack("<3I", 6, 28, 0), "record 0 at byte 60: a block length"),
    "block-cut": (SECTION + struct.pack("<3I", 6, 64, 0), "the file ends inside it"),
    "block-header": (SECTION + b"\6\0\0\0", "the file ends inside its header"),
    "trailer": (SECTION + struct.pack("<3I", 99, 12, 16), "a block whose two lengths differ"),
    "magic": (b"\x0a\x0d\x0d\x0a" + bytes(24), "a section header without byte-order magic"),
    "section-cut": (files.section()[:20], "the file ends inside its header"),
    "major": (files.section(major=2), "a section of another version than 1"),
    "no-interface": (files.section() + files.packet(ROWS[0]), "its section does not describe"),
    "no-simple": (files.section() + files.block(3, bytes(8)), "its section does not describe"),
    "old-interface": (
        SECTION + files.section() + files.packet(ROWS[0]),
        "an interface that its section does not describe",
    ),
    "cap-in-block": (
        SECTION + files.block(6, struct.pack("<5I", 0, 0, 0, 5, 5) + bytes(4)),
        "its kept length is beyond its limit",
    ),
    "simple-cap": (SECTION + files.block(3, struct.pack("<I", 5) + bytes(4)), "its kept length"),
    "option-cut": (
        files.section() + files.block(1, struct.pack("<HHIHH", 1, 0, 0, 9, 99)),
        "interface option 9 of 99 bytes at byte 44",
    ),
    "option-length": (
        files.section() + files.block(1, struct.pack("<HHI", 1, 0, 0) + files.option(14, b"1")),
        "interface option 14 of 1 bytes at byte 44",
    ),
    "time": (
        SECTION + files.block(6, struct.pack("<5I", 0, 0xFFFFFFF0, 0, 0, 0)),
        "s after 1970 on interface 0",
    ),
    "gzip-cut": (gzip.compress(WHOLE, mtime=0)[:-9], "a gzip file that is cut"),
    "gzip-bad": (gzip.compress(WHOLE, mtime=0)[:-8] + bytes(8), "broken gzip data"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_one_line(read, name):
    octets, message = BROKEN[name]
    assert message in refusal(read, octets)


@pytest.mark.parametrize("cut", [1, len(FRAMES[2]), len(FRAMES[2]) + 1, len(FRAMES[2]) + 15])
def test_cut_files_can_be_read_up_to_there(read, cut):
    octets = files.pcap(ROWS)[:-cut]

    assert 'try truncated="stop" to read the 2 packets before it' in refusal(read, octets)
    check_rows(read(octets, truncated="stop"), ROWS[:2])
    check_rows(read(octets, limit=2), ROWS[:2])
    check_rows(read(gzip.compress(octets, mtime=0)[:-4], truncated="stop"), ROWS[:2])


def test_other_faults_are_not_passed_over(read):
    octets = SECTION + files.packet(ROWS[0]) + struct.pack("<3I", 99, 12, 16)

    assert "limit=1" in refusal(read, octets, truncated="stop")
    check_rows(read(octets, limit=1), ROWS[:1])


def test_limit(read):
    for octets in (files.pcap(ROWS), SECTION + b"".join(map(files.packet, ROWS))):
        assert [len(read(octets, limit=n)) for n in (0, 1, 3, 9)] == [0, 1, 3, 3]


def test_gzip_of_several_members_and_padding(read):
    octets = files.pcap(ROWS)
    check_rows(
        read(gzip.compress(octets[:50], mtime=0) + gzip.compress(octets[50:], mtime=0) + bytes(9)),
        ROWS,
    )


def test_mistakes_are_one_line(tmp_path):
    for options, message in (
        ({"limit": -1}, "limit: got -1"),
        ({"truncated": "keep"}, 'allowed: "error" or "stop"'),
        ({"linktype": 113}, "linktype: got 113"),
        ({"engine": "cores"}, "engine: got 'cores'"),
        ({}, "No such file"),
    ):
        with pytest.raises(ConfigError, match=message):
            read_capture(tmp_path / "none.pcap", **options)
    with pytest.raises(CaptureError, match="Is a directory"):
        read_capture(tmp_path)


def test_plain_files_are_mapped_not_copied(tmp_path):
    path = tmp_path / "a.pcap"
    path.write_bytes(files.pcap(ROWS))
    packets = read_capture(path)

    assert len(packets.blob) == path.stat().st_size
    assert write_pcap(path, packets) == 3  # over the file that is mapped
    assert frames_of(packets) == FRAMES
    assert frames_of(read_capture(path)) == FRAMES


@pytest.mark.parametrize("name", sorted(path.name for path in DATA.glob("*.pcap*")))
def test_captures_of_other_programs(name):
    packets = read_capture(DATA / name)

    assert len(packets) == {"icmpv6-length-zero.pcapng": 1, "802.1ad_QinQ.pcap": 2}[name]
    same_table(packets, read_capture(DATA / name, engine="ref"))


@given(file=st.one_of(files.pcap_files(), files.pcapng_files()))
def test_written_is_read(tmp_path_factory, file):
    octets, rows = file
    path = tmp_path_factory.getbasetemp() / "written.bin"
    path.write_bytes(octets)
    core, ref = read_capture(path), read_capture(path, engine="ref")

    check_rows(core, rows)
    same_table(core, ref)


@given(octets=files.harmed_files(), truncated=st.sampled_from(["error", "stop"]))
def test_harmed_files_never_crash(tmp_path_factory, octets, truncated):
    path = tmp_path_factory.getbasetemp() / "harmed.bin"
    path.write_bytes(octets)
    answers = []
    for engine in ("core", "ref"):
        try:
            answers.append(read_capture(path, engine=engine, truncated=truncated))
        except ConfigError as error:
            answers.append(str(error))
    if isinstance(answers[0], str):
        assert answers[0] == answers[1]
    else:
        same_table(*answers)


def scans(module, octets, limit):
    """Both walks over any octets."""
    data = np.frombuffer(octets, dtype=np.uint8)
    pcap = [
        module.scan_pcap(data, at, big, 1000, header, cap, limit)
        for at, big, header, cap in ((24, False, 16, 2**28), (0, True, 24, 99), (40, False, 16, 0))
    ]
    return [*pcap, module.scan_pcapng(data, limit)]


@given(
    octets=st.one_of(files.harmed_files(), st.binary(max_size=120)),
    limit=st.sampled_from([0, 1, 2, EVERYTHING]),
)
def test_walks_agree_on_every_fault(octets, limit):
    core, ref = (
        scans(importlib.import_module(f"emu.{name}.capture"), octets, limit)
        for name in ("_core", "ref")
    )
    for left, right in zip(core, ref, strict=True):
        for name, one, other in zip(left._fields, left, right, strict=True):
            assert np.array_equal(one, other), name
            assert getattr(one, "dtype", None) == getattr(other, "dtype", None), name


@pytest.mark.parametrize(
    ("options", "unit"), [({}, 1), ({"nanosecond": False}, 1000), ({"big_endian": True}, 1)]
)
def test_write_pcap_flavours(tmp_path, engine_name, options, unit):
    path = tmp_path / "out.pcap"
    times = [0, 1_234_567_000, 999_000]
    assert write_pcap(path, FRAMES, arrival_ps=times, epoch_ns=BASE_NS, **options) == 3
    packets = read_capture(path, engine=engine_name)

    assert frames_of(packets) == FRAMES
    expected = [time // (1000 * unit) * 1000 * unit for time in times]
    assert packets.arrival_ps.tolist() == expected
    assert packets.epoch_ns == BASE_NS


def test_write_pcap_snaps_and_keeps_wire_lengths(tmp_path):
    path = tmp_path / "out.pcap"
    write_pcap(path, FRAMES, snap_bytes=50)
    short = read_capture(path)
    assert frames_of(short) == [frame[:50] for frame in FRAMES]
    assert short.wire_bytes.tolist() == [len(frame) for frame in FRAMES]

    write_pcap(path, short)
    again = read_capture(path)
    assert frames_of(again) == frames_of(short)
    assert again.wire_bytes.tolist() == short.wire_bytes.tolist()


def test_write_pcap_of_raw_ip_and_of_tags_in_metadata(tmp_path):
    path = tmp_path / "out.pcap"
    raw = from_frames([frame[14:] for frame in FRAMES[:2]], link="raw-ip")
    write_pcap(path, raw)
    assert read_capture(path).l3_off.tolist() == [0, 0]

    taken_out = from_frames(FRAMES, vlan_accel=True)
    assert frames_of(taken_out) == FRAMES
    write_pcap(path, taken_out)
    assert frames_of(read_capture(path)) == FRAMES


def test_write_pcap_mistakes(tmp_path):
    path = tmp_path / "out.pcap"
    path.write_bytes(b"before")
    for kept, options, message in (
        (FRAMES, {"linktype": 113}, "linktype: got 113"),
        (FRAMES, {"snap_bytes": 0}, "snap_bytes: got 0"),
        (FRAMES, {"arrival_ps": [1]}, "arrival_ps: got"),
        (FRAMES, {"epoch_ns": -1}, "1970 to 2106"),
        (from_frames(FRAMES), {"arrival_ps": [1, 2, 3]}, "a table has its own times"),
        (
            from_frames([FRAMES[0], FRAMES[0][14:]], link=["ethernet", "raw-ip"]),
            {},
            "one link type",
        ),
    ):
        with pytest.raises(ConfigError, match=message):
            write_pcap(path, kept, **options)
    with pytest.raises(ConfigError, match="No such file"):
        write_pcap(tmp_path / "none" / "out.pcap", FRAMES)
    bare = from_frames(FRAMES[2:]).replace(frame_off=np.full(1, -1))
    with pytest.raises(ConfigError, match=r"packet 0: got no frame bytes"):
        write_pcap(path, bare)

    assert path.read_bytes() == b"before"
    assert [entry.name for entry in tmp_path.iterdir()] == ["out.pcap"]


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no such device here")
def test_a_device_that_never_ends_is_refused():
    with pytest.raises(CaptureError, match=r"/dev/zero: got .*; allowed: "):
        read_capture("/dev/zero")
