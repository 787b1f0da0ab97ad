"""RPS: the CPU that processes a packet (receive.md 3.3, steps 1, 2, 3 and 7)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from emu.errors import ConfigError
from emu.ref.record import SILENT, Recorder


def rps_queue_one(recorded: int, real_num_rx_queues: int, rec: Recorder = SILENT) -> int:
    """The rx queue whose map counts; -1: RPS is skipped.

    Args:
        recorded: rx queue that the driver recorded in the packet, -1 none.
    """
    if not rec.rule("R-3.3.1", recorded >= 0, recorded=recorded):
        return 0
    if rec.rule("R-3.3.1.beyond", recorded >= real_num_rx_queues, queues=real_num_rx_queues):
        return -1
    return recorded


def rps_one(
    cpus: Sequence[int], online: Sequence[int], hash_value: int, rec: Recorder = SILENT
) -> int:
    """CPU of a packet: ``cpus[hash * n >> 32]``; -1 when it stays on the CPU it came in on.

    Mirrors the map step of get_rps_cpu in net/core/dev.c.

    Args:
        cpus: the map's CPUs in ascending order; none: no map.
        online: per CPU, whether it is online now.
        hash_value: the skb's hash; 0: it has none.
    """
    if rec.rule("RPS-1.2", not cpus):
        return -1
    if rec.rule("R-3.3.3", hash_value == 0):
        return -1
    cpu = cpus[hash_value * len(cpus) >> 32]
    if rec.rule("R-3.3.7", bool(online[cpu]), cpu=cpu, hash=hash_value, of=len(cpus)):
        return cpu
    return -1


def rps_queues(
    recorded: NDArray[np.int32], real_num_rx_queues: int, rec: Recorder = SILENT
) -> NDArray[np.int32]:
    """The rx queue whose map counts: int32[n], -1 where RPS is skipped.

    Args:
        recorded: int32[n], rx queue that the driver recorded, -1 none.
    """
    if not 1 <= real_num_rx_queues <= 65535:
        raise ConfigError("rps: real_num_rx_queues", real_num_rx_queues, "1..65535")
    rows = np.asarray(recorded).tolist()
    return np.array([rps_queue_one(row, real_num_rx_queues, rec) for row in rows], dtype=np.int32)


def rps_cpus(
    cpus: NDArray[np.uint16],
    online: NDArray[np.uint8],
    hash: NDArray[np.uint32],
    rec: Recorder = SILENT,
) -> NDArray[np.int32]:
    """The CPU of many packets of one rx queue.

    Args:
        cpus: uint16[k], the map's CPUs in ascending order; k = 0: no map.
        online: uint8[ncpus].
        hash: uint32[n].

    Returns:
        int32[n]; -1 where the packet stays on the CPU it came in on.
    """
    table, up = np.asarray(cpus).tolist(), np.asarray(online).tolist()
    if table and max(table) >= len(up):
        raise ConfigError("rps: cpus", max(table), f"CPUs 0..{len(up) - 1}")
    return np.array(
        [rps_one(table, up, value, rec) for value in np.asarray(hash).tolist()], dtype=np.int32
    )
