"""cpumap: XDP frames to other CPUs through bulks and rings (sockets.md 5, 8.5)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from emu.dtypes import NAPI_WEIGHT, CpumapDesign, CpumapRule
from emu.errors import ConfigError
from emu.model.packets import Packets
from emu.ref import bits
from emu.ref.direction import NO_ADDRESSES
from emu.ref.packet import PacketView
from emu.ref.record import SILENT, Recorder

BULK = 8
KTHREAD_BATCH = 8
RING_BATCH = 16
MAX_QSIZE = 16384
XDP_PASS = -1
FLUSH_NONE, FLUSH_ALL, FLUSH_OLD = 0, 1, 2


class Ring:
    """ptr_ring: slots that are empty (None) or hold a frame (CPUMAP-9)."""

    def __init__(self, size: int) -> None:
        self.slots: list[int | None] = [None] * size
        self.producer = 0  # slot that is filled next
        self.head = 0  # slot that is read next
        self.tail = 0  # first slot that was read and not emptied yet
        self.batch = RING_BATCH if size >= 2 * RING_BATCH else 1

    def produce(self, frame: int, rec: Recorder = SILENT) -> bool:
        """Put a frame in; False when the producer's slot is not empty."""
        if rec.rule("CPUMAP-9", self.slots[self.producer] is not None, slot=self.producer):
            return False
        self.slots[self.producer] = frame
        self.producer = (self.producer + 1) % len(self.slots)
        return True

    def empty(self) -> bool:
        """Whether there is nothing left to read."""
        return self.slots[self.head] is None

    def consume(self, rec: Recorder = SILENT) -> int | None:
        """Take the next frame; None: there is none. What was read is emptied a batch at a time."""
        frame = self.slots[self.head]
        if frame is None:
            return None
        self.head += 1
        whole_batch = self.head - self.tail >= self.batch or self.head == len(self.slots)
        if rec.rule("CPUMAP-10", whole_batch, read=self.head - self.tail, batch=self.batch):
            self.slots[self.tail : self.head] = [None] * (self.head - self.tail)
            self.tail = self.head = self.head % len(self.slots)
        return frame


class Entry:
    """One cpumap entry: its kthread's CPU, its ring, what the enqueue tracepoint counts."""

    def __init__(self, cpu: int, qsize: int) -> None:
        self.cpu, self.ring = cpu, Ring(qsize)
        self.processed = self.dropped = 0


class Cpumap:
    """The entries of one map, as the driver's poll and the kthreads use them."""

    def __init__(self, cpus: Sequence[int], qsizes: Sequence[int]) -> None:
        """Entries with empty rings.

        Args:
            cpus: CPU of each entry's kthread.
            qsizes: slots of each entry's ring.

        Raises:
            ConfigError: other lengths, or numbers out of range (CPUMAP-1).
        """
        if len(cpus) != len(qsizes) or not len(cpus):
            given = f"{len(qsizes)} beside {len(cpus)} cpus"
            raise ConfigError("cpumap: qsizes", given, "one per entry, at least one")
        for cpu, qsize in zip(cpus, qsizes, strict=True):
            _check_range("cpumap: cpu", int(cpu), 0, 65535)
            _check_range("cpumap: qsize", int(qsize), 1, MAX_QSIZE)
        self.entries = [Entry(int(c), int(q)) for c, q in zip(cpus, qsizes, strict=True)]
        # Frames per (entry, producing CPU), most recently touched first: the flush list.
        self._bulks: dict[tuple[int, int], list[int]] = {}
        self._touched: list[tuple[int, int]] = []
        self._lost: list[int] = []

    def enqueue(self, producer: int, entry: int, packet: int, rec: Recorder = SILENT) -> None:
        """Redirect a packet to an entry, in the poll of a CPU.

        The ninth drains the eight before it (CPUMAP-3).

        Raises:
            ConfigError: no such entry, or another CPU's poll has not been flushed.
        """
        self._check_producer(producer)
        _check_range("cpumap: entry", entry, 0, len(self.entries) - 1)
        bulk = self._bulks.setdefault((entry, producer), [])
        if rec.rule("CPUMAP-3", len(bulk) == BULK, held=len(bulk)):
            self._drain((entry, producer), rec)
        bulk.append(packet)
        if (entry, producer) not in self._touched:
            self._touched.insert(0, (entry, producer))

    def flush(self, producer: int, rec: Recorder = SILENT) -> list[int]:
        """End of the poll: drains the bulks, most recently touched first (CPUMAP-6).

        Answers the entries whose kthreads wake, in order.
        """
        self._check_producer(producer)
        woken = []
        for entry, cpu in list(self._touched):
            self._drain((entry, cpu), rec)
            woken.append(entry)
        return woken

    def _drain(self, key: tuple[int, int], rec: Recorder) -> None:
        """One bulk into its ring, in order; what does not fit is lost (CPUMAP-4)."""
        for packet in self._bulks[key]:
            if not self.insert(key[0], packet, rec):
                self._lost.append(packet)
        self._bulks[key].clear()
        self._touched.remove(key)

    def insert(self, entry: int, packet: int, rec: Recorder = SILENT) -> bool:
        """One packet straight into the ring, as generic XDP does (CPUMAP-8): was there room."""
        _check_range("cpumap: entry", entry, 0, len(self.entries) - 1)
        chosen = self.entries[entry]
        fits = chosen.ring.produce(packet, rec)
        chosen.processed += fits
        chosen.dropped += not fits
        return fits

    def consume(self, entry: int, rec: Recorder = SILENT) -> list[int]:
        """One kthread step: up to 8 packets (CPUMAP-11)."""
        _check_range("cpumap: entry", entry, 0, len(self.entries) - 1)
        out: list[int] = []
        ring = self.entries[entry].ring
        while len(out) < KTHREAD_BATCH and (packet := ring.consume(rec)) is not None:
            out.append(packet)
        return out

    def empty(self, entry: int) -> bool:
        """Whether the entry's ring is empty."""
        _check_range("cpumap: entry", entry, 0, len(self.entries) - 1)
        return self.entries[entry].ring.empty()

    def take_lost(self) -> list[int]:
        """Packets that found a full ring since the last call, in order."""
        lost, self._lost = self._lost, []
        return lost

    def stats(self, entry: int) -> tuple[int, int]:
        """(frames that got into the ring, frames dropped) of an entry."""
        _check_range("cpumap: entry", entry, 0, len(self.entries) - 1)
        return self.entries[entry].processed, self.entries[entry].dropped

    def cpu(self, entry: int) -> int:
        """CPU of an entry's kthread (CPUMAP-2)."""
        _check_range("cpumap: entry", entry, 0, len(self.entries) - 1)
        return self.entries[entry].cpu

    def _check_producer(self, producer: int) -> None:
        _check_range("cpumap: producer", producer, 0, 65535)
        busy = self._touched[0][1] if self._touched else producer
        if busy != producer:
            allowed = f"CPU {busy} until its poll is flushed"
            raise ConfigError("cpumap: producer", producer, allowed)


def _check_range(where: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ConfigError(where, value, f"{least}..{most}")


def step_flush(design: int, packets: int, ring_empty: bool, hz: int, rec: Recorder = SILENT) -> int:
    """What a kthread does with GRO after a step: 0 nothing, 1 flush all, 2 flush only the old.

    Args:
        design: CpumapDesign.
        packets: frames taken since the last flush (merged) or in this poll (napi); it starts again
            at 0 after an answer other than 0.
        ring_empty: whether the ring is empty now.
        hz: jiffies per second.
    """
    design = CpumapDesign(design)
    if rec.rule("CPUMAP-11", design == CpumapDesign.PLAIN):
        return FLUSH_NONE
    if design == CpumapDesign.NAPI:
        if rec.rule("CPUMAP-20", packets >= NAPI_WEIGHT, packets=packets):
            return FLUSH_OLD if rec.rule("CPUMAP-21", hz >= 1000, hz=hz) else FLUSH_ALL
        return FLUSH_ALL if ring_empty else FLUSH_NONE
    due = packets >= NAPI_WEIGHT or ring_empty
    if not rec.rule("CPUMAP-15", due, packets=packets, empty=ring_empty):
        return FLUSH_NONE
    only_old = not ring_empty and hz >= 1000
    return FLUSH_OLD if rec.rule("CPUMAP-16", only_old, hz=hz) else FLUSH_ALL


def program_hash(saddr: bytes, daddr: bytes, ports: tuple[int, int] | None) -> int:
    """The XDP program's own hash: it stands for what such programs do, and is no kernel's.

    Addresses and ports, the same in both directions: their 32-bit words xored, then murmur3's
    32-bit finaliser.
    """
    mixed = 0
    for address in (saddr, daddr):
        for at in range(0, len(address), 4):
            mixed ^= int.from_bytes(address[at : at + 4], "little")
    if ports is not None:
        mixed ^= (ports[0] ^ ports[1]) << 16 | (ports[0] + ports[1]) % 65536
    mixed = (mixed ^ mixed >> 16) * 0x85EBCA6B % 2**32
    mixed = (mixed ^ mixed >> 13) * 0xC2B2AE35 % 2**32
    return mixed ^ mixed >> 16


def target_entry(
    rule: int,
    entries: int,
    fixed: int,
    rx_queue: int,
    view: PacketView,
    packet: int,
    rec: Recorder = SILENT,
) -> int:
    """The entry, 0 .. entries - 1, that the XDP program redirects a packet to; -1: XDP_PASS.

    Args:
        rule: CpumapRule; those that need an address pass what has none.
        fixed: the entry for FIXED.
        rx_queue: within the NIC.
    """
    if rule == CpumapRule.FIXED:
        return fixed
    if rule == CpumapRule.RX_QUEUE:
        return rx_queue % entries
    has_address = view.family[packet] != 0 and view.reason[packet] not in NO_ADDRESSES
    if not rec.rule("CPUMAP-RULE", has_address, family=view.family[packet]):
        return XDP_PASS
    saddr = view.saddr_bytes[packet]
    if rule == CpumapRule.SADDR:
        return saddr[-1] % entries
    has_ports = view.flags[packet] & bits.HAS_PORTS
    ports = (view.sport[packet], view.dport[packet]) if has_ports else None
    return program_hash(saddr, view.daddr_bytes[packet], ports) % entries


def cpumap_targets(
    packets: Packets,
    rule: int,
    cpus: NDArray[np.int32],
    fixed: int,
    rx_queue: NDArray[np.int32],
    rec: Recorder = SILENT,
) -> NDArray[np.int32]:
    """CPU that the XDP program redirects each packet to: int32[n], -1 = XDP_PASS.

    Args:
        rule: CpumapRule.
        cpus: int32[k], CPU of each entry.
        fixed: entry for CpumapRule.FIXED.
        rx_queue: int32[n], rx queue within the NIC.

    Raises:
        ConfigError: no entries, a *fixed* beyond them, or a queue column that does not fit.
    """
    where, queues = np.asarray(cpus).tolist(), np.asarray(rx_queue).tolist()
    rule = CpumapRule(rule)
    if not where:
        raise ConfigError("cpumap: cpus", "none", "one or more")
    if rule == CpumapRule.FIXED:
        _check_range("cpumap: fixed", fixed, 0, len(where) - 1)
    if len(queues) != len(packets):
        allowed = f"{len(packets)} rows, one per packet"
        raise ConfigError("cpumap: rx_queue", f"{len(queues)} rows", allowed)
    if queues and min(queues) < 0:
        raise ConfigError("cpumap: rx_queue", min(queues), "0 or more")
    view = PacketView(packets)
    out = []
    for packet, queue in enumerate(queues):
        entry = target_entry(rule, len(where), fixed, queue, view, packet, rec)
        out.append(where[entry] if entry != XDP_PASS else XDP_PASS)
    return np.array(out, dtype=np.int32)
