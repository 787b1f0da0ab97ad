"""A psock's worker: on which CPU it runs (sockets.md 6.2, 6.3, 8.6)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from emu.errors import ConfigError
from emu.ref.record import SILENT, Recorder

NO_CPU = -1


class Psock:
    """One psock and the one work item it owns (SOCKMAP-10).

    Attributes:
        running_on: CPU that is in the worker, -1 none.
    """

    def __init__(self, target_cpu: int = NO_CPU) -> None:
        """An idle worker.

        Raises:
            ConfigError: *target_cpu* is neither a CPU nor -1 (SOCKMAP-23).
        """
        _check_cpu("psock: target_cpu", target_cpu, NO_CPU)
        self._target_cpu = target_cpu
        self._queued_on: int | None = None  # set exactly while the work is pending
        self.running_on = NO_CPU

    @property
    def target_cpu(self) -> int:
        """The named CPU, -1 none. A new one counts once the worker is idle (SOCKMAP-26)."""
        return self._target_cpu

    @target_cpu.setter
    def target_cpu(self, cpu: int) -> None:
        _check_cpu("psock: target_cpu", cpu, NO_CPU)
        self._target_cpu = cpu

    @property
    def pending(self) -> bool:
        """Whether it is scheduled and has not started."""
        return self._queued_on is not None

    def schedule(self, cpu_now: int, rec: Recorder = SILENT) -> int:
        """Schedule the worker from a CPU; answers the CPU that it will run on.

        Mirrors sk_psock's schedule sites with the affinity of seed 004 (SOCKMAP-24).

        Raises:
            ConfigError: *cpu_now* is no CPU.
        """
        _check_cpu("psock: cpu_now", cpu_now, 0)
        if self._queued_on is not None:
            rec.rule("SOCKMAP-11", True, queued_on=self._queued_on, named_now=cpu_now)
            return self._queued_on
        rec.rule("SOCKMAP-11", False)
        named = rec.rule("SOCKMAP-24", self._target_cpu != NO_CPU, target_cpu=self._target_cpu)
        wanted = self._target_cpu if named else cpu_now
        elsewhere = self.running_on not in (NO_CPU, wanted)
        if rec.rule("SOCKMAP-12", elsewhere, running_on=self.running_on, wanted=wanted):
            wanted = self.running_on
        self._queued_on = wanted
        return wanted

    def start(self) -> None:
        """The pending worker begins; from now on it can be scheduled again.

        Raises:
            ConfigError: it is not pending, or runs already.
        """
        if self._queued_on is None or self.running_on != NO_CPU:
            allowed = "a pending worker that does not run"
            raise ConfigError("psock: start", "no pending worker or a running one", allowed)
        self.running_on, self._queued_on = self._queued_on, None

    def done(self) -> None:
        """The running worker has drained its queue.

        Raises:
            ConfigError: it does not run.
        """
        if self.running_on == NO_CPU:
            raise ConfigError("psock: done", "a worker that does not run", "a running worker")
        self.running_on = NO_CPU

    def run(self) -> None:
        """The pending worker begins and drains its queue (SOCKMAP-14)."""
        self.start()
        self.done()


def _check_cpu(where: str, cpu: int, least: int) -> None:
    if not least <= cpu < 65536:
        raise ConfigError(where, cpu, f"{least}..65535")


def psock_cpus(
    target_cpu: NDArray[np.int32],
    psock: NDArray[np.uint32],
    cpu_now: NDArray[np.int32],
    burst: int,
    rec: Recorder = SILENT,
) -> NDArray[np.int32]:
    """CPUs of many schedules, in order; after each *burst* the pending workers run to their end.

    Args:
        target_cpu: int32[k], named CPU of each psock, -1 none.
        psock: uint32[n], which one is scheduled.
        cpu_now: int32[n], by whom.
        burst: >= 1.

    Returns:
        int32[n], where the worker will run.

    Raises:
        ConfigError: the columns do not fit each other, or a number is out of range.
    """
    named, which, now = (np.asarray(a).tolist() for a in (target_cpu, psock, cpu_now))
    if len(which) != len(now):
        raise ConfigError(
            "psock_cpus: cpu_now", f"{len(now)} rows", f"{len(which)} rows, as psock has"
        )
    if burst < 1:
        raise ConfigError("psock_cpus: burst", burst, "1 or more")
    if which and max(which) >= len(named):
        raise ConfigError("psock_cpus: psock", max(which), f"0..{len(named) - 1}")
    for values, least in ((named, NO_CPU), (now, 0)):
        if values and min(values) < least:
            raise ConfigError("psock_cpus: cpu", min(values), f"{least} or more")
    psocks = [Psock(cpu) for cpu in named]
    out = []
    for first in range(0, len(which), burst):
        chosen = which[first : first + burst]
        for number, cpu in zip(chosen, now[first : first + burst], strict=True):
            out.append(psocks[number].schedule(cpu, rec))
        for number in set(chosen):
            psocks[number].run()
    return np.array(out, dtype=np.int32)
