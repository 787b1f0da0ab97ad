"""``python -m emu replay``: recorded decisions of live kernels, asked again from both engines."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from emu.cli import JsonOption, check_json, write_json
from emu.errors import ConfigError
from emu.kernels import get_kernel
from emu.progress import Progress
from emu.replay.report import print_report, report_json
from emu.replay.run import ENGINES, replay_files
from emu.result.render import console
from emu.rules import rule_names

OUTCOMES = {"true": True, "false": False}


def replay(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...")],
    engine: Annotated[str, typer.Option("--engine", help="core, ref, or both.")] = "both",
    kernel: Annotated[str, typer.Option("--kernel", help="Whose rules hold.")] = "6.18",
    assume: Annotated[
        list[str] | None,
        typer.Option("--assume", metavar="RULE=true|false", help="The reference answers so."),
    ] = None,
    only: Annotated[
        str, typer.Option("--only", help="Parts whose names begin so, such as gro/.")
    ] = "",
    limit: Annotated[
        int, typer.Option("--limit", help="Differences to look into per part.", min=0)
    ] = 5,
    json_file: JsonOption = None,
) -> int:
    """Replay recorded decisions of live kernels (docs/replay.md); status 1 if any differ."""
    check_json(json_file)
    engines = engines_of(engine)
    assumed = parse_assumed(assume or [])
    if assumed and "ref" not in engines:
        raise ConfigError("--assume", "with --engine core", "the reference", "--engine ref")
    for file in files:
        if not file.is_file():
            raise ConfigError(str(file), "no such file", "a file of recorded decisions")
    with Progress(len(files)) as progress:
        report = replay_files(
            files,
            engines=engines,
            kernel=get_kernel(kernel),
            assumed=assumed,
            only=only,
            most_findings=limit,
            begin=progress.step,
        )
    if json_file != "-":
        print_report(report, console())
    write_json(json_file, report_json(report))
    return int(report.differs)


def engines_of(engine: str) -> tuple[str, ...]:
    """One engine, or both."""
    if engine == "both":
        return ENGINES
    if engine not in ENGINES:
        raise ConfigError("--engine", repr(engine), "core, ref or both")
    return (engine,)


def parse_assumed(texts: list[str]) -> dict[str, bool]:
    """``GRO-26=false`` and the like."""
    out = {}
    known = rule_names()
    for text in texts:
        match = re.fullmatch(r"([^=]+)=(true|false)", text)
        if match is None:
            raise ConfigError("--assume", repr(text), "RULE=true or RULE=false", "GRO-26=false")
        if match[1] not in known:
            near = get_close_matches(match[1], known, n=1)
            raise ConfigError(
                "--assume", repr(match[1]), "a rule of docs/rules.md", near[0] if near else ""
            )
        out[match[1]] = OUTCOMES[match[2]]
    return out
