"""The rules that the steer itself asks, one by one: completion of a poll, the skb's hash, RPS."""

from __future__ import annotations

import pytest

from emu.dtypes import HashType
from emu.model.masks import CpuSet
from emu.model.nic import Rss
from emu.model.polls import Polls
from tests.small_hosts import ANYONE, DNS, US, VECTOR, WEB, host_of, on_queue, values
from tests.strategies import frames as make
from tests.strategies.traffic import tcp_frames, udp_frames


@pytest.mark.parametrize(
    ("counts", "times_us", "segs"),
    [
        ([3, 3], [0, 0], [3, 3]),  # not full: it completes, and GRO gives up everything
        ([64, 3], [0, 0], [67]),  # full, and the repoll follows at once: young ones are kept
        ([64, 3], [0, 1], [64, 3]),  # full, but nothing follows at once: it completes
        ([3, 64], [0, 0], [3, 64]),
    ],
)
def test_n_8_a_napi_that_completes_flushes_everything(decide, counts, times_us, segs):
    host = host_of(ANYONE, hz=1000)
    polls = Polls.of_counts(counts, times_ps=[time * US for time in times_us])

    got = decide(host, tcp_frames(WEB, sum(counts), 100), polls=polls)

    assert got.skbs["segs"].tolist() == segs


def test_r_2_1_an_l4_hash_of_the_device_is_the_skbs_hash(decide):
    # 0xc626b0ea scaled to 4 is 3.
    host = host_of(rps_cpus=CpuSet([1, 3, 5, 7]), addresses=())

    got = decide(host, tcp_frames(VECTOR, 1))

    assert got.skbs["hash"].tolist() == [0xC626B0EA]
    assert got.skbs["hash_type"].tolist() == [HashType.L4]
    assert values(got, "cpu") == [7]
    assert got.counts["flow_hash"] == 0


@pytest.mark.parametrize(
    "nic", [{"rss": Rss(key="microsoft", udp_hash="2tuple")}, {"hw_hash": False}]
)
def test_r_2_1_a_hash_of_addresses_or_none_is_computed_anew(decide, nic):
    host = host_of(rps_cpus=CpuSet([1, 3]), **nic)

    got = decide(host, udp_frames(DNS, 1))

    assert values(got, "rx_hash") != got.skbs["hash"].tolist()
    assert got.skbs["hash_type"].tolist() == [HashType.SW_L4]
    assert got.counts["flow_hash"] == 1


@pytest.mark.parametrize(("queue", "cpu", "asked"), [(0, 2, 0), (1, 5, 1)])
def test_r_3_3_2_a_queue_without_a_map_leaves_the_skb_on_its_cpu(decide, queue, cpu, asked):
    host = host_of(
        rx_queues=2, rss=on_queue(queue), irq_cpus=(2, 3), rps_cpus=[CpuSet(), CpuSet([5])]
    )

    got = decide(host, tcp_frames(WEB, 1))

    assert values(got, "irq_cpu") == [2 + queue]
    assert values(got, "cpu") == [cpu]
    assert got.counts["rps"] == asked


def test_r_3_3_2_a_frame_without_a_hash_goes_by_queue_0s_map(decide):
    host = host_of(rx_queues=2, rss=on_queue(1), rps_cpus=[CpuSet([6]), CpuSet()])

    assert values(decide(host, [make.eth(0x0806, bytes(28))]), "cpu") == [6]
