"""XPS: the tx queues of a CPU or an rx queue, and the tx queue of a packet (transmit.md 3 to 6)."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emu.errors import ConfigError
from emu.ref.record import SILENT, Recorder

XPS_CPUS, XPS_RXQS = 0, 1
MIN_CAPACITY = 20  # what is left of a cache line behind the list's header, on 64-bit
MAX_CLASSES = 16
MAX_QUEUES = 65535
EINVAL = -22
NO_NODE = -1


@dataclass
class QueueList:
    """The tx queues of one (id, class), in the order they were written."""

    queues: list[int]
    capacity: int  # 20, 40, 80 ...
    home_node: int


@dataclass
class XpsMap:
    """One type's map of one device: (id, class) -> its list. Without a list: no entry."""

    nr_ids: int
    num_tc: int
    lists: dict[tuple[int, int], QueueList] = field(default_factory=dict)

    def remove(self, queue: int, keep: frozenset[tuple[int, int]], rec: Recorder) -> None:
        """Take the queue out of the lists not kept: the last one takes its place (XPS-14)."""
        for place, entry in list(self.lists.items()):
            if place in keep or queue not in entry.queues:
                continue
            at = entry.queues.index(queue)
            last = entry.queues.pop()
            if rec.rule("XPS-14", last != queue, place=at, last=last):
                entry.queues[at] = last
            if rec.rule("XPS-12", not entry.queues, id=place[0]):
                del self.lists[place]


class XpsDevice:
    """One device's XPS maps, traffic classes and queues.

    Attributes:
        real_num_tx_queues: tx queues in use.
        num_tc: traffic classes; 0 none, negative: a subordinate device.
    """

    def __init__(
        self,
        num_tx: int,
        num_rx: int,
        ncpus: int,
        online: Sequence[int] | NDArray[np.uint8] | None = None,
        node_of: Sequence[int] | NDArray[np.int32] | None = None,
    ) -> None:
        """A device without maps and classes, all tx queues in use.

        Args:
            num_tx, num_rx: queues allocated.
            ncpus: nr_cpu_ids.
            online: per CPU, whether it is online; default all.
            node_of: per CPU, its NUMA node; default 0.

        Raises:
            ConfigError: a number is out of range, or a list has another length than *ncpus*.
        """
        _check_range("xps: num_tx", num_tx, 1, MAX_QUEUES)
        _check_range("xps: num_rx", num_rx, 1, MAX_QUEUES)
        _check_range("xps: ncpus", ncpus, 1, MAX_QUEUES)
        self.online = [True] * ncpus if online is None else [bool(value) for value in online]
        self.node_of = [0] * ncpus if node_of is None else [int(node) for node in node_of]
        for name, per_cpu in (("online", self.online), ("node_of", self.node_of)):
            if len(per_cpu) != ncpus:
                allowed = f"{ncpus} entries, one per CPU"
                raise ConfigError(f"xps: {name}", f"shape ({len(per_cpu)},)", allowed)
        self.num_tx, self.num_rx, self.ncpus = num_tx, num_rx, ncpus
        self.real_num_tx_queues = num_tx
        self.num_tc = 0
        self._ranges: dict[int, range] = {}  # queues of each class
        self._class_of_prio = [0] * MAX_CLASSES
        self._maps: dict[int, XpsMap] = {}
        self._queue_node = [NO_NODE] * num_tx

    # What is written.

    def set(self, kind: int, queue: int, mask: ArrayLike, rec: Recorder = SILENT) -> int:
        """Write the mask of a queue: 0, or -22 (EINVAL).

        Mirrors __netif_set_xps_queue in net/core/dev.c.

        Args:
            kind: 0 xps_cpus, 1 xps_rxqs.
            mask: uint64 words, id 0 in the lowest bit of the first; ids beyond the device's are
                not read.

        Raises:
            ConfigError: *kind* or *queue* is out of range, or the mask has too few words.
        """
        _check_range("xps: kind", kind, 0, 1)
        _check_range("xps: queue", queue, 0, self.num_tx - 1)
        wanted = self._ids_of(kind, mask)
        traffic_class = self._class_of_queue(queue, rec)
        if traffic_class is None:
            return EINVAL
        if kind == XPS_CPUS and self.ncpus > 1:
            offline = {cpu for cpu in wanted if not self.online[cpu]}
            if rec.rule("XPS-18", bool(offline), queue=queue, offline=offline):
                wanted -= offline
        xps_map = self._maps.get(kind)
        if wanted:
            xps_map = self._map_to_write(kind, xps_map, rec)
            for index in sorted(wanted):
                self._append(kind, xps_map, (index, traffic_class), queue, rec)
        if xps_map is not None:
            keep = frozenset((index, traffic_class) for index in wanted)
            xps_map.remove(queue, keep, rec)
            self._drop_if_empty(kind, rec)
        if kind == XPS_CPUS:
            nodes = {self.node_of[cpu] for cpu in wanted}
            one_node = rec.rule("XPS-20", len(nodes) == 1, queue=queue, nodes=nodes)
            self._queue_node[queue] = nodes.pop() if one_node else NO_NODE
        return 0

    def _ids_of(self, kind: int, mask: ArrayLike) -> AbstractSet[int]:
        """The ids whose bits are set."""
        ids = self.num_rx if kind == XPS_RXQS else self.ncpus
        words = [int(word) for word in np.asarray(mask, dtype=np.uint64)]
        needed = (ids + 63) // 64
        if len(words) < needed:
            raise ConfigError("xps: mask", f"{len(words)} words", f"{needed} words for {ids} ids")
        bits = sum(word << (64 * place) for place, word in enumerate(words))
        return {index for index in range(ids) if bits >> index & 1} if bits else set()

    def _map_to_write(self, kind: int, old: XpsMap | None, rec: Recorder) -> XpsMap:
        """The map that a write goes to: a new one if none has the device's shape (XPS-25)."""
        nr_ids = self.num_rx if kind == XPS_RXQS else self.ncpus
        num_tc = max(self.num_tc, 1)
        if old is not None:
            shape = (old.nr_ids, old.num_tc)
            if not rec.rule("XPS-25", shape != (nr_ids, num_tc), old=shape, new=(nr_ids, num_tc)):
                return old
        self._maps[kind] = XpsMap(nr_ids, num_tc)
        return self._maps[kind]

    def _append(
        self, kind: int, xps_map: XpsMap, place: tuple[int, int], queue: int, rec: Recorder
    ) -> None:
        """The queue goes to the end of a list, if it is not in it (XPS-13, XPS-15)."""
        node = self.node_of[place[0]] if kind == XPS_CPUS else NO_NODE
        entry = xps_map.lists.setdefault(place, QueueList([], MIN_CAPACITY, node))
        if rec.rule("XPS-15", queue in entry.queues, id=place[0], queue=queue):
            return
        if rec.rule("XPS-16", len(entry.queues) == entry.capacity, len=len(entry.queues)):
            entry.capacity *= 2
            entry.home_node = node
        entry.queues.append(queue)

    def _drop_if_empty(self, kind: int, rec: Recorder) -> None:
        """A map without lists goes, and no lookup asks it again (XPS-17)."""
        empty = kind in self._maps and not self._maps[kind].lists
        if rec.rule("XPS-17", empty, type=kind):
            del self._maps[kind]

    def _class_of_queue(self, queue: int, rec: Recorder = SILENT) -> int | None:
        """The first class whose range holds the queue; None: EINVAL (XPS-23)."""
        if self.num_tc == 0:
            return 0
        holding = [tc for tc, queues in sorted(self._ranges.items()) if queue in queues]
        if rec.rule("XPS-23", self.num_tc < 0 or not holding, queue=queue, num_tc=self.num_tc):
            return None
        return holding[0]

    def _reset_queues(self, queues: range, rec: Recorder = SILENT) -> None:
        """Take queues out of both maps, lowest first (netif_reset_xps_queues)."""
        for queue in queues:
            for kind in list(self._maps):
                self._maps[kind].remove(queue, frozenset(), rec)
                self._drop_if_empty(kind, rec)
            self._queue_node[queue] = NO_NODE

    def set_online(self, cpu: int, online: bool) -> None:
        """A CPU comes or goes: only later writes see it."""
        _check_range("xps: cpu", cpu, 0, self.ncpus - 1)
        self.online[cpu] = bool(online)

    def set_num_rx(self, num_rx: int) -> None:
        """Another number of allocated rx queues: what xps_rxqs is as wide as (XPS-25)."""
        _check_range("xps: num_rx", num_rx, 1, MAX_QUEUES)
        self.num_rx = num_rx

    def set_real_num_tx(self, count: int, rec: Recorder = SILENT) -> int:
        """``ethtool -L``: use the first *count* queues; 0 or -22.

        The others leave the maps for good (XPS-26).
        """
        if not 1 <= count <= self.num_tx:
            return EINVAL
        beyond = {tc for tc, queues in self._ranges.items() if queues.stop > count}
        if 0 in beyond:
            self.num_tc, self._ranges = 0, {}
        elif self.num_tc > 0:
            self._class_of_prio[1:] = [0 if tc in beyond else tc for tc in self._class_of_prio[1:]]
        if rec.rule("XPS-26", count < self.real_num_tx_queues, count=count):
            self._reset_queues(range(count, self.num_tx), rec)
        self.real_num_tx_queues = count
        return 0

    def set_num_tc(self, num_tc: int, rec: Recorder = SILENT) -> int:
        """Another number of traffic classes, without ranges yet; 0 or -22.

        Both maps are emptied (XPS-24). Negative: a subordinate device of one queue.
        """
        if num_tc > MAX_CLASSES or (num_tc < 0 and self.num_tx > 1):
            return EINVAL
        self._reset_queues(range(self.num_tx), rec)
        self.num_tc, self._ranges = num_tc, {}
        self._class_of_prio = [0] * MAX_CLASSES
        return 0

    def set_tc_queue(self, tc: int, count: int, offset: int, rec: Recorder = SILENT) -> int:
        """A class gets *count* queues from *offset* on: these leave the maps (XPS-24); 0 or -22."""
        _check_range("xps: tc", tc, 0, MAX_CLASSES - 1)
        _check_range("xps: count", count, 0, MAX_QUEUES)
        _check_range("xps: offset", offset, 0, MAX_QUEUES)
        if tc >= self.num_tc or offset + count > self.num_tx:
            return EINVAL
        self._reset_queues(range(offset, offset + count), rec)
        self._ranges[tc] = range(offset, offset + count)
        return 0

    def set_prio_tc(self, prio: int, tc: int) -> int:
        """Priority -> class; 0 or -22."""
        _check_range("xps: prio", prio, 0, MAX_CLASSES - 1)
        _check_range("xps: tc", tc, 0, MAX_CLASSES - 1)
        if tc >= self.num_tc:
            return EINVAL
        self._class_of_prio[prio] = tc
        return 0

    # What is read.

    @property
    def live_maps(self) -> int:
        """Maps that exist: this device's share of the kernel's "XPS needed" counter (XPS-17)."""
        return len(self._maps)

    def mask(self, kind: int, queue: int) -> NDArray[np.uint64]:
        """What a read of the file gives: uint64 words of the ids that may use the queue (XPS-19).

        Raises:
            ConfigError: no such file, or the queue is in no traffic class.
        """
        _check_range("xps: kind", kind, 0, 1)
        _check_range("xps: queue", queue, 0, self.num_tx - 1)
        traffic_class = self._class_of_queue(queue)
        if traffic_class is None:
            raise ConfigError("xps: queue", queue, "a queue of some traffic class (EINVAL)")
        ids = self.num_rx if kind == XPS_RXQS else self.ncpus
        bits = 0
        for (index, tc), queues in self.lists(kind).items():
            if tc == traffic_class and queue in queues and index < ids:
                bits |= 1 << index
        raw = bits.to_bytes(8 * ((ids + 63) // 64), "little")
        return np.frombuffer(raw, dtype="<u8").astype(np.uint64)

    def lists(self, kind: int) -> dict[tuple[int, int], list[int]]:
        """Queues of each (id, class) that has a list, in their order."""
        return {place: queues for place, (queues, *_) in self.slots(kind).items()}

    def slots(self, kind: int) -> dict[tuple[int, int], tuple[list[int], int, int, int]]:
        """The same with more: (id, class) -> (queues, capacity, home node, slot index)."""
        _check_range("xps: kind", kind, 0, 1)
        if kind not in self._maps:
            return {}
        num_tc = self._maps[kind].num_tc
        return {
            place: (list(e.queues), e.capacity, e.home_node, place[0] * num_tc + place[1])
            for place, e in sorted(self._maps[kind].lists.items())
        }

    def queue_node(self, queue: int) -> int:
        """NUMA node of a tx queue, -1 none (XPS-20)."""
        _check_range("xps: queue", queue, 0, self.num_tx - 1)
        return self._queue_node[queue]

    # What is chosen.

    def queue(
        self, rx_id: int, cpu: int, prio: int = 0, hash: int = 0, rec: Recorder = SILENT
    ) -> tuple[int, bool]:
        """What the maps say: (queue or -1, whether the hash mattered).

        Mirrors get_xps_queue in net/core/dev.c.

        Args:
            rx_id: rx queue that the socket recorded, -1 none.
            cpu: where the packet was first transmitted (XPS-30).
            prio: skb->priority.
        """
        traffic_class = self._class_of_prio[prio & 15]
        by_rxq, hashed = self._ask(XPS_RXQS, rx_id, traffic_class, hash, rec)
        if rec.rule("XPS-29", by_rxq >= 0, rx_queue=rx_id):
            return by_rxq, hashed
        by_cpu, hashed_too = self._ask(XPS_CPUS, cpu, traffic_class, hash, rec)
        return by_cpu, hashed or hashed_too

    def _ask(
        self, kind: int, index: int, traffic_class: int, hash: int, rec: Recorder
    ) -> tuple[int, bool]:
        """One map's answer for an id."""
        xps_map = self._maps.get(kind)
        if xps_map is None or index < 0:
            return -1, False
        if rec.rule("XPS-31", traffic_class >= xps_map.num_tc, tc=traffic_class):
            return -1, False
        entry = xps_map.lists.get((index, traffic_class))
        if entry is None:
            return -1, False
        queues = entry.queues
        if rec.rule("XPS-27", len(queues) == 1, id=index, queues=queues):
            chosen, hashed = queues[0], False
        else:
            chosen, hashed = queues[hash * len(queues) >> 32], True
            rec.note("xps", f"queue {chosen} by hash (XPS-28)", hash=hash, queues=queues)
        if rec.rule("XPS-39", chosen >= self.real_num_tx_queues, queue=chosen):
            return -1, hashed
        return chosen, hashed

    def hash_answer(
        self, prio: int, recorded_rx: int, hash: int, rec: Recorder = SILENT
    ) -> tuple[int, bool]:
        """skb_tx_hash: over the class's queues, by the packet's rx queue (forwarding) or hash."""
        queues = range(self.real_num_tx_queues)
        if self.num_tc > 0:
            of_class = self._ranges.get(self._class_of_prio[prio & 15], range(0))
            if not rec.rule("XPS-37", len(of_class) == 0, prio=prio):
                queues = of_class
        offset, count = queues.start, len(queues)
        if rec.rule("XPS-36", recorded_rx >= 0, rx_queue=recorded_rx, offset=offset, count=count):
            from_offset = recorded_rx - offset if recorded_rx >= offset else recorded_rx
            return offset + from_offset % count, False
        return offset + (hash * count >> 32), count > 1

    def pick(
        self,
        cached: int,
        ooo_okay: bool,
        can_store: bool,
        sk_rx: int,
        recorded_rx: int,
        cpu: int,
        prio: int,
        hash: int,
        rec: Recorder = SILENT,
    ) -> tuple[int, int, bool]:
        """The packet's tx queue: (queue, the socket's queue afterwards, whether the hash mattered).

        Mirrors netdev_core_pick_tx and netdev_pick_tx in net/core/dev.c.

        Args:
            cached: the socket's queue, -1 none.
            ooo_okay: nothing of the flow is under way, so it may move.
            can_store: a full socket with a cached route.
            sk_rx: rx queue that the socket recorded, -1 none.
            recorded_rx: rx queue that the packet recorded (forwarding), -1 none.
            cpu: where the packet was first transmitted.
            prio: skb->priority.
        """
        if rec.rule("XPS-38", self.real_num_tx_queues == 1):
            return 0, cached, False
        if cached >= 0 and rec.rule("XPS-32", not ooo_okay, cached=cached, cpu=cpu):
            beyond = cached >= self.real_num_tx_queues
            if not rec.rule("XPS-34", beyond, cached=cached, queues=self.real_num_tx_queues):
                return cached, cached, False
        chosen, hashed = self.queue(sk_rx, cpu, prio, hash, rec)
        if chosen < 0:
            chosen, hashed_too = self.hash_answer(prio, recorded_rx, hash, rec)
            hashed = hashed or hashed_too
        if rec.rule("XPS-35", can_store and chosen != cached, chosen=chosen, cached=cached):
            cached = chosen
        return chosen if chosen < self.real_num_tx_queues else 0, cached, hashed


def _check_range(where: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ConfigError(where, value, f"{least}..{most}")


def _columns(n: int, **columns: ArrayLike) -> list[list[int]]:
    """Columns of n entries as lists."""
    out = []
    for name, values in columns.items():
        array = np.asarray(values)
        if array.shape != (n,):
            allowed = f"{n} rows, like the other columns"
            raise ConfigError(f"xps: {name}", f"shape {array.shape}", allowed)
        out.append(array.tolist())
    return out


def xps_queues(
    device: XpsDevice,
    rx_id: NDArray[np.int32],
    cpu: NDArray[np.int32],
    prio: NDArray[np.uint32],
    hash: NDArray[np.uint32],
    rec: Recorder = SILENT,
) -> tuple[NDArray[np.int32], NDArray[np.uint8]]:
    """get_xps_queue for many packets.

    Args:
        device: whose maps.
        rx_id: int32[n], rx queue of the socket, -1 none.
        cpu: int32[n]; prio: uint32[n]; hash: uint32[n].

    Returns:
        (queue int32[n], -1 where no map answers; used_hash uint8[n]).
    """
    rows = _columns(len(hash), rx_id=rx_id, cpu=cpu, prio=prio, hash=hash)
    out = [device.queue(rx, on, p, h, rec) for rx, on, p, h in zip(*rows, strict=True)]
    queues, used = zip(*out, strict=True) if out else ((), ())
    return np.array(queues, dtype=np.int32), np.array(used, dtype=np.uint8)


def pick_queues(
    device: XpsDevice,
    cached: NDArray[np.int32],
    ooo_okay: NDArray[np.uint8],
    can_store: NDArray[np.uint8],
    sk_rx: NDArray[np.int32],
    recorded_rx: NDArray[np.int32],
    cpu: NDArray[np.int32],
    prio: NDArray[np.uint32],
    hash: NDArray[np.uint32],
    rec: Recorder = SILENT,
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.uint8]]:
    """netdev_pick_tx for many packets, each of a socket of its own.

    Args:
        device: whose maps.
        cached: int32[n], the socket's queue, -1 none.
        ooo_okay, can_store: uint8[n]: nothing is under way; a full socket with a route.
        sk_rx, recorded_rx: int32[n], rx queue of the socket and of the packet, -1 none.
        cpu: int32[n]; prio: uint32[n]; hash: uint32[n].

    Returns:
        (queue int32[n], cached afterwards int32[n], used_hash uint8[n]).
    """
    rows = _columns(
        len(hash),
        cached=cached,
        ooo_okay=ooo_okay,
        can_store=can_store,
        sk_rx=sk_rx,
        recorded_rx=recorded_rx,
        cpu=cpu,
        prio=prio,
        hash=hash,
    )
    out = [
        device.pick(held, bool(okay), bool(store), rx, recorded, on, p, h, rec)
        for held, okay, store, rx, recorded, on, p, h in zip(*rows, strict=True)
    ]
    queues, stored, used = zip(*out, strict=True) if out else ((), (), ())
    return (
        np.array(queues, dtype=np.int32),
        np.array(stored, dtype=np.int32),
        np.array(used, dtype=np.uint8),
    )
