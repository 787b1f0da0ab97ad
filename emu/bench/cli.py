"""The command line of ``python -m emu.bench``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emu.ask.sensitivity import Sensitivity, sensitivity
from emu.bench import report, speed, timed_report
from emu.bench.experiments import EXPERIMENTS, Outcome, run_experiment
from emu.bench.shapes import SHAPED
from emu.bench.speed_engine import engine_steps, measure_engines
from emu.bench.timed import TIMED, Timed, load_timed, run_timed, sensitive_setting, timed_steps
from emu.cli import EngineOption, JsonOption, check_json, refuse_lost_options, run_app, write_json
from emu.engines import check_engine
from emu.errors import ConfigError
from emu.io.capture import read_capture
from emu.io.hosts import load_host
from emu.model import checks
from emu.progress import Progress
from emu.result.render import console
from emu.steering import steer as steer_door

SCHEMA_VERSION = 2  # of the main job
OTHER_VERSION = 1

app = typer.Typer(
    add_completion=False,
    help=(
        "Steer packets through modelled hosts and let the work take time: the four proposals, "
        "two published tables, a capture of yours, emu's own speed."
    ),
    pretty_exceptions_enable=False,
)

SeedOption = Annotated[int, typer.Option("--seed", help="Seed of traffic and secrets.", min=0)]


@app.callback(invoke_without_command=True)
def bench(
    context: typer.Context,
    json_file: JsonOption = None,
    seed: SeedOption = 0,
    engine: EngineOption = "core",
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of the traffic, a quarter of the time.")
    ] = False,
) -> None:
    """Run the proposals before and after: decisions, then time beside what was published.

    Then measure emu's own speed in both engines.
    """
    if context.invoked_subcommand is not None:
        refuse_lost_options(context)
        return
    check_engine(engine)
    check_json(json_file)
    steps = len(EXPERIMENTS) + sum(map(timed_steps, TIMED))
    steps += speed.steps() + engine_steps(TIMED, SHAPED)
    with Progress(steps) as progress:
        outcomes: list[Outcome] = []
        for experiment in EXPERIMENTS:
            progress.step(experiment.id)
            outcomes.append(run_experiment(experiment, seed=seed, quick=quick, engine=engine))
        timed: list[Timed] = [
            run_timed(name, seed=seed, quick=quick, engine=engine, progress=progress)
            for name in TIMED
        ]
        rows = speed.measure(seed=seed, quick=quick, progress=progress)
        engines = measure_engines(timed, SHAPED, quick=quick, progress=progress)
    given: dict[str, object] = {"seed": seed, "engine": engine, "quick": quick}
    result = report.bench_json(outcomes, timed, rows, engines, version=SCHEMA_VERSION, given=given)
    if json_file != "-":
        report.print_bench(outcomes, timed, rows, engines)
    write_json(json_file, result)


@app.command("sensitivity")
def sensitivity_command(
    experiment: Annotated[
        str | None, typer.Option("--experiment", help=f"One of {', '.join(TIMED)}; else all.")
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A quarter of the time: more chance in the numbers.")
    ] = False,
    json_file: JsonOption = None,
    seed: SeedOption = 0,
    engine: EngineOption = "core",
) -> None:
    """Change each cost by 30 %, fit before anew, predict after anew: what do the ratios hang on?"""
    check_engine(engine)
    check_json(json_file)
    if experiment is not None and experiment not in TIMED:
        where, fix = "--experiment", checks.nearest(experiment, TIMED)
        raise ConfigError(where, checks.shown(experiment), checks.listed(TIMED), fix)
    chosen = TIMED if experiment is None else (experiment,)
    scenarios = {name: load_timed(name) for name in chosen}
    answers: dict[str, list[Sensitivity]] = {}
    rows = len(scenarios[chosen[0]].cases[0].before.machine.names())
    with Progress(rows * sum(len(SHAPED[name]) for name in chosen)) as progress:
        for name, scenario in scenarios.items():
            setting = sensitive_setting(scenario, seed=seed, quick=quick, engine=engine)
            answers[name] = [
                sensitivity(scenario, case, setting, progress=progress.step)
                for case in scenario.cases
                if case.label in SHAPED[name]
            ]
    if json_file != "-":
        for name, list_of_one in answers.items():
            for answer in list_of_one:
                timed_report.print_sensitivity(console(), name, answer)
    given: dict[str, object] = {"seed": seed, "engine": engine, "quick": quick}
    result = report.sensitivity_json(answers, version=OTHER_VERSION, given=given)
    write_json(json_file, result)


@app.command()
def steer(
    pcap: Annotated[Path, typer.Option("--pcap", help="A pcap or pcapng file, gzipped or not.")],
    host: Annotated[
        Path | None,
        typer.Option("--host", help="A host in TOML; a 16-CPU example host when left out."),
    ] = None,
    json_file: JsonOption = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="Draw the host's secrets from this seed.", min=0)
    ] = None,
    engine: EngineOption = "core",
) -> None:
    """Steer a capture through a host: where each packet lands, per queue, CPU, node and socket."""
    check_engine(engine)
    check_json(json_file)
    machine = load_host(host) if host is not None else report.example_host()
    if seed is not None:
        machine = report.with_seed(machine, seed)
    packets = read_capture(pcap, engine=engine)
    if len(packets) == 0:
        raise ConfigError(str(pcap), "a capture without packets", "at least one packet")
    machine = report.with_interfaces(machine, packets, given=host is not None)
    decisions = steer_door(machine, packets, engine=engine)
    if json_file != "-":
        report.print_steer(decisions, packets, str(pcap))
    given: dict[str, object] = {
        "pcap": str(pcap),
        "host": str(host) if host else None,
        "seed": seed,
        "engine": engine,
    }
    result = report.steer_json(decisions, packets, version=OTHER_VERSION, given=given)
    write_json(json_file, result)


def main() -> None:
    """Run the command line: a user's mistake is one line and exit status 2."""
    run_app(app, "emu.bench")
