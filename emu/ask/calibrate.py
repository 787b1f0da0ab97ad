"""Calibrate before, predict after: two numbers are fitted to what was published of *before*.

They are the factor on base costs of software and the clients' pause, nothing else.
"""

from __future__ import annotations

from emu.ask.fit import Fit
from emu.ask.roots import solve
from emu.ask.trials import Runs, Tell, Trying
from emu.errors import ConfigError
from emu.model import checks
from emu.model.costs import Machine
from emu.model.host import Host
from emu.model.published import Calibration
from emu.model.workloads import MAX_DURATION_PS, RequestResponse
from emu.timing import check_callable
from emu.units import PS_PER_SECOND

SATURATED = 0.995  # a busier host says nothing by its CPU use
TOLERANCE = 0.002
MOST_STEPS = 16


def calibrate(
    host: Host,
    workload: RequestResponse,
    *,
    machine: str | Machine = "xeon-2015",
    throughput: float | None = None,
    cpu: float | None = None,
    how: Calibration | None = None,
    seed: int = 1,
    seeds: int = 1,
    duration: str = "50ms",
    warmup: str = "10ms",
    engine: str = "core",
    redraw_secrets: bool = False,
    start: Fit | None = None,
    tolerance: float = TOLERANCE,
    most_steps: int = MOST_STEPS,
    progress: Tell | None = None,
) -> Fit:
    """Fit the factor on software base costs and the clients' pause to published figures.

    A host that is not busy all the time: the factor by its CPU use, the pause by its rate. A host
    that is: the factor by the rate, and the pause stays. The pause's fixed and drawn part keep
    their proportion. Every trial has the same seeds, so that the answer is the same each time.

    Args:
        host: as it was before the change.
        workload: its clients.
        machine: what things cost before the factor.
        throughput: published messages per second.
        cpu: published busy share, 0 to 1.
        how: which number is fitted to which figure; by default as above, from what is given.
        seed, seeds, duration, warmup, engine, redraw_secrets: of each trial, as of `emu.run`.
        start: a fit to begin with, of a similar host.
        tolerance: the largest relative error that is good enough.
        most_steps: trials at most.
        progress: called with a line about each trial.

    Raises:
        ConfigError: nothing to fit to; a figure out of range; a trial in which no message ended.
    """
    check_given(workload, throughput, cpu)
    check_options(how, start, tolerance, most_steps, progress)
    trying = Trying(
        host=host,
        workload=workload,
        how=how or default_calibration(throughput, cpu),
        throughput=throughput,
        cpu=cpu,
        runs=Runs(
            machine=machine,
            seed=seed,
            seeds=seeds,
            duration=duration,
            warmup=warmup,
            engine=engine,
            redraw_secrets=redraw_secrets,
        ),
        tell=progress or (lambda line: None),
    )
    check_targets(trying.how, throughput, cpu)
    found = solve(
        trying.errors,
        trying.first_guess(start),
        slopes=trying.slopes(),
        box=trying.box(),
        tolerance=tolerance,
        most_steps=most_steps,
    )
    return trying.answer(found)


def check_given(workload: object, throughput: float | None, cpu: float | None) -> None:
    """Refuse a workload without clients, and figures that no host has."""
    if not isinstance(workload, RequestResponse):
        given = type(workload).__name__
        raise ConfigError("calibrate: workload", given, "a RequestResponse: it has clients")
    for name, value, high in (("throughput", throughput, 1e12), ("cpu", cpu, 1.0)):
        if value is None:
            continue
        if not checks.is_number(value) or not 0 < value <= high:
            allowed = f"a number above 0, at most {high:g}"
            percent = name == "cpu" and checks.is_number(value) and 1 < value <= 100
            fix = f"{value / 100:g}" if percent else ""
            raise ConfigError(f"calibrate: {name}", checks.shown(value), allowed, fix)
    least = workload.flows * PS_PER_SECOND / MAX_DURATION_PS
    if throughput is not None and throughput < least:
        allowed = f"at least {least:g} a second: no client pauses for longer than an hour"
        raise ConfigError("calibrate: throughput", checks.shown(throughput), allowed)


def check_options(
    how: object, start: object, tolerance: object, most_steps: object, progress: object
) -> None:
    """Refuse what says how to calibrate and cannot."""
    check_callable("calibrate: progress", progress)
    for name, value, kind in (("how", how, Calibration), ("start", start, Fit)):
        if value is not None and not isinstance(value, kind):
            allowed = f"a {kind.__name__}, or None"
            raise ConfigError(f"calibrate: {name}", checks.shown(value), allowed)
    if not checks.is_number(tolerance) or tolerance < 0:  # type: ignore[operator]
        raise ConfigError("calibrate: tolerance", checks.shown(tolerance), "a number, 0 or more")
    if not checks.is_int(most_steps) or most_steps < 1:  # type: ignore[operator]
        allowed = "a whole number, 1 or more"
        raise ConfigError("calibrate: most_steps", checks.shown(most_steps), allowed)


def default_calibration(throughput: float | None, cpu: float | None) -> Calibration:
    """What the figures that are given can be used for.

    Raises:
        ConfigError: there is none.
    """
    if throughput is None and (cpu is None or cpu >= SATURATED):
        given = "nothing to fit to" if cpu is None else "a host that is busy all the time"
        raise ConfigError("calibrate", given, "throughput, or cpu below 1, or both")
    if throughput is None:
        return Calibration(software_factor="cpu")
    if cpu is None:
        return Calibration(turnaround="throughput")
    if cpu >= SATURATED:
        return Calibration(software_factor="throughput")
    return Calibration(software_factor="cpu", turnaround="throughput")


def check_targets(how: Calibration, throughput: float | None, cpu: float | None) -> None:
    """Refuse to fit to a figure that is not given."""
    known = {"throughput": throughput, "cpu": cpu}
    for metric in how.metrics:
        if known[metric] is None:
            raise ConfigError("calibrate", f"no {metric}", f"{metric}, which is to be fitted to")
