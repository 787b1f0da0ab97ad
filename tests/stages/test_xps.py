"""XPS maps, their lookup, and the tx queue of a packet (transmit.md 3 to 6, rules XPS-11..39)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.errors import ConfigError
from emu.replay.xps_device import pick
from tests.strategies.xps import CPUS, EDGES, RXQS, hashes, id_sets, packets, words

EINVAL = -22
HALF, LAST = 2**31, 2**32 - 1


def device(engine, num_tx=8, num_rx=8, ncpus=8, **more):
    return engine("xps").XpsDevice(num_tx, num_rx, ncpus, **more)


def written(engine, *writes, **more):
    """A device after (queue, CPUs) writes."""
    out = device(engine, **more)
    for queue, cpus in writes:
        assert out.set(CPUS, queue, words(cpus)) == 0
    return out


def queues_of(dev, index=0, tc=0, kind=CPUS):
    return dev.lists(kind).get((index, tc), [])


def readers(dev, queue, kind=CPUS):
    """Ids that a read of the queue's mask shows."""
    return [index for index in range(64) if int(dev.mask(kind, queue)[0]) >> index & 1]


def test_xps_11_after_a_write_exactly_the_named_cpus_may_use_the_queue(engine):
    dev = written(engine, (3, {0, 1, 2}), (5, {1}), (3, {1, 7}))

    assert dev.lists(CPUS) == {(1, 0): [3, 5], (7, 0): [3]}


def test_xps_12_there_is_no_empty_list(engine):
    dev = written(engine, (3, {0, 1}), (3, {1}), (4, {1}))

    assert dev.lists(CPUS) == {(1, 0): [3, 4]}


def test_xps_13_queues_stand_in_the_order_they_were_written(engine):
    assert queues_of(written(engine, *((queue, {0}) for queue in (2, 0, 1)))) == [2, 0, 1]


@pytest.mark.parametrize(("removed", "left"), [(0, [2, 1]), (1, [0, 2]), (2, [0, 1])])
def test_xps_14_the_last_one_takes_the_place_of_a_removed_one(engine, removed, left):
    dev = written(engine, (0, {0}), (1, {0}), (2, {0}), (removed, set()))

    assert queues_of(dev) == left
    dev.set(CPUS, removed, words({0}))
    assert queues_of(dev) == [*left, removed]


def test_xps_15_writing_a_mask_twice_changes_nothing(engine):
    dev = written(engine, (0, {0, 1}), (1, {0}), (2, {0}))
    before = dev.slots(CPUS)

    assert dev.set(CPUS, 0, words({0, 1})) == 0
    assert dev.slots(CPUS) == before


def test_xps_16_the_21st_queue_doubles_the_list_and_keeps_its_order(engine):
    dev = device(engine, num_tx=50, node_of=[1] * 8)
    sizes = []
    for queue in range(45):
        dev.set(CPUS, queue, words({0}))
        sizes.append(dev.slots(CPUS)[0, 0][1])

    assert sizes == [20] * 20 + [40] * 20 + [80] * 5
    assert queues_of(dev) == [*range(45)]


def test_xps_17_the_last_mask_drops_the_map_once(engine):
    dev = written(engine, (0, {0}))
    assert dev.live_maps == 1

    for _ in range(2):
        dev.set(CPUS, 0, words(set()))
        assert (dev.live_maps, dev.lists(CPUS)) == (0, {})
    assert dev.queue(-1, 0, 0, 5) == (-1, False)


def test_xps_18_an_offline_cpu_in_a_mask_is_left_out_and_loses_the_queue(engine):
    dev = written(engine, (0, {0, 1}))
    dev.set_online(1, False)
    assert queues_of(dev, 1) == [0]  # what was written before stays

    dev.set(CPUS, 0, words({0, 1}))
    assert dev.lists(CPUS) == {(0, 0): [0]}
    dev.set_online(1, True)
    assert dev.lists(CPUS) == {(0, 0): [0]}


def test_xps_18_a_lone_cpu_is_not_looked_at(engine):
    dev = written(engine, (0, {0}), ncpus=1, online=[0])

    assert dev.lists(CPUS) == {(0, 0): [0]}


def test_xps_19_a_read_gives_the_online_part_back(engine):
    dev = written(engine, (2, {0, 1, 3}), (3, {1}), online=[1, 0] + [1] * 6)

    assert (readers(dev, 2), readers(dev, 3), readers(dev, 4)) == ([0, 3], [], [])


def test_xps_20_a_queue_has_the_node_that_its_cpus_share(engine):
    dev = written(engine, (0, {0, 1}), (1, {0, 4}), (2, {5}), node_of=[0] * 4 + [1] * 4)
    assert [dev.queue_node(queue) for queue in range(4)] == [0, -1, 1, -1]

    dev.set(RXQS, 0, words({1}))
    dev.set(CPUS, 2, words(set()))
    assert [dev.queue_node(queue) for queue in range(4)] == [0, -1, -1, -1]


def test_xps_21_a_list_lives_on_its_cpus_node(engine):
    dev = written(engine, (0, {0, 7}), node_of=[0] * 4 + [1] * 4)
    dev.set(RXQS, 0, words({7}))

    assert {place: slot[2] for place, slot in dev.slots(CPUS).items()} == {(0, 0): 0, (7, 0): 1}
    assert dev.slots(RXQS)[7, 0][2] == -1


def with_classes(engine, counts=(2, 2, 2, 2), **more):
    """A device with classes of so many queues, one behind the other; prio p is class p % n."""
    dev = device(engine, **more)
    dev.set_num_tc(len(counts))
    for tc, count in enumerate(counts):
        assert dev.set_tc_queue(tc, count, sum(counts[:tc])) == 0
    for prio in range(16):
        assert dev.set_prio_tc(prio, prio % len(counts)) == 0
    return dev


def test_xps_22_a_slot_is_id_times_classes_plus_class(engine):
    dev = with_classes(engine)
    dev.set(CPUS, 5, words({3}))

    assert dev.slots(CPUS) == {(3, 2): ([5], 20, 0, 14)}


def test_xps_23_a_queue_of_no_class_cannot_be_written(engine):
    dev = with_classes(engine, counts=(2, 2))

    assert dev.set(CPUS, 4, words({0})) == EINVAL
    assert dev.set(CPUS, 3, words({0})) == 0
    with pytest.raises(ConfigError, match="traffic class"):
        dev.mask(CPUS, 4)
    subordinate = device(engine, num_tx=1)
    assert subordinate.set_num_tc(-3) == 0
    assert subordinate.set(CPUS, 0, words({0})) == EINVAL


def test_xps_24_another_number_of_classes_empties_the_maps(engine):
    dev = written(engine, (0, {0}))
    dev.set(RXQS, 0, words({0}))

    assert dev.set_num_tc(2) == 0
    assert (dev.live_maps, dev.queue_node(0)) == (0, -1)


def test_xps_24_another_range_takes_only_its_queues_out(engine):
    dev = with_classes(engine)
    for queue in range(8):
        dev.set(CPUS, queue, words({0}))

    assert dev.set_tc_queue(1, 3, 2) == 0
    assert dev.lists(CPUS) == {(0, 0): [0, 1], (0, 2): [5], (0, 3): [6, 7]}


def test_xps_25_a_map_of_another_shape_is_not_carried_over(engine):
    dev = device(engine, num_rx=4)
    dev.set(RXQS, 0, words({0, 3}))
    dev.set_num_rx(6)
    assert dev.lists(RXQS) == {(0, 0): [0], (3, 0): [0]}

    dev.set(RXQS, 1, words({3}))
    assert dev.lists(RXQS) == {(3, 0): [1]}


def test_xps_26_fewer_queues_leave_for_good(engine):
    dev = written(engine, *((queue, {0, queue}) for queue in range(8)))

    assert dev.set_real_num_tx(3) == 0
    assert dev.set_real_num_tx(8) == 0
    assert dev.lists(CPUS) == {(0, 0): [0, 1, 2], (1, 0): [1], (2, 0): [2]}
    assert (dev.set_real_num_tx(0), dev.set_real_num_tx(9)) == (EINVAL, EINVAL)


def test_xps_26_classes_that_do_not_fit_any_more(engine):
    dev = with_classes(engine, counts=(2, 3, 3))
    dev.set_real_num_tx(6)

    assert dev.num_tc == 3
    assert pick(dev, 0, 0, prio=1)[0] == 2
    assert pick(dev, 0, 0, prio=2)[0] == 0  # its class ends at 8: the priority is class 0's now
    dev.set_real_num_tx(1)
    assert dev.num_tc == 0


def test_xps_27_a_lone_queue_needs_no_hash(engine):
    dev = written(engine, (4, {0}), (5, {1}), (6, {1}))

    assert [dev.queue(-1, 0, 0, value) for value in EDGES] == [(4, False)] * 4
    assert dev.queue(-1, 1, 0, 0) == (5, True)


def test_xps_28_the_high_half_of_the_product_chooses(engine):
    # CPU 15 of a recorded kernel: map [3, 5, 2, 7], hash 2790337368 -> queue 2.
    dev = written(engine, *((queue, {0}) for queue in (3, 5, 2, 7)))

    answers = [dev.queue(-1, 0, 0, value)[0] for value in (0, 2790337368, LAST)]
    assert answers == [3, 2, 7]


@pytest.mark.parametrize(("rx_id", "queue"), [(1, 6), (-1, 2), (8, 2), (99, 2), (3, 2), (5, 2)])
def test_xps_29_the_rx_queues_map_first_then_the_cpus(engine, rx_id, queue):
    """No rx queue, one beyond the map, one without a list, a stale index: the CPU's map."""
    dev = written(engine, (2, {0}))
    dev.set(RXQS, 6, words({1}))
    dev.set_real_num_tx(7)
    dev.set(RXQS, 7, words({5}))  # a driver may; nobody can use it

    assert dev.queue(rx_id, 0) == (queue, False)


def test_xps_29_last_of_all_the_hash(engine):
    dev = written(engine, (2, {0}))

    assert pick(dev, 1, HALF, sk_rx=3) == (4, -1, True)


def test_xps_31_the_class_comes_from_the_priority(engine):
    dev = with_classes(engine)
    for queue in (1, 2, 5):
        dev.set(CPUS, queue, words({0}))

    assert [dev.queue(-1, 0, prio)[0] for prio in (0, 1, 2, 3, 16, 17)] == [1, 2, 5, -1, 1, 2]


def test_xps_31_a_class_that_the_map_does_not_know_has_no_answer(engine):
    dev = with_classes(engine, counts=(4, 2, 2))
    dev.set_real_num_tx(3)  # class 0 does not fit: no classes, but priorities keep theirs
    dev.set(CPUS, 0, words({0}))

    assert dev.num_tc == 0
    assert [dev.queue(-1, 0, prio)[0] for prio in (0, 1, 2)] == [0, -1, -1]


def test_xps_32_a_socket_keeps_its_queue_when_its_thread_moves(engine):
    dev = written(engine, (2, {0}), (5, {1}))

    queue, cached, _ = pick(dev, 0, 0, can_store=True)
    assert (queue, cached) == (2, 2)
    assert pick(dev, 1, 0, cached, can_store=True) == (2, 2, False)


def test_xps_33_with_nothing_under_way_the_flow_follows_the_cpu(engine):
    dev = written(engine, (2, {0}), (5, {1}))

    assert pick(dev, 1, 0, 2, ooo_okay=True, can_store=True) == (5, 5, False)


def test_xps_34_a_queue_that_is_gone_is_chosen_anew(engine):
    dev = written(engine, (2, {0}))
    dev.set_real_num_tx(6)

    assert pick(dev, 0, 0, 6, can_store=True) == (2, 2, False)
    assert pick(dev, 0, 0, 5, can_store=True) == (5, 5, False)


def test_xps_35_only_a_full_socket_with_a_route_stores(engine):
    dev = written(engine, (2, {0}), (5, {1}))

    assert [pick(dev, cpu, 0)[:2] for cpu in (0, 1, 0)] == [(2, -1), (5, -1), (2, -1)]


@pytest.mark.parametrize("rx_queue", [0, 1, 5, 7, 12, 13, 100])
def test_xps_36_a_forwarded_packet_goes_by_its_rx_queue(engine, rx_queue):
    plain, classed = device(engine), with_classes(engine, counts=(2, 5, 1))

    assert pick(plain, 0, HALF, recorded_rx=rx_queue) == (rx_queue % 8, -1, False)
    expected = (rx_queue - 2 if rx_queue >= 2 else rx_queue) % 5 + 2
    assert pick(classed, 0, HALF, recorded_rx=rx_queue, prio=1) == (expected, -1, False)


def test_xps_37_without_a_map_the_hash_over_the_class(engine):
    dev = with_classes(engine, counts=(2, 5, 0))

    assert [pick(dev, 0, value, prio=1)[0] for value in (0, HALF, LAST)] == [2, 4, 6]
    # A class without queues: the whole device.
    assert [pick(dev, 0, value, prio=2)[0] for value in (0, HALF, LAST)] == [0, 4, 7]


def test_xps_37_the_hash_does_not_matter_over_one_queue(engine):
    dev = with_classes(engine, counts=(1, 7))

    assert pick(dev, 0, HALF, prio=0) == (0, -1, False)
    assert pick(dev, 0, HALF, prio=1) == (4, -1, True)


def test_xps_38_one_queue_in_use_is_queue_0(engine):
    dev = written(engine, (0, {0}), (1, {0}))
    dev.set_real_num_tx(1)

    assert pick(dev, 0, LAST, 5, ooo_okay=True, can_store=True, recorded_rx=3) == (0, 5, False)


def test_xps_39_no_answer_is_beyond_the_queues_in_use(engine):
    dev = device(engine)
    dev.set_real_num_tx(3)
    dev.set(CPUS, 6, words({0}))  # a driver may
    assert dev.queue(-1, 0) == (-1, False)
    assert pick(dev, 0, LAST)[0] == 2

    dev.set_num_tc(1)
    dev.set_tc_queue(0, 4, 4)
    assert pick(dev, 0, 0, can_store=True) == (0, 4, True)  # stored before it is capped


def test_misuse_is_refused(engine):
    xps = engine("xps")
    dev = device(engine, ncpus=65)
    for wrong in (
        lambda: xps.XpsDevice(0, 1, 1), lambda: xps.XpsDevice(1, 65536, 1),
        lambda: xps.XpsDevice(1, 1, 0), lambda: xps.XpsDevice(1, 1, 2, online=[1]),
        lambda: xps.XpsDevice(1, 1, 2, node_of=[1]), lambda: dev.set(2, 0, [0, 0]),
        lambda: dev.set(CPUS, 8, [0, 0]), lambda: dev.set(CPUS, 0, [0]), lambda: dev.mask(0, 8),
        lambda: dev.set_online(65, True), lambda: dev.queue_node(-1), lambda: dev.lists(3),
        lambda: dev.set_tc_queue(16, 1, 1), lambda: dev.set_prio_tc(16, 0),
        lambda: dev.set_num_rx(0),
    ):  # fmt: skip
        with pytest.raises(ConfigError, match="xps"):
            wrong()
    assert dev.set_num_tc(17) == EINVAL
    assert dev.set_num_tc(-1) == EINVAL
    assert (dev.set_tc_queue(0, 1, 0), dev.set_prio_tc(0, 0)) == (EINVAL, EINVAL)
    with pytest.raises(ConfigError, match="like the other columns"):
        xps.xps_queues(dev, np.zeros(1, np.int32), *(np.zeros(2, np.int32) for _ in range(3)))


def test_no_packets_have_no_queues(engine):
    xps, dev, none = engine("xps"), device(engine), np.zeros(0, np.int32)

    assert [len(a) for a in xps.xps_queues(dev, none, none, none, none)] == [0, 0]
    assert [len(a) for a in xps.pick_queues(dev, *[none] * 8)] == [0, 0, 0]


DTYPES = {
    "cached": np.int32, "ooo_okay": np.uint8, "can_store": np.uint8, "sk_rx": np.int32,
    "recorded_rx": np.int32, "cpu": np.int32, "prio": np.uint32, "hash": np.uint32,
}  # fmt: skip


@given(
    writes=st.lists(
        st.tuples(st.sampled_from([CPUS, RXQS]), st.integers(0, 7), id_sets(6)), max_size=12
    ),
    real=st.integers(1, 8),
    rows=st.lists(packets(8, 6, 6), min_size=1, max_size=12),
)
def test_core_and_reference_agree_about_many_packets(writes, real, rows):
    from emu._core import xps as core
    from emu.ref import xps as ref

    answers = []
    for xps in (core, ref):
        dev = xps.XpsDevice(8, 6, 6)
        for kind, queue, ids in writes:
            dev.set(kind, queue, words(ids))
        dev.set_real_num_tx(real)
        columns = {
            name: np.array([row[name] for row in rows], dtype=kind) for name, kind in DTYPES.items()
        }
        looked = xps.xps_queues(dev, *(columns[name] for name in ("sk_rx", "cpu", "prio", "hash")))
        picked = xps.pick_queues(dev, *columns.values())
        answers.append([(a.dtype, a.tolist()) for a in (*looked, *picked)])
        assert answers[-1][2][1] == [dev.pick(**row)[0] for row in rows]
        assert max(answers[-1][2][1]) < real

    assert answers[0] == answers[1]


@given(order=st.permutations(range(6)), value=hashes())
def test_xps_28_history_decides_who_gets_a_hash(order, value):
    """The order of writing, not the numbers of the queues."""
    from emu._core import xps

    dev = xps.XpsDevice(6, 1, 2)
    for queue in order:
        dev.set(CPUS, queue, words({1}))

    assert dev.queue(-1, 1, 0, value) == (order[value * 6 >> 32], True)
