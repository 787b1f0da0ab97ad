"""Packets for GRO: trains of segments as a table, and strategies that draw and disturb them."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st

from emu import dtypes
from emu.dtypes import PacketFlag
from emu.intake import from_frames, inner_packets
from emu.model.packets import Packets
from emu.result.skbs import Skbs
from tests.strategies import frames as make

IPV4, IPV6, TCP, UDP = 4, 6, 6, 17
ACK = 0x10
NAPI = 255  # GRO_CFG.design of no kthread


def word12(flags: int = ACK, window: int = 65535, options_bytes: int = 0) -> int:
    """The 32 bits at TCP offset 12."""
    return (20 + options_bytes) // 4 << 28 | flags << 16 | window


def settings(**changes: int) -> Any:
    """A ``dtypes.GRO_CFG`` record: GRO on, limits of 64 KiB."""
    row = np.zeros(1, dtype=dtypes.GRO_CFG)
    row["max_size"] = row["ipv4_max_size"] = 65536
    row["enabled"] = row["tcp_fraglist"] = row["jumbo_header"] = 1
    row["design"] = NAPI
    for name, value in changes.items():
        row[name] = value
    return row[0]


def train(
    packets: int,
    *,
    flows: int = 1,
    run: int = 1,
    payload: int = 1448,
    family: int = IPV4,
    proto: int = TCP,
    options: bool = False,
) -> Packets:
    """Whole segments of bulk streams, *run* of a flow at a time; each flow has its hash."""
    columns = dtypes.allocate(dtypes.PACKET_COLUMNS, packets)
    number = np.arange(packets)
    flow = number // run % flows
    count = number // (run * flows) * run + number % run  # segments of this flow before it
    head = (20 if family == IPV4 else 40) + (20 if proto == TCP else 8) + 12 * options
    columns["wire_bytes"][:] = 14 + head + payload
    columns["flags"][:] = PacketFlag.HAS_PORTS
    columns["family"][:], columns["ip_proto"][:] = family, proto
    columns["ethertype"][:] = 0x0800 if family == IPV4 else 0x86DD
    columns["ip_b0"][:] = 0x45 if family == IPV4 else 0x60
    columns["saddr"][:, 0], columns["daddr"][:, 0] = 0x0100000A, 0x0200000A
    columns["sport"][:], columns["dport"][:] = 10_000 + flow % 50_000, 443
    columns["flow_key"][:] = columns["frame_off"][:] = columns["opt_off"][:] = -1
    columns["mac"][:] = 0x0102, 0x0304
    columns["l3_off"][:], columns["l4_off"][:] = 14, 14 + (20 if family == IPV4 else 40)
    columns["ttl"][:] = 64
    columns["ip_len"][:] = head + payload - (0 if family == IPV4 else 40)
    columns["payload_bytes"][:] = payload
    if family == IPV4:
        columns["ip_frag"][:], columns["ip_id"][:] = 0x4000, count % 65536
    if proto == TCP:
        columns["seq"][:], columns["tcp_w12"][:] = count * payload % 2**32, word12()
    else:
        columns["udp_len"][:] = payload + 8
    if options:
        columns["opt_off"][:], columns["tcp_w12"][:] = 0, word12(options_bytes=12)
    columns["skb_hash"][:] = (flow * 2654435761 + 12345) % 2**32
    columns["hash_type"][:] = dtypes.HashType.L4
    return Packets(columns, blob=np.frombuffer(b"\1\1\x08\x0a" + bytes(8), dtype=np.uint8))


SOURCE = {4: bytes((192, 168, 1, 200)), 6: bytes.fromhex("fdaa" + "00" * 13 + "02")}
TARGET = {4: bytes((192, 168, 1, 100)), 6: bytes.fromhex("fdaa" + "00" * 13 + "01")}
FIN, SYN, RST, PSH, URG, ECE, CWR = 0x01, 0x02, 0x04, 0x08, 0x20, 0x40, 0x80
LETTER = b"a"


def network(version: int, proto: int, segment: bytes, *, extensions: bytes = b"", first: int = 0,
            macs: bytes = make.MACS, ip_options: bytes = b"", **header: Any) -> bytes:  # fmt: skip
    """A frame around a segment; IPv4 has ID 0 and DF unless said."""
    if version == 4:
        header = {"ident": 0, "ttl": 8, "options": ip_options} | header
        packet = make.ipv4(proto, SOURCE[4], TARGET[4], segment, **header)
        return make.eth(0x0800, packet, macs)
    header = {"hops": 8} | header
    kind = first if extensions else proto
    return make.eth(
        0x86DD, make.ipv6(kind, SOURCE[6], TARGET[6], extensions + segment, **header), macs
    )


def segment(
    payload: int, offset: int, *, version: int = 4, flags: int = 0, ack: int = 100,
    window: int = 65535, options: bytes = b"", sport: int = 1500, **header: Any,
) -> bytes:  # fmt: skip
    """The kernel selftest's TCP frame: that many octets at that offset of the stream."""
    tcp = make.tcp(
        SOURCE[version], TARGET[version], sport, 8000, LETTER * payload,
        seq=(100 + offset) % 2**32, ack=ack, flags=ACK | flags, window=window, options=options,
    )  # fmt: skip
    return network(version, 6, tcp, **header)


def datagram(
    payload: int, *, version: int = 4, sport: int = 1500, checksum: bytes | None = None,
    length: int | None = None, **header: Any,
) -> bytes:  # fmt: skip
    """A UDP frame; checksum and length field can be given."""
    udp = bytearray(make.udp(SOURCE[version], TARGET[version], sport, 8000, LETTER * payload))
    if length is not None:
        udp[4:6] = length.to_bytes(2, "big")
        udp[6:8] = make.l4_sum(SOURCE[version], TARGET[version], 17, bytes(udp), 6)[6:8]
    if checksum is not None:
        udp[6:8] = checksum
    return network(version, 17, bytes(udp), **header)


def spoil(frame: bytes, at: int) -> bytes:
    """The frame with one octet another; counted round when it is shorter."""
    at %= len(frame)
    return frame[:at] + bytes([frame[at] ^ 0x55]) + frame[at + 1 :]


def coalesce(
    module: Any, packets: Packets | list[bytes], *, polls: list[int] | None = None,
    jiffies: list[int] | None = None, hz: int = 250, intake: dict[str, Any] | None = None,
    sock: list[int] | int = 0, **cfg: int,
) -> Skbs:  # fmt: skip
    """Run packets or frames through one engine, in one poll unless said."""
    if isinstance(packets, list):
        packets = from_frames(packets, **intake or {})
    counts = np.array([len(packets)] if polls is None else polls, dtype=np.int64)
    times = np.zeros(len(counts), dtype=np.int64) if jiffies is None else np.array(jiffies)
    inner, inner_of = inner_packets(packets)
    answer = module.gro_packets(
        packets, counts, times, settings(**cfg), packets.skb_hash, packets.hash_type, hz,
        sock=np.full(len(packets), sock, dtype=np.uint8), inner=inner, inner_of=inner_of,
    )  # fmt: skip
    return Skbs(packets=packets, table=answer[0], skb_of=answer[1], result=answer[2])


@st.composite
def streams(draw: st.DrawFn, most: int = 40) -> list[bytes]:
    """Frames of a few flows that mostly follow each other, each disturbed at times."""
    version = draw(st.sampled_from([4, 4, 6]))
    at: dict[int, int] = {}
    idents: dict[int, int] = {}
    frames = []
    step = draw(st.sampled_from([0, 1, 1, 1]))
    for _ in range(draw(st.integers(1, most))):
        sport = draw(st.integers(1500, draw(st.sampled_from([1500, 1501, 1510]))))
        proto = TCP if sport % 3 else UDP
        size = draw(st.sampled_from([100, 100, 100, 100, 100, 60, 140, 0]))
        header: dict[str, Any] = {}
        if version == 4:
            header["ident"] = idents.get(sport, 65530) % 65536
            idents[sport] = idents.get(sport, 65530) + draw(st.sampled_from([step] * 9 + [0, 1, 2]))
        header |= draw(st.sampled_from([{}] * 20 + ODD[version]))
        if proto == UDP:
            odd = draw(st.sampled_from([{}] * 20 + [{"checksum": b"\0\0"}, {"length": 9}]))
            frame = datagram(size, version=version, sport=sport, **odd, **header)
        else:
            odd = draw(st.sampled_from([{}] * 12 + ODD_TCP))
            offset = at.get(sport, 0) + draw(st.sampled_from([0] * 15 + [1, -1]))
            frame = segment(size, offset, version=version, sport=sport, **odd, **header)
            at[sport] = offset + size
        frames.append(draw(st.sampled_from([lambda f: f] * 20 + HARM))(frame))
    return frames


ODD: dict[int, list[dict[str, Any]]] = {
    4: [
        {"ttl": 9}, {"tos": 3}, {"frag": 0}, {"frag": 0xC000}, {"frag": 0x2000},
        {"ip_options": bytes(4)}, {"macs": bytes(12)},
    ],
    6: [
        {"hops": 9}, {"traffic_class": 3}, {"label": 5}, {"macs": bytes(12)},
        {"extensions": make.extension(60, 6), "first": 60},
        {"extensions": make.extension(44, 6), "first": 44},
        {"extensions": make.extension(0, 60) + make.extension(60, 6), "first": 0},
    ],
}  # fmt: skip
ODD_TCP: list[dict[str, Any]] = [
    {"flags": flag} for flag in (FIN, SYN, RST, PSH, PSH, URG, ECE, CWR)
] + [{"ack": 101}, {"window": 9}, {"options": make.TIMESTAMPS}, {"options": bytes(4)}]
HARM: list[Any] = [
    lambda frame: frame + bytes(6),
    lambda frame: frame[:-1],
    lambda frame: frame[: len(frame) // 2],
    lambda frame: spoil(frame, len(frame) - 1),
    lambda frame: spoil(frame, 22),
    lambda frame: spoil(frame, 46),
    lambda frame: make.tag(frame, 5),
]


def carry(frame: bytes, *, version: int = 4, **header: Any) -> bytes:
    """The packet of a frame inside another IP header: IP in IP."""
    inner = frame[14:]
    proto = 4 if frame[12:14] == b"\x08\x00" else 41
    return network(version, proto, inner, **header)


def chain(frames: list[bytes], version: int, **header: Any) -> list[bytes]:
    """Frames of a stream, each carried; the outer IDs rise."""
    if version == 6:
        return [carry(frame, version=6, **header) for frame in frames]
    return [carry(frame, ident=at, **header) for at, frame in enumerate(frames)]


@st.composite
def tunnels(draw: st.DrawFn, most: int = 20) -> list[bytes]:
    """Frames of `streams`, carried; a few of them bare, twice carried, or with another header."""
    version = draw(st.sampled_from([4, 6]))
    odd = st.sampled_from([{}] * 12 + ODD[version])
    out = []
    for at, frame in enumerate(draw(streams(most))):
        header = dict(draw(odd))
        if version == 4:
            header.setdefault("ident", draw(st.sampled_from([at] * 6 + [0])))
        times = draw(st.sampled_from([1] * 12 + [0, 2]))
        for _ in range(times):
            frame = carry(frame, version=version, **header)
        out.append(draw(st.sampled_from([lambda f: f] * 20 + HARM))(frame))
    return out


@st.composite
def tagged(draw: st.DrawFn, most: int = 20) -> list[bytes]:
    """Frames of `streams` with tags in them."""
    tci = st.sampled_from([5] * 8 + [6])
    return [
        make.tag(frame, draw(tci), draw(st.sampled_from([0x8100] * 8 + [0x88A8])))
        for frame in draw(streams(most))
    ]


@st.composite
def offloads(draw: st.DrawFn, count: int) -> dict[str, Any]:
    """What a device says of checksums and GSO, packet by packet."""

    def column(*values: Any) -> list[Any]:
        one = st.sampled_from(values)
        return draw(st.lists(one, min_size=count, max_size=count))

    kind = draw(st.sampled_from(["none", "none", "unnecessary", "complete", "partial", "mixed"]))
    states = ("none", "unnecessary", "partial") if kind == "mixed" else (kind,)
    out: dict[str, Any] = {
        "ip_summed": column(*states),
        "csum_level": column(0, 0, 1, 3),
        "csum_start": column(34, 34, 54, 14, 0),
        "csum_off": column(16, 6),
    }
    if draw(st.booleans()):
        out["gso_size"] = column(0, 0, 50, 100)
        out["gso_type"] = column(1, 16, 1, 3, 1 << 17, 0)
        out["gso_segs"] = column(1, 2, 2, 0)
    return out
