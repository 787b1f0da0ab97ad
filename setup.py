"""The extension list and the one table of Cython directives.

Every ``emu/_core/*.pyx`` is one extension; the inlined leaves live in the ``.pxd`` of the same name.

``EMU_BUILD`` picks the flavour: ``release`` (default), ``debug`` (bounds checks on), ``profile`` (leaves are
symbols of their own, for ``perf``), ``sanitize`` (ASan and UBSan). ``EMU_ONLY=rss,gro`` builds just these.
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
    "debug": ["-O1", "-g"],
    "profile": ["-O3", "-g", "-fno-omit-frame-pointer", "-DCYTHON_INLINE=__attribute__((noinline))"],
    "sanitize": [
        "-O1",
        "-g",
        "-fno-omit-frame-pointer",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=undefined",
    ],
}

here = Path(__file__).parent
only = {name for name in os.environ.get("EMU_ONLY", "").split(",") if name}
extensions = [
    Extension(
        f"emu._core.{path.stem}",
        [path.relative_to(here).as_posix()],
        extra_compile_args=[*FLAGS[BUILD], "-fno-strict-aliasing", "-Wno-unused-function"],
        extra_link_args=["-fsanitize=address,undefined"] if BUILD == "sanitize" else [],
    )
    for path in sorted((here / "emu" / "_core").glob("*.pyx"))
    if not only or path.stem in only
]

setup(ext_modules=cythonize(extensions, compiler_directives=DIRECTIVES, nthreads=0, quiet=True))
