"""The end of a poll: gro_flush_timeout, napi_defer_hard_irqs (N-8), and a kthread's steps."""

from __future__ import annotations

import pytest

from tests.strategies.gro import coalesce, segment

PLAIN, MERGED, NAPI_THREAD = 0, 1, 2


def stream(count: int):
    return [segment(10, 10 * at, ident=at) for at in range(count)]


def test_n_8_timer_lets_this_jiffys_packets_wait(engine):
    frames = stream(4)
    waiting = coalesce(engine("gro"), frames, polls=[1] * 4, flush_timeout_ns=20_000)

    assert waiting.members() == [[0, 1, 2, 3]]
    assert len(coalesce(engine("gro"), frames, polls=[1] * 4)) == 4


def test_n_8_timer_does_not_keep_what_is_older(engine):
    """Joining makes nothing younger (GRO-A13): the pair of jiffy 0 goes at the end of jiffy 1's."""
    skbs = coalesce(
        engine("gro"), stream(4), polls=[1] * 4, jiffies=[0, 1, 2, 3], flush_timeout_ns=20_000
    )

    assert skbs.members() == [[0, 1], [2, 3]]


def test_n_8_a_timers_poll_of_nothing_puts_all_out(engine):
    skbs = coalesce(engine("gro"), stream(2), polls=[1, 0, 1], flush_timeout_ns=20_000)

    assert skbs.members() == [[0], [1]]


def test_n_8_deferred_completions_keep_waiting(engine):
    """With two deferrals the second empty poll is the one that flushes."""

    def cut(*polls):
        skbs = coalesce(
            engine("gro"), stream(2), polls=list(polls), flush_timeout_ns=1, defer_hard_irqs=2
        )
        return len(skbs)

    assert (cut(1, 0, 1), cut(1, 0, 0, 1)) == (1, 2)


def test_n_8_deferral_without_a_timeout_flushes(engine):
    skbs = coalesce(engine("gro"), stream(2), polls=[1, 1], defer_hard_irqs=5)

    assert len(skbs) == 2


@pytest.mark.parametrize(
    ("design", "waking", "segments"),
    [
        (PLAIN, [3], [1, 1, 1]),
        (MERGED, [10, 10], [10, 10]),
        (MERGED, [100], [64, 36]),
        (NAPI_THREAD, [100], [64, 36]),
        (NAPI_THREAD, [64, 1], [64, 1]),
    ],
)
def test_a_kthread_flushes_at_64_and_when_its_ring_is_empty(engine, design, waking, segments):
    frames = stream(sum(waking))
    skbs = coalesce(
        engine("gro"), frames, polls=waking, design=design, enabled=design != PLAIN, fresh_skb=1
    )

    assert [len(members) for members in skbs.members()] == segments


@pytest.mark.parametrize("design", [MERGED, NAPI_THREAD])
def test_young_packets_of_a_busy_ring_stay_at_hz_1000(engine, design):
    frames = stream(65)
    busy, drained = (
        coalesce(engine("gro"), frames, polls=polls, design=design, fresh_skb=1, hz=1000)
        for polls in ([65], [64, 1])
    )

    assert (len(busy), len(drained)) == (1, 2)


def test_a_plain_kthread_delivers_each_step_as_a_list(engine):
    skbs = coalesce(engine("gro"), stream(12), polls=[12], design=PLAIN, enabled=0, fresh_skb=1)

    assert skbs.table["after"].tolist() == [8] * 8 + [12] * 4
