"""The repository's own files, and just enough of Cython's grammar to hold them to rules."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
CORE = ROOT / "emu" / "_core"
REF = ROOT / "emu" / "ref"

# Where nobody wrote anything by hand; of hidden directories only .ci is ours.
GENERATED = {"build", "dist", "__pycache__"}
TEXT = {".py", ".pyi", ".pyx", ".pxd", ".md", ".toml", ".yml", ".sh", ".in", ""}

# Below the doors: no clock, no environment, no file, no random source.
BELOW_DOORS = ("units", "errors", "kernels", "dtypes", "model", "result", "ref", "_core")


@cache
def walk_files() -> tuple[Path, ...]:
    """Every hand-written file, by path."""
    found = []
    for folder, subfolders, files in os.walk(ROOT):
        subfolders[:] = [
            name
            for name in subfolders
            if name == ".ci"
            or not (name.startswith(".") or name in GENERATED or name.endswith(".egg-info"))
        ]
        found += [Path(folder, name) for name in files if not name.startswith(".")]
    return tuple(sorted(found))


def list_files(*suffixes: str, under: str = ".") -> list[Path]:
    """Hand-written files of these suffixes below a folder of the repository."""
    folder = ROOT / under
    return [p for p in walk_files() if p.suffix in suffixes and p.is_relative_to(folder)]


def name_of(path: Path) -> str:
    """The path as a message shows it."""
    return path.relative_to(ROOT).as_posix()


@cache
def read(path: Path) -> str:
    """The file's text."""
    return path.read_text(encoding="utf-8")


def layer_files() -> list[Path]:
    """The sources below the doors."""
    found = []
    for part in BELOW_DOORS:
        single = ROOT / "emu" / f"{part}.py"
        found += [single] if single.exists() else []
        found += list_files(".py", ".pyx", ".pxd", under=f"emu/{part}")
    return found


def strip_comment(line: str) -> str:
    """A Cython line without its comment and with its strings emptied."""
    bare = re.sub(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', '""', line)
    return bare.split("#", 1)[0].rstrip()


class Line(NamedTuple):
    """A logical line: what stands in brackets is joined to one."""

    number: int  # the first physical line's, from 1
    text: str  # with its indentation, without comments, strings emptied


@cache
def cython_lines(path: Path) -> tuple[Line, ...]:
    """The logical lines of a .pyx or .pxd file, docstrings left out."""
    return tuple(join_lines(read(path)))


def join_lines(text: str) -> Iterator[Line]:
    """Split Cython source into logical lines."""
    text = re.sub(
        r'(""".*?"""|\'\'\'.*?\'\'\')', lambda m: "\n" * m[0].count("\n"), text, flags=re.S
    )
    pending, first, depth = "", 0, 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = strip_comment(raw)
        if not line.strip() and not depth:
            continue
        pending, first = (f"{pending} {line.strip()}", first) if depth else (line, number)
        depth += sum(line.count(c) for c in "([{") - sum(line.count(c) for c in ")]}")
        if depth <= 0:
            yield Line(
                first, re.sub(r"\s*([()\[\]])\s*", r"\1", pending) if "(" in pending else pending
            )
            depth = 0


class Function(NamedTuple):
    """A function and how many physical lines it takes."""

    name: str
    number: int
    lines: int


def cython_functions(path: Path) -> list[Function]:
    """Functions of a .pyx or .pxd file: from the signature to the last line indented deeper."""
    physical = read(path).splitlines()
    found = []
    for line in cython_lines(path):
        head = re.match(r"^(\s*)(?:def|cdef|cpdef)\b(?!\s+class\b).*?(\w+)\(", line.text)
        if head is None or not line.text.endswith(":"):
            continue
        indent = len(physical[line.number - 1]) - len(physical[line.number - 1].lstrip())
        last = line.number
        for number in range(line.number + 1, len(physical) + 1):
            text = physical[number - 1]
            closing = text.lstrip().startswith(")")
            if text.strip() and len(text) - len(text.lstrip()) <= indent and not closing:
                break
            if text.strip():
                last = number
        found.append(Function(head[2], line.number, last - line.number + 1))
    return found


def python_functions(path: Path) -> list[Function]:
    """Functions of a .py file, decorators not counted."""
    return [
        Function(node.name, node.lineno, (node.end_lineno or node.lineno) - node.lineno + 1)
        for node in ast.walk(ast.parse(read(path)))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


class Block(NamedTuple):
    """A struct or enum of a .pxd file: its name ("" for an unnamed enum) and its body's lines."""

    kind: str
    name: str
    body: tuple[str, ...]


@cache
def cython_blocks(path: Path) -> tuple[Block, ...]:
    """Every ``cdef struct`` and ``cdef enum`` of a file."""
    blocks: list[Block] = []
    body: list[str] | None = None
    for line in cython_lines(path):
        head = re.match(r"^(?:cdef|ctypedef)\s+(?:packed\s+)?(struct|enum)\s*(\w*)\s*:$", line.text)
        if head:
            body = []
            blocks.append(Block(head[1], head[2], ()))
        elif not line.text.startswith(" "):
            body = None
        elif body is not None:
            body.append(line.text.strip())
            blocks[-1] = blocks[-1]._replace(body=tuple(body))
    return tuple(blocks)
