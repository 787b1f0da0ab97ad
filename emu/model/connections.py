"""Established connections in bulk: one socket row for each flow of some packets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from emu import dtypes
from emu.dtypes import PacketFlag, SockState
from emu.errors import ConfigError
from emu.model.arrays import column
from emu.model.packets import Packets


def connections(packets: Packets, *, threads: Sequence[int] = (0,)) -> NDArray[np.void]:
    """Open one connected socket for each TCP or UDP flow among the packets, as its receiver.

    Args:
        packets: every flow (protocol, source, destination, ports) of them becomes a socket bound to
            the destination and connected to the source.
        threads: CPUs of the application's threads; flow k is read by the thread on
            ``threads[k % len(threads)]``, flows numbered by first appearance.

    Returns:
        ``SOCKET[flows]`` for ``Host(connections=...)``; ``app_off`` holds the thread's CPU until
        lowering.

    Raises:
        ConfigError: no thread.
    """
    if len(threads) == 0:
        raise ConfigError("connections", "threads=()", "at least one CPU", "threads=(0,)")
    cpus = column("connections: threads", threads, "u4")
    carries = ((packets.flags & int(PacketFlag.HAS_PORTS)) != 0) & (
        (packets.ip_proto == 6) | (packets.ip_proto == 17)
    )
    rows = np.flatnonzero(carries)
    first = rows[first_of_each(flow_words(packets, rows))]
    out = np.zeros(len(first), dtype=dtypes.SOCKET)
    out["family"] = packets.family[first]
    out["proto"] = packets.ip_proto[first]
    out["state"] = SockState.ESTABLISHED
    out["lport"], out["fport"] = packets.dport[first], packets.sport[first]
    out["laddr"], out["faddr"] = packets.daddr[first], packets.saddr[first]
    out["incoming_cpu"] = out["mask_off"] = out["psock_target"] = out["psock_cpu"] = -1
    out["app_off"] = cpus[np.arange(len(first)) % len(cpus)]
    out["app_len"] = 1
    return out


def flow_words(packets: Packets, rows: NDArray[np.integer]) -> NDArray[np.uint64]:
    """``uint64[rows, 5]``: what makes a flow, packed."""
    out = np.empty((len(rows), 5), dtype=np.uint64)
    out[:, 0:2] = packets.saddr[rows].view(np.uint64)
    out[:, 2:4] = packets.daddr[rows].view(np.uint64)
    out[:, 4] = (
        packets.ip_proto[rows].astype(np.uint64) << np.uint64(32)
        | packets.sport[rows].astype(np.uint64) << np.uint64(16)
        | packets.dport[rows].astype(np.uint64)
    )
    return out


def first_of_each(words: NDArray[np.uint64]) -> NDArray[np.intp]:
    """Index of the first row of each distinct row, ascending.

    Rows are told apart by a 64-bit mix; a collision of two different rows is found and then sorted
    out exactly.
    """
    odd = np.array([0x9E3779B97F4A7C15 * (2 * k + 1) % 2**64 for k in range(5)], dtype=np.uint64)
    mixed = (words * odd).sum(axis=1, dtype=np.uint64)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    order = np.argsort(mixed)
    grouped = mixed[order]
    starts = np.flatnonzero(np.concatenate([[True], grouped[1:] != grouped[:-1]])[: len(order)])
    first = np.minimum.reduceat(order, starts) if len(order) else order
    same = np.repeat(first, np.diff(np.append(starts, len(order))))
    if not np.array_equal(words[same], words[order]):
        _, first = np.unique(words, axis=0, return_index=True)
    return np.sort(first)
