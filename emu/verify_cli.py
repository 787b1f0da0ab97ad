"""``python -m emu verify``: decisions of the running kernel, taken now and compared."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from emu.cli import JsonOption, check_json, write_json
from emu.errors import ConfigError
from emu.progress import Progress
from emu.replay.report import print_report, report_json
from emu.replay_cli import engines_of, parse_assumed
from emu.result.render import console
from emu.verify.run import CannotVerify, Verified, counts_of, verify, write_recording

CANNOT = 77  # as test suites say that they were skipped


def verify_command(
    cases: Annotated[int, typer.Option("--cases", help="Records in all.", min=1)] = 2000,
    seed: Annotated[int, typer.Option("--seed", help="Of the random cases.", min=0)] = 1,
    only: Annotated[str, typer.Option("--only", metavar="PARTS", help="Such as gro,rps,xps.")] = "",
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="FILE", help="Keep what the kernel said, for replay."),
    ] = None,
    engine: Annotated[str, typer.Option("--engine", help="core, ref, or both.")] = "both",
    kernel: Annotated[str, typer.Option("--kernel", help="Whose rules hold.")] = "6.18",
    assume: Annotated[
        list[str] | None,
        typer.Option("--assume", metavar="RULE=true|false", help="The reference answers so."),
    ] = None,
    machine_wide: Annotated[
        bool,
        typer.Option(
            "--machine-wide",
            help="RFS too: its table is the whole machine's, and is given back.",
        ),
    ] = False,
    json_file: JsonOption = None,
) -> int:
    """Compare both engines with the running kernel, as root (docs/verify.md)."""
    check_json(json_file)
    engines = engines_of(engine)
    assumed = parse_assumed(assume or [])
    parts = [name for name in only.split(",") if name]
    counts = counts_of(cases, parts)
    if record is not None and not record.parent.is_dir():
        raise ConfigError("--record", repr(str(record)), "a file in a folder that exists")
    try:
        with Progress(len(counts)) as progress:
            found = verify(
                cases=cases,
                seed=seed,
                only=parts,
                engines=engines,
                kernel=kernel,
                assumed=assumed,
                machine_wide=machine_wide,
                begin=progress.step,
                share=progress.part,
            )
    except CannotVerify as error:
        print(f"cannot verify here: {error}", file=sys.stderr)
        return CANNOT
    if record is not None:
        write_recording(record, found.records)
    if json_file != "-":
        print_report(found.report, console())
        for name, reason in found.lacking.items():
            console().print(f"{name} did not run: {reason}", markup=False)
    write_json(json_file, verified_json(found, cases=cases, seed=seed))
    if not found.ran:
        return CANNOT
    return int(found.report.differs)


def verified_json(found: Verified, **given: Any) -> dict[str, Any]:
    """The replay's JSON, with what was asked and what could not run."""
    return {**report_json(found.report), "schema": "emu.verify", "given": given,
            "lacking": found.lacking}  # fmt: skip
