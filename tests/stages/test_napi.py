"""The interrupt model: which packets each poll takes, and when (docs/steer.md)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu.errors import ConfigError
from emu.model.polls import Polls, check_polls


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


def test_rx_frames_fires_at_once(engine):
    assert polls_of(engine("napi"), [0] * 3, [0, 5, 6], [10], [2]) == [(5, 0, [0, 1]), (16, 0, [2])]


def test_without_moderation_each_packet_has_its_interrupt(engine):
    assert polls_of(engine("napi"), [0] * 3, [0, 0, 7], [0], [0]) == [(0, 0, [0, 1]), (7, 0, [2])]


def test_napi_n_7_a_full_poll_is_followed_by_another_at_the_same_instant(engine):
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
        (([0, 0], [0], [0], [0]), "different lengths"),
        (([1], [0], [0], [0]), "queue"),
        (([0], [-1], [0], [0]), "arrival_ps"),
    ],
)
def test_columns_that_do_not_fit_are_refused(engine, arguments, message):
    with pytest.raises(ConfigError, match=message):
        polls_of(engine("napi"), *arguments)
    with pytest.raises(ConfigError, match="weight"):
        polls_of(engine("napi"), [0], [0], [0], [0], weight=0)


@st.composite
def traffic(draw):
    queues = draw(st.integers(1, 5))
    count = draw(st.integers(0, 200))
    return (
        draw(st.lists(st.integers(-1, queues - 1), min_size=count, max_size=count)),
        draw(st.lists(st.integers(0, 500), min_size=count, max_size=count)),
        draw(st.lists(st.integers(0, 60), min_size=queues, max_size=queues)),
        draw(st.lists(st.integers(0, 5), min_size=queues, max_size=queues)),
        draw(st.integers(1, 9)),
    )


@given(traffic())
def test_core_and_reference_agree(given_traffic):
    from emu._core import napi as core
    from emu.ref import napi as ref

    assert polls_of(core, *given_traffic) == polls_of(ref, *given_traffic)


@given(traffic())
def test_laws(given_traffic):
    """Each received packet in one poll; polls of at most the weight; in order of time, then queue; arrival order kept."""
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


def test_given_polls_are_checked():
    queue = np.array([0, 1, -1], dtype=np.int32)
    good = Polls(
        order=[0, 1], queue=[0, 1], first=[0, 1], count=[1, 1], time_ps=[0, 0], jiffy=[0, 0]
    )
    check_polls(good, queue)
    cases = {
        "packet 1 0 times": {"order": [0], "queue": [0], "first": [0], "count": [1], "time_ps": [0], "jiffy": [0]},
        "packet 2 1 times": {"order": [0, 1, 2], "queue": [0, 1], "first": [0, 1], "count": [1, 2], "time_ps": [0, 0], "jiffy": [0, 0]},
        "its rx queue": {"order": [1, 0], "queue": [0, 1], "first": [0, 1], "count": [1, 1], "time_ps": [0, 0], "jiffy": [0, 0]},
        "does not go back": {"order": [0, 1], "queue": [0, 1], "first": [0, 1], "count": [1, 1], "time_ps": [1, 0], "jiffy": [0, 0]},
        "without gaps": {"order": [0, 1], "queue": [0, 1], "first": [1, 0], "count": [1, 1], "time_ps": [0, 0], "jiffy": [0, 0]},
        "outside": {"order": [0, 7], "queue": [0, 1], "first": [0, 1], "count": [1, 1], "time_ps": [0, 0], "jiffy": [0, 0]},
        "different lengths": {"order": [0, 1], "queue": [0, 1], "first": [0], "count": [1, 1], "time_ps": [0, 0], "jiffy": [0, 0]},
        "count": {"order": [0, 1], "queue": [0, 1], "first": [0, 1], "count": [-1, 1], "time_ps": [0, 0], "jiffy": [0, 0]},
    }  # fmt: skip
    for message, columns in cases.items():
        with pytest.raises(ConfigError, match=message):
            check_polls(Polls(**columns), queue)


def test_polls_by_counts():
    polls = Polls.single(3, 130)

    assert polls.count.tolist() == [64, 64, 2]
    assert polls.first.tolist() == [0, 64, 128]
    assert set(polls.queue.tolist()) == {3}
