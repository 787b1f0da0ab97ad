"""Which tx queue a packet leaves by: XPS and the pick of the stack."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emu.engines import stage
from emu.errors import ConfigError
from emu.model.arrays import column, spread
from emu.model.nic import MAX_QUEUES
from emu.stages.arguments import MAX_CPUS, CpuMask, cpu_set, number, online_cpus

XPS_CPUS, XPS_RXQS = 0, 1


def xps_device(
    num_tx: int,
    *,
    num_rx: int = 1,
    ncpus: int,
    xps_cpus: Mapping[int, CpuMask] | None = None,
    xps_rxqs: Mapping[int, CpuMask] | None = None,
    online: ArrayLike | None = None,
    node_of: ArrayLike | None = None,
    engine: str = "core",
) -> Any:
    """Make a device whose XPS maps are written, in the order given (XPS-11 to XPS-26).

    Args:
        num_tx: tx queues.
        num_rx: rx queues.
        ncpus: CPUs of the host.
        xps_cpus: per tx queue what is written to its ``xps_cpus``: a mask (``"f"``), a `CpuSet`,
            or CPU numbers.
        xps_rxqs: likewise its ``xps_rxqs``, of rx queues.
        online: ``bool[ncpus]`` or ``uint8[ncpus]``; all when not given.
        node_of: ``int32[ncpus]``, NUMA node of each CPU; 0 when not given.
        engine: ``"core"`` or ``"ref"``; the doors that take the device use the same.

    Returns:
        The engine's ``XpsDevice``. Its methods write on: ``set``, ``set_num_tc``, ``set_online``
        ...; ``lists(kind)`` shows the queues of every CPU (kind 0) or rx queue (kind 1).

    Raises:
        ConfigError: a number out of range, or a write that the kernel refuses.
        CoreNotBuilt: the compiled core is missing.
    """
    module = stage(engine, "xps")
    cpus = number("xps_device: ncpus", ncpus, 1, MAX_CPUS)
    rx_queues = number("xps_device: num_rx", num_rx, 1, MAX_QUEUES)
    tx_queues = number("xps_device: num_tx", num_tx, 1, MAX_QUEUES)
    nodes = np.zeros(cpus, dtype=np.int32)
    if node_of is not None:
        nodes = column("xps_device: node_of", node_of, "i4", rows=cpus, low=-1)
    device = module.XpsDevice(
        tx_queues, rx_queues, cpus, online_cpus("xps_device: online", online, cpus), nodes
    )
    writes = (("xps_cpus", XPS_CPUS, cpus, xps_cpus), ("xps_rxqs", XPS_RXQS, rx_queues, xps_rxqs))
    for name, kind, bits, masks in writes:
        for queue, mask in (masks or {}).items():
            where = f"xps_device: {name}[{queue}]"
            index = number(f"xps_device: {name}: queue", queue, 0, tx_queues - 1)
            words = cpu_set(where, mask, bits).words((bits + 63) // 64)
            if device.set(kind, index, words):
                raise ConfigError(where, mask, "what the kernel takes (EINVAL)")
    return device


class XpsQueues(NamedTuple):
    """What the XPS maps answer for n packets."""

    queue: NDArray[np.int32]  # -1: no map answers
    used_hash: NDArray[np.uint8]  # 1: the hash mattered, there was a choice


def xps_queue(
    device: Any, cpu: ArrayLike, hash: ArrayLike, *, rx_queue: ArrayLike = -1, prio: ArrayLike = 0
) -> XpsQueues:
    """Ask a device's XPS maps for the tx queue of packets (XPS-27 to XPS-31).

    Mirrors get_xps_queue: the map by rx queue first, then the one by CPU; a list of several
    queues is chosen from by the hash.

    Args:
        device: from `xps_device`; its engine answers.
        cpu: ``int32[n]`` or one for all, the CPU that sends.
        hash: ``uint32[n]``, skb->hash.
        rx_queue: ``int32[n]`` or one for all, rx queue that the socket recorded; -1 none.
        prio: ``uint32[n]`` or one for all, skb->priority, which chooses the traffic class.

    Returns:
        queue ``int32[n]``, used_hash ``uint8[n]``.

    Raises:
        ConfigError: columns of different lengths, or a number out of range.
    """
    hashes = column("xps_queue: hash", hash, "u4")
    rows = len(hashes)
    return XpsQueues(
        *_module_of(device).xps_queues(
            device,
            spread("xps_queue: rx_queue", rx_queue, "i4", rows, low=-1, high=MAX_QUEUES),
            spread("xps_queue: cpu", cpu, "i4", rows, low=0, high=MAX_CPUS),
            spread("xps_queue: prio", prio, "u4", rows),
            hashes,
        )
    )


class PickedQueues(NamedTuple):
    """The tx queues of n packets, each of a socket of its own."""

    queue: NDArray[np.int32]
    cached: NDArray[np.int32]  # what the socket remembers afterwards; -1 nothing
    used_hash: NDArray[np.uint8]  # 1: the hash mattered


def pick_tx(
    device: Any,
    cpu: ArrayLike,
    hash: ArrayLike,
    *,
    cached: ArrayLike = -1,
    ooo_okay: ArrayLike = 1,
    can_store: ArrayLike = 1,
    rx_queue: ArrayLike = -1,
    recorded_rx: ArrayLike = -1,
    prio: ArrayLike = 0,
) -> PickedQueues:
    """Pick the tx queue of packets as the stack does for most drivers (XPS-32 to XPS-39).

    Mirrors netdev_pick_tx: the socket's queue when it has one and packets are under way, else
    XPS, else the recorded rx queue or the hash (skb_tx_hash).

    Args:
        device: from `xps_device`; its engine answers.
        cpu: ``int32[n]`` or one for all, the CPU that sends.
        hash: ``uint32[n]``, skb->hash.
        cached: ``int32[n]`` or one for all, the socket's tx queue; -1 none.
        ooo_okay: ``uint8[n]`` or one for all, 1: nothing is under way, so the queue may change.
        can_store: ``uint8[n]`` or one for all, 1: a full socket with a route, which remembers.
        rx_queue: ``int32[n]`` or one for all, rx queue that the socket recorded; -1 none.
        recorded_rx: ``int32[n]`` or one for all, rx queue that the packet recorded (a forwarded
            one does); -1 none.
        prio: ``uint32[n]`` or one for all, skb->priority.

    Returns:
        queue ``int32[n]``, cached ``int32[n]``, used_hash ``uint8[n]``.

    Raises:
        ConfigError: columns of different lengths, or a number out of range.
    """
    hashes = column("pick_tx: hash", hash, "u4")
    rows = len(hashes)

    def queues(name: str, value: ArrayLike) -> NDArray[np.int32]:
        return spread(f"pick_tx: {name}", value, "i4", rows, low=-1, high=MAX_QUEUES)

    return PickedQueues(
        *_module_of(device).pick_queues(
            device,
            queues("cached", cached),
            spread("pick_tx: ooo_okay", ooo_okay, "u1", rows, high=1),
            spread("pick_tx: can_store", can_store, "u1", rows, high=1),
            queues("rx_queue", rx_queue),
            queues("recorded_rx", recorded_rx),
            spread("pick_tx: cpu", cpu, "i4", rows, low=0, high=MAX_CPUS),
            spread("pick_tx: prio", prio, "u4", rows),
            hashes,
        )
    )


def _module_of(device: Any) -> ModuleType:
    """The stage's module of the engine that a device belongs to."""
    engine = "ref" if type(device).__module__.startswith("emu.ref.") else "core"
    module = stage(engine, "xps")
    if not isinstance(device, module.XpsDevice):
        raise ConfigError(
            "xps: device", type(device).__name__, "a device", "stages.xps_device(...)"
        )
    return module
