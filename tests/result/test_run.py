"""The numbers of a run: from counters that are written by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from emu.dtypes import Drop
from emu.result.compare_runs import changes, counts, times
from emu.result.estimate import Estimate
from emu.result.run import RunResult, nearest_rank, window
from emu.run_dtypes import COST_ONE, Ctx, Kind, Lock, RunDrop, Stage, Total
from tests.small_runs import DURATION_PS, idle_counts, measured, no_counts, result_of, small_plan

PLAN = small_plan()


def busy_run(*, lines: int = 10) -> RunResult:
    """Four messages; CPU 0 half busy, CPU 1 a quarter, CPU 2 idle, CPU 3 offline."""
    counts_of = idle_counts(PLAN)
    busy = counts_of["busy_ps"]
    busy[0] = [DURATION_PS // 2, DURATION_PS // 10, DURATION_PS * 2 // 5, 0, 0]
    busy[1] = [DURATION_PS * 3 // 4, 0, 0, 0, DURATION_PS // 4]
    counts_of["cost"][0, Ctx.SOFTIRQ, Stage.IP, Kind.BASE] = 400 * COST_ONE
    counts_of["cost"][0, Ctx.IRQ, Stage.ENTRY, Kind.BASE] = 100 * COST_ONE
    counts_of["cost"][1, Ctx.USER, Stage.COPY, Kind.LINES] = 4 * lines * COST_ONE
    counts_of["transfers"][1, 3] = 8
    counts_of["locks"][Lock.TX] = (40, 4, 2_000_000)
    counts_of["rxq"][1] = (12, 3)
    counts_of["napi"][1] = (5, 6, 0)
    counts_of["sockets"][0] = (4, 1, 3)
    counts_of["softnet"][1] = (7, 2, 1, 5, 4)
    counts_of["sched"][1] = (8, 9, 6)
    counts_of["txq"][1] = (12, 720, 10, 8)
    counts_of["qdisc"][1] = (6, 3, 2, 4)
    counts_of["drops"][[Drop.NO_SOCKET, RunDrop.RX_RING_FULL]] = (2, 3)
    totals = counts_of["totals"]
    totals[[Total.ARRIVED, Total.READ, Total.DROPPED, Total.INSIDE]] = (15, 7, 5, 3)
    totals[[Total.SENT, Total.TX_DONE, Total.TX_INSIDE, Total.SKBS]] = (4, 3, 1, 6)
    return result_of(PLAN, measured(counts_of, [40, 10, 30, 20]))


def test_rates_and_shares() -> None:
    result = busy_run()

    assert result.throughput == Estimate(4000.0, (4000.0,))  # 4 in 1 ms
    assert result.cpu.value == pytest.approx(0.75 / 3)  # of three CPUs: one is offline
    assert result.cpu_us_per_message.value == pytest.approx(750 / 4)
    assert result.mean_us.value == 25.0
    assert result.cycles_per_us == pytest.approx(PLAN.ps_den * 1e6 / PLAN.ps_num / 1024)


@pytest.mark.parametrize(
    ("percent", "rank"),
    [(50, 50), (90, 90), (99, 99), (100, 100), (0.5, 1), (1, 1), (1.001, 2), (99.9, 100)],
)
def test_the_nearest_rank(percent: float, rank: int) -> None:
    assert nearest_rank(np.arange(1, 101), percent) == rank


def test_the_nearest_rank_of_few() -> None:
    assert nearest_rank(np.array([7]), 50) == 7
    assert nearest_rank(np.array([1, 2]), 50) == 1
    assert nearest_rank(np.array([1, 2, 3]), 50) == 2
    # 0.9 * 10 is above 9 in floating point.
    assert nearest_rank(np.arange(1, 11), 90) == 9


def test_percentiles_are_of_all_samples_and_intervals_of_the_seeds() -> None:
    result = result_of(
        PLAN,
        measured(idle_counts(PLAN), [1, 2, 3], seed=1),
        measured(idle_counts(PLAN), [10, 20], seed=2),
    )

    assert result.percentile_us(50) == Estimate(3.0, (2.0, 10.0))
    assert result.metric("p99").value == 20.0
    assert result.samples_ps.tolist() == [10**6, 2 * 10**6, 3 * 10**6, 10**7, 2 * 10**7]
    assert result.throughput == Estimate(2500.0, (3000.0, 2000.0))


def test_a_run_without_messages_has_no_latency_and_no_cost_per_message() -> None:
    result = result_of(PLAN, measured(idle_counts(PLAN), []))

    assert result.throughput.value == 0.0
    assert result.percentile_us(50).value is None
    assert result.cpu_us_per_message.value is None
    assert "0 messages/s at 0.0% CPU" in repr(result)
    assert "nan" not in json.dumps(result.to_json()).lower()
    assert str(result.summary())


def test_the_tables_say_what_was_counted() -> None:
    summary = busy_run().summary()

    cpus = summary.cpus.rows()
    assert cpus[0]["busy"] == pytest.approx(50.0)
    assert cpus[0]["softirq"] == pytest.approx(40.0)
    assert (cpus[1]["user"], cpus[1]["idle"]) == pytest.approx((25.0, 75.0))
    stages = {row["stage"]: row for row in summary.stages.rows()}
    assert stages["IP"]["base"] == stages["IP"]["cycles"] == 100.0  # 400 cycles, 4 messages
    assert stages["COPY"]["lines"] == 10.0
    assert sum(row["percent"] for row in stages.values()) == pytest.approx(100.0)
    contexts = {row["context"]: row for row in summary.contexts.rows()}
    assert contexts["SOFTIRQ"]["busy_percent"] == pytest.approx(100 * 0.4 / 0.75)
    locks = {row["lock"]: row for row in summary.locks.rows()}
    assert locks["TX"] == {
        "lock": "TX",
        "acquired": 40,
        "contended": 4,
        "wait_us": 2.0,
        "wait_ns_per_message": 500.0,
    }
    assert summary.transfers.rows()[3]["lines_per_message"] == 2.0
    assert summary.queues.rows()[1] == {
        "nic": "eth0",
        "queue": 1,
        "irq_cpu": 1,
        "packets": 12,
        "rx_missed": 3,
        "interrupts": 5,
        "polls": 6,
        "full_polls": 0,
    }
    assert summary.sockets.rows() == [
        {"socket": 0, "name": "server", "enqueued": 4, "sk_drops": 1, "read": 3}
    ]
    assert summary.drops.rows() == [
        {"reason": "NO_SOCKET", "packets": 2},
        {"reason": "RX_RING_FULL", "packets": 3},
    ]
    assert summary.totals["segs_per_skb"] == 2.0
    assert [row["queue"] for row in summary.qdiscs.rows()] == [0, 1]
    assert summary.qdiscs.rows()[1] == {
        "nic": "eth0",
        "queue": 1,
        "enqueued": 6,
        "bypassed": 3,
        "requeued": 2,
        "dropped": 4,
    }
    assert summary.tx_queues.rows()[1] == {
        "nic": "eth0",
        "queue": 1,
        "completion_cpu": 1,
        "packets": 12,
        "bytes": 720,
        "doorbells": 10,
        "stops": 8,
    }
    assert list(summary.softnet.rows()[1].values()) == [1, 7, 2, 1, 5, 4, 8, 9, 6]


def test_cells_add_up_to_the_stages() -> None:
    summary = busy_run().summary()

    assert summary.cells.rows() == [
        {"cpu": 0, "context": "IRQ", "stage": "ENTRY", "kind": "BASE", "cycles": 100.0},
        {"cpu": 0, "context": "SOFTIRQ", "stage": "IP", "kind": "BASE", "cycles": 400.0},
        {"cpu": 1, "context": "USER", "stage": "COPY", "kind": "LINES", "cycles": 40.0},
    ]


def test_conservation_says_what_is_missing() -> None:
    result = busy_run()
    assert result.summary().conservation["lost"] == 0
    assert result.summary().conservation["tx_lost"] == 0

    result.measured[0].whole[Total.READ] -= 2

    assert result.summary().conservation["lost"] == 2


def test_printing_fits_and_json_is_plain() -> None:
    result = busy_run()

    text = str(result.summary())

    assert max(map(len, text.splitlines())) <= 100
    assert "RX_RING_FULL" in text
    assert json.loads(json.dumps(result.to_json()))["throughput"]["value"] == 4000.0
    assert repr(result).startswith("<RunResult 4,000 messages/s at 25.0% CPU, p50 20.0 us")


def test_a_window_subtracts_counts_and_keeps_levels() -> None:
    before, after = no_counts(PLAN), no_counts(PLAN)
    before["totals"][[Total.ARRIVED, Total.INSIDE]] = (10, 4)
    after["totals"][[Total.ARRIVED, Total.INSIDE]] = (25, 3)
    before["rxq"][0, 0], after["rxq"][0, 0] = 7, 9

    inside = window(before, after)

    assert inside["totals"][Total.ARRIVED] == 15
    assert inside["totals"][Total.INSIDE] == 3
    assert inside["rxq"][0, 0] == 2
    assert after["totals"][Total.ARRIVED] == 25


def test_changes_begin_with_the_largest() -> None:
    before, after = busy_run(lines=10), busy_run(lines=4)

    rows = changes(before, after).rows()

    assert rows[0] == {"cycles": "COPY lines", "before": 10.0, "after": 4.0, "change": -6.0}
    assert all(row["change"] == 0 for row in rows[1:])
    assert {row["context"]: row["before"] for row in times(before, after).rows()}[
        "IDLE"
    ] == pytest.approx(75.0)
    counted = {row["count"]: row["before"] for row in counts(before, after).rows()}
    assert counted["TX lock wait, ns"] == 500.0
    assert counted["received and dropped"] == 1.25
    assert counted["lines from other_node"] == 2.0
    assert (counted["packets sent"], counted["doorbells"], counted["tx queue stops"]) == (3, 2.5, 2)
    assert (counted["qdisc enqueued"], counted["qdisc requeued"]) == (1.5, 0.5)
    assert (counted["time_squeeze"], counted["received_rps"]) == (0.25, 1.25)
    assert (counted["IPIs sent"], counted["wake-ups"]) == (2, 2.25)
    assert counted["context switches"] == 1.5
