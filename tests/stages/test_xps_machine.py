"""A device that is written in any order: both engines, and the laws XPS-11 to XPS-26."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from emu._core import xps as core
from emu.ref import xps as ref
from tests.strategies.xps import CPUS, RXQS, id_sets, packets, words

NCPUS, NUM_RX = 6, 5
EINVAL = -22
CAPACITIES = {20 << doublings for doublings in range(12)}


class XpsMachine(RuleBasedStateMachine):
    """Writes, CPUs that come and go, classes, fewer queues; then the laws and the two engines."""

    @initialize(num_tx=st.sampled_from([1, 2, 5, 24]))
    def begin(self, num_tx):
        self.num_tx = self.real = num_tx
        self.node_of = [cpu // 3 for cpu in range(NCPUS)]
        self.online = [True] * NCPUS
        self.both = [
            module.XpsDevice(num_tx, NUM_RX, NCPUS, node_of=self.node_of) for module in (core, ref)
        ]

    def together(self, call):
        """The one answer of both engines."""
        left, right = (call(device) for device in self.both)
        assert left == right
        return left

    def lists(self, kind):
        return self.together(lambda device: device.lists(kind))

    @rule(data=st.data(), kind=st.sampled_from([CPUS, RXQS]), again=st.booleans())
    def write(self, data, kind, again):
        queue = data.draw(st.integers(0, self.num_tx - 1))
        named = data.draw(id_sets(NCPUS if kind == CPUS else NUM_RX))
        before = self.lists(kind)
        error = self.together(lambda device: device.set(kind, queue, words(named)))
        if error:
            assert error == EINVAL
            assert self.lists(kind) == before  # XPS-10
            return
        self.check_write(kind, queue, named, before)
        if again:  # XPS-15
            after = self.together(lambda device: device.slots(kind))
            self.together(lambda device: device.set(kind, queue, words(named)))
            assert self.together(lambda device: device.slots(kind)) == after

    def check_write(self, kind, queue, named, before):
        """XPS-11, 13, 14, 18, 19, 20."""
        ids = range(NCPUS) if kind == CPUS else range(NUM_RX)
        wanted = [i for i in ids if i in named and (kind == RXQS or self.online[i])]
        shown = self.together(lambda device: int(device.mask(kind, queue)[0]))
        assert [i for i in ids if shown >> i & 1] == wanted
        after = self.lists(kind)
        assert [i for (i, _), queues in after.items() if queue in queues] == wanted
        for place, queues in after.items():
            old = before.get(place, [])
            if queue in queues and queue not in old:
                assert queues == [*old, queue] or not set(old) & set(queues)  # or XPS-25
            elif set(old) & set(queues):
                moved = [other for other in old if other != queue]
                assert sorted(queues) == sorted(moved + [queue] * (queue in queues))
        if kind == CPUS:
            nodes = {self.node_of[cpu] for cpu in wanted}
            node = self.together(lambda device: device.queue_node(queue))
            assert node == (nodes.pop() if len(nodes) == 1 else -1)

    @rule(cpu=st.integers(0, NCPUS - 1), online=st.booleans())
    def hotplug(self, cpu, online):
        before = self.lists(CPUS)
        self.online[cpu] = online
        for device in self.both:
            device.set_online(cpu, online)

        assert self.lists(CPUS) == before

    @rule(data=st.data(), kind=st.sampled_from([CPUS, RXQS]))
    def forget(self, data, kind):
        """XPS-17: an empty mask twice is once."""
        queue = data.draw(st.integers(0, self.num_tx - 1))
        for _ in range(2):
            if self.together(lambda device: device.set(kind, queue, words([]))) == 0:
                assert all(queue not in queues for queues in self.lists(kind).values())

    @rule(data=st.data())
    def use_queues(self, data):
        """XPS-26."""
        count = data.draw(st.integers(0, self.num_tx + 1))
        before = self.lists(CPUS)
        error = self.together(lambda device: device.set_real_num_tx(count))
        if error:
            assert count in (0, self.num_tx + 1)
        else:
            shrunk, self.real = count < self.real, count
            if shrunk:
                assert all(max(queues) < count for queues in self.lists(CPUS).values())
            else:
                assert self.lists(CPUS) == before

    @precondition(lambda self: self.num_tx > 1)
    @rule(count=st.integers(0, 3))
    def classes(self, count):
        """XPS-24."""
        assert self.together(lambda device: device.set_num_tc(count)) == 0
        assert self.together(lambda device: device.live_maps) == 0

    @rule(tc=st.integers(0, 3), count=st.integers(0, 12), offset=st.integers(0, 12))
    def class_range(self, tc, count, offset):
        before = self.lists(CPUS)
        if self.together(lambda device: device.set_tc_queue(tc, count, offset)) == 0:
            kept = {
                place: [queue for queue in queues if not offset <= queue < offset + count]
                for place, queues in before.items()
            }
            after = self.lists(CPUS)
            assert {p: sorted(q) for p, q in after.items()} == {
                p: sorted(q) for p, q in kept.items() if q
            }

    @rule(prio=st.integers(0, 15), tc=st.integers(0, 3))
    def class_of_priority(self, prio, tc):
        self.together(lambda device: device.set_prio_tc(prio, tc))

    @rule(num_rx=st.sampled_from([NUM_RX, NUM_RX, 3]))
    def resize_rx(self, num_rx):
        """XPS-25: the next write finds a map of another shape; then back, for the masks read."""
        for device in self.both:
            device.set_num_rx(num_rx)
        self.together(lambda device: device.set(RXQS, 0, words({0, 4})))
        for device in self.both:
            device.set_num_rx(NUM_RX)

    @rule(data=st.data())
    def send(self, data):
        """XPS-27, 38, 39."""
        packet = data.draw(packets(self.num_tx, NUM_RX, NCPUS))
        queue, stored, used_hash = self.together(lambda device: device.pick(**packet))

        assert 0 <= queue < self.real
        assert stored == packet["cached"] or packet["can_store"]
        if not used_hash:
            other = packet | {"hash": packet["hash"] ^ 0xFFFFFFFF}
            assert self.together(lambda device: device.pick(**other))[0] == queue

    @invariant()
    def lists_are_sound(self):
        """XPS-12, 16, 17, 21, 22."""
        if not hasattr(self, "both"):
            return
        live = 0
        for kind in (CPUS, RXQS):
            slots = self.together(lambda device, kind=kind: device.slots(kind))
            live += bool(slots)
            for (index, _), (queues, capacity, node, _) in slots.items():
                assert 0 < len(queues) == len(set(queues)) <= capacity
                assert capacity in CAPACITIES
                assert node == (self.node_of[index] if kind == CPUS else -1)
            order = [slot for *_, slot in slots.values()]
            assert order == sorted(set(order))
        assert self.together(lambda device: device.live_maps) == live


TestXpsMachine = XpsMachine.TestCase
