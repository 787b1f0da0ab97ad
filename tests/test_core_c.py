"""The C that Cython makes of the leaves: no Python object, no exception, no need of the GIL."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from tests.source_tree import CORE, ROOT, cython_functions

SOURCES = sorted(CORE.glob("*.pyx"))
DIRECTIVES: dict[str, object] = runpy.run_path(str(ROOT / "setup.py"))["DIRECTIVES"]

LEAF = re.compile(r"^static CYTHON_INLINE [^;{]*?\b__pyx_f_\w+\([^;{]*\) \{$", re.M)
PYTHON_API = re.compile(r"\b_?_?(?:Py[A-Z_]|Pyx_)\w*(?=\()")
LEAF_NAME = re.compile(r"__pyx_f_(\w+)\(")


def compile_to_c(source: Path, target: Path, directives: dict[str, object]) -> str:
    """Run Cython as setup.py would; answers what it printed."""
    set_ones = {name: value for name, value in directives.items() if value is not None}
    options = [f"--directive={name}={value}" for name, value in set_ones.items()]
    parts = source.relative_to(ROOT).with_suffix("").parts if CORE in source.parents else ()
    named = ["--module-name", ".".join(parts)] if parts else []
    command = [sys.executable, "-m", "cython", *options, *named, "-o", str(target), str(source)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    return done.stdout + done.stderr


def leaves_of(text: str) -> dict[str, str]:
    """The inlined functions of generated C: mangled name to body, without comments."""
    found = {}
    for head in LEAF.finditer(text):
        end = text.index("\n}", head.end())
        name = LEAF_NAME.search(head[0])
        assert name is not None
        found[name[1]] = re.sub(r"/\*.*?\*/", "", text[head.end() : end], flags=re.S)
    return found


def python_calls(text: str) -> list[str]:
    """``leaf: function`` for each call into Python that a leaf makes."""
    return [
        f"{name}: {call}"
        for name, body in leaves_of(text).items()
        for call in PYTHON_API.findall(body)
    ]


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: path.stem)
def test_leaves_never_touch_python(source: Path, tmp_path: Path) -> None:
    """Every leaf that a loop inlines is read as C, for ``cython -a`` shows no body of a .pxd."""
    target = tmp_path / f"{source.stem}.c"
    said = compile_to_c(source, target, DIRECTIVES)
    calls = python_calls(target.read_text(encoding="utf-8"))

    assert not re.search(r"performance hint:|warning:", said), said
    assert not calls, "\n".join(calls)


def test_all_leaves_are_read(tmp_path: Path) -> None:
    """A pattern that matched nothing would find nothing."""
    target = tmp_path / "rss.c"
    compile_to_c(CORE / "rss.pyx", target, DIRECTIVES)
    names = " ".join(leaves_of(target.read_text(encoding="utf-8")))

    missing = [f.name for f in cython_functions(CORE / "rss.pxd") if not_in(f.name, names)]
    assert missing == []


def not_in(name: str, mangled: str) -> bool:
    return re.search(rf"{name}\b", mangled) is None


LEAF_SOURCE = """
cdef inline int halve(int a, int b) noexcept nogil:
    return a // b

def call(int a, int b):
    return halve(a, b)
"""


@pytest.mark.parametrize("cdivision", [True, False])
def test_a_checked_division_is_seen(tmp_path: Path, cdivision: bool) -> None:
    """Python's own division compiles without the GIL, and takes it when the divisor is 0."""
    source = tmp_path / "leaf.pyx"
    source.write_text(LEAF_SOURCE)
    target = tmp_path / "leaf.c"
    compile_to_c(source, target, {**DIRECTIVES, "cdivision": cdivision})
    text = target.read_text(encoding="utf-8")

    assert len(leaves_of(text)) == 1
    assert bool(python_calls(text)) is not cdivision
