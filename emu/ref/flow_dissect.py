"""What the kernel's flow dissector makes of a frame: the block that the flow hash is taken over.

Mirrors ``__skb_flow_dissect`` and ``__flow_hash_consistentify`` (net/core/flow_dissector.c) for the
key set of ``skb_get_hash``; rules R-2.3.1 to R-2.3.7 are receive.md 2.3. TIPC, PPPoE and
batman-adv are not opened.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from emu.ref.record import SILENT, Recorder

IPV4, IPV6, MPLS, TEB, PPTP = 0x0800, 0x86DD, 0x8847, 0x6558, 0x880B
VLANS = (0x8100, 0x88A8)
PORT_PROTOS = (6, 17, 33, 132, 136)
SPI_AT = {50: 0, 51: 4}  # ESP, AH: their SPI passes for two ports
CARRIES = {4: IPV4, 41: IPV6, 137: MPLS}
EXTENSIONS = (0, 43, 60)
FRAGMENT_HEADER, GRE = 44, 47
MAX_HEADERS = 15
PPP_PROTOCOLS = {0x21: IPV4, 0x57: IPV6}


class FlowBlock(NamedTuple):
    """The hashed octets of one packet; ``l4``: ports or a flow label stand in them."""

    octets: bytes
    l4: bool


class Ethertype(NamedTuple):
    """The next header is named by an ethertype."""

    value: int
    at: int


class IpProto(NamedTuple):
    """The next header is named by an IP protocol number."""

    value: int
    at: int


Next = Ethertype | IpProto | None


class Flow:
    """The keys gathered on the way through one frame."""

    def __init__(self, data: bytes, rec: Recorder) -> None:
        self.data = data
        self.rec = rec
        self.ethertype = 0
        self.ip_proto = 0
        self.label = 0
        self.vlan: tuple[int, int, int] | None = None  # TCI, TPID, ethertype behind
        self.gre_key = bytes(4)
        self.ports = bytes(4)
        self.addresses = bytes(32)
        self.family = 0

    def read(self, at: int, count: int) -> bytes | None:
        """*count* octets, or None if the frame does not hold them all."""
        piece = self.data[at : at + count]
        return piece if len(piece) == count else None

    def walk(self, start: Ethertype) -> None:
        """Follow the headers until one ends it or 15 transitions were made."""
        here: Next = start
        left = MAX_HEADERS
        while here is not None:
            if isinstance(here, Ethertype):
                self.ethertype = here.value
                here = self.at_ethertype(here)
                if isinstance(here, IpProto):
                    here = self.at_ip_proto(here)
            else:
                here = self.at_ip_proto(here)
            if here is not None and not self.rec.rule("R-2.3.1", left > 0, left=left):
                # The name of a header is stored before it is known that it will not be visited.
                if isinstance(here, Ethertype):
                    self.ethertype = here.value
                return
            left -= 1

    def at_ethertype(self, here: Ethertype) -> Next:
        """One header named by an ethertype."""
        if here.value in VLANS:
            return self.at_vlan(here)
        known = here.value in (IPV4, IPV6)
        if self.rec.rule("R-2.3.7", not known, ethertype=here.value):
            return None
        return self.at_ipv4(here.at) if here.value == IPV4 else self.at_ipv6(here.at)

    def at_vlan(self, here: Ethertype) -> Next:
        """The first tag is a key, without its DEI bit."""
        tag = self.read(here.at, 4)
        if tag is None:
            return None
        tci, inner = struct.unpack(">HH", tag)
        if self.rec.rule("R-2.3.2", self.vlan is None, tci=tci):
            self.vlan = (tci & ~0x1000, here.value, inner)
        return Ethertype(inner, here.at + 4)

    def at_ipv4(self, at: int) -> Next:
        """Addresses; no ports for any fragment."""
        header = self.read(at, 20)
        if header is None or header[0] & 15 < 5:
            return None
        self.family = 4
        self.ip_proto = header[9]
        # The kernel's key is a union: what an outer IPv6 source left behind these stays.
        self.addresses = header[12:20] + self.addresses[8:]
        fragment = struct.unpack_from(">H", header, 6)[0] & 0x3FFF != 0
        if self.rec.rule("R-2.3.3", fragment, proto=self.ip_proto):
            return None
        return IpProto(self.ip_proto, at + 4 * (header[0] & 15))

    def at_ipv6(self, at: int) -> Next:
        """Addresses; a flow label ends it."""
        header = self.read(at, 40)
        if header is None:
            return None
        self.family = 6
        self.ip_proto = header[6]
        self.addresses = header[8:40]
        self.label = int.from_bytes(header[1:4], "big") & 0xFFFFF
        if self.rec.rule("R-2.3.4", self.label != 0, label=self.label):
            return None
        return IpProto(self.ip_proto, at + 40)

    def at_ip_proto(self, here: IpProto) -> Next:
        """One header behind IP, then the ports of the protocol that is reached."""
        then: Next = None
        if here.value in CARRIES:
            return Ethertype(CARRIES[here.value], here.at)
        if self.rec.rule("R-2.3.5", here.value == GRE, proto=here.value):
            return self.at_gre(here.at)
        if self.ethertype == IPV6 and here.value == FRAGMENT_HEADER:
            header = self.read(here.at, 8)
            if header is not None:
                self.ip_proto = header[0]
            return None
        if self.ethertype == IPV6 and here.value in EXTENSIONS:
            header = self.read(here.at, 2)
            if header is None:
                return None
            self.ip_proto = header[0]
            then = here = IpProto(header[0], here.at + 8 * (header[1] + 1))
        has_ports = here.value in PORT_PROTOS or here.value in SPI_AT
        if self.rec.rule("R-2.3.6", has_ports, proto=here.value):
            ports = self.read(here.at + SPI_AT.get(here.value, 0), 4)
            self.ports = self.ports if ports is None else ports
        return then

    def at_gre(self, at: int) -> Next:
        """GRE version 0 without routing, or version 1 as PPTP; else the walk ends here."""
        header = self.read(at, 4)
        if header is None:
            return None
        flags, carried = struct.unpack(">HH", header)
        version = flags & 7
        if flags & 0x4000 or version > 1:
            return None
        self.ethertype = carried
        if version == 1 and (carried != PPTP or not flags & 0x2000):
            return None
        at += 4 + (4 if flags & 0x8000 else 0)
        if flags & 0x2000:
            key = self.read(at, 4)
            if key is None:
                return None
            self.gre_key = key if version == 0 else bytes(2) + key[2:]
            at += 4
        at += 4 if flags & 0x1000 else 0
        if version == 0 and carried != TEB:
            return Ethertype(carried, at)
        at += 4 if version == 1 and flags & 0x0080 else 0
        inner = self.read(at, 4 if version == 1 else 14)
        if inner is None:
            return None
        named = int.from_bytes(inner[-2:], "big")
        return Ethertype(named if version == 0 else PPP_PROTOCOLS.get(named, PPTP), at + len(inner))

    def block(self) -> FlowBlock:
        """Pack the keys (receive.md 2.2), the smaller address and the smaller port in front."""
        return pack_block(
            self.ethertype, self.ip_proto, self.family, self.addresses, self.ports,
            self.label, self.vlan, self.gre_key,
        )  # fmt: skip


def smaller_first(one: bytes, other: bytes) -> bytes:
    """Join two fields by the order of their native, little-endian, numbers."""
    return one + other if one[::-1] <= other[::-1] else other + one


def pack_block(
    ethertype: int,
    ip_proto: int,
    family: int,
    addresses: bytes,
    ports: bytes,
    label: int = 0,
    vlan: tuple[int, int, int] | None = None,
    gre_key: bytes = bytes(4),
) -> FlowBlock:
    """Lay the keys out as they are hashed, after both directions of a flow were put into one order.

    IPv4 addresses and ports compare as little-endian numbers, IPv6 addresses octet by octet.
    """
    width = {0: 0, 4: 4, 6: 16}[family]
    source, target, rest = addresses[:width], addresses[width : 2 * width], addresses[2 * width :]
    if family == 6:
        ordered = min(source, target) + max(source, target)
    else:
        ordered = smaller_first(source, target)
    if family:
        ports = smaller_first(ports[:2], ports[2:])
    tci, tpid, behind = vlan or (0, 0, 0)
    head = struct.pack(">HBx", ethertype, ip_proto) + struct.pack("<I", label)
    head += struct.pack("<H", tci) + struct.pack(">HH", tpid, behind) + bytes(10)
    head += gre_key + ports + bytes(4)
    body = (ordered + rest)[: {0: 0, 4: 12, 6: 32}[family]]
    length = {0: 40, 4: 48, 6: 72}[family]
    return FlowBlock((head + body).ljust(length, b"\0"), ports != bytes(4) or label != 0)


def flow_dissect(data: bytes, at: int, ethertype: int, rec: Recorder = SILENT) -> FlowBlock:
    """Dissect the frame *data*, whose header at *at* is named by *ethertype*."""
    flow = Flow(data, rec)
    flow.walk(Ethertype(ethertype, at))
    return flow.block()
