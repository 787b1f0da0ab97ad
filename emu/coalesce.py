"""The door of GRO: packets in, the skbs that the stack would get out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emu.dtypes import NAPI_WEIGHT
from emu.engines import stage
from emu.errors import ConfigError
from emu.intake import inner_packets
from emu.kernels import KernelProfile, get_kernel
from emu.model.arrays import spread
from emu.model.checks import listed, shown
from emu.model.consistency import check_packets
from emu.model.lower import CPUMAP_DESIGNS, gro_cfg
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
    rx_gro_list: bool = False,
    max_size: int = 65536,
    ipv4_max_size: int = 65536,
    gro_flush_timeout: int = 0,
    napi_defer_hard_irqs: int = 0,
    vlan_module: bool = False,
    cpumap: str | None = None,
    sock: ArrayLike = 0,
    engine: str = "core",
) -> Skbs:
    """Coalesce packets as the GRO of one NAPI does, or of a cpumap's kthread.

    The packets are one NAPI's, in the order it takes them. Their columns ``skb_hash`` and
    ``hash_type`` say what hash is on each (0 for none: then all share one bucket), ``ip_summed``,
    ``csum_level`` and the others of `emu.from_frames` what the device did before.

    Args:
        packets: the table.
        polls: packets that each poll takes; together all of them. Full polls of 64 if not given. Of
            a kthread: frames in its ring when it wakes.
        jiffies: the jiffies counter in each poll; by the arrival of its last packet if not given.
        kernel: whose rules hold.
        hz: the kernel's HZ: at 1000 and more a full poll leaves what is younger than a jiffy (N-7).
        rx_udp_gro_forwarding: the device's feature of that name: UDP is joined too.
        rx_gro_list: the device's feature of that name: packets are chained, not joined.
        max_size: gro_max_size, for IPv6.
        ipv4_max_size: gro_ipv4_max_size, for all else.
        gro_flush_timeout: nanoseconds; what this jiffy brought waits for the timer (N-8). The
            timer's own poll takes 0 packets and stands in *polls* like any other.
        napi_defer_hard_irqs: completions that keep the interrupt masked.
        vlan_module: 8021Q is there: tags in the frame have a handler (GRO-6).
        cpumap: ``"plain"``, ``"merged"`` or ``"napi"``: a kthread of that design, where hash,
            checksum state and VLAN metadata are lost before. None: a NAPI.
        sock: uint8[n] or one for all, what a socket lookup here answers: 0 none, or nobody asks; of
            UDP 1 a socket, 2 one with UDP_GRO; of TCP 1 an established one.
        engine: ``"core"`` or ``"ref"``; both give the same.

    Raises:
        ConfigError: an argument is not as said above.
        CoreNotBuilt: the compiled core is missing.
    """
    device = Gro(
        rx_udp_gro_forwarding=rx_udp_gro_forwarding,
        rx_gro_list=rx_gro_list,
        max_size=max_size,
        ipv4_max_size=ipv4_max_size,
    )
    if type(hz) is not int or not 1 <= hz <= MAX_HZ:
        raise ConfigError("gro: hz", repr(hz), f"1 to {MAX_HZ}")
    counts = full_polls(len(packets)) if polls is None else integers("polls", polls)
    times = poll_jiffies(packets, counts, hz) if jiffies is None else integers("jiffies", jiffies)
    cfg = gro_cfg(device, get_kernel(kernel))
    cfg["flush_timeout_ns"] = number("gro_flush_timeout", gro_flush_timeout, 2**63)
    cfg["defer_hard_irqs"] = number("napi_defer_hard_irqs", napi_defer_hard_irqs, 2**31)
    cfg["vlan_module"] = bool(vlan_module)
    set_design(cfg, cpumap)
    check_packets(packets)
    sockets = spread("gro: sock", sock, "u1", len(packets), high=2)
    return coalesce(packets, counts, times, cfg, sockets, hz, engine)


def set_design(cfg: NDArray[np.void], cpumap: str | None) -> None:
    """A kthread of that design in place of a NAPI."""
    if cpumap is None:
        return
    if cpumap not in CPUMAP_DESIGNS:
        raise ConfigError("gro: cpumap", shown(cpumap), f"{listed(CPUMAP_DESIGNS)}, or None")
    cfg["fresh_skb"], cfg["design"] = 1, CPUMAP_DESIGNS[cpumap]
    cfg["enabled"] = cpumap != "plain"


def coalesce(
    packets: Packets,
    counts: NDArray[np.int64],
    jiffies: NDArray[np.int64],
    cfg: NDArray[np.void],
    sock: NDArray[np.uint8],
    hz: int,
    engine: str,
) -> Skbs:
    """One engine's answer to checked arguments."""
    inner, inner_of = inner_packets(packets, engine)
    table, skb_of, result = stage(engine, "gro").gro_packets(
        packets,
        counts,
        jiffies,
        cfg[0],
        packets.columns["skb_hash"],
        packets.columns["hash_type"],
        hz,
        sock=sock,
        inner=inner,
        inner_of=inner_of,
    )
    return Skbs(packets=packets, table=table, skb_of=skb_of, result=result)


def number(name: str, value: int, beyond: int) -> int:
    """A whole number from 0 on."""
    if type(value) is not int or not 0 <= value < beyond:
        raise ConfigError(f"gro: {name}", shown(value), f"a whole number from 0 to {beyond - 1}")
    return value


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
