"""The flow hash's block (receive.md 2.2 to 2.4), seen through a frame's columns or flow key."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path

import pytest

from emu.intake import from_frames
from emu.ref.dissect import dissect_frame
from emu.ref.flow_dissect import pack_block
from emu.ref.record import Journal
from tests.strategies import frames as make

S4, D4 = bytes((192, 168, 1, 200)), bytes((192, 168, 1, 100))
S6, D6 = bytes.fromhex("fdaa" + "00" * 13 + "02"), bytes.fromhex("fdaa" + "00" * 13 + "01")
ROW_1 = (
    "080006000000000000000000000000000000000000000000000000001f4005dc00000000"
    "c0a80164c0a801c800000000"
)
DATA = Path(__file__).parent.parent / "data"


def blocks(engine, *frames):
    """The hashed octets and the l4 mark of each frame, as a consumer of the table finds them."""
    table = from_frames(frames, engine=engine.name)
    out = []
    for i, key in enumerate(table.flow_key.tolist()):
        if key >= 0:
            row = table.flow_keys[key]
            out.append((row["block"][: row["len"]].tobytes().hex(), bool(row["l4"])))
            continue
        family = int(table.family[i])
        width = {0: 0, 4: 4, 6: 16}[family]
        addresses = table.saddr[i].tobytes()[:width] + table.daddr[i].tobytes()[:width]
        ports = struct.pack(">HH", int(table.sport[i]), int(table.dport[i]))
        block = pack_block(
            int(table.ethertype[i]), int(table.ip_proto[i]), family, addresses, ports
        )
        out.append((block.octets.hex(), block.l4))
    return out


@pytest.fixture(params=["core", "ref"])
def blocks_of(request):
    class Engine:
        name = request.param

    return lambda *frames: blocks(Engine, *frames)


def v4(proto, body, s=S4, d=D4, **changes):
    return make.eth(0x0800, make.ipv4(proto, s, d, body, **changes))


def tcp4(sport=1500, dport=8000, s=S4, d=D4, **changes):
    return v4(6, make.tcp(s, d, sport, dport), s, d, **changes)


def v6(proto, body, **changes):
    return make.eth(0x86DD, make.ipv6(proto, S6, D6, body, **changes))


def test_vector_1_and_its_three_swapped_forms(blocks_of):
    forms = blocks_of(tcp4(), tcp4(8000, 1500, D4, S4), tcp4(8000, 1500), tcp4(1500, 8000, D4, S4))

    assert forms == [(ROW_1, True)] * 4


def test_vector_7_stops_at_the_flow_label(blocks_of):
    frames = [v6(6, make.tcp(S6, D6, p, 8000), label=0x12345) for p in (1500, 1501)]
    first, second = blocks_of(*frames)

    assert first == second
    assert first[0] == "86dd060045230100" + "00" * 28 + D6.hex() + S6.hex() + "00" * 4
    assert first[1]


def test_r_2_3_1_fifteen_transitions(blocks_of):
    def tagged(depth):
        frame = tcp4()
        for _ in range(depth):
            frame = make.tag(frame, 5)
        return frame

    fifteen, sixteen = blocks_of(tagged(15), tagged(16))

    assert (len(fifteen[0]), fifteen[1]) == (96, True)
    assert (len(sixteen[0]), sixteen[1]) == (80, False)
    assert sixteen[0].startswith("08000000" + "00000000" + "0500" + "8100" + "8100")


def test_r_2_3_2_first_tag_without_dei(blocks_of):
    """vid | priority << 13, native; TPID and the type behind it in network order."""
    plain = ROW_1[16:]
    one, dei, two = blocks_of(
        make.tag(tcp4(), 0x6005),
        make.tag(tcp4(), 0x7005),
        make.tag(make.tag(tcp4(), 9), 0x6005, 0x88A8),
    )

    assert one[0] == "0800060000000000" + "0560" + "8100" + "0800" + plain[12:]
    assert dei == one
    assert two[0] == "0800060000000000" + "0560" + "88a8" + "8100" + plain[12:]


@pytest.mark.parametrize("frag", [0x2000, 0x2001, 1])
def test_r_2_3_3_fragments_have_no_ports(blocks_of, frag):
    assert blocks_of(tcp4(frag=frag)) == [(ROW_1.replace("1f4005dc", "00000000"), False)]


def test_r_2_3_4_extension_headers(blocks_of):
    segment = make.tcp(S6, D6, 1500, 8000)
    plain, options, fragment, labelled = blocks_of(
        v6(6, segment),
        v6(60, make.extension(60, 0) + make.extension(0, 6, 2) + segment),
        v6(60, make.extension(60, 44) + make.extension(44, 6) + segment),
        v6(60, make.extension(60, 6) + segment, label=1),
    )

    assert plain == options
    assert plain[0][56:64] == "1f4005dc"
    assert fragment[0] == plain[0].replace("1f4005dc", "00000000")
    assert not fragment[1]
    assert labelled[0].startswith("86dd3c00" + "01000000")
    assert labelled[1]


def test_r_2_3_5_tunnels_are_opened(blocks_of):
    inner = tcp4()[14:]
    key = b"\1\2\3\4"
    ppp = struct.pack(">HH", 0xFF03, 0x21) + inner
    out = blocks_of(
        v4(4, inner, D4, b"\7\7\7\7"),
        v4(47, make.gre(0x0800, inner)),
        v4(47, make.gre(0x0800, inner, key=key, more=0x9000)),
        v4(47, make.gre(0x6558, make.eth(0x0800, inner), key=key)),
        v4(47, make.gre(0x880B, ppp, key=key, more=0x1081)),
        v4(47, make.gre(0x0800, inner, more=0x4000)),
        v4(47, make.gre(0x0800, inner, more=2)),
    )

    keyed = ROW_1[:48] + "01020304" + ROW_1[56:]
    pptp = ROW_1[:48] + "00000304" + ROW_1[56:]
    closed = ROW_1.replace("08000600", "08002f00").replace("1f4005dc", "00000000")
    assert [block for block, _ in out] == [ROW_1, ROW_1, keyed, keyed, pptp, closed, closed]


def test_r_2_3_5_source_of_the_outer_ipv6_shows_behind_inner_ipv4(blocks_of):
    """Octets 8..11 of it: so the two directions of 4in6 can differ (observed-live R4)."""
    s6 = bytes(8) + b"\xaa\xbb\xcc\xdd" + bytes(4)
    ((block, _),) = blocks_of(make.eth(0x86DD, make.ipv6(4, s6, D6, tcp4()[14:])))

    assert block == ROW_1[:-8] + "aabbccdd"


def test_r_2_3_5_vxlan_stays_closed_and_mpls_stops(blocks_of):
    outer = v4(17, make.udp(S4, D4, 0x8123, 4789, bytes(8) + tcp4()))
    vxlan, mpls, in_ip = blocks_of(outer, make.eth(0x8847, bytes(40)), v4(137, bytes(40)))

    assert vxlan[0][:8] == "08001100"
    assert vxlan[1]
    assert mpls == ("8847" + "00" * 38, False)
    assert in_ip[0][:8] == "88478900"
    assert len(in_ip[0]) == 96


def test_r_2_3_6_spi_counts_as_ports(blocks_of):
    spi = b"\x01\x99\x02\x03"
    esp, ah, icmp, short = blocks_of(
        v4(50, spi + bytes(8)),
        v4(51, b"\6\4\0\0" + spi + bytes(20)),
        v4(1, bytes(8)),
        v4(6, b"\1\2\3"),
    )

    assert esp[0][56:64] == ah[0][56:64] == "02030199"
    assert esp[1]
    assert ah[1]
    assert icmp[0][56:64] == short[0][56:64] == "00000000"
    assert not icmp[1]
    assert not short[1]


@pytest.mark.parametrize(
    ("ethertype", "hashed"), [(0x0806, "0806"), (0x1234, "1234"), (46, "0004")]
)
def test_r_2_3_7_unknown_ethertypes(blocks_of, ethertype, hashed):
    """A length instead of a type counts as ETH_P_802_2."""
    assert blocks_of(make.eth(ethertype, bytes(46))) == [(hashed + "00" * 38, False)]


def test_bad_headers_still_hash_what_was_stored(blocks_of):
    frame = bytearray(tcp4())
    frame[14] = 0x44
    ihl, cut = blocks_of(bytes(frame), tcp4()[:33])

    assert ihl == cut == ("0800" + "00" * 38, False)


def test_equal_blocks_exactly_where_a_live_kernel_gave_equal_hashes(blocks_of):
    """Recorded on 6.18.44, one boot: frames that differ in one field (observed-live R4)."""
    with gzip.open(DATA / "hashkeys.jsonl.gz", "rt") as lines:
        records = [json.loads(line) for line in lines]
    frames = [bytes.fromhex(frame) for record in records for frame in record["frames"]]
    hashes = [value for record in records for value in record["hash"]]
    l4 = [bool(value) for record in records for value in record["l4_hash"]]

    found = blocks_of(*frames)

    pairs = {(block, value) for (block, _), value in zip(found, hashes, strict=True)}
    assert len(pairs) == len(set(hashes)) == len({block for block, _ in found})
    assert l4 == [mark for _, mark in found]


def test_every_rule_is_drawn_both_ways():
    journal = Journal()
    inner = tcp4()[14:]
    frame = tcp4()
    for _ in range(17):
        frame = make.tag(frame, 1)
    for octets in (frame, tcp4(frag=1), v6(6, b"", label=1), v6(1, bytes(8)),
                   v4(47, make.gre(0x0800, inner)), make.eth(0x0806, b"")):  # fmt: skip
        dissect_frame(octets, len(octets), 0, journal)

    drawn = {(said.name, said.said) for said in journal.entries if said.kind == "rule"}
    assert drawn == {(f"R-2.3.{n}", outcome) for n in range(1, 8) for outcome in (True, False)}
