"""The door of GRO: packets in, the skbs that the stack would get out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emu import dtypes
from emu.dtypes import NAPI_WEIGHT
from emu.engines import stage
from emu.errors import ConfigError
from emu.kernels import KernelProfile, get_kernel
from emu.model.consistency import check_packets
from emu.model.nic import Gro
from emu.model.packets import Packets
from emu.result.skbs import Skbs

PS_PER_SECOND = 10**12
MAX_HZ = 10_000


def gro(
    packets: Packets,
    *,
    polls: Sequence[int] | NDArray[np.integer[Any]] | None = None,
    jiffies: Sequence[int] | NDArray[np.integer[Any]] | None = None,
    kernel: str | KernelProfile = "6.18",
    hz: int = 250,
    rx_udp_gro_forwarding: bool = False,
    max_size: int = 65536,
    ipv4_max_size: int = 65536,
    cpumap: bool = False,
    engine: str = "core",
) -> Skbs:
    """Coalesce packets as the GRO of one NAPI does.

    The packets are one NAPI's, in the order it takes them. Their columns ``skb_hash`` and
    ``hash_type`` say what hash is on each (0 for none: then all share one bucket), ``ip_summed``
    and ``csum_level`` what the device found out about checksums.

    Args:
        packets: the table.
        polls: packets that each poll takes; together all of them. Full polls of 64 if not given.
        jiffies: the jiffies counter in each poll; by the arrival of its last packet if not given.
        kernel: whose rules hold.
        hz: the kernel's HZ: at 1000 and more a full poll leaves what is younger than a jiffy (N-7).
        rx_udp_gro_forwarding: the device's feature of that name: UDP is joined too.
        max_size: gro_max_size, for IPv6.
        ipv4_max_size: gro_ipv4_max_size, for all else.
        cpumap: as in a cpumap's kthread: hash, checksum state and VLAN metadata are lost before.
        engine: ``"core"`` or ``"ref"``; both give the same.

    Raises:
        ConfigError: an argument is not as said above.
        CoreNotBuilt: the compiled core is missing.
    """
    device = Gro(
        rx_udp_gro_forwarding=rx_udp_gro_forwarding, max_size=max_size, ipv4_max_size=ipv4_max_size
    )
    if type(hz) is not int or not 1 <= hz <= MAX_HZ:
        raise ConfigError("gro: hz", repr(hz), f"1 to {MAX_HZ}")
    counts = full_polls(len(packets)) if polls is None else integers("polls", polls)
    times = poll_jiffies(packets, counts, hz) if jiffies is None else integers("jiffies", jiffies)
    cfg = np.zeros(1, dtype=dtypes.GRO_CFG)
    cfg["max_size"], cfg["ipv4_max_size"] = device.max_size, device.ipv4_max_size
    cfg["enabled"], cfg["fresh_skb"] = 1, bool(cpumap)
    cfg["udp_forwarding"] = device.rx_udp_gro_forwarding
    cfg["fixed_id_needs_df"] = get_kernel(kernel).gro_fixed_id_needs_df
    check_packets(packets)
    table, skb_of, result = stage(engine, "gro").gro_packets(
        packets,
        counts,
        times,
        cfg[0],
        packets.columns["skb_hash"],
        packets.columns["hash_type"],
        hz,
    )
    return Skbs(packets=packets, table=table, skb_of=skb_of, result=result)


def full_polls(packets: int) -> NDArray[np.int64]:
    """Polls of 64 and what is left."""
    whole, rest = divmod(packets, NAPI_WEIGHT)
    return np.array([NAPI_WEIGHT] * whole + [rest] * (rest > 0), dtype=np.int64)


def integers(where: str, values: Sequence[int] | NDArray[np.integer[Any]]) -> NDArray[np.int64]:
    """Whole numbers as an array of one axis."""
    array = np.asarray(values)
    if array.size == 0:
        return np.zeros(0, dtype=np.int64)
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise ConfigError(f"gro: {where}", f"{array.dtype}{array.shape}", "a list of whole numbers")
    return array.astype(np.int64)


def poll_jiffies(packets: Packets, counts: NDArray[np.int64], hz: int) -> NDArray[np.int64]:
    """The jiffy in which each poll's last packet arrives; an empty poll has the one before's."""
    if len(packets) == 0:
        return np.zeros(len(counts), dtype=np.int64)
    last = np.clip(np.cumsum(counts) - 1, 0, len(packets) - 1)
    arrival: NDArray[np.int64] = packets.columns["arrival_ps"][last].astype(np.int64)
    return arrival // (PS_PER_SECOND // hz)
