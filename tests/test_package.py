"""What leaves the repository: an sdist that builds from itself, and a wheel that runs anywhere."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.source_tree import ROOT, list_files, name_of, read

PARTS = ("emu", "setup.py", "pyproject.toml", "MANIFEST.in", "LICENSE", "README.md")

# Two extensions stand for all: rss is used below, layout draws in nearly every .pxd.
BUILT = {"layout", "rss"}


def call_backend(hook: str, folder: Path, target: Path) -> Path:
    """Run a hook of the build backend as an installer does, with what the environment has."""
    target.mkdir()
    code = f"import setuptools.build_meta as b; print(b.{hook}({str(target)!r}))"
    environment = {**os.environ, "EMU_BUILD": "quick", "EMU_ONLY": ",".join(BUILT)}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    return target / done.stdout.split()[-1]


@pytest.fixture(scope="module")
def sdist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The sdist, made from a clean copy of the sources."""
    base = tmp_path_factory.mktemp("sdist")
    junk = shutil.ignore_patterns("*.so", "*.c", "__pycache__")
    for part in PARTS:
        source, target = ROOT / part, base / "tree" / part
        if source.is_dir():
            shutil.copytree(source, target, ignore=junk)
        elif source.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    return call_backend("build_sdist", base / "tree", base / "out")


@pytest.fixture(scope="module")
def wheel(sdist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from nothing but the sdist."""
    base = tmp_path_factory.mktemp("wheel")
    with tarfile.open(sdist) as archive:
        # Python 3.11.4 learnt filters; before that there is nothing to choose.
        safe = {"filter": "data"} if hasattr(tarfile, "data_filter") else {}
        archive.extractall(base, **safe)
    (tree,) = base.iterdir()
    return call_backend("build_wheel", tree, base / "out")


def test_the_sdist_has_the_sources_only(sdist: Path) -> None:
    with tarfile.open(sdist) as archive:
        names = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    sources = {name_of(path) for path in list_files(".py", ".pyi", ".pyx", ".pxd", under="emu")}

    assert sources | {"LICENSE", "pyproject.toml", "setup.py", "emu/py.typed"} <= names
    assert [name for name in names if name.endswith((".c", ".so", ".pyc"))] == []


def test_the_wheel_has_what_it_needs_to_run(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    built = {name.split("/")[2].split(".")[0] for name in names if name.endswith(".so")}
    scenarios = {name_of(path) for path in list_files(".toml", under="emu/scenarios")}

    assert built == BUILT
    assert scenarios | {"emu/py.typed"} <= set(names)
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert [name for name in names if re.match(r"tests|bench/|tools", name)] == []


def test_the_wheel_runs_alone(wheel: Path, tmp_path: Path) -> None:
    """Unpacked somewhere else, it answers; and it is that copy that does, not the repository's."""
    zipfile.ZipFile(wheel).extractall(tmp_path / "site")
    code = (
        "import emu, numpy as np\n"
        "from emu.engines import stage\n"
        "data = np.zeros((1, 12), dtype=np.uint8)\n"
        "core, ref = (stage(e, 'rss').toeplitz(bytes(range(40)), data) for e in ('core', 'ref'))\n"
        "assert (core == ref).all()\n"
        "print(emu.__file__)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path / "site")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(tmp_path / "site")


def test_wheels_run_on_any_machine_of_their_kind() -> None:
    """A build for this machine's own processor would crash on an older one."""
    assert "-march" not in read(ROOT / "setup.py")
    assert "-mtune" not in read(ROOT / "setup.py")
