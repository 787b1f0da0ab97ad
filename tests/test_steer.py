"""Both engines take the same decisions, bit for bit, over random hosts, traffic, ops and polls."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.steering import steer
from tests.same import assert_same, differing_row
from tests.strategies.traffic import lively_hosts, op_lists, polls_of, traffic


@settings(max_examples=70)
@given(data=st.data())
def test_both_engines_decide_the_same(data):
    host = data.draw(lively_hosts())
    packets = data.draw(traffic(host))

    assert_same(steer(host, packets), steer(host, packets, engine="ref"), host, packets)


@settings(max_examples=70)
@given(data=st.data())
def test_both_engines_decide_the_same_between_ops(data):
    host = data.draw(lively_hosts())
    packets = data.draw(traffic(host))
    ops = data.draw(op_lists(host))

    core, ref = (steer(host, packets, ops=ops, engine=engine) for engine in ("core", "ref"))

    assert_same(core, ref, host, packets, ops)


@settings(max_examples=70)
@given(data=st.data())
def test_both_engines_decide_the_same_with_given_polls(data):
    host = data.draw(lively_hosts())
    packets = data.draw(traffic(host))
    ops = data.draw(op_lists(host, most=3))
    made = steer(host, packets)
    polls = data.draw(polls_of(host, made))

    core, ref = (
        steer(host, packets, ops=ops, polls=polls, engine=engine) for engine in ("core", "ref")
    )

    assert_same(core, ref, host, packets, ops)
    np.testing.assert_array_equal(core.arrays["rx_queue"], made.arrays["rx_queue"])


@settings(max_examples=25)
@given(data=st.data())
def test_a_steer_answers_the_same_twice(data):
    host = data.draw(lively_hosts())
    packets = data.draw(traffic(host, most=5))

    assert_same(steer(host, packets), steer(host, packets), host, packets, names=("one", "two"))


@settings(max_examples=25)
@given(data=st.data())
def test_giving_the_polls_that_were_made_changes_nothing(data):
    host = data.draw(lively_hosts())
    packets = data.draw(traffic(host, most=5))
    made = steer(host, packets)

    again = steer(host, packets, polls=made.polls)

    assert_same(made, again, host, packets, names=("made", "given"))


def test_a_difference_is_named_by_row_and_column():
    left = {"cpu": np.array([1, 2, 3]), "drop": np.array([0, 0, 5])}
    right = {"cpu": np.array([1, 7, 3]), "drop": np.array([0, 0, 6])}

    assert differing_row("packet", left, right, ("core", "ref")) == "packet 1: cpu: core 2, ref 7"
    assert differing_row("packet", left, left, ("core", "ref")) == ""


@pytest.mark.parametrize("rows", [1, 2])
def test_a_difference_in_length_is_named(rows):
    left = {"cpu": np.arange(3)}

    said = differing_row("skb", left, {"cpu": np.arange(rows)}, ("core", "ref"))

    assert said == f"core has 3 rows of skb, ref {rows}"
