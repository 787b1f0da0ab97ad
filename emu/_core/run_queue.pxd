"""The next step of each source, and which of them is the run's next (docs/run.md, Order).

Every source has one next step at most: those of CPUs, of NAPIs' interrupts and of IPIs are leaves
of three winner trees, those of a closed loop's flows wait in a heap.
"""
from libc.stdlib cimport calloc, free

from emu._core.run_state cimport coming_t, race_t, run_t
from emu._core.types cimport i64, u32

cdef extern from *:
    """
    #define EMU_NEVER_PS INT64_MAX

    /* Whether (time, flow) a is before b, none of them negative: one comparison, no branch. */
    static inline int emu_before(int64_t a_ps, int64_t a, int64_t b_ps, int64_t b) {
        return ((unsigned __int128)a_ps << 64 | (uint64_t)a)
             < ((unsigned __int128)b_ps << 64 | (uint64_t)b);
    }
    """
    const i64 NEVER_PS "EMU_NEVER_PS"
    bint emu_before(i64 a_ps, i64 a, i64 b_ps, i64 b) noexcept nogil


cdef inline int race_init(race_t *race, u32 sources) noexcept nogil:
    """No source has a step; -1 when memory ran out."""
    cdef u32 k
    race.leaves = 1
    while race.leaves < sources:
        race.leaves *= 2
    race.best = NEVER_PS
    race.nodes = <i64 *>calloc(2 * <size_t>race.leaves, sizeof(i64))
    race.winner = <u32 *>calloc(2 * <size_t>race.leaves, sizeof(u32))
    if race.nodes == NULL or race.winner == NULL:
        return -1
    race.times = race.nodes + race.leaves
    for k in range(race.leaves):
        race.winner[race.leaves + k] = k
    for k in range(2 * race.leaves):
        race.nodes[k] = NEVER_PS
    for k in range(race.leaves - 1, 0, -1):
        race.winner[k] = race.winner[2 * k]
    return 0


cdef inline void race_free(race_t *race) noexcept nogil:
    free(race.nodes)
    free(race.winner)
    race.nodes = NULL
    race.winner = NULL


cdef inline void race_settle(race_t *race, u32 source) noexcept nogil:
    """A source's time has changed: play its matches again. At one instant the lower one wins."""
    cdef i64 *nodes = race.nodes
    cdef u32 *winner = race.winner
    cdef u32 node = race.leaves + source
    cdef u32 here = source
    cdef i64 here_ps = nodes[node]
    cdef i64 there_ps
    cdef i64 beaten
    while node > 1:
        there_ps = nodes[node ^ 1]
        # An odd node's opponent has the lower sources: an equal time is enough for it. Masks, for
        # nobody can foresee who wins, and a branch would guess.
        beaten = -<i64>(there_ps - <i64>(node & 1) < here_ps)
        here ^= (here ^ winner[node ^ 1]) & <u32>beaten
        here_ps ^= (here_ps ^ there_ps) & beaten
        node >>= 1
        winner[node] = here
        nodes[node] = here_ps
    race.best = here_ps


cdef inline void race_set(race_t *race, u32 source, i64 time_ps) noexcept nogil:
    """The source's next step comes at a time; NEVER_PS: it has none."""
    race.times[source] = time_ps
    race_settle(race, source)


cdef inline bint race_leads(const race_t *race, u32 source) noexcept nogil:
    """Whether the source is the earliest, whatever its own nodes say."""
    cdef i64 here_ps = race.times[source]
    cdef u32 node = race.leaves + source
    while node > 1:
        if race.nodes[node ^ 1] - <i64>(node & 1) < here_ps:
            return False
        node >>= 1
    return True


cdef inline bint comes_before(const coming_t *a, const coming_t *b) noexcept nogil:
    return emu_before(a.time_ps, a.flow, b.time_ps, b.flow)


cdef inline void coming_push(run_t *r, i64 flow, i64 time_ps) noexcept nogil:
    """The flow's next step is an ARRIVE. A flow has one at most: there is room for all."""
    cdef coming_t *heap = r.coming
    cdef i64 at = r.coming_count
    cdef i64 above
    cdef coming_t one
    one.time_ps = time_ps
    one.flow = flow
    r.coming_count += 1
    while at > 0:
        above = (at - 1) >> 2
        if not comes_before(&one, &heap[above]):
            break
        heap[at] = heap[above]
        at = above
    heap[at] = one
    r.next_arrival = heap[0].time_ps


cdef inline i64 least_child(const coming_t *heap, i64 first) noexcept nogil:
    """Which of four neighbours comes first."""
    cdef i64 left = first + comes_before(&heap[first + 1], &heap[first])
    cdef i64 right = first + 2 + comes_before(&heap[first + 3], &heap[first + 2])
    return right if comes_before(&heap[right], &heap[left]) else left


cdef inline i64 coming_pop(run_t *r) noexcept nogil:
    """Take the flow that comes first; there is one."""
    cdef coming_t *heap = r.coming
    cdef i64 flow = heap[0].flow
    cdef i64 count = r.coming_count - 1
    cdef i64 at = 0
    cdef i64 below
    cdef coming_t one = heap[count]
    r.coming_count = count
    # Behind the last one come only entries that never come: four neighbours always stand there.
    heap[count].time_ps = NEVER_PS
    while 4 * at + 1 < count:
        below = least_child(heap, 4 * at + 1)
        if not comes_before(&heap[below], &one):
            break
        heap[at] = heap[below]
        at = below
    if count:
        heap[at] = one
    r.next_arrival = heap[0].time_ps
    return flow


cdef inline i64 arrival_pop(run_t *r) noexcept nogil:
    """The row that arrives now: the next flow's, or in an open loop the next in order."""
    cdef i64 row
    if r.workload.closed:
        return coming_pop(r)
    row = r.order[r.order_at]
    r.order_at += 1
    r.next_arrival = NEVER_PS
    if r.order_at < r.order_count:
        r.next_arrival = r.s.p.arrival_ps[r.order[r.order_at]]
    return row
