"""A plan that is written and read back decides the same."""

from __future__ import annotations

import attrs
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emu.intake import from_frames
from emu.io.plans import TABLES, dump_plan, load_plan
from emu.model.connections import connections
from emu.model.host import Host
from emu.model.lower import lower
from emu.model.nic import Nic
from emu.model.plan import Plan
from emu.model.topology import Topology
from emu.steering import decide
from tests.same import assert_same
from tests.strategies.traffic import Flow, lively_hosts, op_lists, tcp_frames, traffic


def round_trip(plan, path):
    dump_plan(plan, path)
    return load_plan(path)


def assert_equal_plans(left, right):
    for field in attrs.fields(Plan):
        mine, other = getattr(left, field.name), getattr(right, field.name)
        if field.name in TABLES:
            assert mine.columns.keys() == other.columns.keys()
            for name, column in mine.columns.items():
                assert column.dtype == other.columns[name].dtype, name
                np.testing.assert_array_equal(column, other.columns[name], name)
            np.testing.assert_array_equal(mine.flow_keys, other.flow_keys)
            np.testing.assert_array_equal(mine.blob, other.blob)
        elif isinstance(mine, int):
            assert (mine, type(mine)) == (other, type(other)), field.name
        else:
            assert (mine.dtype, mine.shape) == (other.dtype, other.shape), field.name
            assert np.array_equal(mine, other), field.name


@settings(max_examples=40)
@given(data=st.data())
def test_a_plan_read_back_decides_the_same(data, tmp_path_factory):
    host = data.draw(lively_hosts())
    packets = data.draw(traffic(host, most=3))
    ops = data.draw(op_lists(host, most=3))
    plan = lower(host, packets, ops)

    again = round_trip(plan, tmp_path_factory.mktemp("plan") / "plan.npz")

    assert_equal_plans(plan, again)
    before, after = (decide(host, which, None, "core") for which in (plan, again))
    assert_same(before, after, host, packets, ops, names=("plan", "read back"))


def test_a_plan_of_connections_can_be_written(tmp_path):
    packets = from_frames(tcp_frames(Flow("10.1.0.1", 1024, "10.0.0.1", 80), 2))
    host = Host(
        topology=Topology(cpus=2), nics=[Nic(name="eth0")], connections=connections(packets)
    )
    plan = lower(host, packets)

    again = round_trip(plan, str(tmp_path / "plan.npz"))

    assert_equal_plans(plan, again)
    assert len(again.sockets) == 1
    assert again.ncpus == 2


def test_what_is_no_plan_is_refused(tmp_path):
    path = tmp_path / "other.npz"
    path.write_bytes(b"no plan at all")

    with pytest.raises(ValueError, match="pickle"):
        load_plan(path)
    with pytest.raises(OSError, match="no-such"):
        load_plan(tmp_path / "no-such.npz")


@settings(max_examples=40)
@given(data=st.data())
def test_lowering_is_the_same_twice_and_touches_nothing(data):
    host = data.draw(lively_hosts())
    packets = data.draw(traffic(host, most=2))
    ops = data.draw(op_lists(host))

    assert_equal_plans(lower(host, packets, ops), lower(host, packets, ops))
