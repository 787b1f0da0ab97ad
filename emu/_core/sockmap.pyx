"""Psock workers: the doors of the stage."""
import numpy as np

from emu.errors import ConfigError

from emu._core.sockmap cimport (
    psock_done,
    psock_init,
    psock_run,
    psock_schedule,
    psock_start,
    psock_t,
)
from emu._core.types cimport i32, u32


cdef class Psock:
    """One psock's worker; the methods are those of `emu.ref.sockmap.Psock`."""

    cdef psock_t state

    def __init__(self, target_cpu=-1):
        check_cpu("psock: target_cpu", target_cpu, -1)
        psock_init(&self.state, target_cpu)

    @property
    def target_cpu(self):
        """The named CPU, -1 none. A new one counts once the worker is idle (SOCKMAP-26)."""
        return self.state.target_cpu

    @target_cpu.setter
    def target_cpu(self, cpu):
        check_cpu("psock: target_cpu", cpu, -1)
        self.state.target_cpu = cpu

    @property
    def pending(self):
        """Whether it is scheduled and has not started."""
        return bool(self.state.pending)

    @property
    def running_on(self):
        """CPU that is in the worker, -1 none."""
        return self.state.running_on

    def schedule(self, cpu_now):
        """Schedule the worker from a CPU; answers the CPU that it will run on."""
        check_cpu("psock: cpu_now", cpu_now, 0)
        return psock_schedule(&self.state, cpu_now)

    def start(self):
        """The pending worker begins."""
        if not self.state.pending or self.state.running_on >= 0:
            allowed = "a pending worker that does not run"
            raise ConfigError("psock: start", "no pending worker or a running one", allowed)
        psock_start(&self.state)

    def done(self):
        """The running worker has drained its queue."""
        if self.state.running_on < 0:
            raise ConfigError("psock: done", "a worker that does not run", "a running worker")
        psock_done(&self.state)

    def run(self):
        """The pending worker begins and drains its queue."""
        self.start()
        self.done()


def check_cpu(where, cpu, least):
    """Refuse what is no CPU number."""
    if not least <= cpu < 65536:
        raise ConfigError(where, cpu, f"{least}..65535")


def psock_cpus(target_cpu, psock, cpu_now, burst):
    """CPUs of many schedules, in order; after each *burst* the pending workers run to their end.

    Args:
        target_cpu: int32[k], named CPU of each psock, -1 none.
        psock: uint32[n], which one is scheduled.
        cpu_now: int32[n], by whom.
        burst: >= 1.

    Returns:
        int32[n], where the worker will run.
    """
    cdef const i32[::1] named = np.ascontiguousarray(target_cpu, dtype=np.int32)
    cdef const u32[::1] which = np.ascontiguousarray(psock, dtype=np.uint32)
    cdef const i32[::1] now = np.ascontiguousarray(cpu_now, dtype=np.int32)
    cdef Py_ssize_t n = which.shape[0]
    cdef Py_ssize_t count = named.shape[0]
    cdef Py_ssize_t every = burst
    if now.shape[0] != n:
        raise ConfigError("psock_cpus: cpu_now", f"{now.shape[0]} rows", f"{n} rows, as psock has")
    if every < 1:
        raise ConfigError("psock_cpus: burst", burst, "1 or more")
    if n and int(np.max(psock)) >= count:
        raise ConfigError("psock_cpus: psock", int(np.max(psock)), f"0..{count - 1}")
    for array, least in ((target_cpu, -1), (cpu_now, 0)):
        if len(array) and int(np.min(array)) < least:
            raise ConfigError("psock_cpus: cpu", int(np.min(array)), f"{least} or more")
    # One record of four 32-bit fields each; the scheduled ones of the burst at hand are listed.
    cdef i32[:, ::1] states = np.zeros((max(count, 1), sizeof(psock_t) // 4), dtype=np.int32)
    cdef psock_t *psocks = <psock_t *>&states[0, 0]
    cdef u32[::1] scheduled = np.empty(max(n, 1), dtype=np.uint32)
    out = np.empty(n, dtype=np.int32)
    cdef i32[::1] cpu = out
    cdef Py_ssize_t i
    cdef Py_ssize_t waiting = 0
    with nogil:
        for i in range(count):
            psock_init(&psocks[i], named[i])
        for i in range(n):
            if not psocks[which[i]].pending:
                scheduled[waiting] = which[i]
                waiting += 1
            cpu[i] = psock_schedule(&psocks[which[i]], now[i])
            if (i + 1) % every == 0:
                while waiting:
                    waiting -= 1
                    psock_run(&psocks[scheduled[waiting]])
    return out
