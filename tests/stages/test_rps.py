"""RPS: the map step of get_rps_cpu (receive.md 3.3, observed-many-cpus.md 1)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from emu.errors import ConfigError
from tests.strategies.xps import hashes

COMPARED_AT_LEAST = {"packets": 1200, "rps_tun packets": 300, "rps_veth packets": 400}


def ask(rps, cpus, online, *hash_values):
    """CPUs of the hashes, as a list."""
    answer = rps.rps_cpus(
        np.array(cpus, dtype=np.uint16),
        np.array(online, dtype=np.uint8),
        np.array(hash_values, dtype=np.uint32),
    )
    assert answer.dtype == np.int32
    return answer.tolist()


def queue_of(rps, recorded, queues):
    return rps.rps_queues(np.array([recorded], dtype=np.int32), queues).tolist()[0]


def test_rps_1_1_the_high_half_of_the_product_chooses(engine):
    rps = engine("rps")

    # Mask ffff, hash 2262451033: CPU 8, as a 16-CPU kernel recorded it.
    assert ask(rps, range(16), [1] * 16, 2262451033) == [8]
    assert ask(rps, [3, 5, 9], [1] * 10, 1, 2**32 - 1) == [3, 9]


def test_rps_1_2_without_a_map_the_packet_stays(engine):
    assert ask(engine("rps"), [], [1, 1], 0, 7, 2**32 - 1) == [-1, -1, -1]


def test_r_3_3_3_without_a_hash_the_packet_stays(engine):
    assert ask(engine("rps"), [1], [1, 1], 0) == [-1]


def test_r_3_3_7_a_packet_of_an_offline_cpu_stays(engine):
    rps = engine("rps")

    # Mask 0002, hash 1336338116: while CPU 1 is offline, processed where it came in.
    assert ask(rps, [1], [1, 0, 1], 1336338116) == [-1]
    assert ask(rps, [1], [1, 1, 1], 1336338116) == [1]
    # No other CPU of the map takes its share.
    assert ask(rps, [0, 1], [1, 0], 1, 2**32 - 1) == [0, -1]


def test_r_3_3_1_an_unrecorded_rx_queue_is_queue_0(engine):
    rps = engine("rps")

    assert queue_of(rps, -1, 4) == 0
    assert queue_of(rps, 3, 4) == 3


def test_r_3_3_1_beyond_the_real_rx_queues_rps_is_skipped(engine):
    assert queue_of(engine("rps"), 4, 4) == -1


def test_a_map_that_leaves_the_cpus_is_refused(engine):
    rps = engine("rps")
    with pytest.raises(ConfigError, match="rps: cpus"):
        ask(rps, [2], [1, 1], 5)
    with pytest.raises(ConfigError, match="real_num_rx_queues"):
        queue_of(rps, 0, 0)


@given(
    online=st.lists(st.integers(0, 1), min_size=1, max_size=12),
    wanted=st.frozensets(st.integers(0, 11)),
    values=st.lists(hashes(), max_size=20),
)
@example(online=[1], wanted=frozenset({0}), values=[0, 1])
def test_core_and_reference_agree(online, wanted, values):
    from emu._core import rps as core
    from emu.ref import rps as ref

    cpus = sorted(cpu for cpu in wanted if cpu < len(online))

    answer = ask(core, cpus, online, *values)

    assert answer == ask(ref, cpus, online, *values)
    assert all(cpu == -1 or (cpu in cpus and online[cpu]) for cpu in answer)


@given(st.lists(st.integers(-1, 70), max_size=20), st.integers(1, 65))
def test_core_and_reference_agree_about_the_queue(recorded, queues):
    from emu._core import rps as core
    from emu.ref import rps as ref

    rows = np.array(recorded, dtype=np.int32)

    assert core.rps_queues(rows, queues).tolist() == ref.rps_queues(rows, queues).tolist()
