"""The interrupt model: which packets each NAPI poll takes, and when (docs/steer.md)."""
import numpy as np

from emu.model.inputs import interrupts

from emu._core.types cimport i32, i64


cdef Py_ssize_t poll_queues(
    const i64[::1] packets, const i32[::1] queues, const i64[::1] times, const i64[::1] usecs,
    const i32[::1] frames, Py_ssize_t most, i32[::1] poll_queue, i64[::1] poll_first,
    i32[::1] poll_count, i64[::1] poll_time
) noexcept nogil:
    """Polls of the packets, which lie queue by queue in order of arrival; answers how many."""
    cdef Py_ssize_t m = packets.shape[0]
    cdef Py_ssize_t at = 0
    cdef Py_ssize_t end
    cdef Py_ssize_t full
    cdef Py_ssize_t k = 0
    cdef i32 q
    cdef i64 fires
    while at < m:
        # The queue is idle; the packet at `at` finds it so.
        q = queues[packets[at]]
        fires = times[packets[at]] + usecs[q]
        full = at + frames[q] - 1
        if frames[q] > 0 and full < m and queues[packets[full]] == q:
            fires = min(fires, times[packets[full]])
        end = at
        while end < m and queues[packets[end]] == q and times[packets[end]] <= fires:
            end += 1
        while at < end:
            poll_queue[k] = q
            poll_first[k] = at
            poll_count[k] = <i32>min(end - at, most)
            poll_time[k] = fires
            at += poll_count[k]
            k += 1
    return k


def make_polls(
    queue, arrival_ps, rx_usecs_ps, rx_frames, *, weight=64, jiffy_ps=4 * 10**9
):
    """Make the polls of every rx queue.

    Args:
        queue: int32[n], rx queue of the host per packet; -1 not received.
        arrival_ps: int64[n], >= 0; need not be in order.
        rx_usecs_ps: int64[q], how long an interrupt is held back; 0 not at all.
        rx_frames: int32[q], waiting frames that fire it at once; 0 no such limit.
        weight: most packets of one poll.
        jiffy_ps: length of a jiffy; no poll depends on it.

    Returns:
        order int64[m], the received packets as the polls take them; and per poll, in order of time
        and queue, poll_queue int32[p], poll_first int64[p] (its place in order), poll_count
        int32[p], poll_time_ps int64[p].

    Raises:
        ConfigError: columns that do not fit each other, or a number out of range.
    """
    given = interrupts(queue, arrival_ps, rx_usecs_ps, rx_frames, weight, jiffy_ps)
    by_queue = sort_by_queue(given.queue, given.arrival_ps, len(given.rx_usecs_ps))
    cdef Py_ssize_t m = len(by_queue)
    poll_queue = np.empty(m, dtype=np.int32)
    poll_first = np.empty(m, dtype=np.int64)
    poll_count = np.empty(m, dtype=np.int32)
    poll_time = np.empty(m, dtype=np.int64)
    cdef Py_ssize_t k = poll_queues(
        by_queue, given.queue, given.arrival_ps, given.rx_usecs_ps, given.rx_frames, weight,
        poll_queue, poll_first, poll_count, poll_time,
    )
    # The polls of one queue are in order of time already: a stable sort merges the queues' runs
    # and leaves queues ascending at one instant.
    by_time = np.argsort(poll_time[:k], kind="stable")
    counts = poll_count[:k][by_time]
    new_first = np.cumsum(counts, dtype=np.int64) - counts
    return (
        gather(by_queue, poll_first[:k][by_time], counts, new_first),
        poll_queue[:k][by_time],
        new_first,
        counts,
        poll_time[:k][by_time],
    )


def gather(packets, firsts, counts, new_firsts):
    """The packets of each poll behind each other, in the polls' order: int64[m]."""
    out = np.empty(len(packets), dtype=np.int64)
    cdef const i64[::1] source = packets
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
    cdef const i32[::1] number = queue
    cdef const i64[::1] arrival = arrival_ps
    cdef Py_ssize_t n = number.shape[0]
    # Slot 0 counts the packets that no NIC received.
    counts = np.bincount(queue + 1, minlength=queues + 1)
    starts = np.cumsum(counts) - counts - int(counts[0])
    cdef i64[::1] place = np.ascontiguousarray(starts[1:], dtype=np.int64)
    out = np.empty(n - int(counts[0]), dtype=np.int64)
    cdef i64[::1] sorted_rows = out
    cdef const i64[::1] by_time
    cdef Py_ssize_t k
    cdef i64 row
    if in_order(arrival):
        with nogil:
            for k in range(n):
                if number[k] >= 0:
                    sorted_rows[place[number[k]]] = k
                    place[number[k]] += 1
        return out
    by_time = np.argsort(arrival_ps, kind="stable")
    with nogil:
        for k in range(n):
            row = by_time[k]
            if number[row] >= 0:
                sorted_rows[place[number[row]]] = row
                place[number[row]] += 1
    return out


cdef bint in_order(const i64[::1] times) noexcept nogil:
    """Whether no time goes back."""
    cdef Py_ssize_t k
    for k in range(1, times.shape[0]):
        if times[k] < times[k - 1]:
            return False
    return True
