"""The timing engines' own speed: the experiments' hosts before, as fitted, in both engines."""

from __future__ import annotations

import statistics
import time

import attrs

from emu.bench.timed import Timed
from emu.engines import stage
from emu.model.run_plan import RunPlan
from emu.progress import Progress
from emu.timing import machine_with, prepare

RUNS = 3
WARM_PS = 2 * 10**9
CORE_PS = 50 * 10**9  # simulated time that is timed
REF_PS = 2 * 10**9
QUICK = 5  # a quick run times that part


@attrs.frozen(kw_only=True)
class EngineSpeed:
    """One line of the table of timing engines.

    Attributes:
        name: ``experiment: label``.
        core_steps, ref_steps: steps per second of one core, medians of three runs.
        core_messages: messages per second that the core finishes.
        simulated: simulated seconds per second of the core.
    """

    name: str
    core_steps: float
    ref_steps: float
    core_messages: float
    simulated: float


def engine_steps(timed: list[str] | tuple[str, ...], labels: dict[str, tuple[str, ...]]) -> int:
    """How many steps of progress `measure_engines` takes for these experiments."""
    return sum(len(labels[name]) for name in timed)


def measure_engines(
    timed: list[Timed], labels: dict[str, tuple[str, ...]], *, quick: bool, progress: Progress
) -> list[EngineSpeed]:
    """Time the engines on the labels of each experiment, before, as they were fitted."""
    rows = []
    for one in timed:
        for pair in one.answer.pairs:
            label = pair.case.label
            if label not in labels[one.id]:
                continue
            progress.step(f"speed: {one.id}, {label}")
            side, fit = pair.case.before, one.answer.fits[label]
            machine = machine_with(side.machine, fit.software_factor)
            plan = prepare(side.host, fit.workload, machine=machine, seed=1)
            rows.append(time_engines(f"{one.id}: {label}", plan, QUICK if quick else 1))
    return rows


def time_engines(name: str, plan: RunPlan, part: int) -> EngineSpeed:
    """Both engines on one plan; *part*: the core is timed on 1/part of the time."""
    core_ps = CORE_PS // part
    core = [time_run("core", plan, core_ps) for _ in range(RUNS)]
    ref = [time_run("ref", plan, REF_PS // part) for _ in range(RUNS)]
    seconds = statistics.median(spent for spent, _, _ in core)
    ref_seconds = statistics.median(spent for spent, _, _ in ref)
    return EngineSpeed(
        name=name,
        core_steps=core[0][1] / seconds,
        ref_steps=ref[0][1] / ref_seconds,
        core_messages=core[0][2] / seconds,
        simulated=core_ps / 10**12 / seconds,
    )


def time_run(engine: str, plan: RunPlan, span_ps: int) -> tuple[float, int, int]:
    """Seconds, steps and messages of a run of that simulated time, behind its warm-up."""
    arrived = stage(engine, "steer").arrive(plan.base)
    run = stage(engine, "engine").Run(plan, arrived)
    run.advance(WARM_PS)
    run.take_samples()
    begin = time.perf_counter()
    steps = run.advance(WARM_PS + span_ps)
    spent = time.perf_counter() - begin
    return spent, steps, len(run.take_samples())
