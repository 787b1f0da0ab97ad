"""The command line of ``python -m emu.bench``."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from emu.bench import report, speed
from emu.bench.experiments import EXPERIMENTS, Outcome, run_experiment
from emu.bench.progress import Progress
from emu.engines import check_engine
from emu.errors import ConfigError, EmuError
from emu.io.capture import read_capture
from emu.io.hosts import load_host
from emu.run import steer as steer_door

SCHEMA_VERSION = 1
# click's, which typer carries inside itself or imports, as its version has it.
USAGE_ERROR: Any = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)

app = typer.Typer(
    add_completion=False,
    help=(
        "Steer packets through modelled hosts: the four proposals, a capture of yours, "
        "emu's own speed."
    ),
    pretty_exceptions_enable=False,
)

JsonOption = Annotated[
    str | None,
    typer.Option(
        "--json", metavar="FILE", help="Write the result as JSON to FILE; - is standard output."
    ),
]
SeedOption = Annotated[int, typer.Option("--seed", help="Seed of traffic and secrets.", min=0)]
EngineOption = Annotated[str, typer.Option("--engine", help="core or ref (the slow reference).")]


@app.callback(invoke_without_command=True)
def bench(
    context: typer.Context,
    json_file: JsonOption = None,
    seed: SeedOption = 0,
    engine: EngineOption = "core",
    quick: Annotated[bool, typer.Option("--quick", help="A tenth of the traffic.")] = False,
) -> None:
    """Run the four experiments before and after, then measure emu's own speed in both engines."""
    if context.invoked_subcommand is not None:
        refuse_lost_options(context)
        return
    check_engine(engine)
    check_json(json_file)
    with Progress(len(EXPERIMENTS) + speed.steps()) as progress:
        outcomes: list[Outcome] = []
        for experiment in EXPERIMENTS:
            progress.step(experiment.id)
            outcomes.append(run_experiment(experiment, seed=seed, quick=quick, engine=engine))
        rows = speed.measure(seed=seed, quick=quick, progress=progress)
    result = report.bench_json(outcomes, rows, version=SCHEMA_VERSION, seed=seed, engine=engine)
    if json_file != "-":
        report.print_bench(outcomes, rows)
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
    result = report.steer_json(decisions, packets, version=SCHEMA_VERSION, given=given)
    write_json(json_file, result)


def refuse_lost_options(context: typer.Context) -> None:
    """Options in front of a subcommand belong to the main job: refuse them, do not drop them."""
    for name, value in context.params.items():
        if str(context.get_parameter_source(name)).endswith("COMMANDLINE"):
            option = "--json" if name == "json_file" else f"--{name}"
            command = context.invoked_subcommand
            allowed = f"behind the subcommand, where {command} has it"
            raise ConfigError(option, f"{value!r} in front of {command}", allowed)


def check_json(target: str | None) -> None:
    """Refuse a target that cannot be written before the work begins, not after it."""
    if target is None or target == "-":
        return
    folder = os.path.dirname(os.path.realpath(target))
    if not target or os.path.isdir(target) or not os.path.isdir(folder):
        allowed = "a file in a folder that exists"
        raise ConfigError("--json", repr(target), allowed, '"out.json"')


def write_json(target: str | None, result: dict[str, object]) -> None:
    """To standard output, or to a file that appears whole or not at all."""
    if target is None:
        return
    text = json.dumps(result, indent=2) + "\n"
    if target == "-":
        if sys.stdout is None:
            raise ConfigError("--json", "- with standard output closed", "an open standard output")
        sys.stdout.write(text)
        return
    path = Path(os.path.realpath(target))  # a symbolic link stays one
    part = path.with_name(f"{path.name[:200]}.{os.getpid()}.part") if path.name else path
    try:
        if not target or path.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if path.exists() and not path.is_file():  # a device or a pipe cannot be replaced
            path.write_text(text, encoding="utf-8")
            return
        try:
            part.write_text(text, encoding="utf-8")
            os.replace(part, path)
        except OSError:
            part.unlink(missing_ok=True)
            raise
    except (BrokenPipeError, ValueError, OSError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        allowed = f"a file that can be written ({reason})"
        raise ConfigError("--json", repr(target), allowed) from None


def main() -> None:
    """Run the command line: a user's mistake is one line and exit status 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path that is no text is shown
    try:
        status = app(prog_name="python -m emu.bench", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except USAGE_ERROR as error:
        message = " ".join(error.format_message().split())
        print(f"error: command line: {message}; try --help", file=sys.stderr)
        raise SystemExit(2) from None
    except typer.Abort:
        raise SystemExit(130) from None
    except EmuError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None
    except BrokenPipeError:
        # The reader of our output went away (a pager, head): nothing to say.
        silence(sys.stdout)
        raise SystemExit(1) from None
    except OSError as error:
        silence(sys.stdout)
        print(f"error: standard output: got {error.strerror}; allowed: room", file=sys.stderr)
        raise SystemExit(2) from None
    raise SystemExit(status if isinstance(status, int) else 0)


def silence(stream: TextIO) -> None:
    """What is still to be flushed goes nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
