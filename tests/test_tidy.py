"""House style that no linter knows, as tests."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.source_tree import (
    CORE,
    REF,
    ROOT,
    TEXT,
    cython_functions,
    cython_lines,
    layer_files,
    list_files,
    name_of,
    python_functions,
    read,
)

LINE_LENGTH = 100
FUNCTION_LINES = 70
FILE_LINES = {".pxd": 400, ".pyx": 600, ".py": 600}

# A stage has one name on both sides; gro_tcp is a part of gro. Who has no twin says why.
ONLY_REF = {
    "bits": "flag bits without an enum's cost; the core has them in types.pxd",
    "packet": "a row view for Python; the core reads packets_t",
    "record": "the recorder that explain and the tests listen with; the core says nothing",
    "run_arrive": "frames from the wire; in the core with the interrupts they raise, in run_irq",
    "setup": "makes the reference's objects of a plan; the core overlays its arrays in steer",
}
ONLY_CORE = {
    "flow_table": "the hash table of connections, which is a dict in Python",
    "layout": "derives the C structs' dtypes for tests/test_layout.py",
    "host_memory": "what a steer's and a run's memory have in common",
    "octets": "unaligned loads, which bytes.from_bytes is in Python",
    "run_codes": "run_dtypes.py as C enums",
    "run_go": "a generator's place in its code, as numbers",
    "run_next": "what a generator's yield goes on with, as one switch",
    "run_poll": "polls, which the reference has in run_softirq",
    "run_queue": "the order of sources, which is a heap in the reference's engine",
    "run_records": "the structs of run_dtypes.py",
    "run_txq": "lists and records of transmit, which are deques and dataclasses in Python",
    "sk": "the lookup's socket struct; ref/lookup_sockets.py has the class",
    "siphash": "the rounds of flow_hash, in a file for themselves",
    "types": "number types and overlaid structs; Python has emu/dtypes.py",
}

# tests/<dir>/test_X.py is about a module X of emu. These are about the repository, or several.
FREE_TESTS = {
    "readme": "what README.md shows",
    "core_c": "the generated C",
    "hashkeys": "hash keys recorded elsewhere",
    "hostile": "what a user can get wrong",
    "layers": "imports",
    "layout": "dtypes and structs",
    "lint": "the linters",
    "package": "sdist and wheel",
    "rules": "the counting of rules",
    "teeth": "the tests themselves",
    "tidy": "this",
}

SOURCES = list_files(".py", ".pyi", ".pyx", ".pxd")
CYTHON = list_files(".pyx", ".pxd")
BELOW = layer_files()

# Spelled in halves, so that this file does not name what it forbids.
BANNED = (
    r"/wo" r"rk/|/ho" r"me/\w|/ro" r"ot/\w|\.\./sha" r"red",
    r"TO" r"DO|FIX" r"ME|X" r"XX\b",
    r"files\.pytho" r"nhosted|py" r"pi\.org|--index" r"-url",
)


@pytest.mark.parametrize("path", CYTHON, ids=name_of)
def test_lines_are_short(path: Path) -> None:
    """Ruff says it of Python."""
    long = [
        f"{name_of(path)}:{number}: {len(line)} characters"
        for number, line in enumerate(read(path).splitlines(), 1)
        if len(line) > LINE_LENGTH
    ]

    assert not long, "\n".join(long)


@pytest.mark.parametrize("path", list_files(*FILE_LINES), ids=name_of)
def test_files_and_functions_are_short(path: Path) -> None:
    functions = python_functions(path) if path.suffix == ".py" else cython_functions(path)
    long = [f for f in functions if f.lines > FUNCTION_LINES]
    lines = len(read(path).splitlines())

    assert not long, [f"{name_of(path)}:{f.number}: {f.name} has {f.lines} lines" for f in long]
    assert lines <= FILE_LINES[path.suffix], f"{name_of(path)} has {lines} lines"


@pytest.mark.parametrize("path", CYTHON, ids=name_of)
def test_cython_has_no_directives_includes_or_macros(path: Path) -> None:
    """Directives stand in setup.py: a header in one file does not reach what it inlines."""
    headers = re.findall(r"^#\s*(?:cython|distutils)\s*:.*", read(path), re.M)
    words = [
        f"{name_of(path)}:{line.number}: {line.text}"
        for line in cython_lines(path)
        if re.match(r"\s*(include|DEF|IF|ELIF)\b", line.text)
    ]

    assert not headers, "\n".join(headers)
    assert not words, "\n".join(words)


@pytest.mark.parametrize("path", list_files(".pxd"), ids=name_of)
def test_every_function_of_a_pxd_inlines(path: Path) -> None:
    """``cdef inline ... noexcept nogil`` and a body: a declaration is called through a pointer."""
    wrong = []
    for line in cython_lines(path):
        function = re.match(
            r"^(cdef|cpdef|def)\b(?!\s+(?:struct|enum|extern|union|class)).*\w\(", line.text
        )
        whole = re.match(r"^cdef inline .*\)\s*noexcept nogil:$", line.text)
        if function and not whole:
            wrong.append(f"{name_of(path)}:{line.number}: {line.text}")

    assert not wrong, "\n".join(wrong)


CODE_COMMENT = re.compile(
    r"^\s*#\s?\s*("
    r"(c?p?def|return|cimport|raise|assert|del|print)\b.*[()=\[\]].*(?<!\.)$|"
    r"(if|for|while|elif|with|else|try)\b.*:$|"
    r"\w[\w.\[\]]*\s*[-+*/|&^]?=\s*[\w\[({\"'][^ ]*$|"
    r"\w[\w.]*\([^)]*\)$"
    r")"
)


@pytest.mark.parametrize("path", CYTHON, ids=name_of)
def test_cython_has_no_commented_out_code(path: Path) -> None:
    """Version control remembers. (In Python ruff's ERA says the same.)"""
    found = [
        f"{name_of(path)}:{number}: {line.strip()}"
        for number, line in enumerate(read(path).splitlines(), 1)
        if CODE_COMMENT.match(line)
    ]

    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("line", "is_code"),
    [
        ("    # total += p.len[i]", True),
        ("# if count > 3:", True),
        ("    # gro_flush(g, skbs)", True),
        ("    # return hash & (mask + 1)", True),
        ("# The kernel rounds up here.", False),
        ("    # dtypes.Secret", False),
        ("# if the map is empty the hash is kept", False),
    ],
)
def test_the_commented_code_check_tells_code_from_words(line: str, is_code: bool) -> None:
    assert bool(CODE_COMMENT.match(line)) is is_code


IMPURE_MODULES = {
    "asyncio",
    "datetime",
    "glob",
    "io",
    "os",
    "pathlib",
    "random",
    "secrets",
    "shutil",
    "socket",
    "subprocess",
    "sys",
    "tempfile",
    "threading",
    "time",
    "uuid",
}
IMPURE_CALLS = re.compile(r"(?<![\w.])(open|input|print)\(|\bnp\.random\b|\bos\.environ\b|\brand\(")


def imported_modules(path: Path) -> set[str]:
    """Top-level names of the modules that a source imports."""
    if path.suffix != ".py":
        words = (
            re.match(r"\s*(?:from|c?import)\s+(\w+)", line.text) for line in cython_lines(path)
        )
        return {word[1] for word in words if word}
    found = set()
    for node in ast.walk(ast.parse(read(path))):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add((node.module or "").split(".")[0])
    return found


def called_names(path: Path) -> list[str]:
    """Calls and names of a source that reach outside the arguments."""
    if path.suffix != ".py":
        texts = [t for _, t in cython_lines(path) if not re.match(r"\s*c?p?def\b.*:$", t)]
    else:
        nodes = (node for node in ast.walk(ast.parse(read(path))) if isinstance(node, ast.Call))
        texts = [ast.unparse(node.func) + "(" for node in nodes]
    return [text for text in texts if IMPURE_CALLS.search(text)]


@pytest.mark.parametrize("path", BELOW, ids=name_of)
def test_below_the_doors_everything_is_an_argument(path: Path) -> None:
    """No clock, environment, file or random source: the same arguments give the same answer."""
    assert imported_modules(path) & IMPURE_MODULES == set()
    assert called_names(path) == []


def lonely_stages() -> tuple[set[str], set[str]]:
    """Names of the reference alone and of the core alone, parts of common stages left out."""
    ref = {path.stem for path in REF.glob("*.py")} - {"__init__"}
    core = {path.stem for suffix in ("pyx", "pxd") for path in CORE.glob(f"*.{suffix}")}

    def alone(names: set[str]) -> set[str]:
        return {name for name in names if not mirrors(name, ref & core)}

    return alone(ref - core), alone(core - ref)


def test_each_stage_has_one_name_on_both_sides() -> None:
    """A new name comes with its twin, or with its reason here; no reason outlives its file."""
    ref, core = lonely_stages()

    assert ref == set(ONLY_REF)
    assert core == set(ONLY_CORE)


def test_every_test_file_mirrors_a_module() -> None:
    modules = {path.stem for path in list_files(".py", ".pyx", ".pxd", under="emu")}
    packages = {path.parent.name for path in list_files(".py", under="emu")}
    subjects = modules | packages | set(FREE_TESTS)
    tests = [path for path in list_files(".py", under="tests") if path.stem.startswith("test_")]

    orphans = [name_of(path) for path in tests if not mirrors(path.stem[5:], subjects)]

    assert not orphans, "\n".join(orphans)


def mirrors(subject: str, known: set[str]) -> bool:
    """Whether a test's subject is a known name, or one with something more said behind it."""
    words = subject.split("_")
    return any("_".join(words[:count]) in known for count in range(1, len(words) + 1))


def test_every_door_of_the_core_has_a_test_file() -> None:
    stems = [path.stem for path in list_files(".py", under="tests")]
    doors = [path.stem for path in CORE.glob("*.pyx")]

    missing = [d for d in doors if not any(s.startswith(f"test_{d}") for s in stems)]

    assert not missing, "\n".join(missing)


@pytest.mark.parametrize("path", list_files(*TEXT), ids=name_of)
def test_nothing_speaks_of_one_machine_or_of_later(path: Path) -> None:
    found = [
        f"{name_of(path)}:{number}: {line.strip()}"
        for number, line in enumerate(read(path).splitlines(), 1)
        for pattern in BANNED
        if re.search(pattern, line) and path.name != "LICENSE"
    ]

    assert not found, "\n".join(found)


def test_the_checks_see_the_whole_tree() -> None:
    """A walk that found nothing would let everything pass."""
    names = {name_of(path) for path in SOURCES}

    assert {"setup.py", "emu/dtypes.py", "emu/_core/types.pxd", "tests/conftest.py"} <= names
    assert ROOT / "Makefile" in list_files(*TEXT)
    assert {part for path in BELOW for part in path.relative_to(ROOT).parts} >= {"ref", "_core"}
