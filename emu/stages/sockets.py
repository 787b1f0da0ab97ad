"""Which socket gets a packet, and where the work of a redirected one runs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emu import dtypes
from emu.engines import stage
from emu.errors import ConfigError
from emu.kernels import KernelProfile, get_kernel
from emu.model.arrays import column, spread
from emu.model.lower_sockets import make_lookup_cfg
from emu.model.packets import Packets
from emu.model.secrets import Secrets
from emu.stages.arguments import MAX_CPUS, array, number


def reuseport(
    hash: ArrayLike,
    cpu: ArrayLike,
    incoming_cpu: ArrayLike,
    *,
    established: ArrayLike | None = None,
    cpu_aware: bool = True,
    engine: str = "core",
) -> NDArray[np.int32]:
    """Pick a member of one reuseport group for each packet (SOCK-43 to SOCK-45).

    Mirrors reuseport_select_sock_by_hash: the hash is scaled onto the members; when one of them
    has set SO_INCOMING_CPU, the walk from there goes on to a member of this CPU.

    Args:
        hash: ``uint32[n]``, the socket hash of each packet (`ehash_v4`, `ehash_v6`).
        cpu: ``int32[n]`` or one for all, the CPU that processes the packet.
        incoming_cpu: ``int32[m]``, SO_INCOMING_CPU of the members in the group's order; -1 unset.
        established: ``bool[m]`` or ``uint8[m]``, members that are connected and skipped; none are
            when not given.
        cpu_aware: False for kernels before 6.2 (SOCK-45).
        engine: ``"core"`` or ``"ref"``.

    Returns:
        ``int32[n]``, the member's index; -1 when every member is skipped.

    Raises:
        ConfigError: columns of different lengths, or a number out of range.
        CoreNotBuilt: the compiled core is missing.
    """
    module = stage(engine, "reuseport")
    hashes = column("reuseport: hash", hash, "u4")
    members = column("reuseport: incoming_cpu", incoming_cpu, "i4", low=-1)
    skipped = None
    if established is not None:
        flags = np.asarray(established)
        flags = flags.astype(np.uint8) if flags.dtype == np.bool_ else flags
        skipped = column("reuseport: established", flags, "u1", rows=len(members), high=1)
    return array(
        module.reuseport_select(
            hashes,
            spread("reuseport: cpu", cpu, "i4", len(hashes), low=0, high=MAX_CPUS),
            members,
            established=skipped,
            cpu_aware=bool(cpu_aware),
        )
    )


class Lookups(NamedTuple):
    """What the socket lookup says of n packets."""

    socket: NDArray[np.int32]  # row of the sockets; -1 none
    secrets: NDArray[np.uint16]  # Secret bits that the answer hangs on
    scanned: NDArray[np.uint32]  # sockets scored
    walked: NDArray[np.uint32]  # group members looked at
    stage: NDArray[np.uint8]  # LookupStage


def lookup(
    packets: Packets,
    sockets: NDArray[np.void],
    *,
    kernel: str | KernelProfile = "6.18",
    secrets: Secrets | None = None,
    dif: ArrayLike = 1,
    cpu: ArrayLike = 0,
    masks: ArrayLike = (),
    mask_words: int = 1,
    ncpus: int = 64,
    engine: str = "core",
) -> Lookups:
    """Find the socket of every packet (SOCK-16 to SOCK-84).

    Mirrors __inet_lookup_skb, __udp4_lib_lookup and their IPv6 twins with reuseport groups and
    SO_INCOMING_CPU. The sockets are opened in the order of their rows, all before the first
    packet; a host whose sockets come and go is `emu.steer`'s.

    Args:
        packets: the table; what is no whole TCP or UDP packet finds nothing.
        sockets: ``SOCKET[s]`` of `emu.dtypes`; a row whose state is CLOSED is not opened.
        kernel: whose rules hold, by name or as a profile.
        secrets: the hash secrets; those of seed 0 when not given. ``secrets`` of the answer tells
            which packets they mattered for.
        dif: ``int32[n]`` or one for all, the NIC's index + 1 (SO_BINDTODEVICE compares it).
        cpu: ``int32[n]`` or one for all, the CPU that processes the packet.
        masks: ``uint64[...]``, CPU masks that ``mask_off`` of a row points into (SOCK-25).
        mask_words: words of each mask.
        ncpus: CPUs of the host.
        engine: ``"core"`` or ``"ref"``.

    Returns:
        socket ``int32[n]``, secrets ``uint16[n]``, scanned ``uint32[n]``, walked ``uint32[n]``,
        stage ``uint8[n]``.

    Raises:
        ConfigError: a row, a mask or a number out of range.
        CoreNotBuilt: the compiled core is missing.
    """
    module = stage(engine, "lookup")
    if not isinstance(sockets, np.ndarray) or sockets.dtype != dtypes.SOCKET or sockets.ndim != 1:
        given = getattr(sockets, "dtype", type(sockets).__name__)
        raise ConfigError("lookup: sockets", given, "rows of emu.dtypes.SOCKET")
    cpus = number("lookup: ncpus", ncpus, 1, MAX_CPUS)
    words = number("lookup: mask_words", mask_words, 1, MAX_CPUS // 64 + 1)
    cfg = make_lookup_cfg(secrets or Secrets.from_seed(), get_kernel(kernel), cpus)
    return Lookups(
        *module.lookup_packets(
            packets,
            sockets,
            column("lookup: masks", masks, "u8"),
            words,
            cfg,
            spread("lookup: dif", dif, "i4", len(packets), low=0),
            spread("lookup: cpu", cpu, "i4", len(packets), low=0, high=cpus - 1),
        )
    )


def psock_cpus(
    target_cpu: ArrayLike,
    psock: ArrayLike,
    cpu_now: ArrayLike,
    *,
    burst: int = 1,
    engine: str = "core",
) -> NDArray[np.int32]:
    """Tell on which CPU the worker of a sockmap redirect runs (SOCKMAP-10 to SOCKMAP-14).

    The first schedule chooses the CPU, the psock's named one or the scheduler's own; while the
    work is pending, later ones change nothing.

    Args:
        target_cpu: ``int32[k]``, the CPU each psock names; -1 none.
        psock: ``uint32[n]``, which one is scheduled, in order of time.
        cpu_now: ``int32[n]`` or one for all, the CPU that schedules.
        burst: after so many schedules the pending workers run to their end.
        engine: ``"core"`` or ``"ref"``.

    Returns:
        ``int32[n]``, the CPU that the worker will run on.

    Raises:
        ConfigError: a psock beyond *target_cpu*, or a number out of range.
        CoreNotBuilt: the compiled core is missing.
    """
    named = column("psock_cpus: target_cpu", target_cpu, "i4", low=-1, high=MAX_CPUS)
    which = column("psock_cpus: psock", psock, "u4", high=len(named) - 1)
    now = spread("psock_cpus: cpu_now", cpu_now, "i4", len(which), low=0, high=MAX_CPUS)
    every = number("psock_cpus: burst", burst, 1, 2**31 - 1)
    return array(stage(engine, "sockmap").psock_cpus(named, which, now, every))
