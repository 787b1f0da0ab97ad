"""What the hashing stages and the interrupt model take: keys, tuples, field sets, arrivals."""

from __future__ import annotations

from ipaddress import ip_address
from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from emu import dtypes
from emu.dtypes import RSS, RSS_FLOWS, PacketFlag, Reason, RssField
from emu.model.packets import Packets

# Microsoft's key, and one of 16-bit period (receive.md 1.1, 1.3).
MS_KEY = bytes.fromhex(
    "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa"
)
PERIODIC_KEY = bytes.fromhex("6d5a" * 20)
ALL = RssField.IP_SRC | RssField.IP_DST | RssField.L4_B_0_1 | RssField.L4_B_2_3
ADDRESSES = RssField.IP_SRC | RssField.IP_DST
PORTS = RssField.L4_B_0_1 | RssField.L4_B_2_3


def words(text: str) -> np.ndarray:
    """An address as packet columns hold it: uint32[4]."""
    packed = ip_address(text).packed.ljust(16, b"\0")
    return np.frombuffer(packed, dtype="<u4").astype(np.uint32)


def rss_row(fields, xfrm: int = 0, indirection: int = 128) -> np.ndarray:
    """One row of RSS whose tables begin at 0."""
    row = np.zeros(1, dtype=RSS)
    row["fields"] = fields
    row["xfrm"], row["indir_len"] = xfrm, indirection
    return row


class Row(NamedTuple):
    """The columns that the hashes look at."""

    family: int
    proto: int
    flags: int
    saddr: bytes
    daddr: bytes
    sport: int
    dport: int
    reason: int = Reason.OK
    nic: int = 0


ETHERTYPE_OF = {0: 0x0806, 4: 0x0800, 6: 0x86DD}


def table(rows: list[Row]) -> Packets:
    """A packet table of such rows; every other column is that of a plain packet."""
    columns = dtypes.allocate(dtypes.PACKET_COLUMNS, len(rows))
    for name in ("flow_key", "frame_off", "opt_off"):
        columns[name][:] = -1
    for i, row in enumerate(rows):
        columns["family"][i], columns["ip_proto"][i] = row.family, row.proto
        columns["ethertype"][i] = ETHERTYPE_OF[row.family]
        columns["flags"][i], columns["reason"][i], columns["nic"][i] = (
            row.flags,
            row.reason,
            row.nic,
        )
        columns["sport"][i], columns["dport"][i] = row.sport, row.dport
        for name, address in (("saddr", row.saddr), ("daddr", row.daddr)):
            columns[name][i] = np.frombuffer(address.ljust(16, b"\0"), dtype="<u4")
    return Packets(columns)


keys = st.binary(min_size=40, max_size=52)
secrets = st.binary(min_size=16, max_size=16)
ports = st.one_of(st.sampled_from([0, 1, 80, 0x0100, 0xFF00, 0xFFFF]), st.integers(0, 0xFFFF))
# Octets that differ in one place only try the orders of the flow hash.
octet_pools = st.sampled_from([(0, 1, 255), tuple(range(256))])


@st.composite
def rows(draw, nics: int = 1) -> Row:
    """One packet's columns, as dissection could leave them."""
    family = draw(st.sampled_from([0, 4, 4, 6, 6]))
    width = {0: 0, 4: 4, 6: 16}[family]
    pool = draw(octet_pools)
    saddr, daddr = (
        bytes(draw(st.lists(st.sampled_from(pool), min_size=width, max_size=width)))
        for _ in range(2)
    )
    proto = draw(st.sampled_from([6, 17, 132, 1, 136, 33])) if family else 0
    shape = draw(st.sampled_from(["ports", "ports", "fragment", "none"])) if family else "none"
    carries = shape == "ports" and proto != 1
    flags = PacketFlag.HAS_PORTS if carries else PacketFlag(0)
    if shape == "fragment":
        flags |= PacketFlag.FRAGMENT
    reason = draw(st.sampled_from([Reason.OK] * 6 + list(Reason)))
    return Row(
        family,
        proto,
        int(flags),
        saddr,
        daddr,
        draw(ports) if carries else 0,
        draw(ports) if carries else 0,
        int(reason),
        draw(st.integers(0, nics - 1)),
    )


field_sets = st.lists(
    st.integers(0, 15).map(lambda bits: bits << 4),
    min_size=len(RSS_FLOWS),
    max_size=len(RSS_FLOWS),
)


class Traffic(NamedTuple):
    """Arguments of make_polls, as lists."""

    queue: list[int]
    arrival_ps: list[int]
    rx_usecs_ps: list[int]
    rx_frames: list[int]
    weight: int


@st.composite
def traffic(draw, max_packets: int = 200) -> Traffic:
    """Arrivals on a few queues, close enough to share polls, often not in order."""
    queues = draw(st.integers(1, 5))
    count = draw(st.integers(0, max_packets))
    latest = draw(st.sampled_from([3, 60, 500]))
    arrivals = draw(st.lists(st.integers(0, latest), min_size=count, max_size=count))
    return Traffic(
        draw(st.lists(st.integers(-1, queues - 1), min_size=count, max_size=count)),
        sorted(arrivals) if draw(st.booleans()) else arrivals,
        draw(st.lists(st.integers(0, 60), min_size=queues, max_size=queues)),
        draw(st.lists(st.integers(0, 5), min_size=queues, max_size=queues)),
        draw(st.integers(1, 9)),
    )
