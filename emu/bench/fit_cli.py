"""``python -m emu calibrate``: the fitted numbers of a scenario, and how they were found."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from emu.ask.fit import Fit
from emu.ask.scenarios import fit_scenario, fitted_labels
from emu.bench.timed import timed_setting
from emu.cli import EngineOption, JsonOption, check_json, write_json
from emu.engines import check_engine
from emu.errors import ConfigError
from emu.io.scenarios import load_scenario
from emu.model import checks
from emu.progress import Progress
from emu.result.render import console

VERSION = 1


def calibrate(
    scenario: Annotated[Path, typer.Argument(metavar="SCENARIO.toml")],
    quick: Annotated[
        bool, typer.Option("--quick", help="A quarter of the time, 3 seeds at most.")
    ] = False,
    json_file: JsonOption = None,
    engine: EngineOption = "core",
) -> None:
    """Fit a scenario's before to what was published of it; print the fitted numbers."""
    check_engine(engine)
    check_json(json_file)
    told = load_scenario(scenario)
    labels = fitted_labels(told)
    if not labels:
        allowed = "a scenario that says what is fitted"
        raise ConfigError(f"{scenario}: calibrate", "nothing", allowed, "[calibrate]")
    setting = timed_setting(told, seed=0, quick=quick, engine=engine)
    with Progress(len(labels)) as progress:
        try:
            fits = fit_scenario(told, setting, begin=progress.step)
        except ConfigError as error:
            raise checks.relocate(error, f"{scenario}: {error.where}") from None
    if json_file != "-":
        for label, fit in fits.items():
            print_fit(label, fit)
    write_json(
        json_file,
        {
            "schema": "emu.calibrate",
            "version": VERSION,
            "scenario": str(scenario),
            "quick": quick,
            "engine": engine,
            "fits": {label: fit.to_json() for label, fit in fits.items()},
        },
    )


def print_fit(label: str, fit: Fit) -> None:
    """The fitted numbers, and every trial."""
    out = console()
    out.print(label, style="bold")
    for place, trial in enumerate(fit.trials, 1):
        out.print(
            f"  trial {place}: factor {trial.software_factor:.4f}, mean pause "
            f"{trial.pause_ps / 1e6:.2f}us: {trial.throughput:,.0f}/s at {trial.cpu:.2%} CPU, "
            f"off by {trial.error:.2%}"
        )
    out.print(f"  {fit.numbers()}; residual {fit.residual:.2%}")
    if fit.note:
        out.print(f"  {fit.note}")
