"""Imports point one way: what a module may know of the others."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.source_tree import ROOT, cython_lines, list_files, name_of, read

# From the bottom up. A layer may import itself and what lies below; ref and _core are siblings.
LAYERS = (
    ("units", "errors", "kernels", "dtypes", "run_dtypes", "rules"),
    ("model",),
    ("result",),
    ("ref", "_core"),
    ("engines", "steering", "timing", "stages", "explain", "intake", "coalesce"),
    ("io",),
    ("ask",),
    ("replay",),
    ("verify",),
    (
        "cli",
        "progress",
        "scenario_report",
        "kernels_cli",
        "replay_cli",
        "verify_cli",
        "bench",
        "__main__",
        "",
    ),
)
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
SIBLINGS = {"ref": "_core", "_core": "ref"}


def part_of(module: str) -> str:
    """The part of emu that a dotted name lies in; "" for the package's own __init__."""
    names = module.split(".")
    return names[1] if len(names) > 1 else ""


def module_of(path: Path) -> str:
    """The dotted name of a source file."""
    names = list(path.relative_to(ROOT).with_suffix("").parts)
    return ".".join(names[:-1] if names[-1] == "__init__" else names)


def python_imports(path: Path, *, at_load: bool = False) -> list[str]:
    """Modules of emu that a file imports; ``at_load``: only those that the import itself runs."""
    tree = ast.parse(read(path))
    hidden: set[ast.AST] = set()
    for node in ast.walk(tree):
        lazy = isinstance(node, ast.FunctionDef)
        lazy = lazy or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        if lazy and at_load:
            hidden.update(ast.walk(node))
    found = []
    for node in ast.walk(tree):
        if node in hidden:
            continue
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{name_of(path)}:{node.lineno}: a relative import"
            found += resolve(node.module or "", [alias.name for alias in node.names])
    return [name for name in found if name.split(".")[0] == "emu"]


def resolve(module: str, names: list[str]) -> list[str]:
    """What ``from module import names`` imports: submodules where there are such."""
    folder = ROOT.joinpath(*module.split("."))
    found = []
    for name in names:
        files = [(folder / name).with_suffix(suffix) for suffix in (".py", ".pyx", ".pxd")]
        sub = any(file.exists() for file in files) or (folder / name / "__init__.py").exists()
        found.append(f"{module}.{name}" if sub and folder.is_dir() else module)
    return found


def cython_imports(path: Path) -> list[str]:
    """Modules of emu that a .pyx or .pxd file imports or cimports."""
    found = []
    for line in cython_lines(path):
        words = re.match(r"\s*from\s+([\w.]+)\s+c?import\s*\(?([\w\s,*]+)", line.text)
        if words:
            names = re.findall(r"\w+|\*", words[2])
            found += resolve(words[1], [name for name in names if name != "*"] or [""])
        plain = re.match(r"\s*c?import\s+([\w.]+)", line.text)
        if plain:
            found.append(plain[1])
    return [name for name in found if name.split(".")[0] == "emu"]


def imports_of(path: Path) -> list[str]:
    return python_imports(path) if path.suffix == ".py" else cython_imports(path)


def judge(importer: str, imported: str) -> str | None:
    """Why *importer* may not import *imported*; None when it may."""
    source, target = part_of(importer), part_of(imported)
    if SIBLINGS.get(source) == target:
        return f"{importer} imports {imported}: reference and core never import each other"
    if LEVEL[source] < LEVEL[target]:
        return f"{importer} imports {imported}, which lies above it"
    return None


def test_every_part_of_the_package_has_a_layer() -> None:
    parts = {part_of(module_of(path)) for path in list_files(".py", ".pyx", ".pxd", under="emu")}

    assert parts - set(LEVEL) == set()


@pytest.mark.parametrize("path", list_files(".py", ".pyx", ".pxd", under="emu"), ids=name_of)
def test_imports_point_down(path: Path) -> None:
    if part_of(module_of(path)) not in LEVEL:
        pytest.skip("has no layer, which another test reports")

    wrong = [judge(module_of(path), imported) for imported in imports_of(path)]

    assert not any(wrong), "\n".join(reason for reason in wrong if reason)


def test_no_import_waits_for_itself() -> None:
    """Modules that import one another while they load would depend on who comes first."""
    graph = {
        module_of(path): set(python_imports(path, at_load=True)) - {module_of(path)}
        for path in list_files(".py", under="emu")
    }
    while True:
        ready = {name for name, needs in graph.items() if not needs & graph.keys()}
        if not ready:
            break
        graph = {name: needs for name, needs in graph.items() if name not in ready}

    assert sorted(graph) == []


def test_the_core_includes_no_numpy_headers() -> None:
    """The build needs none, and a memoryview does."""
    found = [
        f"{name_of(path)}:{line.number}: {line.text}"
        for path in list_files(".pyx", ".pxd", under="emu")
        for line in cython_lines(path)
        if re.search(r"\bcimport\s+(numpy|cython\.operator)|from\s+numpy.*\bcimport", line.text)
        or re.search(r"\bcimport\s*\*", line.text)
    ]

    assert found == []


@pytest.mark.parametrize(
    ("importer", "imported"),
    [
        ("emu.model.nic", "emu.steering"),
        ("emu.ref.rss", "emu._core.rss"),
        ("emu._core.rss", "emu.ref.rss"),
        ("emu.steering", "emu.io.hosts"),
        ("emu.dtypes", "emu.model.nic"),
    ],
)
def test_the_judge_sees_a_wrong_direction(importer: str, imported: str) -> None:
    assert judge(importer, imported) is not None


def test_the_judge_allows_what_lies_below() -> None:
    assert judge("emu.io.hosts", "emu.model.nic") is None
    assert judge("emu.ref.steer", "emu.ref.rss") is None
