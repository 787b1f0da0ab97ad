"""Gives a sysctl of the whole machine back when the process that set it is gone, however it went.

``python -m emu.verify.guard FILE VALUE`` waits for the end of its standard input, then writes.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def borrowed(path: Path, value: str) -> Iterator[None]:
    """The sysctl has another value within; a process of its own gives it back, even after kill -9.

    Raises:
        OSError: it cannot be read or written.
    """
    old = path.read_text(encoding="ascii").strip()
    command = [sys.executable, "-m", "emu.verify.guard", str(path), old]
    with subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True) as keeper:
        try:
            path.write_text(value, encoding="ascii")
            yield
        finally:
            assert keeper.stdin is not None
            keeper.stdin.close()
            keeper.wait()


def main(path: str, value: str) -> None:
    """Wait until nobody holds the other end of the pipe."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    while sys.stdin.buffer.read(1 << 10):
        pass
    Path(path).write_text(value, encoding="ascii")


if __name__ == "__main__":
    main(*sys.argv[1:])
