"""Progress on standard error: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar

QUIET_SECONDS = 10  # without a terminal a long step says at most so often how far it is


class Progress:
    """Counts steps; says which one runs."""

    def __init__(self, steps: int) -> None:
        self.steps = steps
        self.done = -1
        self.name = ""
        self.said = 0.0
        self.console = Console(stderr=True)
        self.bar = Bar(
            TextColumn("{task.description:<24}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
        )
        self.task = self.bar.add_task("", total=steps)

    def __enter__(self) -> Progress:
        if self.console.is_terminal:
            self.bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.console.is_terminal:
            self.bar.stop()

    def step(self, name: str) -> None:
        """The step before is done; this one begins."""
        self.done += 1
        self.name = name
        self.said = time.monotonic()
        if self.console.is_terminal:
            self.bar.update(self.task, completed=self.done, description=name)
        else:
            print(f"[{self.done + 1}/{self.steps}] {name}", file=sys.stderr, flush=True)

    def part(self, share: float) -> None:
        """That much of the step that runs is done, 0 to 1."""
        if self.console.is_terminal:
            self.bar.update(self.task, completed=self.done + share)
        elif time.monotonic() - self.said > QUIET_SECONDS and share < 1:
            self.said = time.monotonic()
            print(f"[{self.done + 1}/{self.steps}] {self.name}: {share:.0%}", file=sys.stderr)
