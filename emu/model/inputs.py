"""What the doors of RSS and of the interrupt model refuse, said once for both engines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emu import dtypes
from emu.dtypes import RSS_FLOWS, TOEPLITZ_BYTES, TOEPLITZ_WORDS, RssField
from emu.errors import ConfigError
from emu.model.arrays import column, octets
from emu.model.packets import Packets
from emu.model.polls import MAX_POLL

KEY_BYTES = TOEPLITZ_BYTES + 4  # key bits that the widest input reaches
HASHED = int(RssField.IP_SRC | RssField.IP_DST | RssField.L4_B_0_1 | RssField.L4_B_2_3)
FLOW_KEY_BYTES = (40, 44, 48, 72)
XFRMS = (0, 1, 2)
LATEST_PS = 2**63 - 1


class Tuples(NamedTuple):
    """The columns of n 4-tuples: addresses uint32[n] or uint32[n, 4], ports uint16[n]."""

    saddr: NDArray[np.uint32]
    daddr: NDArray[np.uint32]
    sport: NDArray[np.uint16]
    dport: NDArray[np.uint16]


def toeplitz_key(key: object) -> bytes:
    """A Toeplitz key that reaches the end of the widest input."""
    return octets("toeplitz: key", key, KEY_BYTES)


def siphash_key(key16: object) -> bytes:
    """A SipHash key."""
    return octets("flow_hash: key", key16, 16, 16)


def flow_keys(packets: Packets) -> NDArray[np.void]:
    """The table's flow keys, at least one row of them, none longer than its block."""
    rows = packets.flow_keys
    wrong = ~np.isin(rows["len"], FLOW_KEY_BYTES)
    if wrong.any():
        row = int(np.argmax(wrong))
        allowed = ", ".join(map(str, FLOW_KEY_BYTES))
        raise ConfigError(f"flow_keys[{row}]: len", int(rows["len"][row]), allowed)
    return rows if len(rows) else np.zeros(1, dtype=rows.dtype)


def toeplitz_data(data: ArrayLike) -> NDArray[np.uint8]:
    """Rows of Toeplitz input, uint8[n, w] with w <= 36."""
    rows = column("toeplitz: data", data, "u1", width=-1)
    if rows.shape[1] > TOEPLITZ_BYTES:
        allowed = f"shape (n, w) with w <= {TOEPLITZ_BYTES}"
        raise ConfigError("toeplitz: data", f"shape {rows.shape}", allowed)
    return rows


def tuples(
    where: str,
    saddr: ArrayLike,
    daddr: ArrayLike,
    sport: ArrayLike,
    dport: ArrayLike,
    *,
    width: int | None = None,
) -> Tuples:
    """Columns of 4-tuples, all of one length."""
    source = column(f"{where}: saddr", saddr, "u4", width=width)
    rows = len(source)
    return Tuples(
        source,
        column(f"{where}: daddr", daddr, "u4", rows=rows, width=width),
        column(f"{where}: sport", sport, "u2", rows=rows),
        column(f"{where}: dport", dport, "u2", rows=rows),
    )


class RssInputs(NamedTuple):
    """RSS[k], Toeplitz tables uint32[t], indirection entries uint32[e]."""

    rss: NDArray[np.void]
    tables: NDArray[np.uint32]
    indirection: NDArray[np.uint32]


def rss_inputs(
    packets: Packets, rss: NDArray[np.void], tables: ArrayLike, indirection: ArrayLike
) -> RssInputs:
    """RSS rows, tables and entries that no packet's lookup can leave."""
    if not isinstance(rss, np.ndarray) or rss.dtype != dtypes.RSS or rss.ndim != 1:
        given = (
            f"{rss.dtype}{list(rss.shape)}" if isinstance(rss, np.ndarray) else type(rss).__name__
        )
        raise ConfigError("rss: rss", given, "rows of emu.dtypes.RSS", "np.zeros(1, dtype=RSS)")
    words = column("rss: tables", tables, "u4")
    entries = column("rss: indirection", indirection, "u4")
    if len(entries) and int(entries.max()) > 2**31 - 1:
        raise ConfigError("rss: indirection", int(entries.max()), "rx queues, below 2**31")
    highest = int(packets.columns["nic"].max()) if len(packets) else -1
    if highest >= len(rss):
        raise ConfigError("rss: nic column", highest, f"rows of rss, 0..{len(rss) - 1}")
    for number, row in enumerate(rss):
        _check_rss_row(f"rss[{number}]", row, len(words), len(entries))
    return RssInputs(np.ascontiguousarray(rss), words, entries)


def _check_rss_row(where: str, row: np.void, words: int, entries: int) -> None:
    size, first = int(row["indir_len"]), int(row["indir_off"])
    if size == 0 or size & (size - 1) or first + size > entries:
        allowed = f"a power of two, with indir_off inside the {entries} entries of indirection"
        raise ConfigError(f"{where}: indir_len", size, allowed)
    if int(row["table_off"]) + TOEPLITZ_WORDS > words:
        allowed = f"a table of {TOEPLITZ_WORDS} words inside the {words} words of tables"
        raise ConfigError(f"{where}: table_off", int(row["table_off"]), allowed)
    if int(row["xfrm"]) not in XFRMS:
        allowed = "0, 1 (SYM_XOR) or 2 (SYM_OR_XOR)"
        raise ConfigError(f"{where}: xfrm", int(row["xfrm"]), allowed)
    for flow, fields in zip(RSS_FLOWS, row["fields"].tolist(), strict=True):
        if fields & ~HASHED:
            allowed = "IP_SRC, IP_DST, L4_B_0_1, L4_B_2_3 of emu.dtypes.RssField"
            raise ConfigError(f"{where}: fields of {flow}", hex(fields), allowed)


class Interrupts(NamedTuple):
    """Of n packets queue and arrival_ps, of q queues rx_usecs_ps and rx_frames."""

    queue: NDArray[np.int32]
    arrival_ps: NDArray[np.int64]
    rx_usecs_ps: NDArray[np.int64]
    rx_frames: NDArray[np.int32]


def interrupts(
    queue: ArrayLike,
    arrival_ps: ArrayLike,
    rx_usecs_ps: ArrayLike,
    rx_frames: ArrayLike,
    weight: Any,
    jiffy_ps: Any,
) -> Interrupts:
    """Inputs of the interrupt model that fit each other; no time leaves 63 bits."""
    usecs = column("make_polls: rx_usecs_ps", rx_usecs_ps, "i8", low=0)
    frames = column("make_polls: rx_frames", rx_frames, "i4", rows=len(usecs), low=0)
    number = column("make_polls: queue", queue, "i4", low=-1, high=len(usecs) - 1)
    latest = LATEST_PS - (int(usecs.max()) if len(usecs) else 0)
    arrival = column(
        "make_polls: arrival_ps", arrival_ps, "i8", rows=len(number), low=0, high=latest
    )
    for name, value, most in (("weight", weight, MAX_POLL), ("jiffy_ps", jiffy_ps, LATEST_PS)):
        if not isinstance(value, (int, np.integer)) or not 1 <= value <= most:
            raise ConfigError(f"make_polls: {name}", value, f"a whole number from 1 to {most}")
    return Interrupts(number, arrival, usecs, frames)


def gro_polls(
    packets: int,
    poll_counts: NDArray[np.int64],
    jiffies: NDArray[np.int64],
    columns: Mapping[str, NDArray[Any]],
    sock: NDArray[Any] | None = None,
    inner: Packets | None = None,
    inner_of: NDArray[Any] | None = None,
) -> None:
    """Refuse polls that do not take each packet once, columns of another length, lost rows."""
    given = {"sock": sock, "inner_of": inner_of}
    columns = {**columns, **{name: rows for name, rows in given.items() if rows is not None}}
    counts = poll_counts.tolist()
    if len(counts) != len(jiffies):
        allowed = f"one for each of {len(counts)} polls"
        raise ConfigError("gro: jiffies", f"{len(jiffies)} values", allowed)
    if counts and min(counts) < 0:
        raise ConfigError("gro: poll_counts", min(counts), "0 or more")
    if sum(counts) != packets:
        raise ConfigError("gro: poll_counts", f"{sum(counts)} packets", f"the table's {packets}")
    for name, values in columns.items():
        if len(values) != packets:
            allowed = f"one for each of {packets} packets"
            raise ConfigError(f"gro: {name}", f"{len(values)} values", allowed)
    if (inner is None) != (inner_of is None):
        raise ConfigError("gro: inner", "one of inner and inner_of", "both, or none of them")
    if inner is not None and inner_of is not None and packets:
        low, high = int(inner_of.min()), int(inner_of.max())
        if low < -1 or high >= len(inner):
            given_row = low if low < -1 else high
            raise ConfigError("gro: inner_of", given_row, f"-1 to {len(inner) - 1}")
