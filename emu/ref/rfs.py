"""RFS: packets go to the CPU that reads their flow (receive.md 3.1-3.4, observed-many-cpus.md 2).

Without aRFS: no rx queue is asked to take a flow, so a flow's place is always in the table of the
rx queue that its packets came through.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from emu.errors import ConfigError
from emu.ref.record import SILENT, Recorder
from emu.ref.rps import rps_one

NO_CPU = 0xFFFF  # RPS_NO_CPU: what a fresh entry of either table holds
MAX_ENTRIES = 1 << 29
GOLDEN_RATIO_32 = 0x61C88647


@dataclass
class DevFlow:
    """An entry of an rx queue's rps_dev_flow_table: where the flow's packets go."""

    cpu: int = NO_CPU
    last_qtail: int = 0  # tail of that CPU's backlog behind the flow's last packet


class Rfs:
    """The global rps_sock_flow_table, and the rps_dev_flow_table of each rx queue.

    Attributes:
        size: entries of the global table, a power of two; 0 there is none.
        sizes: per rx queue, entries of its table, a power of two; 0 none.
        cpu_mask: the low bits of an entry, which hold a CPU; its others are the flow's.
    """

    def __init__(
        self, sock_entries: int, rxq_entries: Sequence[int], ncpus: int, low_bits: bool = False
    ) -> None:
        """Make empty tables; sizes are rounded up to powers of two, 0 stays 0.

        Args:
            sock_entries: net.core.rps_sock_flow_entries.
            rxq_entries: rps_flow_cnt of every rx queue of the host.
            ncpus: nr_cpu_ids.
            low_bits: the low bits of a hash choose the place in a queue's table (6.12); otherwise
                hash_32 does (6.18).
        """
        if not 1 <= ncpus <= NO_CPU:
            raise ConfigError("rfs: ncpus", ncpus, f"1..{NO_CPU}")
        self.size = table_size("rfs: sock_entries", sock_entries)
        self.sizes = [
            table_size(f"rfs: rxq_entries[{queue}]", entries)
            for queue, entries in enumerate(rxq_entries)
        ]
        self.ncpus = ncpus
        self.cpu_mask = power_of_two(ncpus) - 1
        self.low_bits = low_bits
        # What was never written is not there.
        self.idents: dict[int, int] = {}
        self.dev_flows: list[dict[int, DevFlow]] = [{} for _ in self.sizes]

    def record(self, hash_value: int, cpu: int, rec: Recorder = SILENT) -> None:
        """The application of a connected socket reads or sends on *cpu*: its packets shall follow.

        Mirrors rps_record_sock_flow. The last writer of an entry has it.

        Args:
            hash_value: the socket's sk_rxhash; 0: it received nothing hashed.
        """
        if rec.rule("R-3.2", bool(self.size and hash_value), hash=hash_value, cpu=cpu):
            self.idents[hash_value & self.size - 1] = hash_value & ~self.cpu_mask | cpu

    def forget(self, hash_value: int, rec: Recorder = SILENT) -> None:
        """The socket with that sk_rxhash is gone: its entry, whoever has it, is empty (6.18)."""
        if rec.rule("R-3.2.forget", bool(self.size and hash_value), hash=hash_value):
            self.idents[hash_value & self.size - 1] = NO_CPU

    def asks_hash(self, rxq: int, cpus: Sequence[int], rec: Recorder = SILENT) -> bool:
        """Whether the packet's hash is wanted at all: for a map, or for the queue's table."""
        return rec.rule("R-3.3.2", bool(cpus or self.sizes[rxq]), queue=rxq)

    def choose(
        self,
        rxq: int,
        hash_value: int,
        cpus: Sequence[int],
        online: Sequence[int],
        heads: Sequence[int],
        rec: Recorder = SILENT,
    ) -> tuple[int, int]:
        """The CPU that a packet is queued to, -1 none; and its flow's place, -1 none.

        Mirrors get_rps_cpu in net/core/dev.c.

        Args:
            rxq: rx queue that it came through.
            hash_value: the skb's hash; 0: it has none.
            cpus: the queue's RPS map, in ascending order; none: no map.
            online: per CPU, whether it is online now.
            heads: per CPU, its input_queue_head, a u32 that wraps.
        """
        if rec.rule("R-3.3.3", hash_value == 0):
            return -1, -1
        if not rec.rule("R-3.3.4.tables", bool(self.size and self.sizes[rxq]), queue=rxq):
            return rps_one(cpus, online, hash_value, rec), -1
        ident = self.idents.get(hash_value & self.size - 1, NO_CPU)
        ours = not (ident ^ hash_value) & ~self.cpu_mask
        if not rec.rule("R-3.3.4", ours, ident=ident, hash=hash_value):
            return rps_one(cpus, online, hash_value, rec), -1
        wanted = ident & self.cpu_mask
        slot = self.slot(rxq, hash_value)
        flow = self.dev_flows[rxq].setdefault(slot, DevFlow())
        moves = rec.rule("R-3.3.5", flow.cpu != wanted, was=flow.cpu, wanted=wanted)
        if moves and self.may_move(flow, online, heads, rec):
            self.set_cpu(flow, wanted, heads, rec)
        usable = flow.cpu < self.ncpus and bool(online[flow.cpu])
        if rec.rule("R-3.3.6", usable, cpu=flow.cpu):
            return flow.cpu, slot
        return rps_one(cpus, online, hash_value, rec), -1

    def may_move(
        self, flow: DevFlow, online: Sequence[int], heads: Sequence[int], rec: Recorder
    ) -> bool:
        """Whether a flow can change CPU without its packets overtaking one another."""
        if rec.rule("R-3.3.5.none", flow.cpu >= self.ncpus, cpu=flow.cpu):
            return True
        if rec.rule("R-3.3.5.offline", not online[flow.cpu], cpu=flow.cpu):
            return True
        done = signed_32(heads[flow.cpu] - flow.last_qtail) >= 0
        return rec.rule("R-3.3.5.done", done, head=heads[flow.cpu], tail=flow.last_qtail)

    def set_cpu(self, flow: DevFlow, cpu: int, heads: Sequence[int], rec: Recorder) -> None:
        """The flow goes to another CPU, which may be none that exists (set_rps_cpu)."""
        if rec.rule("R-3.4", cpu < self.ncpus, cpu=cpu):
            flow.last_qtail = heads[cpu]
        flow.cpu = cpu

    def note_tail(self, rxq: int, slot: int, tail: int) -> None:
        """The packet that was chosen for is in the backlog, whose tail is *tail* now.

        Not called for one that was dropped. *slot* as `choose` gave it; -1: nothing to note.
        """
        if slot >= 0:
            self.dev_flows[rxq][slot].last_qtail = tail

    def slot(self, rxq: int, hash_value: int) -> int:
        """Place of a hash in the rx queue's table.

        A table of one has one place; in C the shift by 32 would be undefined.
        """
        size = self.sizes[rxq]
        if self.low_bits or size == 1:
            return hash_value & size - 1
        log2 = size.bit_length() - 1
        return (hash_value * GOLDEN_RATIO_32 & 0xFFFFFFFF) >> 32 - log2

    def table(self) -> NDArray[np.uint32]:
        """The global table: uint32[size]."""
        return np.array([self.idents.get(i, NO_CPU) for i in range(self.size)], dtype=np.uint32)

    def flows(self, rxq: int) -> tuple[NDArray[np.uint16], NDArray[np.uint32]]:
        """An rx queue's table: cpu uint16[size], last_qtail uint32[size]."""
        here = self.dev_flows[rxq]
        flows = [here.get(slot, DevFlow()) for slot in range(self.sizes[rxq])]
        cpus = np.array([flow.cpu for flow in flows], dtype=np.uint16)
        return cpus, np.array([flow.last_qtail for flow in flows], dtype=np.uint32)


def rfs_cpus(
    rfs: Rfs,
    rxq: int,
    hash: NDArray[np.uint32],
    cpus: NDArray[np.uint16],
    online: NDArray[np.uint8],
    heads: NDArray[np.uint32],
    rec: Recorder = SILENT,
) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """The CPUs of many packets of one rx queue; nothing is queued in between.

    Args:
        rfs: the tables; flows that change CPU are changed in them.
        rxq: rx queue.
        hash: uint32[n], skb hashes.
        cpus: uint16[k], the queue's RPS map in ascending order; k = 0: no map.
        online: uint8[ncpus].
        heads: uint32[ncpus], input_queue_head of each CPU.

    Returns:
        int32[n], -1 where the packet stays on the CPU it came in on; int32[n], the flow's place in
        the queue's table, -1 where RFS did not choose.
    """
    if not 0 <= rxq < len(rfs.sizes):
        raise ConfigError("rfs: rxq", rxq, f"rx queues 0..{len(rfs.sizes) - 1}")
    rps_map, up, done = (np.asarray(given).tolist() for given in (cpus, online, heads))
    if len(up) != rfs.ncpus or len(done) != rfs.ncpus:
        given = f"{len(up)} and {len(done)}"
        raise ConfigError("rfs: online, heads", given, f"{rfs.ncpus} entries, one per CPU")
    if rps_map and max(rps_map) >= rfs.ncpus:
        raise ConfigError("rfs: cpus", max(rps_map), f"CPUs 0..{rfs.ncpus - 1}")
    hashes = np.asarray(hash).tolist()
    chosen = [rfs.choose(rxq, value, rps_map, up, done, rec) for value in hashes]
    cpu, slot = np.array(chosen, dtype=np.int32).reshape(-1, 2).T.copy()
    return cpu, slot


def power_of_two(number: int) -> int:
    """The least power of two that is not below a number >= 1."""
    return 1 << (number - 1).bit_length()


def signed_32(number: int) -> int:
    """The number as two's complement of 32 bits holds it."""
    return ((number & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def table_size(where: str, entries: int) -> int:
    """Entries that a table gets when so many are written (R-3.1).

    Raises:
        ConfigError: too many.
    """
    if not 0 <= entries <= MAX_ENTRIES:
        raise ConfigError(where, entries, f"0..{MAX_ENTRIES}")
    return power_of_two(entries) if entries else 0
