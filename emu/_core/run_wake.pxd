"""Wake-ups: which CPU a thread goes on, and what that costs its waker (docs/run.md, wake)."""
from emu._core.run_codes cimport AT_SCHED, COST_IPI_SEND, COST_WAKE, LATENCY_IPI
from emu._core.run_cost cimport pay
from emu._core.run_go cimport GO_WAKE, MODE_IDLE
from emu._core.run_queue cimport NEVER_PS, race_set
from emu._core.run_softirq cimport queue_thread
from emu._core.run_state cimport cpu_t, run_sock_t, run_t, thread_t
from emu._core.types cimport i32, i64, u32

cdef enum:
    SAME_LLC = 1           # place in run_dtypes.DISTANCES


cdef inline bint is_free(const run_t *r, i32 c) noexcept nogil:
    """Whether a CPU has no thread, running or waiting."""
    return r.cpus[c].current < 0 and r.cpus[c].run_queue.head < 0


cdef inline bint is_allowed(const run_t *r, const thread_t *thread, i32 c) noexcept nogil:
    cdef u32 k
    for k in range(thread.allow_len):
        if r.thread_cpus[thread.allow_off + k] == c:
            return True
    return False


cdef inline i32 find_near(const run_t *r, const thread_t *thread) noexcept nogil:
    """The first free allowed CPU of the same cache, upwards from where the thread was; -1 none."""
    cdef i32 count = <i32>r.cpu_count
    cdef i32 best = -1
    cdef i32 best_way = count
    cdef i32 way
    cdef i32 c
    cdef u32 k
    for k in range(thread.allow_len):
        c = r.thread_cpus[thread.allow_off + k]
        way = c - thread.cpu if c >= thread.cpu else c - thread.cpu + count
        if (
            way < best_way and r.distance[thread.cpu * count + c] <= SAME_LLC
            and is_free(r, c)
        ):
            best = c
            best_way = way
    return best


cdef inline i32 place_thread(
    const run_t *r, const cpu_t *me, const thread_t *thread
) noexcept nogil:
    """The CPU on which a woken thread goes on."""
    cdef i32 here = <i32>me.number
    cdef i32 near
    if thread.allow_len == 1:
        return r.thread_cpus[thread.allow_off]
    if is_free(r, thread.cpu):
        return thread.cpu
    if is_free(r, here) and is_allowed(r, thread, here):
        return here
    near = find_near(r, thread)
    return near if near >= 0 else thread.cpu


cdef inline void wake_thread(run_t *r, cpu_t *me, i32 number, i64 t) noexcept nogil:
    """try_to_wake_up of a thread that sleeps."""
    cdef thread_t *thread = &r.threads[number]
    cdef cpu_t *other
    pay(r, me, COST_WAKE, AT_SCHED)
    me.wakes += 1
    thread.asleep = 0
    thread.awoken = thread.event_loop
    thread.cpu = place_thread(r, me, thread)
    other = &r.cpus[thread.cpu]
    queue_thread(r, other, number)
    if other != me and other.mode == MODE_IDLE and r.cpu_race.times[thread.cpu] == NEVER_PS:
        pay(r, me, COST_IPI_SEND, AT_SCHED)
        me.ipis_sent += 1
        other.go = GO_WAKE
        race_set(&r.cpu_race, <u32>thread.cpu, t + r.latencies[LATENCY_IPI])


cdef inline void wake_reader(run_t *r, cpu_t *me, i32 number, i64 t) noexcept nogil:
    """A socket has something to read."""
    cdef run_sock_t *sock = &r.socks[number]
    cdef thread_t *thread
    cdef i32 sleeper
    if sock.pool:
        sleeper = sock.sleepers.head
        if sleeper >= 0:
            sock.sleepers.head = r.threads[sleeper].next
            if sock.sleepers.head < 0:
                sock.sleepers.tail = -1
            wake_thread(r, me, sleeper, t)
        return
    if sock.thread < 0 or sock.ready:
        return
    thread = &r.threads[sock.thread]
    sock.ready = 1
    sock.ready_next = -1
    if thread.ready.tail >= 0:
        r.socks[thread.ready.tail].ready_next = number
    else:
        thread.ready.head = number
    thread.ready.tail = number
    if thread.asleep:
        wake_thread(r, me, sock.thread, t)
