"""Frames: builders with right checksums and lengths, then strategies that draw and harm them."""

from __future__ import annotations

import struct

from hypothesis import strategies as st

TIMESTAMPS = bytes.fromhex("0101080a0000000100000002")
MACS = bytes.fromhex("0200000000bb0200000000aa")


def internet_sum(data: bytes) -> int:
    """The checksum field for *data* in which that field is zero."""
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack(f">{len(data) // 2}H", data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def eth(ethertype: int, payload: bytes, macs: bytes = MACS) -> bytes:
    return macs + struct.pack(">H", ethertype) + payload


def tag(frame: bytes, tci: int, tpid: int = 0x8100) -> bytes:
    """Put a VLAN tag behind the MAC addresses."""
    return frame[:12] + struct.pack(">HH", tpid, tci) + frame[12:]


def ipv4(
    proto: int, saddr: bytes, daddr: bytes, payload: bytes, *,
    options: bytes = b"", tos: int = 0, ttl: int = 64, ident: int = 7, frag: int = 0x4000,
) -> bytes:  # fmt: skip
    head = struct.pack(
        ">BBHHHBBH4s4s", 0x45 + len(options) // 4, tos, 20 + len(options) + len(payload), ident,
        frag, ttl, proto, 0, saddr, daddr,
    ) + options  # fmt: skip
    return head[:10] + struct.pack(">H", internet_sum(head)) + head[12:] + payload


def ipv6(
    proto: int, saddr: bytes, daddr: bytes, payload: bytes, *,
    label: int = 0, traffic_class: int = 0, hops: int = 64,
) -> bytes:  # fmt: skip
    word = 6 << 28 | traffic_class << 20 | label
    return struct.pack(">IHBB", word, len(payload), proto, hops) + saddr + daddr + payload


def extension(kind: int, following: int, units: int = 0) -> bytes:
    """Any extension header, of 8 * (units + 1) octets (AH: 8 + 4 * units)."""
    if kind == 44:
        return struct.pack(">BxHI", following, 0, 99)
    size = 8 + 4 * units if kind == 51 else 8 * (units + 1)
    return struct.pack(">BB", following, units) + bytes(size - 2)


def l4_sum(saddr: bytes, daddr: bytes, proto: int, segment: bytes, at: int) -> bytes:
    """Fill the checksum at offset *at* of a segment."""
    pseudo = saddr + daddr + struct.pack(">II", len(segment), proto)
    value = internet_sum(pseudo + segment[:at] + b"\0\0" + segment[at + 2 :])
    if proto == 17 and value == 0:
        value = 0xFFFF
    return segment[:at] + struct.pack(">H", value) + segment[at + 2 :]


def tcp(
    saddr: bytes, daddr: bytes, sport: int, dport: int, payload: bytes = b"", *,
    seq: int = 1000, ack: int = 1, flags: int = 0x10, window: int = 1000, options: bytes = b"",
) -> bytes:  # fmt: skip
    word = (20 + len(options)) // 4 << 12 | flags
    head = struct.pack(">HHIIHHHH", sport, dport, seq, ack, word, window, 0, 0) + options
    return l4_sum(saddr, daddr, 6, head + payload, 16)


def udp(saddr: bytes, daddr: bytes, sport: int, dport: int, payload: bytes = b"") -> bytes:
    head = struct.pack(">HHHH", sport, dport, 8 + len(payload), 0)
    return l4_sum(saddr, daddr, 17, head + payload, 6)


def gre(carried: int, payload: bytes, *, key: bytes | None = None, more: int = 0) -> bytes:
    """GRE with the flag bits *more*; a checksum or sequence number asked for is zero."""
    flags = more | (0x2000 if key is not None else 0)
    fields = (bytes(4) if flags & 0x8000 else b"") + (key or b"")
    fields += (bytes(4) if flags & 0x1000 else b"") + (bytes(4) if flags & 0x80 else b"")
    return struct.pack(">HH", flags, carried) + fields + payload


def pair4(number: int) -> tuple[bytes, bytes]:
    return struct.pack(">BBH", 10, 1, number & 0xFFFF), bytes((10, 2, 0, 1))


def pair6(number: int) -> tuple[bytes, bytes]:
    return bytes.fromhex("fdaa") + bytes(12) + struct.pack(">H", number & 0xFFFF), bytes.fromhex(
        "fdaa"
    ) + bytes(13) + b"\1"


def tcp4(number: int, payload: bytes = b"", options: bytes = b"") -> bytes:
    """A whole Ethernet frame of flow *number*."""
    s, d = pair4(number)
    return eth(
        0x0800, ipv4(6, s, d, tcp(s, d, 1500 + number % 60000, 80, payload, options=options))
    )


def udp4(number: int, payload: bytes = b"") -> bytes:
    s, d = pair4(number)
    return eth(0x0800, ipv4(17, s, d, udp(s, d, 1500 + number % 60000, 53, payload)))


def tcp6(number: int, payload: bytes = b"", options: bytes = b"", label: int = 0) -> bytes:
    s, d = pair6(number)
    segment = tcp(s, d, 1500 + number % 60000, 80, payload, options=options)
    return eth(0x86DD, ipv6(6, s, d, segment, label=label))


def udp6(number: int, payload: bytes = b"", label: int = 0) -> bytes:
    s, d = pair6(number)
    segment = udp(s, d, 1500 + number % 60000, 53, payload)
    return eth(0x86DD, ipv6(17, s, d, segment, label=label))


PORTS = st.sampled_from([0, 1, 80, 255, 256, 1500, 8000, 0xFF00, 0xFFFF])
WORD4 = st.sampled_from(
    [bytes(4), b"\x0a\0\0\1", b"\1\0\0\x0a", b"\xc0\xa8\1\x64", b"\xc0\xa8\1\xc8"]
)
WORD6 = st.builds(lambda a, b: a + bytes(8) + b, WORD4, WORD4)
PAYLOADS = st.binary(max_size=24)
OPTIONS = st.sampled_from([b"", b"", TIMESTAMPS, b"\1" * 4, b"\1" * 40])
PROTOS = st.sampled_from(
    [0, 1, 4, 6, 17, 33, 41, 43, 44, 47, 50, 51, 58, 59, 60, 89, 132, 135, 136, 137]
)
KINDS = st.sampled_from(["tcp", "tcp", "udp", "udp", "other", "tunnel", "gre"])
LABELS = st.sampled_from([0, 0, 0, 1, 0x12345, 0xFFFFF])
FRAGS = st.sampled_from([0x4000, 0x4000, 0x4000, 0, 0x8000, 0x2000, 0x2001, 0x0005])


@st.composite
def segments(draw: st.DrawFn, saddr: bytes, daddr: bytes, depth: int) -> tuple[int, bytes]:
    """A transport header or a tunnelled packet: (protocol, octets)."""
    kind = draw(KINDS) if depth < 3 else draw(st.sampled_from(["tcp", "udp", "other"]))
    if kind == "tcp":
        octets = tcp(saddr, daddr, draw(PORTS), draw(PORTS), draw(PAYLOADS), options=draw(OPTIONS))
        return 6, octets
    if kind == "udp":
        return 17, udp(saddr, daddr, draw(PORTS), draw(PORTS), draw(PAYLOADS))
    if kind == "other":
        return draw(PROTOS), draw(st.binary(max_size=40))
    if kind == "tunnel":
        inner = draw(st.sampled_from([4, 6]))
        return (4 if inner == 4 else 41), draw(packets(inner, depth + 1))
    return 47, draw(gre_headers(depth))


@st.composite
def gre_headers(draw: st.DrawFn, depth: int) -> bytes:
    """GRE of either version, opened by the dissector or not."""
    inner = draw(st.sampled_from([4, 6]))
    packet = draw(packets(inner, depth + 1))
    carried = 0x0800 if inner == 4 else 0x86DD
    key = draw(st.sampled_from([None, b"\1\2\3\4"]))
    flags = draw(st.sampled_from([0, 0, 0x8000, 0x1000, 0x9000, 0x4000, 2]))
    shape = draw(st.sampled_from(["plain", "teb", "tagged-teb", "pptp", "other"]))
    if shape == "teb":
        return gre(0x6558, eth(carried, packet), key=key, more=flags)
    if shape == "tagged-teb":
        return gre(
            0x6558, tag(eth(carried, packet), draw(st.integers(0, 0xFFFF))), key=key, more=flags
        )
    if shape == "pptp":
        protocol = draw(st.sampled_from([0x21, 0x57, 0xC021]))
        body = struct.pack(">HH", 0xFF03, protocol) + packet
        more = draw(st.sampled_from([1, 0x81, 0x1001, 0x1081]))
        return gre(draw(st.sampled_from([0x880B, 0x0800])), body, key=key, more=more)
    return gre(carried if shape == "plain" else 0x8847, packet, key=key, more=flags)


@st.composite
def packets(draw: st.DrawFn, family: int, depth: int = 0) -> bytes:
    """A well-formed IPv4 or IPv6 packet."""
    if family == 4:
        saddr, daddr = draw(WORD4), draw(WORD4)
        proto, body = draw(segments(saddr, daddr, depth))
        return ipv4(
            proto, saddr, daddr, body, options=draw(OPTIONS),
            tos=draw(st.sampled_from([0, 3, 0xB8])), frag=draw(FRAGS),
        )  # fmt: skip
    saddr, daddr = draw(WORD6), draw(WORD6)
    proto, body = draw(segments(saddr, daddr, depth))
    for kind in draw(st.lists(st.sampled_from([0, 43, 60, 60, 44, 51]), max_size=3)):
        header = extension(kind, proto, draw(st.sampled_from([0, 0, 1, 4])))
        if kind == 44:
            header = (
                header[:2] + struct.pack(">H", draw(st.sampled_from([0, 1, 8, 9]))) + header[4:]
            )
        proto, body = kind, header + body
    return ipv6(
        proto,
        saddr,
        daddr,
        body,
        label=draw(LABELS),
        traffic_class=draw(st.sampled_from([0, 0xB8])),
    )


@st.composite
def good_frames(draw: st.DrawFn) -> bytes:
    """A well-formed Ethernet frame, with tags now and then."""
    family = draw(st.sampled_from([4, 4, 6, 6, 0]))
    if family:
        frame = eth(0x0800 if family == 4 else 0x86DD, draw(packets(family)))
    else:
        ethertype = draw(
            st.sampled_from([0x0806, 0x8847, 0x88CC, 0x0800, 0x86DD, 46, 0x5FF, 0x600])
        )
        frame = eth(ethertype, draw(st.sampled_from([b"", b"\xff\xff", b"\xff", bytes(46)])))
    depth = draw(st.sampled_from([0, 0, 0, 0, 1, 1, 2, 3, 14, 15, 16, 17]))
    for _ in range(depth):
        tpid = draw(st.sampled_from([0x8100, 0x88A8])) if depth < 4 else 0x8100
        frame = tag(frame, draw(st.integers(0, 0xFFFF)) if depth < 4 else 5, tpid)
    return frame


@st.composite
def any_frames(draw: st.DrawFn) -> bytes:
    """A frame that may be cut, padded, or hurt in a few octets."""
    frame = bytearray(draw(good_frames()))
    for harm in draw(st.lists(st.sampled_from(["cut", "pad", "flip", "flip"]), max_size=3)):
        if harm == "cut":
            del frame[draw(st.integers(0, len(frame))) :]
        elif harm == "pad":
            frame += bytes(draw(st.integers(0, 20)))
        elif frame:
            frame[draw(st.integers(0, len(frame) - 1))] ^= draw(
                st.sampled_from([1, 2, 4, 0x0F, 0x40, 0xF0])
            )
    return bytes(frame)


def capture_rows() -> st.SearchStrategy[tuple[bytes, int, int]]:
    """(octets kept, octets on the wire, link type)."""

    def snap(frame: bytes, kept: int | None, link: int) -> tuple[bytes, int, int]:
        frame = frame[14:] if link else frame
        return (frame if kept is None else frame[:kept]), len(frame), link

    return st.builds(
        snap,
        any_frames(),
        st.one_of(st.none(), st.none(), st.integers(0, 120)),
        st.sampled_from([0, 0, 0, 1]),
    )
