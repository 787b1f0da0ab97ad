"""What the command lines share: options, JSON that appears whole, a mistake in one line."""

from __future__ import annotations

import errno
import io
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer

from emu.errors import ConfigError, EmuError

# click's, which typer carries inside itself or imports, as its version has it.
USAGE_ERROR: Any = next(
    kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException"
)

JsonOption = Annotated[
    str | None,
    typer.Option(
        "--json", metavar="FILE", help="Write the result as JSON to FILE; - is standard output."
    ),
]
EngineOption = Annotated[str, typer.Option("--engine", help="core or ref (the slow reference).")]


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


def run_app(app: typer.Typer, name: str) -> None:
    """Run a command line as ``python -m name``: a user's mistake is one line and exit status 2."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a path that is no text is shown
    try:
        status = app(prog_name=f"python -m {name}", standalone_mode=False)
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
    except MemoryError:
        said = "error: memory: got more than there is; allowed: fewer flows, packets and queues"
        print(said, file=sys.stderr)
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
