"""The process that asks the kernel: in namespaces of its own, it writes records to its output.

``python -m emu.verify.child PARENT SEED PART COUNT [PART COUNT ...]``
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

from emu.verify import cpumap, gro, netns, reuseport, rfs, rps, xps

PARTS: dict[str, Callable[[random.Random, int], Iterator[dict[str, Any]]]] = {
    "gro": gro.records,
    "rps": rps.records,
    "rfs": rfs.records,
    "xps": xps.records,
    "reuseport": reuseport.records,
    "cpumap": cpumap.records,
}


def say(**told: Any) -> None:
    """One line for the parent."""
    sys.stdout.write(json.dumps(told, separators=(",", ":")) + "\n")
    sys.stdout.flush()


def ask(name: str, count: int, seed: int) -> None:
    """All records of one part; what it lacks ends it with a reason."""
    say(begin=name)
    try:
        for record in PARTS[name](random.Random(f"{seed}/{name}"), count):
            say(part=name, record=record)
    except OSError as error:
        say(part=name, lacking=str(error) or type(error).__name__)


def main(words: list[str]) -> None:
    """Ask for each part in turn."""
    parent, seed, *asked = words
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends us
    try:
        netns.enter(int(parent))
    except OSError as error:
        say(lacking=f"no namespaces ({error})")
        return
    for name, count in zip(asked[::2], asked[1::2], strict=True):
        ask(name, int(count), int(seed))
    say(done=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
