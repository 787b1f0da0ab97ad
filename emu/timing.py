"""The door of timed runs: decisions that take time, on a machine with costs (docs/run.md)."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic
from typing import Any

import attrs
import numpy as np

from emu.dtypes import Direction
from emu.engines import check_engine, stage
from emu.errors import ConfigError
from emu.model import checks
from emu.model.accept import accept
from emu.model.costs import Machine
from emu.model.host import Host
from emu.model.lower_run import lower_run
from emu.model.machines_toml import get_machine
from emu.model.packets import Packets
from emu.model.run_plan import RunPlan
from emu.model.secrets import Secrets
from emu.model.workloads import OpenLoop, RequestResponse, Workload, request_packets
from emu.result.run import Measured, RunResult, window
from emu.steering import steer, with_inner
from emu.units import parse_duration_ps

Share = Callable[[float], None]  # told the share of the work that is done, 0 to 1
MAX_SEEDS = 1000
MAX_RUN_PS = 3600 * 10**12
SLICES = 20  # a run tells its progress that often
FIRST_PIECE_PS = 10**6
MOST_PIECE_PS = 10**10  # however little happened so far
MOMENT_SECONDS = 0.1


def run(
    host: Host,
    workload: Workload,
    *,
    machine: str | Machine = "xeon-2015",
    seed: int = 1,
    seeds: int = 1,
    duration: str = "50ms",
    warmup: str = "10ms",
    engine: str = "core",
    software_factor: float = 1.0,
    redraw_secrets: bool = False,
    progress: Share | None = None,
) -> RunResult:
    """Let a host work on a workload for some simulated time, and measure it.

    Args:
        host: the host. Which listener accepts each TCP flow is decided before the run, by steering
            the flow's request.
        workload: a `RequestResponse` or an `OpenLoop`.
        machine: what a step costs: the name of a cost model, or one.
        seed: of every draw; run k of several has ``seed + k``.
        seeds: how many runs; several give confidence intervals.
        duration: the time that is measured, such as ``"50ms"``.
        warmup: the time before it, which is cut off.
        engine: ``"core"`` or ``"ref"``; both give the same answer, bit for bit.
        software_factor: base costs of software are multiplied with it.
        redraw_secrets: run k's host draws its secrets from ``seed + k``: which hash a flow has is
            then a part of what the intervals show. Otherwise the host's own stay.
        progress: called with the share of the work that is done, 0 to 1.

    Raises:
        ConfigError: one line that says what is wrong.
        CoreNotBuilt: the core is asked for and not built.
    """
    check_engine(engine)
    if not isinstance(host, Host) or not isinstance(workload, (RequestResponse, OpenLoop)):
        given = f"{type(host).__name__} and {type(workload).__name__}"
        allowed = "a Host, and a RequestResponse or an OpenLoop"
        raise ConfigError("run", given, allowed, "run(host, RequestResponse(flows=1))")
    duration_ps = time_ps(duration, "run: duration", least=1)
    warmup_ps = time_ps(warmup, "run: warmup", least=0)
    _check_number("seed", seed, 0, 2**63)
    _check_number("seeds", seeds, 1, MAX_SEEDS)
    check_flag("run: redraw_secrets", redraw_secrets)
    check_callable("run: progress", progress)
    costs = machine_with(machine, software_factor)
    measured, first = [], None
    for place in range(seeds):
        own = seed + place
        home = host.replace(secrets=Secrets.from_seed(own)) if redraw_secrets else host
        plan = prepare(home, workload, machine=costs, seed=own, engine=engine)
        first = first or plan
        tell = part_of(progress, place, seeds)
        measured.append(measure(plan, engine, warmup_ps, duration_ps, tell))
    assert first is not None
    return RunResult(
        host=host,
        plan=first,
        machine=costs.name,
        engine=engine,
        software_factor=float(costs.software_factor),
        duration_ps=duration_ps,
        warmup_ps=warmup_ps,
        measured=tuple(measured),
    )


def prepare(
    host: Host, workload: Workload, *, machine: Machine, seed: int, engine: str = "core"
) -> RunPlan:
    """The plan of one run: flows are accepted where a steer takes them, then all is lowered.

    Raises:
        ConfigError: the workload and the host do not fit.
    """
    closed = isinstance(workload, RequestResponse)
    packets = request_packets(workload, seed) if closed else workload.packets  # type: ignore
    decisions = steer(host, packets, engine=engine)
    if not closed:
        kept = decisions.column("direction") != Direction.SENT
        if not kept.all():
            packets = received(packets, kept)
            decisions = steer(host, packets, engine=engine)
    host, served = accept(
        host,
        packets,
        decisions.column("socket"),
        decisions.column("app_cpu"),
        all_served=closed,
    )
    plan = lower_run(host, packets, machine=machine, workload=workload, seed=seed, served=served)
    return attrs.evolve(plan, base=with_inner(plan.base, engine))


def received(packets: Packets, kept: np.ndarray[Any, np.dtype[np.bool_]]) -> Packets:
    """The packets that arrive from outside; what the host sends is the run's own business.

    Raises:
        ConfigError: there is none.
    """
    if not kept.any():
        given = f"{len(packets)} packets, all sent by the host"
        raise ConfigError("workload: packets", given, "packets that the host receives")
    return packets.take(np.flatnonzero(kept))


def measure(
    plan: RunPlan, engine: str, warmup_ps: int, duration_ps: int, progress: Share | None = None
) -> Measured:
    """Run one plan and cut off the warm-up.

    Raises:
        ConfigError: there is not enough memory.
    """
    steering, timing = stage(engine, "steer"), stage(engine, "engine")
    try:
        work = timing.Run(plan, steering.arrive(plan.base))
    except MemoryError:
        given = "a host and a workload that need more memory than there is"
        allowed = "fewer flows, packets, queues and CPUs, or shorter rings"
        raise ConfigError("run", given, allowed) from None
    paced = Paced(work)
    paced.advance(warmup_ps)
    before = work.counters()
    work.take_samples()
    for part in range(1, SLICES + 1):
        paced.advance(warmup_ps + duration_ps * part // SLICES)
        if progress is not None:
            progress(part / SLICES)
    after = work.counters()
    samples = np.sort(work.take_samples())
    return Measured(
        seed=plan.seed,
        counters=window(before, after),
        whole=after["totals"],
        samples_ps=samples,
    )


class Paced:
    """Advances a run in pieces of a moment each: between two, Python sees a Ctrl-C."""

    def __init__(self, work: Any) -> None:
        self.work = work
        self.at_ps = 0
        self.piece_ps = FIRST_PIECE_PS

    def advance(self, until_ps: int) -> None:
        """Take every step before a time."""
        while True:
            self.at_ps = min(self.at_ps + self.piece_ps, until_ps)
            began = monotonic()
            self.work.advance(self.at_ps)
            if monotonic() - began < MOMENT_SECONDS:
                self.piece_ps = min(self.piece_ps * 2, MOST_PIECE_PS)
            else:
                self.piece_ps = max(self.piece_ps // 2, 1)
            if self.at_ps == until_ps:
                return


def machine_with(machine: str | Machine, software_factor: float) -> Machine:
    """The machine with its software base costs multiplied.

    Raises:
        ConfigError: no such machine; a factor that is not above 0.
    """
    if not isinstance(machine, (str, Machine)):
        given = type(machine).__name__
        raise ConfigError("run: machine", given, "the name of a machine, or one", '"xeon-2015"')
    costs = get_machine(machine)
    plain = checks.is_number(software_factor) and software_factor == 1
    return costs if plain else costs.scaled(software_factor)


def part_of(progress: Share | None, place: int, parts: int) -> Share | None:
    """Progress of one of several equal parts, number *place* from 0."""
    if progress is None:
        return None
    whole = progress
    return lambda share: whole((place + share) / parts)


def time_ps(text: object, where: str, *, least: int) -> int:
    """Picoseconds of a simulated time.

    Raises:
        ConfigError: no duration, less than *least* picoseconds, or more than an hour.
    """
    if not isinstance(text, str):
        raise ConfigError(where, checks.shown(text), "a duration", '"50ms"')
    picoseconds = parse_duration_ps(text, where)
    if not least <= picoseconds <= MAX_RUN_PS:
        allowed = "a time above 0, at most 1 hour" if least else "at most 1 hour"
        raise ConfigError(where, repr(text), allowed, '"50ms"')
    return picoseconds


def check_flag(where: str, value: object) -> None:
    """Refuse what is neither True nor False."""
    if not isinstance(value, bool):
        raise ConfigError(where, checks.shown(value), "True or False")


def check_callable(where: str, value: object) -> None:
    """Refuse what is neither None nor a function."""
    if value is not None and not callable(value):
        raise ConfigError(where, checks.shown(value), "a function, or None")


def _check_number(name: str, value: object, low: int, high: int) -> None:
    if not checks.is_int(value) or not low <= value <= high:  # type: ignore[operator]
        allowed = f"a whole number from {low} to {high}"
        raise ConfigError(f"run: {name}", checks.shown(value), allowed)
