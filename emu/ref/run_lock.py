"""Locks: first come, first served."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from emu.ref.engine import Run
    from emu.ref.run_state import Cpu, Steps


class Counts:
    """How often locks of one kind were taken and waited for."""

    def __init__(self) -> None:
        self.acquired = 0
        self.contended = 0
        self.wait_ps = 0


class Lock:
    """A lock that passes from CPU to CPU in the order in which they asked."""

    def __init__(self, counts: Counts) -> None:
        self.counts = counts
        self.owner: Cpu | None = None
        self.waiters: deque[Cpu] = deque()

    def take(self, run: Run, cpu: Cpu) -> Steps:
        """Take it, at once or when it is this CPU's turn."""
        if self.owner is None:
            self.owner = cpu
        else:
            asked_ps = run.now
            self.waiters.append(cpu)
            run.wait(cpu)
            yield
            self.counts.contended += 1
            self.counts.wait_ps += run.now - asked_ps
        self.counts.acquired += 1

    def release(self, run: Run) -> None:
        """Give it back: it passes to the CPU that has waited longest."""
        self.owner = self.waiters.popleft() if self.waiters else None
        if self.owner is not None:
            run.go_on(self.owner)
