"""The interrupt model: which packets each poll takes, and when (docs/steer.md)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from emu.errors import ConfigError
from emu.model.polls import Polls, check_polls
from tests.strategies import hashing


def polls_of(stage, queue, arrival, usecs, frames, weight=64):
    columns = stage.make_polls(
        np.array(queue, dtype=np.int32),
        np.array(arrival, dtype=np.int64),
        np.array(usecs, dtype=np.int64),
        np.array(frames, dtype=np.int32),
        weight=weight,
    )
    order, poll_queue, first, count, time_ps = (column.tolist() for column in columns)
    return [
        (time_ps[k], poll_queue[k], order[first[k] : first[k] + count[k]])
        for k in range(len(count))
    ]


def test_an_interrupt_waits_rx_usecs_and_takes_what_has_arrived(engine):
    assert polls_of(engine("napi"), [0] * 4, [0, 5, 10, 11], [10], [0]) == [
        (10, 0, [0, 1, 2]),
        (21, 0, [3]),
    ]


def test_n_rx_frames_waiting_fire_at_once(engine):
    assert polls_of(engine("napi"), [0] * 3, [0, 5, 6], [10], [2]) == [(5, 0, [0, 1]), (16, 0, [2])]


def test_without_moderation_each_packet_has_its_interrupt(engine):
    assert polls_of(engine("napi"), [0] * 3, [0, 0, 7], [0], [0]) == [(0, 0, [0, 1]), (7, 0, [2])]


def test_n_7_a_full_poll_is_followed_by_another_at_the_same_instant(engine):
    assert polls_of(engine("napi"), [0] * 5, [0] * 5, [3], [0], weight=2) == [
        (3, 0, [0, 1]),
        (3, 0, [2, 3]),
        (3, 0, [4]),
    ]


def test_queues_poll_on_their_own_and_in_order_of_time(engine):
    assert polls_of(engine("napi"), [1, 0, -1, 1], [0, 1, 1, 2], [9, 9], [0, 0]) == [
        (9, 1, [0, 3]),
        (10, 0, [1]),
    ]


def test_packets_out_of_order_are_taken_by_arrival(engine):
    assert polls_of(engine("napi"), [0, 0], [5, 0], [10], [0]) == [(10, 0, [1, 0])]


def test_nothing_received_is_no_poll(engine):
    assert polls_of(engine("napi"), [-1, -1], [0, 1], [10], [0]) == []
    assert polls_of(engine("napi"), [], [], [10], [0]) == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0, 0], [0], [0], [0]), r"arrival_ps: got shape \(1,\); allowed: shape \(2,\)"),
        (([0], [0], [0], [0, 0]), r"rx_frames: got shape \(2,\); allowed: shape \(1,\)"),
        (([0, 1], [0, 0], [0], [0]), r"queue\[1\]: got 1; allowed: -1..0"),
        (([-2], [0], [0], [0]), r"queue\[0\]: got -2"),
        (([0], [0], [], []), r"queue\[0\]: got 0; allowed: -1..-1"),
        (([0], [-1], [0], [0]), r"arrival_ps\[0\]: got -1"),
        (([0], [2**63 - 5], [9], [0]), r"arrival_ps\[0\]: got 9223372036854775803"),
        (([0], [0], [-1], [0]), r"rx_usecs_ps\[0\]: got -1"),
        (([0], [0], [0], [-1]), r"rx_frames\[0\]: got -1"),
        (([0], [0], [0], [0], 0), "weight: got 0; allowed: a whole number from 1 to 65536"),
        (([0], [0], [0], [0], 2**31), "weight: got 2147483648"),
    ],
)
def test_what_does_not_fit_is_refused(engine, arguments, message):
    with pytest.raises(ConfigError, match=message):
        polls_of(engine("napi"), *arguments)


@pytest.mark.parametrize("queue", [[0.5], [[0]], ["0"], None])
def test_queues_that_are_no_whole_numbers_are_refused(engine, queue):
    with pytest.raises(ConfigError, match="make_polls: queue: got"):
        engine("napi").make_polls(queue, [0], [0], [0])


def test_columns_have_their_dtypes(engine):
    columns = engine("napi").make_polls([0, 1], [0, 0], [0, 0], [0, 0])

    assert [column.dtype.str for column in columns] == ["<i8", "<i4", "<i8", "<i4", "<i8"]


def test_times_of_63_bits_do_not_wrap(engine):
    latest = 2**63 - 1

    assert polls_of(engine("napi"), [0, 0], [latest - 9, latest - 9], [9], [0]) == [
        (latest, 0, [0, 1])
    ]


@pytest.mark.parametrize("queues", [1, 63, 1024, 4096])
def test_any_number_of_queues(engine, queues):
    """One packet a queue, the last queue first: each has its own interrupt."""
    numbers = list(range(queues))[::-1]

    polls = polls_of(engine("napi"), numbers, list(range(queues)), [5] * queues, [0] * queues)

    assert polls == [(5 + place, number, [place]) for place, number in enumerate(numbers)]


@given(hashing.traffic())
def test_without_moderation_a_poll_is_one_instant(given_traffic):
    """rx_usecs 0: an interrupt at each arrival, which takes all that came at that instant."""
    from emu._core import napi

    queue, arrival, usecs, frames, weight = given_traffic
    polls = polls_of(napi, queue, arrival, [0] * len(usecs), frames, weight)

    for time, _, packets in polls:
        assert {arrival[packet] for packet in packets} == {time}


@given(hashing.traffic())
def test_an_interrupt_waits_at_most_rx_usecs(given_traffic):
    from emu._core import napi

    queue, arrival, usecs, frames, _ = given_traffic
    for time, number, packets in polls_of(napi, queue, arrival, usecs, frames, 1 << 16):
        assert time <= arrival[packets[0]] + usecs[number]
        if frames[number] > len(packets) or frames[number] == 0:
            assert time == arrival[packets[0]] + usecs[number]


@given(hashing.traffic())
def test_core_and_reference_agree(given_traffic):
    from emu._core import napi as core
    from emu.ref import napi as ref

    assert polls_of(core, *given_traffic) == polls_of(ref, *given_traffic)


@given(hashing.traffic())
def test_laws(given_traffic):
    """Each received packet is in one poll of at most the weight; polls go by time and queue.

    Within a queue the order of arrival is kept.
    """
    from emu._core import napi as core

    queue, arrival, _, _, weight = given_traffic
    polls = polls_of(core, *given_traffic)

    taken = [packet for _, _, packets in polls for packet in packets]
    assert sorted(taken) == [k for k, q in enumerate(queue) if q >= 0]
    assert all(1 <= len(packets) <= weight for _, _, packets in polls)
    assert polls == sorted(polls, key=lambda poll: poll[:2])
    for number in set(queue):
        mine = [arrival[k] for _, q, packets in polls if q == number for k in packets]
        assert mine == sorted(mine)
        assert all(
            queue[k] == q and arrival[k] <= time for time, q, packets in polls for k in packets
        )


def polls_with(**columns):
    """Two polls of one packet each, on queues 0 and 1, with some columns exchanged."""
    good = {"order": [0, 1], "queue": [0, 1], "first": [0, 1], "count": [1, 1]}
    times = {"time_ps": [0, 0], "jiffy": [0, 0]}
    return Polls(**{**good, **times, **columns})


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"order": [0], "count": [1, 0]}, "packet 1 0 times; allowed: each received packet once"),
        ({"order": [0, 1, 2], "count": [1, 2]}, "packet 2 1 times; allowed: only packets that"),
        ({"order": [0, 0]}, "packet 0 2 times"),
        ({"order": [1, 0]}, "packet 1 on queue 0; allowed: its rx queue, 1"),
        ({"time_ps": [1, 0]}, r"polls\[1\]: time_ps: got 0; allowed: a time that does not"),
        ({"first": [1, 0]}, "without gaps"),
        ({"first": [0, 0]}, "without gaps"),
        ({"order": [0, 7]}, "a packet outside 0..2"),
        ({"order": [0, -1]}, "a packet outside 0..2"),
        ({"first": [0]}, "different lengths"),
        ({"count": [-1, 1]}, "count: got -1..1"),
        ({"queue": [0, -1]}, r"polls\[1\]: queue: got -1; allowed: 0..1"),
        ({"queue": [2, 1]}, r"polls\[0\]: queue: got 2; allowed: 0..1"),
    ],
)
def test_given_polls_are_checked(columns, message):
    queue = np.array([0, 1, -1], dtype=np.int32)
    check_polls(polls_with(), queue, queues=2)

    with pytest.raises(ConfigError, match=message):
        check_polls(polls_with(**columns), queue, queues=2)


def test_a_poll_may_take_nothing():
    polls = Polls(order=[], queue=[3], first=[0], count=[0], time_ps=[0], jiffy=[0])
    none = np.zeros(0, dtype=np.int32)

    check_polls(polls, none, queues=4)
    with pytest.raises(ConfigError, match=r"polls\[0\]: queue: got 3; allowed: 0..2"):
        check_polls(polls, none, queues=3)


def test_every_rule_is_asked_both_ways():
    from emu.ref import napi
    from emu.ref.record import Journal

    journal = Journal()

    napi.make_polls([0, 0, 1, 1], [0, 0, 0, 1], [5, 5], [2, 0], weight=2, rec=journal)
    napi.make_polls([0], [0], [5], [0], weight=2, rec=journal)

    for rule in ("N-rx-frames", "N-7"):
        assert {entry.said for entry in journal.entries if entry.name == rule} == {True, False}


def test_polls_by_counts():
    polls = Polls.single(3, 130)

    assert polls.count.tolist() == [64, 64, 2]
    assert polls.first.tolist() == [0, 64, 128]
    assert set(polls.queue.tolist()) == {3}
