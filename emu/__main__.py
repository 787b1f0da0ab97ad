"""``python -m emu``: run a scenario; print what things cost."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import attrs
import typer

from emu import scenario_report
from emu.ask.answer import Answer, answer_scenario, answer_steps
from emu.ask.scenarios import Setting
from emu.bench.fit_cli import calibrate
from emu.bench.timed import timed_setting
from emu.cli import EngineOption, JsonOption, check_json, run_app, write_json
from emu.engines import check_engine
from emu.errors import ConfigError
from emu.io.hosts import load_host
from emu.io.machines import load_machine
from emu.io.scenarios import Scenario, load_scenario
from emu.kernels_cli import kernels
from emu.model import checks
from emu.model.machines_toml import DEFAULT
from emu.progress import Progress
from emu.replay_cli import replay
from emu.result.costs_view import costs_json, print_costs
from emu.result.render import console
from emu.timing import MAX_SEEDS, prepare, time_ps
from emu.verify_cli import verify_command

app = typer.Typer(
    add_completion=False,
    help="Run a modelled host under load, before and after a change; print what things cost.",
    pretty_exceptions_enable=False,
)


@app.callback()
def emu() -> None:
    """Commands, each with its own --help."""


app.command()(calibrate)
app.command()(kernels)
app.command()(replay)
app.command("verify")(verify_command)


@app.command()
def run(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO.toml")],
    no_fit: Annotated[
        bool, typer.Option("--no-fit", help="Fit nothing: leave the scenario's calibrate out.")
    ] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A quarter of the time, 3 seeds at most.")
    ] = False,
    seeds: Annotated[
        int | None, typer.Option("--seeds", help="How many seeds.", min=1, max=MAX_SEEDS)
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", help="The first seed.", min=0, max=2**62)
    ] = None,
    duration: Annotated[
        str | None, typer.Option("--duration", help='Measured time, such as "50ms".')
    ] = None,
    details: Annotated[
        bool, typer.Option("--details", help="Every counter of every side too.")
    ] = False,
    json_file: JsonOption = None,
    engine: EngineOption = "core",
) -> None:
    """Run a scenario before and after its change, and print both (docs/scenario.md)."""
    check_engine(engine)
    check_json(json_file)
    told = load_scenario(scenario)
    setting = timed_setting(told, seed=0, quick=quick, engine=engine)
    setting = in_place(setting, seed=seed, seeds=seeds, duration=duration)
    check_sides(told, str(scenario), setting.seed, engine)
    answer = run_scenario(told, str(scenario), setting, fit=not no_fit)
    if json_file != "-":
        scenario_report.print_scenario(answer, details=details)
    given: dict[str, object] = {
        "scenario": str(scenario),
        "quick": quick,
        "engine": engine,
        "no_fit": no_fit,
    }
    write_json(json_file, scenario_report.scenario_json(answer, given=given))


@app.command()
def costs(
    host: Annotated[
        Path | None,
        typer.Argument(metavar="[HOST.toml]", help="Its CPUs are counted by distance."),
    ] = None,
    machine: Annotated[
        str, typer.Option("--machine", help="Name of a machine, or a TOML file.")
    ] = DEFAULT,
    json_file: JsonOption = None,
) -> None:
    """Print what everything costs, each figure with its source (docs/costs.md)."""
    check_json(json_file)
    chosen = load_machine(machine)
    home = None if host is None else load_host(host)
    if json_file != "-":
        print_costs(home, chosen, console())
    given = {"schema": "emu.costs", "version": 1, "host": None if host is None else str(host)}
    write_json(json_file, given | costs_json(home, chosen))


def in_place(
    setting: Setting, *, seed: int | None, seeds: int | None, duration: str | None
) -> Setting:
    """The setting with what the command line says in place of the scenario's.

    Raises:
        ConfigError: no duration, or one that is no time to measure.
    """
    if duration is not None:
        time_ps(duration, "--duration", least=1)
    return attrs.evolve(
        setting,
        seed=setting.seed if seed is None else seed,
        seeds=setting.seeds if seeds is None else seeds,
        duration=setting.duration if duration is None else duration,
    )


def names_of(scenario: Scenario) -> dict[int, str]:
    """What each different side is called, by its id."""
    names: dict[int, str] = {}
    for case in scenario.cases:
        for name, side in (("before", case.before), ("after", case.after)):
            names.setdefault(id(side), f"{case.label}, {name}")
    return names


def check_sides(scenario: Scenario, path: str, seed: int, engine: str) -> None:
    """Refuse what cannot run before anything does."""
    names = names_of(scenario)
    for side in scenario.sides():
        try:
            prepare(side.host, side.workload, machine=side.machine, seed=seed, engine=engine)
        except ConfigError as error:
            where = f"{path}: {names[id(side)]}: {error.where}"
            raise checks.relocate(error, where) from None


def run_scenario(scenario: Scenario, path: str, setting: Setting, *, fit: bool) -> Answer:
    """Fit, run every case, judge; progress on standard error."""
    with Progress(answer_steps(scenario, fit=fit)) as progress:
        try:
            return answer_scenario(
                scenario, setting, fit=fit, begin=progress.step, share=progress.part
            )
        except ConfigError as error:
            raise checks.relocate(error, f"{path}: {error.where}") from None


def main() -> None:
    """Run the command line: a user's mistake is one line and exit status 2."""
    run_app(app, "emu")


if __name__ == "__main__":
    main()
