"""cpumap: targets, bulks, rings, and when a kthread flushes (sockets.md 5, 8.5)."""

from __future__ import annotations

from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule

from emu._core import cpumap as core
from emu.dtypes import CpumapDesign, CpumapRule
from emu.errors import ConfigError
from emu.intake import from_frames
from emu.ref import cpumap as ref
from tests.strategies.cpumap import maps, runs
from tests.strategies.frames import any_frames, eth, ipv4, ipv6, tcp

PLAIN, MERGED, NAPI = CpumapDesign.PLAIN, CpumapDesign.MERGED_GRO, CpumapDesign.NAPI
ARP = bytes(12) + b"\x08\x06" + bytes(46)


def one_entry(cpumap, qsize):
    return cpumap.Cpumap([0], [qsize])


def fill(map_, count, first=0, entry=0):
    """Straight into the ring; how many found room."""
    return sum(map_.insert(entry, first + number) for number in range(count))


def drain(map_, entry=0):
    """Steps until the ring is empty."""
    steps = []
    while not map_.empty(entry):
        steps.append(map_.consume(entry))
    return steps


def test_cpumap_3_the_ninth_frame_flushes_the_eight_before_it(engine):
    map_ = one_entry(engine("cpumap"), 64)
    for packet in range(8):
        map_.enqueue(2, 0, packet)
    assert map_.stats(0) == (0, 0)

    map_.enqueue(2, 0, 8)

    assert map_.stats(0) == (8, 0)
    assert map_.flush(2) == [0]
    assert map_.stats(0) == (9, 0)
    assert drain(map_) == [[*range(8)], [8]]


def test_cpumap_4_what_does_not_fit_is_dropped_from_the_end_of_a_bulk(engine):
    map_ = one_entry(engine("cpumap"), 5)
    for packet in range(7):
        map_.enqueue(0, 0, packet)
    map_.flush(0)

    assert map_.stats(0) == (5, 2)
    assert map_.take_lost() == [5, 6]
    assert map_.take_lost() == []


def test_cpumap_6_bulks_are_flushed_last_touched_first(engine):
    map_ = engine("cpumap").Cpumap([4, 5, 6], [64] * 3)
    for entry in (1, 0, 2, 1, 0):
        map_.enqueue(3, entry, entry)

    assert map_.flush(3) == [2, 0, 1]
    assert map_.flush(3) == []
    assert [map_.cpu(entry) for entry in range(3)] == [4, 5, 6]


def test_cpumap_7_an_early_flush_wakes_nobody_and_moves_the_entry_to_the_front(engine):
    map_ = engine("cpumap").Cpumap([0, 1], [64] * 2)
    for packet in range(8):
        map_.enqueue(0, 0, packet)
    map_.enqueue(0, 1, 100)
    map_.enqueue(0, 0, 8)  # touched anew: entry 0 stands before entry 1

    assert map_.flush(0) == [0, 1]


def test_cpumap_8_generic_xdp_inserts_one_by_one(engine):
    map_ = one_entry(engine("cpumap"), 2)

    assert [map_.insert(0, packet) for packet in range(3)] == [True, True, False]
    assert (map_.stats(0), map_.take_lost()) == ((2, 1), [])


def test_cpumap_9_a_ring_is_full_when_the_next_slot_is_taken(engine):
    map_ = one_entry(engine("cpumap"), 64)

    assert fill(map_, 70) == 64
    assert map_.consume(0) == [*range(8)]
    assert fill(map_, 1) == 0  # read, but not cleared


@pytest.mark.parametrize(("qsize", "needed", "freed"), [(64, 16, 16), (31, 1, 8), (32, 16, 16)])
def test_cpumap_10_a_full_ring_takes_more_only_after_a_batch(engine, qsize, needed, freed):
    """Slots are cleared 16 at a time, one at a time in rings below 32."""
    map_ = one_entry(engine("cpumap"), qsize)
    fill(map_, qsize)
    taken = 0
    while taken < needed:
        assert fill(map_, 1) == 0
        taken += len(map_.consume(0))

    assert fill(map_, 40) == freed


def test_cpumap_10_the_end_of_the_ring_clears_what_was_read(engine):
    map_ = one_entry(engine("cpumap"), 40)  # batches of 16, 16 and 8
    fill(map_, 40)
    room = []
    for _ in range(5):
        map_.consume(0)
        room.append(fill(map_, 40))

    assert room == [0, 16, 0, 16, 8]


def test_cpumap_11_plain_has_no_gro_to_flush(engine):
    assert {
        engine("cpumap").step_flush(PLAIN, packets, empty, 1000)
        for packets in (0, 8, 64)
        for empty in (False, True)
    } == {0}


@pytest.mark.parametrize(
    ("packets", "empty", "hz", "flush"),
    [
        (8, False, 250, 0), (8, True, 250, 1), (64, True, 1000, 1), (64, False, 250, 1),
        (64, False, 1000, 2), (56, False, 1000, 0),
    ],
)  # fmt: skip
def test_cpumap_15_cpumap_16_merged_flushes_at_64_or_empty(engine, packets, empty, hz, flush):
    assert engine("cpumap").step_flush(MERGED, packets, empty, hz) == flush


def test_cpumap_16_only_the_old_when_the_ring_is_busy(engine):
    assert engine("cpumap").step_flush(MERGED, 64, False, 1000) == 2


@pytest.mark.parametrize(
    ("packets", "empty", "hz", "flush"),
    [
        (8, False, 250, 0), (8, True, 250, 1), (64, True, 1000, 2), (64, True, 250, 1),
        (64, False, 1000, 2), (0, True, 1000, 1),
    ],
)  # fmt: skip
def test_cpumap_20_cpumap_21_napi_completes_a_poll_that_ended_early(
    engine, packets, empty, hz, flush
):
    assert engine("cpumap").step_flush(NAPI, packets, empty, hz) == flush


def test_cpumap_21_a_full_poll_flushes_only_the_old_at_hz_1000(engine):
    """CPUMAP-23: with the ring empty too, the merged design would flush all at once."""
    cpumap = engine("cpumap")

    assert cpumap.step_flush(NAPI, 64, True, 1000) == 2
    assert cpumap.step_flush(MERGED, 64, True, 1000) == 1


def targets(cpumap, frames, rule, cpus, fixed=0, rx_queue=0):
    answer = cpumap.cpumap_targets(
        from_frames(frames), rule, np.array(cpus, dtype=np.int32), fixed,
        np.full(len(frames), rx_queue, dtype=np.int32),
    )  # fmt: skip
    assert answer.dtype == np.int32
    return answer.tolist()


def flow4(source, sport=1000, target=b"\x0a\0\0\1", dport=80):
    return eth(0x0800, ipv4(6, source, target, tcp(source, target, sport, dport)))


def flow6(source, target=bytes(15) + b"\1"):
    return eth(0x86DD, ipv6(6, source, target, tcp(source, target, 1000, 80)))


def test_cpumap_rule_of_the_source_address(engine):
    """The last octet, by the number of entries."""
    frames = [flow4(b"\x0a\1\2\x05"), flow4(b"\x0a\1\2\x06"), flow6(bytes(15) + b"\x07")]

    assert targets(engine("cpumap"), frames, CpumapRule.SADDR, [10, 11, 12]) == [12, 10, 11]


def test_cpumap_rule_without_an_address_passes(engine):
    cpumap = engine("cpumap")
    for rule_ in (CpumapRule.SADDR, CpumapRule.HASH):
        assert targets(cpumap, [ARP], rule_, [3]) == [-1]
    assert targets(cpumap, [ARP], CpumapRule.FIXED, [3, 9], fixed=1) == [9]


def test_cpumap_rule_of_the_rx_queue(engine):
    assert targets(engine("cpumap"), [ARP], CpumapRule.RX_QUEUE, [3, 9], rx_queue=5) == [9]


def test_cpumap_rule_of_the_hash_is_the_same_both_ways_and_spreads(engine):
    cpumap = engine("cpumap")
    client, server = b"\x0a\1\2\x05", b"\x0a\0\0\1"
    there = [flow4(client, port, server, 80) for port in range(1000, 1400)]
    back = [flow4(server, 80, client, port) for port in range(1000, 1400)]

    forth = targets(cpumap, there, CpumapRule.HASH, [*range(8)])

    assert forth == targets(cpumap, back, CpumapRule.HASH, [*range(8)])
    assert min(np.bincount(forth, minlength=8)) > 25


def test_misuse_is_refused(engine):
    cpumap = engine("cpumap")
    for cpus, sizes in (([], []), ([0], [1, 2]), ([0], [0]), ([0], [16385]), ([-1], [8])):
        with pytest.raises(ConfigError, match="cpumap"):
            cpumap.Cpumap(cpus, sizes)
    map_ = one_entry(cpumap, 8)
    map_.enqueue(1, 0, 5)
    for wrong in (
        lambda: map_.enqueue(2, 0, 5), lambda: map_.flush(2), lambda: map_.enqueue(1, 1, 5),
        lambda: map_.consume(1), lambda: map_.insert(-1, 0),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match="cpumap"):
            wrong()
    for rule_, cpus, fixed in ((CpumapRule.FIXED, [1], 1), (CpumapRule.HASH, [], 0)):
        with pytest.raises(ConfigError, match="cpumap"):
            targets(cpumap, [ARP], rule_, cpus, fixed)
    with pytest.raises(ConfigError, match="rx_queue"):
        targets(cpumap, [ARP], CpumapRule.RX_QUEUE, [1], rx_queue=-1)
    with pytest.raises(ConfigError, match="one per packet"):
        cpumap.cpumap_targets(from_frames([ARP]), 0, np.ones(1, np.int32), 0, np.ones(2, np.int32))
    with pytest.raises(ValueError, match="CpumapDesign"):
        cpumap.step_flush(9, 0, True, 250)


@given(
    frames=st.lists(any_frames(), min_size=1, max_size=8),
    rule_=st.sampled_from(CpumapRule),
    cpus=st.lists(st.integers(0, 99), min_size=1, max_size=9),
    queue=st.integers(0, 20),
)
def test_core_and_reference_agree_about_targets(frames, rule_, cpus, queue):
    fixed = len(cpus) - 1

    assert targets(core, frames, rule_, cpus, fixed, queue) == targets(
        ref, frames, rule_, cpus, fixed, queue
    )


@given(
    st.sampled_from(CpumapDesign), st.integers(0, 70), st.booleans(), st.sampled_from([100, 1000])
)
def test_core_and_reference_agree_about_flushes(design, packets, empty, hz):
    assert core.step_flush(design, packets, empty, hz) == ref.step_flush(design, packets, empty, hz)


class CpumapMachine(RuleBasedStateMachine):
    """Both engines against the laws: order, losses, capacity bounds."""

    @initialize(shape=maps())
    def begin(self, shape):
        cpus, self.qsizes = shape
        self.both = core.Cpumap(cpus, self.qsizes), ref.Cpumap(cpus, self.qsizes)
        self.waiting = [deque() for _ in cpus]  # frames in rings, in order
        self.packet = 0

    def together(self, call):
        """The one answer of both engines."""
        left, right = (call(map_) for map_ in self.both)
        assert left == right
        return left

    def settle(self, sent):
        """After a flush: lost frames leave, the others wait; room was within its bounds."""
        lost = set(self.together(lambda map_: map_.take_lost()))
        for entry, packets in sent.items():
            size, before = self.qsizes[entry], len(self.waiting[entry])
            kept = [packet for packet in packets if packet not in lost]
            self.waiting[entry] += kept
            assert len(self.waiting[entry]) <= size
            hidden = 15 if size >= 32 else 0  # read, and not cleared
            assert len(kept) >= min(len(packets), size - hidden - before)

    @rule(data=st.data(), producer=st.integers(0, 3))
    def poll(self, data, producer):
        sent, order = {}, []
        for entry, count in data.draw(runs(len(self.qsizes))):
            for _ in range(count):
                if len(sent.get(entry, [])) % 8 == 0:
                    order = [entry, *(other for other in order if other != entry)]
                sent.setdefault(entry, []).append(self.packet)
                for map_ in self.both:
                    map_.enqueue(producer, entry, self.packet)
                self.packet += 1

        assert self.together(lambda map_: map_.flush(producer)) == order
        self.settle(sent)

    @rule(data=st.data())
    def insert(self, data):
        entry = data.draw(st.integers(0, len(self.qsizes) - 1))
        if self.together(lambda map_: map_.insert(entry, self.packet)):
            self.waiting[entry].append(self.packet)
        self.packet += 1

    @rule(data=st.data(), steps=st.integers(1, 4))
    def consume(self, data, steps):
        entry = data.draw(st.integers(0, len(self.qsizes) - 1))
        queue = self.waiting[entry]
        for _ in range(steps):
            expected = [queue.popleft() for _ in range(min(8, len(queue)))]
            assert self.together(lambda map_: map_.consume(entry)) == expected
        assert self.together(lambda map_: map_.empty(entry)) == (not queue)
        self.together(lambda map_: map_.stats(entry))


TestCpumapMachine = CpumapMachine.TestCase
