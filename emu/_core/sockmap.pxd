"""A psock's worker: on which CPU it runs (sockets.md 6.2, 6.3, 8.6)."""
from emu._core.types cimport i32, u8

cdef struct psock_t:
    i32 target_cpu   # named CPU, -1 none (SOCKMAP-20)
    i32 queued_on    # CPU of the pending work; kept afterwards, but means nothing then
    i32 running_on   # CPU that is in the worker, -1 none
    u8 pending       # scheduled and not started


cdef inline void psock_init(psock_t *p, i32 target_cpu) noexcept nogil:
    """A psock whose worker is idle."""
    p.target_cpu = target_cpu
    p.queued_on = -1
    p.running_on = -1
    p.pending = 0


cdef inline i32 psock_schedule(psock_t *p, i32 cpu_now) noexcept nogil:
    """Schedule the worker from cpu_now; answers the CPU it will run on.

    While it is pending the first scheduler's choice stands (SOCKMAP-11). While it runs elsewhere it
    is queued there again, whatever CPU is named (SOCKMAP-12). Else the named CPU, or this one
    (SOCKMAP-10, SOCKMAP-24).
    """
    if p.pending:
        return p.queued_on
    p.pending = 1
    if p.running_on >= 0:
        p.queued_on = p.running_on
    elif p.target_cpu != -1:
        p.queued_on = p.target_cpu
    else:
        p.queued_on = cpu_now
    return p.queued_on


cdef inline void psock_start(psock_t *p) noexcept nogil:
    """The worker begins: it may be scheduled again from now on."""
    p.pending = 0
    p.running_on = p.queued_on


cdef inline void psock_done(psock_t *p) noexcept nogil:
    """The worker has drained its queue."""
    p.running_on = -1


cdef inline void psock_run(psock_t *p) noexcept nogil:
    """The worker runs to its end with nobody scheduling it meanwhile (SOCKMAP-14)."""
    psock_start(p)
    psock_done(p)
