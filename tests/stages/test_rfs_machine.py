"""RFS under readers, packets, backlogs and CPUs that go: both engines, and delivery in order."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from emu._core import rfs as core
from emu.ref import rfs as ref

NCPUS, RXQS = 5, 2
CPU_MASK = 7
# Few flows that share entries and places, and what the ends of the range are.
HASHES = st.one_of(
    st.sampled_from([0, 1, 0xFFFF, 0xFFF8, 2**31, 2**32 - 1]),
    st.builds(lambda high, low: high << 28 | low << 3, st.integers(1, 3), st.integers(0, 5)),
)
CPU_IDS = st.integers(0, NCPUS - 1)
MAPS = st.sampled_from([[], [1], [0, 2, 4]])


class RfsMachine(RuleBasedStateMachine):
    """Each CPU's backlog is a list of (rxq, slot), slot -1 where the map chose."""

    @initialize(
        sock_entries=st.sampled_from([0, 1, 8, 60]),
        rxq_entries=st.sampled_from([[8, 1], [2, 0], [30, 30]]),
        low_bits=st.booleans(),
        first=st.sampled_from([0, 2**32 - 3, 2**31 - 2]),
    )
    def begin(self, sock_entries, rxq_entries, low_bits, first):
        self.size = len(core.Rfs(sock_entries, [], 1).table())
        self.both = [
            module.Rfs(sock_entries, rxq_entries, NCPUS, low_bits) for module in (core, ref)
        ]
        self.heads = [first] * NCPUS
        self.backlogs: list[list[tuple[int, int]]] = [[] for _ in range(NCPUS)]
        self.online = [1] * NCPUS
        self.readers: dict[int, tuple[int, int]] = {}

    def together(self, call):
        """The one answer of both engines."""
        left, right = (call(rfs) for rfs in self.both)
        assert left == right
        return left

    @rule(hash_value=HASHES, cpu=CPU_IDS)
    def read(self, hash_value, cpu):
        self.together(lambda rfs: rfs.record(hash_value, cpu))
        if hash_value and self.size:
            self.readers[hash_value % self.size] = (hash_value & ~CPU_MASK, cpu)

    @rule(hash_value=HASHES)
    def close(self, hash_value):
        self.together(lambda rfs: rfs.forget(hash_value))
        if hash_value and self.size:
            self.readers.pop(hash_value % self.size, None)

    @rule(rxq=st.integers(0, RXQS - 1), hash_value=HASHES, cpus=MAPS, fits=st.booleans())
    def receive(self, rxq, hash_value, cpus, fits):
        """One packet: chosen for, and queued unless the backlog is full."""
        cpu, slot = self.together(
            lambda rfs: rfs.choose(rxq, hash_value, cpus, self.online, self.heads)
        )
        if slot >= 0:
            self.check_order(rxq, slot, cpu)
        else:
            assert cpu == -1 or (cpu in cpus and self.online[cpu])
        self.check_reader(rxq, hash_value, cpu, slot)
        if cpu >= 0 and fits:
            self.backlogs[cpu].append((rxq, slot))
            tail = self.heads[cpu] + len(self.backlogs[cpu]) & 0xFFFFFFFF
            self.together(lambda rfs: rfs.note_tail(rxq, slot, tail))

    @rule(
        rxq=st.integers(0, RXQS - 1),
        hash_value=HASHES,
        moves=st.lists(st.tuples(CPU_IDS, st.sampled_from([False, False, True])), max_size=4),
    )
    def reader_moves(self, rxq, hash_value, moves):
        """A packet behind each move; those before it may wait still, or their CPU goes."""
        for cpu, goes in moves:
            self.read(hash_value, cpu)
            self.receive(rxq, hash_value, [], True)
            if goes:
                self.go_offline(cpu)

    def check_order(self, rxq, slot, cpu):
        """None of the flow's packets waits on another CPU: this one cannot overtake it."""
        assert self.online[cpu]
        for other, backlog in enumerate(self.backlogs):
            assert other == cpu or (rxq, slot) not in backlog

    def check_reader(self, rxq, hash_value, cpu, slot):
        """On the reader's CPU, unless packets wait elsewhere, it is offline, or the entry lost."""
        flow, reader = self.readers.get(hash_value % self.size if self.size else -1, (-1, -1))
        if hash_value == 0 or flow != hash_value & ~CPU_MASK or not self.online[reader]:
            return
        if len(self.both[0].flows(rxq)[0]) == 0:
            return
        assert slot >= 0
        assert cpu == reader or (rxq, slot) in self.backlogs[cpu]

    @rule(cpu=CPU_IDS, budget=st.integers(1, 4))
    def process(self, cpu, budget):
        """A CPU works off part of its backlog."""
        done = self.backlogs[cpu][:budget]
        del self.backlogs[cpu][:budget]
        self.heads[cpu] = self.heads[cpu] + len(done) & 0xFFFFFFFF

    @rule(cpu=CPU_IDS)
    def go_offline(self, cpu):
        """What waits there is worked off elsewhere, and the head moves."""
        if sum(self.online) > 1:
            self.online[cpu] = 0
            self.process(cpu, len(self.backlogs[cpu]))

    @rule(cpu=CPU_IDS)
    def come_online(self, cpu):
        self.online[cpu] = 1

    @invariant()
    def tables_are_equal(self):
        if not hasattr(self, "both"):
            return
        self.together(lambda rfs: rfs.table().tolist())
        for rxq in range(RXQS):
            self.together(lambda rfs, rxq=rxq: [c.tolist() for c in rfs.flows(rxq)])


TestRfsMachine = RfsMachine.TestCase
