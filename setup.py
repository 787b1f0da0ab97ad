"""The extension list and the one table of Cython directives.

Every ``emu/_core/*.pyx`` is one extension; the inlined leaves live in the ``.pxd`` of the same
name.

``EMU_BUILD`` picks the flavour: ``release`` (default), ``debug`` (bounds checks on), ``profile``
(leaves are symbols of their own, for ``perf``), ``sanitize`` (ASan and UBSan), ``quick`` (compiles
fast, runs slowly). ``EMU_ONLY=rss,gro`` builds just these, ``EMU_ONLY=none`` nothing. Another
flavour, flag or directive than last time rebuilds what it touches.
"""

import os
from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, setup

BUILD = os.environ.get("EMU_BUILD", "release")
CHECKED = BUILD in ("debug", "sanitize")

DIRECTIVES = {
    "language_level": 3,
    "cdivision": True,
    "boundscheck": CHECKED,
    "wraparound": False,
    "initializedcheck": CHECKED,
    "nonecheck": CHECKED,
    "infer_types": None,
    "embedsignature": True,
    "freethreading_compatible": True,
}

FLAGS = {
    "release": ["-O3"],
    "quick": ["-O0", "-g0"],
    "debug": ["-O1", "-g"],
    "profile": [
        "-O3",
        "-g",
        "-fno-omit-frame-pointer",
        "-DCYTHON_INLINE=__attribute__((noinline))",
    ],
    "sanitize": [
        "-O1",
        "-g",
        "-fno-omit-frame-pointer",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=undefined",
    ],
}

HERE = Path(__file__).parent


def note_flavour(stem: str) -> tuple[str, bool]:
    """Write what an extension is built with, if it changed: (the file, whether it did).

    Neither Cython nor setuptools sees that a flag or a directive changed; setuptools sees a newer
    file, and Cython is told to start over.
    """
    path = HERE / "build" / "flavour" / stem
    text = f"{BUILD} {FLAGS[BUILD]} {DIRECTIVES}\n"
    changed = not path.exists() or path.read_text() != text
    if changed:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return path.relative_to(HERE).as_posix(), changed


def list_extensions() -> list[Extension]:
    """One extension per ``.pyx``, C generated where it is missing or stale."""
    only = {name for name in os.environ.get("EMU_ONLY", "").split(",") if name}
    extensions = []
    force = False
    for path in sorted((HERE / "emu" / "_core").glob("*.pyx")):
        if only and path.stem not in only:
            continue
        flavour, changed = note_flavour(path.stem)
        force = force or changed
        extensions.append(
            Extension(
                f"emu._core.{path.stem}",
                [path.relative_to(HERE).as_posix()],
                depends=[flavour],
                extra_compile_args=[*FLAGS[BUILD], "-fno-strict-aliasing", "-Wno-unused-function"],
                extra_link_args=["-fsanitize=address,undefined"] if BUILD == "sanitize" else [],
            )
        )
    return cythonize(extensions, compiler_directives=DIRECTIVES, force=force, quiet=True)


if __name__ == "__main__":
    setup(ext_modules=list_extensions())
