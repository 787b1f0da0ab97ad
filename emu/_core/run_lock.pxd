"""Lists that records link themselves, and locks: first come, first served."""
from emu._core.run_go cimport GO_NOWHERE, MODE_BUSY, MODE_WAIT
from emu._core.run_queue cimport NEVER_PS, race_set
from emu._core.run_state cimport cpu_t, list_t, lock_t, run_t
from emu._core.types cimport i32, i64, u32


cdef inline void list_clear(list_t *list) noexcept nogil:
    list.head = list.tail = -1


cdef inline void lock_init(lock_t *lock, u32 kind) noexcept nogil:
    lock.owner = lock.head = lock.tail = -1
    lock.kind = kind


cdef inline u32 lock_ask(
    run_t *r, cpu_t *me, lock_t *lock, i64 t, u32 go
) noexcept nogil:
    """Go on with the lock: at once when it is free, else when it is given."""
    cdef i32 number = <i32>me.number
    if lock.owner < 0:
        lock.owner = number
        r.locks[3 * lock.kind] += 1
        return go
    me.lock_next = -1
    if lock.tail >= 0:
        r.cpus[lock.tail].lock_next = number
    else:
        lock.head = number
    lock.tail = number
    me.asked = t
    me.lock_kind = lock.kind
    me.waited = 1
    me.mode = MODE_WAIT
    me.go = go
    r.cpu_race.times[number] = NEVER_PS
    return GO_NOWHERE


cdef inline void lock_release(run_t *r, lock_t *lock, i64 t) noexcept nogil:
    """Give the lock to the first that waits; it goes on when its interrupts are over."""
    cdef i32 number = lock.head
    cdef cpu_t *other
    lock.owner = number
    if number < 0:
        return
    other = &r.cpus[number]
    lock.head = other.lock_next
    if lock.head < 0:
        lock.tail = -1
    other.mode = MODE_BUSY
    race_set(&r.cpu_race, <u32>number, t if t > other.irq_until else other.irq_until)


cdef inline void count_wait(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """A CPU that waited for a lock goes on."""
    cdef i64 *counts = &r.locks[3 * me.lock_kind]
    counts[0] += 1
    counts[1] += 1
    counts[2] += t - me.asked
    me.waited = 0
