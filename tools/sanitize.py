"""``make sanitize``: build the core with ASan and UBSan in a copy of the tree, and test it there.

The copy lives in build/sanitize and is brought up to date on every call, so that only what changed
is compiled again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COPY = ROOT / "build" / "sanitize"
PARTS = ("emu", "tests", "docs", "tools", "setup.py", "pyproject.toml", "LICENSE", "README.md")

# These judge sources, C text and packages: the sanitizers have nothing to see there.
STATIC_TESTS = ("core_c", "layers", "lint", "package", "rules", "tidy")


def copy_sources() -> None:
    """Bring the copy up to date: new and changed files in, vanished ones out, nothing compiled."""
    COPY.mkdir(parents=True, exist_ok=True)
    wanted = set()
    for part in PARTS:
        top = ROOT / part
        for source in [top] if top.is_file() else top.rglob("*"):
            if source.suffix in (".so", ".c", ".pyc") or not source.is_file():
                continue
            target = COPY / source.relative_to(ROOT)
            wanted.add(target)
            if target.exists() and target.stat().st_mtime == source.stat().st_mtime:
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, target)
    for part in ("emu", "tests"):
        for target in (COPY / part).rglob("*.p*"):
            if target.is_file() and target.suffix != ".pyc" and target not in wanted:
                target.unlink()


def find_runtime(name: str) -> str:
    """The sanitizer's library, which must be loaded before Python.

    Raises:
        SystemExit: the compiler has none.
    """
    compiler = os.environ.get("CC", "cc")
    done = subprocess.run(
        [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
    )
    path = Path(done.stdout.strip())
    if not path.is_absolute():
        raise SystemExit(f"sanitize: {compiler} has no {name}; install gcc's sanitizer libraries")
    return str(path.resolve())


def main() -> int:
    """Copy, build, test; answers pytest's exit code."""
    runtimes = [find_runtime("libasan.so"), find_runtime("libubsan.so")]
    copy_sources()
    build = [sys.executable, "setup.py", "--quiet", "build_ext", "--inplace", "--parallel", "2"]
    subprocess.run(build, cwd=COPY, env={**os.environ, "EMU_BUILD": "sanitize"}, check=True)
    environment = {
        **os.environ,
        "LD_PRELOAD": " ".join(runtimes),
        "ASAN_OPTIONS": "detect_leaks=0:abort_on_error=1",
        "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(COPY),
    }
    ignored = [f"--ignore=tests/test_{name}.py" for name in STATIC_TESTS]
    test = [sys.executable, "-m", "pytest", "-q", "-n", "2", *ignored, *sys.argv[1:]]
    return subprocess.run(test, cwd=COPY, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
