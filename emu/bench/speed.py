"""emu's own speed: every stage and the whole path, core against reference, in one run.

The reference is timed on the first packets of the same traffic: it is hundreds of times slower.
The core's figures are medians of three runs after a warm-up. The reference caches pure hashes by
flow: a stage is timed in its first run, the whole path as the median of three.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import attrs

from emu.bench.jobs import JOBS, Job
from emu.bench.speed_host import speed_host, speed_traffic
from emu.model.packets import Packets
from emu.progress import Progress
from emu.steering import steer

RUNS = 3
REF_PACKETS = 20_000
SIZES = {False: 4_000_000, True: 400_000}


@attrs.frozen(kw_only=True)
class SpeedRow:
    """One line of the speed table.

    Attributes:
        name: stage, or ``steer`` (trains of 4 over a million flows), ``steer-zipf`` (10,000 flows).
        core_pps, ref_pps: packets (tuples, frames) per second of one core.
        packets: how many the core was timed on.
        decisions: how many decisions the stage took in one timed run of the core.
        counts: for the whole path, decisions per stage.
    """

    name: str
    core_pps: float
    ref_pps: float
    packets: int
    decisions: int
    counts: dict[str, int] = attrs.field(factory=dict)


def steps() -> int:
    """How many steps of progress `measure` takes."""
    return len(JOBS) + 2


def measure(*, seed: int, quick: bool, progress: Progress) -> list[SpeedRow]:
    """Time every stage and the whole path."""
    rows = []
    traffic = speed_traffic("trains", SIZES[quick] // 4, seed)
    for name, job in JOBS.items():
        progress.step(f"speed: {name}")
        rows.append(time_job(name, job, traffic))
    for name, pattern in (("steer", "trains"), ("steer-zipf", "zipf")):
        progress.step(f"speed: {name}")
        rows.append(time_steer(name, speed_traffic(pattern, SIZES[quick], seed), seed))
    return rows


def time_job(name: str, job: Job, traffic: Packets) -> SpeedRow:
    """One stage, both engines."""
    few = traffic.take(slice(0, REF_PACKETS))
    core, ref = job("core", traffic), job("ref", few)
    decisions = core()  # also the warm-up
    begin = time.perf_counter()
    ref_decisions = ref()  # once: a second run would find its pure hashes cached
    ref_seconds = time.perf_counter() - begin
    return SpeedRow(
        name=name,
        core_pps=decisions / median_seconds(core),
        ref_pps=ref_decisions / ref_seconds,
        packets=decisions,
        decisions=decisions,
    )


def time_steer(name: str, traffic: Packets, seed: int) -> SpeedRow:
    """The whole path, both engines."""
    host = speed_host(traffic, seed)
    few = traffic.take(slice(0, REF_PACKETS))
    few_host = speed_host(few, seed)
    # Also the warm-up: memory touched once is faster to touch again.
    counts = steer(host, traffic).counts
    return SpeedRow(
        name=name,
        core_pps=len(traffic) / median_seconds(lambda: steer(host, traffic)),
        ref_pps=len(few) / median_seconds(lambda: steer(few_host, few, engine="ref")),
        packets=len(traffic),
        decisions=sum(counts.values()),
        counts=counts,
    )


def median_seconds(call: Callable[[], object], runs: int = RUNS) -> float:
    """Median wall time of some runs."""
    times = []
    for _ in range(runs):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)
