"""Flow limit: the flow that fills a backlog loses there first (R-3.6)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emu import stages
from emu._core import flow_limit as core
from emu.errors import ConfigError
from emu.ref import flow_limit as ref

BIG, SMALL = 0x01234567, 0x89ABCDEF


def dropped(hashes, *, engine, table_len=4096, kernel="6.18"):
    return np.flatnonzero(
        stages.flow_limit(hashes, table_len=table_len, kernel=kernel, engine=engine.name)
    ).tolist()


def test_r_3_6_a_flow_has_64_of_the_last_128(engine):
    assert dropped([BIG] * 64, engine=engine) == []
    assert dropped([BIG] * 70, engine=engine) == [64, 65, 66, 67, 68, 69]


def test_r_3_6_the_other_flow_passes(engine):
    hashes = [BIG] * 64 + [SMALL, BIG, SMALL, BIG]

    assert dropped(hashes, engine=engine) == [65, 67]


def test_r_3_6_forget_what_is_128_packets_old_counts_no_more(engine):
    alternating = [BIG, SMALL] * 100
    assert dropped(alternating, engine=engine) == []
    # 64 of the big flow, then 64 of others: each further one replaces one of its own.
    others = [SMALL + (k << 20) for k in range(64)]
    assert dropped([BIG] * 64 + others + [BIG] * 64, engine=engine) == []


def test_r_3_6_forget_bucket_0_counts_nothing_at_first(engine):
    """What was never written is bucket 0: a flow there is forgotten as fast as it comes."""
    assert dropped([0] * 300, engine=engine) == []
    # The first 64 take the places of nothing, the next those of the big flow: the last is the 65th.
    assert dropped([BIG] * 64 + [0] * 128, engine=engine) == [191]


def test_r_3_6_the_bucket_is_hash_32_or_before_6_18_the_low_bits(engine):
    low, high = [k << 12 for k in range(1, 101)], [k << 20 | 1 for k in range(100)]

    assert dropped(high, engine=engine) == []
    assert dropped(high, engine=engine, kernel="6.12") == [*range(64, 100)]
    assert dropped(low, engine=engine, kernel="6.12") == []  # bucket 0


@given(
    st.lists(st.sampled_from([0, 1, 2, 3, BIG, SMALL, 1 << 31, 0xFFFFFFFF]), max_size=400),
    st.sampled_from([2, 4, 16, 4096, 65536]),
    st.booleans(),
)
def test_r_3_6_core_equals_reference(hashes, table_len, low_bits):
    given = np.array(hashes, dtype=np.uint32)

    said = [module.flow_limit_drops(given, table_len, low_bits).tolist() for module in (core, ref)]

    assert said[0] == said[1]


@pytest.mark.parametrize("table_len", [0, 1, 3, 1000, 65535, 131072])
def test_a_table_has_a_power_of_two(table_len, engine):
    with pytest.raises(ConfigError, match="table_len"):
        dropped([1], engine=engine, table_len=table_len)
    with pytest.raises(ConfigError, match="table_len"):
        engine("flow_limit").flow_limit_drops(np.zeros(1, dtype=np.uint32), table_len, False)
