"""What chooses queues, polls and CPUs on the way in: RSS, the interrupt model, cpumap, RPS."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emu import dtypes
from emu.dtypes import NAPI_WEIGHT, CpumapRule
from emu.engines import stage
from emu.errors import ConfigError
from emu.kernels import KernelProfile, get_kernel
from emu.model.arrays import column, spread
from emu.model.checks import listed, nearest, shown
from emu.model.lower import XFRM
from emu.model.nic import Rss, default_indirection
from emu.model.packets import Packets
from emu.model.polls import Polls
from emu.stages.arguments import MAX_CPUS, CpuMask, array, cpu_set, number, online_cpus
from emu.units import PS_PER_SECOND

CPUMAP_RULES = {member.name.lower().replace("_", "-"): int(member) for member in CpumapRule}
MAX_HZ = 10_000


class RssHashes(NamedTuple):
    """What RSS says of n packets."""

    hash: NDArray[np.uint32]  # 0 without one
    hash_type: NDArray[np.uint8]  # HashType: NONE, L3 (addresses) or L4 (ports too)
    queue: NDArray[np.int32]  # rx queue of the packet's own NIC


def rss(
    packets: Packets,
    nics: Rss | Sequence[Rss],
    *,
    rx_queues: int | Sequence[int] | None = None,
    engine: str = "core",
) -> RssHashes:
    """Hash packets as their NICs do and choose their rx queues (R-1.3, R-1.4).

    The flow type chooses the fields: a fragment, and any protocol but TCP, UDP and SCTP, has those
    of ``ip4`` or ``ip6``; what is no IP, or was cut inside its network header, has no hash and goes
    to queue 0. The low bits of the hash choose an entry of the indirection table.

    Args:
        packets: the table; its column ``nic`` chooses among *nics*.
        nics: the settings of each NIC, or of the only one. Each needs its ``key``: no stage draws
            the kernel's random one.
        rx_queues: rx queues of each NIC (one number for all), for those without an
            ``indirection`` of their own: their table is ``i % rx_queues``.
        engine: ``"core"`` or ``"ref"``.

    Returns:
        hash ``uint32[n]``, hash_type ``uint8[n]``, queue ``int32[n]``.

    Raises:
        ConfigError: a NIC without a key, or with neither a table nor *rx_queues*; a packet of a
            NIC that is not given.
        CoreNotBuilt: the compiled core is missing.
    """
    module = stage(engine, "rss")
    settings = [nics] if isinstance(nics, Rss) else list(nics)
    counts: list[Any] = [rx_queues] * len(settings)
    if rx_queues is not None and np.ndim(rx_queues):
        counts = column("rss: rx_queues", rx_queues, "u4", rows=len(settings)).tolist()
    rows = np.zeros(len(settings), dtype=dtypes.RSS)
    tables: dict[bytes, NDArray[np.uint32]] = {}
    indirection: list[int] = []
    for place, (one, queues) in enumerate(zip(settings, counts, strict=True)):
        entries = one.indirection or _default_table(place, queues)
        if one.key is None:
            raise ConfigError(f"rss: nics[{place}].key", "None", "a key", 'key="microsoft"')
        if one.key not in tables:
            tables[one.key] = module.toeplitz_tables(one.key)
        rows[place]["fields"] = one.fields()
        rows[place]["xfrm"] = XFRM[one.input_xfrm]
        rows[place]["table_off"] = list(tables).index(one.key) * dtypes.TOEPLITZ_WORDS
        rows[place]["indir_off"], rows[place]["indir_len"] = len(indirection), len(entries)
        indirection += entries
    words = np.concatenate([*tables.values(), np.zeros(0, dtype=np.uint32)])
    return RssHashes(*module.rss_packets(packets, rows, words, indirection))


def _default_table(place: int, queues: Any) -> tuple[int, ...]:
    if queues is None:
        where = f"rss: nics[{place}].indirection"
        raise ConfigError(where, "no table", "a table, or rx_queues for the default one")
    [count] = column("rss: rx_queues", [queues], "u4", low=1, high=MAX_CPUS).tolist()
    return default_indirection(count)


def make_polls(
    queue: ArrayLike,
    arrival_ps: ArrayLike,
    *,
    rx_usecs_ps: ArrayLike = 0,
    rx_frames: ArrayLike = 0,
    queues: int | None = None,
    weight: int = NAPI_WEIGHT,
    hz: int = 250,
    engine: str = "core",
) -> Polls:
    """Make the NAPI polls of some rx queues by the interrupt model (docs/steer.md, N-7).

    The packet that finds a queue idle arms its interrupt for *rx_usecs_ps* later; *rx_frames*
    waiting packets fire it at once. The poll takes what has arrived by then in order of arrival;
    a full poll with more waiting is followed by another at the same instant.

    Args:
        queue: ``int32[n]``, rx queue of each packet; -1 for one that is not received.
        arrival_ps: ``int64[n]``, picoseconds since the start; need not be in order, and packets of
            one instant keep theirs.
        rx_usecs_ps: ``int64[queues]`` or one for all, picoseconds (ethtool's ``rx-usecs`` times
            10**6); 0 does not hold back.
        rx_frames: ``int32[queues]`` or one for all (``rx-frames``); 0 is no limit.
        queues: how many there are; by the largest that *queue* names when not given.
        weight: most packets of one poll, 1 to 65536.
        hz: the kernel's HZ; `Polls.jiffy` is the time in whole jiffies.
        engine: ``"core"`` or ``"ref"``.

    Returns:
        The polls by time, then by queue; each received packet is in one of them.

    Raises:
        ConfigError: columns of different lengths, or a number out of range.
        CoreNotBuilt: the compiled core is missing.
    """
    module = stage(engine, "napi")
    numbers = column("make_polls: queue", queue, "i4", low=-1)
    if queues is None:
        sizes = [len(np.atleast_1d(value)) for value in (rx_usecs_ps, rx_frames)]
        queues = max([*sizes, int(numbers.max(initial=-1)) + 1])
    count = number("make_polls: queues", queues, 1, 2**31 - 1)
    jiffy_ps = PS_PER_SECOND // number("make_polls: hz", hz, 1, MAX_HZ)
    order, poll_queue, first, taken, time_ps = module.make_polls(
        numbers,
        arrival_ps,
        spread("make_polls: rx_usecs_ps", rx_usecs_ps, "i8", count),
        spread("make_polls: rx_frames", rx_frames, "i4", count),
        weight=weight,
        jiffy_ps=jiffy_ps,
    )
    return Polls(
        order=order,
        queue=poll_queue,
        first=first,
        count=taken,
        time_ps=time_ps,
        jiffy=time_ps // jiffy_ps,
    )


def cpumap_targets(
    packets: Packets,
    rule: str,
    cpus: ArrayLike,
    *,
    rx_queue: ArrayLike = 0,
    fixed: int = 0,
    engine: str = "core",
) -> NDArray[np.int32]:
    """Ask the XDP program which CPU each packet is redirected to.

    The rules are this model's own programs, not kernel code: ``"rx-queue"`` and ``"fixed"`` name
    an entry, ``"hash"`` and ``"saddr"`` take one by the packet's addresses and pass what has none.

    Args:
        packets: the table.
        rule: ``"rx-queue"``, ``"hash"``, ``"saddr"`` or ``"fixed"``.
        cpus: ``int32[k]``, k >= 1, CPU of each entry of the map.
        rx_queue: ``int32[n]`` or one for all, rx queue within the NIC.
        fixed: the entry of ``"fixed"``.
        engine: ``"core"`` or ``"ref"``.

    Returns:
        ``int32[n]``, the CPU; -1 = XDP_PASS, the packet goes on where it is.

    Raises:
        ConfigError: no such rule, no entries, or a number out of range.
        CoreNotBuilt: the compiled core is missing.
    """
    if rule not in CPUMAP_RULES:
        raise ConfigError(
            "cpumap_targets: rule", shown(rule), listed(CPUMAP_RULES), nearest(rule, CPUMAP_RULES)
        )
    entries = column("cpumap_targets: cpus", cpus, "i4", low=0, high=MAX_CPUS)
    queues = spread("cpumap_targets: rx_queue", rx_queue, "i4", len(packets), low=0)
    entry = number("cpumap_targets: fixed", fixed, 0, max(len(entries) - 1, 0))
    door = stage(engine, "cpumap").cpumap_targets
    return array(door(packets, CPUMAP_RULES[rule], entries, entry, queues))


def rps_cpu(
    hash: ArrayLike,
    cpus: CpuMask,
    *,
    ncpus: int | None = None,
    online: ArrayLike | None = None,
    engine: str = "core",
) -> NDArray[np.int32]:
    """Choose the CPU that RPS hands each packet to (receive.md 3.3, steps 2, 3 and 7).

    Mirrors get_rps_cpu without flow tables: the hash is scaled onto the map by the high half of a
    product, never by a modulo.

    Args:
        hash: ``uint32[n]``, skb->hash of each packet.
        cpus: the rx queue's ``rps_cpus``: a mask (``"f"``, ``"1,00000000"``), a `CpuSet`, or CPU
            numbers. Empty: no map.
        ncpus: CPUs of the host; as many as *online* or *cpus* name when not given.
        online: ``bool[ncpus]`` or ``uint8[ncpus]``; all when not given.
        engine: ``"core"`` or ``"ref"``.

    Returns:
        ``int32[n]``; -1 where the packet stays on its CPU: no map, a hash of 0, or a chosen CPU
        that is offline.

    Raises:
        ConfigError: a CPU beyond *ncpus*, or a number out of range.
        CoreNotBuilt: the compiled core is missing.
    """
    module = stage(engine, "rps")
    hashes = column("rps_cpu: hash", hash, "u4")
    if ncpus is None and online is not None:
        ncpus = len(np.atleast_1d(online))
    limit = MAX_CPUS if ncpus is None else number("rps_cpu: ncpus", ncpus, 1, MAX_CPUS)
    chosen = cpu_set("rps_cpu: cpus", cpus, limit).cpus
    if ncpus is None:
        limit = max(chosen, default=0) + 1
    flags = online_cpus("rps_cpu: online", online, limit)
    return array(module.rps_cpus(np.array(chosen, dtype=np.uint16), flags, hashes))


def flow_limit(
    hash: ArrayLike,
    *,
    table_len: int = 4096,
    kernel: str | KernelProfile = "6.18",
    engine: str = "core",
) -> NDArray[np.bool_]:
    """Tell which packets flow limit drops (R-3.6).

    Mirrors skb_flow_limit of one CPU, for packets that it puts one after the other into backlogs
    that are half full; while they are shorter it is not asked.

    Args:
        hash: ``uint32[n]``, skb->hash of each packet.
        table_len: net.core.flow_limit_table_len, a power of two.
        kernel: whose rules hold.
        engine: ``"core"`` or ``"ref"``.

    Returns:
        ``bool[n]``.

    Raises:
        ConfigError: a table of another length, or a number out of range.
        CoreNotBuilt: the compiled core is missing.
    """
    module = stage(engine, "flow_limit")
    hashes = column("flow_limit: hash", hash, "u4")
    length = number("flow_limit: table_len", table_len, 2, 65536)
    low_bits = get_kernel(kernel).rfs_low_bits
    return array(module.flow_limit_drops(hashes, length, low_bits)).astype(bool)
