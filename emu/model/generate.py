"""Packets that nobody captured: traffic made from a few knobs and a seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emu import dtypes
from emu.dtypes import PacketFlag
from emu.model.draw import all_below, draws, permuted, thousandths, zipf_places, zipf_weights
from emu.model.packets import Packets
from emu.model.traffic import IP_SUMMED, TIMESTAMP_BYTES, Traffic, check_room, free_clients
from emu.units import PS_PER_SECOND

TCP, UDP = 6, 17
ACK, PSH = 0x10, 0x08
WINDOW = 512
TTL = 64
DONT_FRAGMENT = 0x4000
ETHERTYPES = {4: 0x0800, 6: 0x86DD}
MACS = bytes.fromhex("020000000001020000000002")  # to, from
TIMESTAMPS = np.frombuffer(bytes.fromhex("0101080a0000000100000001"), dtype=np.uint8)
# Streams of random numbers; a new use takes a new number.
PICK, SIZE, PROTO, FAMILY, LOCAL, CLIENT, PORT, SEQ, ACK_SEQ, IP_ID, ORDER = range(1, 12)

Array = NDArray[Any]


def generate(
    *,
    packets: int,
    flows: int = 1024,
    pattern: str = "uniform",
    train: int = 4,
    interleave: int = 1,
    zipf_s: float = 1.1,
    proto: str = "tcp",
    family: int | str | None = None,
    payload_bytes: int | str | Mapping[int, int] = 1448,
    local: str | Sequence[str] | None = None,
    clients: str | Sequence[str] | None = None,
    client_ports: tuple[int, int] = (32768, 60999),
    rate_pps: int = 1_000_000,
    timestamps: bool = False,
    psh: bool = False,
    nic: int = 0,
    ip_summed: str = "unnecessary",
    seed: int = 0,
) -> Packets:
    """Make a packet table without frames: Ethernet, IP, and TCP or UDP with right lengths and sums.

    Its columns are what dissection says of the frames that `emu.io.frames.frames_of` builds. A
    flow's TCP sequence numbers go on without a gap and its IPv4 ids count up, so GRO merges what
    arrives back to back. Frames are not padded to 60 bytes. Equal arguments give equal packets on
    every machine.

    Args:
        packets: how many.
        flows: how many different flows they are picked from.
        pattern: which flow a packet is of. ``"uniform"``: any, each as likely. ``"zipf"``: the
            k-th flow with a weight of k**-zipf_s. ``"trains"``: *train* packets of one flow in a
            row; all flows take their turn before one comes again, each time in another order.
        interleave: with ``"trains"``: this many trains at a time arrive packet by packet in turns.
        proto: ``"tcp"``, ``"udp"``, or ``"mix"``: a flow is either, as likely.
        family: 4, 6, or ``"mix"``; by default what *local* has.
        payload_bytes: octets behind the transport header: a number; ``"imix"``, IP lengths of 40,
            576 and 1500 octets 7 : 4 : 1, as far as headers allow; or a mapping of numbers to
            weights. Drawn for each packet.
        local: where packets go, ``"10.0.0.1:80"`` or ``"[fd00::1]:80"``; of several each flow
            draws one.
        clients: the network that they come from; of each family one.
        client_ports: first and last port of clients.
        rate_pps: packets per second, evenly spaced.
        timestamps: TCP segments carry the timestamps option, always with the same values.
        psh: the last segment of a train has PSH set; without trains, each has.
        nic: index of the NIC they arrive on.
        ip_summed: ``"none"``, ``"unnecessary"``, ``"complete"``, ``"partial"``: what the driver
            says of checksums.
        seed: picks everything that is drawn.

    Raises:
        ConfigError: an argument is not as said above; more flows than client addresses and ports.
    """
    return make_packets(Traffic(**locals()))  # just the arguments: nothing else is local yet


class Flows(NamedTuple):
    """One entry per flow."""

    family: Array
    proto: Array
    saddr: Array
    daddr: Array
    sport: Array
    dport: Array


def make_packets(traffic: Traffic) -> Packets:
    """Lay the table out."""
    flows = make_flows(traffic)
    flow, train_end = pick_flows(traffic)
    columns = dtypes.allocate(dtypes.PACKET_COLUMNS, traffic.packets)
    columns["arrival_ps"][:] = arrivals(traffic)
    for name in ("saddr", "daddr", "sport", "dport", "family"):
        columns[name][...] = per_packet(getattr(flows, name), flow)
    columns["ip_proto"][:] = proto = per_packet(flows.proto, flow)
    payload_bytes = pick_sizes(traffic, columns["family"], proto)
    columns["payload_bytes"][:] = payload_bytes
    fill_constants(columns, traffic)
    tcp, six = proto == TCP, columns["family"] == 6
    options_bytes = TIMESTAMP_BYTES if traffic.timestamps else 0
    l4_bytes = np.where(tcp, 20 + options_bytes, 8) + payload_bytes
    fill_network(columns, six, l4_bytes)
    fill_transport(columns, traffic, flow, tcp, train_end)
    return Packets(columns, blob=TIMESTAMPS.copy() if traffic.timestamps else TIMESTAMPS[:0].copy())


def per_packet(values: Array, flow: Array) -> Array:
    """A flow's entry for each of its packets; one value for all is not looked up."""
    if len(values) and np.all(values == values[0]):
        return np.broadcast_to(values[0], (len(flow), *values.shape[1:]))
    out: Array = np.take(values, flow, axis=0)
    return out


def arrivals(traffic: Traffic) -> Array:
    """int64[n], evenly spaced, rounded down."""
    step, rest = divmod(PS_PER_SECOND, traffic.rate_pps)
    number = np.arange(traffic.packets, dtype=np.int64)
    return number * step + number * rest // traffic.rate_pps


def fill_constants(columns: dict[str, Array], traffic: Traffic) -> None:
    """What is the same for every packet."""
    columns["nic"].fill(traffic.nic)
    columns["ip_summed"].fill(IP_SUMMED[traffic.ip_summed])
    columns["flags"].fill(PacketFlag.HAS_PORTS)
    columns["l3_off"].fill(14)
    columns["ttl"].fill(TTL)
    for name in ("flow_key", "opt_off", "frame_off"):
        columns[name].fill(-1)


def fill_network(columns: dict[str, Array], six: Array, l4_bytes: Array) -> None:
    """Link and network header; *six* says which packets are IPv6."""
    for family, rows in ((4, ~six), (6, six)):
        if not rows.any():
            continue
        header_bytes = 20 if family == 4 else 40
        mac = np.frombuffer(MACS + ETHERTYPES[family].to_bytes(2, "big") + bytes(2), dtype="<u8")
        every: Any = slice(None) if rows.all() else rows
        columns["mac"][every] = mac
        columns["ethertype"][every] = ETHERTYPES[family]
        columns["l4_off"][every] = 14 + header_bytes
        columns["ip_b0"][every] = 0x45 if family == 4 else 0x60
        columns["wire_bytes"][every] = 14 + header_bytes + l4_bytes[every]
        columns["ip_len"][every] = l4_bytes[every] + (header_bytes if family == 4 else 0)
        if family == 4:
            columns["ip_frag"][every] = DONT_FRAGMENT


def fill_transport(
    columns: dict[str, Array], traffic: Traffic, flow: Array, tcp: Array, train_end: Array
) -> None:
    """What counts along a flow, and the transport header."""
    nth, before = along_flows(flow, columns["payload_bytes"], traffic.flows)
    numbers = np.arange(traffic.flows, dtype=np.uint64)
    first_id = (draws(traffic.seed, IP_ID, numbers) & np.uint64(0xFFFF)).astype(np.int64)
    columns["ip_id"][:] = np.where(columns["family"] == 4, (first_id[flow] + nth) & 0xFFFF, 0)
    udp_len = 8 + columns["payload_bytes"].astype(np.int64)
    columns["udp_len"][:] = np.where(tcp, 0, udp_len)
    if not tcp.any():
        return
    for name, stream, counted in (("seq", SEQ, before), ("ack", ACK_SEQ, 0)):
        first = (draws(traffic.seed, stream, numbers) >> np.uint64(32)).astype(np.int64)
        columns[name][:] = np.where(tcp, (first[flow] + counted) & 0xFFFFFFFF, 0)
    doff = 8 if traffic.timestamps else 5
    flags = np.where(train_end, ACK | PSH, ACK) if traffic.psh else np.int64(ACK)
    columns["tcp_w12"][:] = np.where(tcp, doff << 28 | flags << 16 | WINDOW, 0)
    if traffic.timestamps:
        columns["opt_off"][tcp] = 0


def along_flows(flow: Array, sizes: Array, flows: int) -> tuple[Array, Array]:
    """int64[n] twice: how many packets, and octets, of its flow came before each packet."""
    count = len(flow)
    place = np.arange(count, dtype=np.uint64)
    order = np.sort(flow.astype(np.uint64) << np.uint64(32) | place) & np.uint64(0xFFFFFFFF)
    packets_of = np.bincount(flow, minlength=flows)
    starts = np.cumsum(packets_of) - packets_of
    nth = np.empty(count, dtype=np.int64)
    nth[order] = place.astype(np.int64) - np.repeat(starts, packets_of)
    if count and np.all(sizes == sizes[0]):
        return nth, nth * int(sizes[0])
    sums = np.zeros(count + 1, dtype=np.int64)
    np.cumsum(sizes[order], out=sums[1:])
    before = np.empty(count, dtype=np.int64)
    before[order] = sums[:-1] - np.repeat(sums[starts], packets_of)
    return nth, before


def pick_flows(traffic: Traffic) -> tuple[Array, Array]:
    """uint32[n], the flow of each packet, and bool[n], whether a train ends with it."""
    count = traffic.packets
    if traffic.pattern == "trains":
        return train_flows(traffic)
    drawn = draws(traffic.seed, PICK, np.arange(count, dtype=np.uint64))
    ends = np.ones(count, dtype=bool)
    if traffic.pattern == "uniform":
        return all_below(drawn, traffic.flows).astype(np.uint32), ends
    places = zipf_places(traffic.flows)
    upto = np.cumsum(zipf_weights(traffic.flows, thousandths(traffic.zipf_s), places))
    target = all_below(drawn, int(upto[-1]))
    return np.searchsorted(upto, target, side="right").astype(np.uint32), ends


def train_flows(traffic: Traffic) -> tuple[Array, Array]:
    """Trains of all flows, round by round, each round in its own order; some at a time."""
    train, lanes = traffic.train, traffic.interleave
    trains = -(-traffic.packets // train)
    rounds = -(-trains // traffic.flows)
    drawn = draws(traffic.seed, ORDER, np.arange(rounds * traffic.flows, dtype=np.uint64))
    turns = np.argsort(drawn.reshape(rounds, traffic.flows), axis=1, kind="stable")
    order = turns.astype(np.uint32).ravel()[:trains]
    whole = trains // lanes * lanes
    parts, ends = [], []
    for group, width in ((order[:whole], lanes), (order[whole:], trains - whole)):
        if len(group):
            shape = (len(group) // width, train, width)
            parts.append(np.broadcast_to(group.reshape(-1, 1, width), shape).ravel())
            last = np.zeros(shape, dtype=bool)
            last[:, -1] = True
            ends.append(last.ravel())
    if not parts:
        return np.zeros(0, dtype=np.uint32), np.zeros(0, dtype=bool)
    count = traffic.packets
    return np.concatenate(parts)[:count], np.concatenate(ends)[:count]


def pick_sizes(traffic: Traffic, family: Array, proto: Array) -> Array:
    """int64[n], payload octets of each packet."""
    out = np.zeros(len(family), dtype=np.int64)
    if isinstance(traffic.payload_bytes, int):
        out.fill(traffic.payload_bytes)
        return out
    drawn = draws(traffic.seed, SIZE, np.arange(len(family), dtype=np.uint64))
    for number in traffic.families():
        for kind in traffic.protos():
            rows = np.flatnonzero((family == number) & (proto == kind))
            sizes, weights = np.array(traffic.sizes(number, kind), dtype=np.int64).T
            upto = np.cumsum(weights)
            target = all_below(drawn[rows], int(upto[-1])).astype(np.int64)
            out[rows] = sizes[np.searchsorted(upto, target, side="right")]
    return out


def make_flows(traffic: Traffic) -> Flows:
    """Draw who talks to whom; no two flows are the same."""
    count, seed = traffic.flows, traffic.seed
    numbers = np.arange(count, dtype=np.uint64)
    out = Flows(
        choose(draws(seed, FAMILY, numbers), traffic.families()),
        choose(draws(seed, PROTO, numbers), traffic.protos()),
        np.zeros((count, 4), dtype=np.uint32),
        np.zeros((count, 4), dtype=np.uint32),
        np.zeros(count, dtype=np.uint16),
        np.zeros(count, dtype=np.uint16),
    )
    for family, endpoints in traffic.endpoints().items():
        rows = np.flatnonzero(out.family == family)
        which = all_below(draws(seed, LOCAL, rows), len(endpoints))
        words: Array = np.array([address_words(int(address), family) for address, _ in endpoints])
        out.daddr[rows] = words[which]
        out.dport[rows] = np.array([port for _, port in endpoints])[which]
        out.saddr[rows], out.sport[rows] = make_clients(traffic, family, len(rows))
    return out


def choose(drawn: Array, among: tuple[int, ...]) -> Array:
    """uint8[n] of some numbers, each as likely."""
    return np.array(among, dtype=np.uint8)[all_below(drawn, len(among))]


def address_words(address: int, family: int) -> list[int]:
    """The four words of an address column."""
    octets = address.to_bytes(4 if family == 4 else 16, "big").ljust(16, b"\0")
    return [int.from_bytes(octets[at : at + 4], "little") for at in (0, 4, 8, 12)]


def make_clients(traffic: Traffic, family: int, flows: int) -> tuple[Array, Array]:
    """uint32[flows, 4] addresses and uint16[flows] ports: each pair once."""
    network = traffic.networks()[family]
    clients, bits, left_out = free_clients(network, traffic.endpoints()[family])
    check_room(traffic, family, flows, clients)
    number = np.arange(flows, dtype=np.uint64)
    if flows == 0:
        return np.zeros((0, 4), dtype=np.uint32), np.zeros(0, dtype=np.uint16)
    client = permuted(number % np.uint64(clients), bits, traffic.seed, CLIENT)
    while (beyond := client >= clients).any():  # a few: the permutation covers a power of two
        client[beyond] = permuted(client[beyond], bits, traffic.seed, CLIENT)
    for taken in left_out:
        client += client >= taken
    base = int(network.network_address)
    words = np.tile(np.array(address_words(base, family), dtype=np.uint32), (flows, 1))
    low = (client + np.uint64(base & 0xFFFFFFFF)).astype(">u4").view("<u4")
    words[:, 0 if family == 4 else 3] = low
    first, last = traffic.client_ports
    ports = last - first + 1
    stride = 12343 if gcd(ports, 12343) == 1 else 1
    nth = number // np.uint64(clients)
    start = all_below(draws(traffic.seed, PORT, client), ports)
    port = (start + nth * np.uint64(stride)) % np.uint64(ports)
    return words, (port + np.uint64(first)).astype(np.uint16)
