"""The interrupt model: which packets each NAPI poll takes, and when (docs/steer.md)."""
import numpy as np

from emu.errors import ConfigError

from emu._core.types cimport i32, i64, u8


def make_polls(queue, arrival_ps, rx_usecs_ps, rx_frames, *, weight=64, jiffy_ps=4 * 10**9):
    """Make the polls of every rx queue.

    Args:
        queue: int32[n], rx queue of the host per packet; -1 not received.
        arrival_ps: int64[n], >= 0; need not be in order.
        rx_usecs_ps: int64[queues], how long an interrupt is held back.
        rx_frames: int32[queues], waiting frames that fire it at once; 0 no such limit.
        weight: most packets of one poll.
        jiffy_ps: length of a jiffy; not used for the polls themselves.

    Returns:
        order int64[m], poll_queue int32[p], poll_first int64[p], poll_count int32[p], poll_time_ps int64[p].
    """
    check_input(queue, arrival_ps, rx_usecs_ps, rx_frames, weight)
    by_queue = sort_by_queue(queue, arrival_ps, len(rx_usecs_ps))
    cdef Py_ssize_t m = len(by_queue)
    cdef const i64[::1] packets = np.ascontiguousarray(by_queue, dtype=np.int64)
    cdef const i64[::1] times = np.ascontiguousarray(arrival_ps, dtype=np.int64)
    cdef const i32[::1] queues = np.ascontiguousarray(queue, dtype=np.int32)
    cdef const i64[::1] usecs = np.ascontiguousarray(rx_usecs_ps, dtype=np.int64)
    cdef const i32[::1] frames = np.ascontiguousarray(rx_frames, dtype=np.int32)
    cdef Py_ssize_t most = weight
    poll_queue = np.empty(m, dtype=np.int32)
    poll_first = np.empty(m, dtype=np.int64)
    poll_count = np.empty(m, dtype=np.int32)
    poll_time = np.empty(m, dtype=np.int64)
    cdef i32[::1] pq = poll_queue
    cdef i64[::1] pf = poll_first
    cdef i32[::1] pc = poll_count
    cdef i64[::1] pt = poll_time
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t end
    cdef Py_ssize_t k = 0
    cdef i32 q
    cdef i64 fires
    cdef Py_ssize_t full
    with nogil:
        while at < m:
            # The queue is idle; the packet at `at` finds it so.
            q = queues[packets[at]]
            fires = times[packets[at]] + usecs[q]
            full = at + frames[q] - 1
            if frames[q] > 0 and full < m and queues[packets[full]] == q and times[packets[full]] < fires:
                fires = times[packets[full]]
            end = at
            while end < m and queues[packets[end]] == q and times[packets[end]] <= fires:
                end += 1
            while at < end:
                pq[k] = q
                pf[k] = at
                pc[k] = <i32>(end - at if end - at < most else most)
                pt[k] = fires
                at += pc[k]
                k += 1
    polls = slice(0, k)
    # Each queue's polls are in order of time already: a stable sort merges these runs and keeps queues ascending.
    by_time = np.argsort(poll_time[polls], kind="stable")
    counts = poll_count[polls][by_time]
    firsts = poll_first[polls][by_time]
    new_first = np.zeros(k, dtype=np.int64)
    new_first[1:] = np.cumsum(counts, dtype=np.int64)[:-1] if k else 0
    return (
        gather(by_queue, firsts, counts, new_first),
        poll_queue[polls][by_time],
        new_first,
        counts,
        poll_time[polls][by_time],
    )


def gather(packets, firsts, counts, new_firsts):
    """The packets of each poll behind each other, in the polls' order: int64[m]."""
    out = np.empty(len(packets), dtype=np.int64)
    cdef const i64[::1] source = np.ascontiguousarray(packets, dtype=np.int64)
    cdef const i64[::1] first = firsts
    cdef const i32[::1] count = counts
    cdef const i64[::1] target = new_firsts
    cdef i64[::1] order = out
    cdef Py_ssize_t k
    cdef i32 j
    with nogil:
        for k in range(first.shape[0]):
            for j in range(count[k]):
                order[target[k] + j] = source[first[k] + j]
    return out


def sort_by_queue(queue, arrival_ps, queues):
    """Received packets queue by queue, in order of arrival within each: int64[m].

    A counting sort; packets of one instant keep the table's order.
    """
    arrivals = np.asarray(arrival_ps)
    in_order = bool((arrivals[1:] >= arrivals[:-1]).all())
    by_time = np.arange(len(arrivals)) if in_order else np.argsort(arrivals, kind="stable")
    cdef const i32[::1] number = np.ascontiguousarray(queue, dtype=np.int32)
    cdef const i64[::1] rows = np.ascontiguousarray(by_time, dtype=np.int64)
    counts = np.bincount(np.asarray(queue) + 1, minlength=queues + 1)
    starts = np.zeros(queues + 1, dtype=np.int64)
    starts[1:] = np.cumsum(counts[1:])
    cdef i64[::1] place = starts
    out = np.empty(len(arrivals) - int(counts[0]), dtype=np.int64)
    cdef i64[::1] sorted_rows = out
    cdef Py_ssize_t k
    cdef i64 row
    with nogil:
        for k in range(rows.shape[0]):
            row = rows[k]
            if number[row] >= 0:
                sorted_rows[place[number[row]]] = row
                place[number[row]] += 1
    return out


def check_input(queue, arrival_ps, rx_usecs_ps, rx_frames, weight):
    """Refuse columns that do not fit each other."""
    if len(queue) != len(arrival_ps) or len(rx_usecs_ps) != len(rx_frames):
        raise ConfigError("make_polls", "columns of different lengths", "one entry per packet, one per queue")
    if len(queue) and (int(np.max(queue)) >= len(rx_usecs_ps) or int(np.min(queue)) < -1):
        raise ConfigError("make_polls: queue", int(np.max(queue)), f"-1..{len(rx_usecs_ps) - 1}")
    if len(arrival_ps) and int(np.min(arrival_ps)) < 0:
        raise ConfigError("make_polls: arrival_ps", int(np.min(arrival_ps)), "0 or more")
    if weight < 1:
        raise ConfigError("make_polls: weight", weight, "1 or more")
