"""The interrupt model, event by event: what each NAPI poll takes, and when (docs/steer.md)."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque

import numpy as np
from numpy.typing import ArrayLike, NDArray

from emu.model.inputs import interrupts
from emu.ref.record import SILENT, Recorder

Polls = tuple[
    NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]
]
ARRIVAL, INTERRUPT = 0, 1


def make_polls(
    queue: ArrayLike,
    arrival_ps: ArrayLike,
    rx_usecs_ps: ArrayLike,
    rx_frames: ArrayLike,
    *,
    weight: int = 64,
    jiffy_ps: int = 4 * 10**9,
    rec: Recorder = SILENT,
) -> Polls:
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
    queues, times, usecs, frames = (column.tolist() for column in given)
    events = [(times[i], ARRIVAL, queues[i], i) for i in range(len(queues)) if queues[i] >= 0]
    events.sort(key=lambda event: event[0])
    waiting: dict[int, deque[int]] = defaultdict(deque)
    armed: dict[int, int] = {}
    taken: list[tuple[int, int, list[int]]] = []  # time, queue, packets
    pending = deque(events)
    timers: list[tuple[int, int]] = []  # time, queue
    while pending or timers:
        # Arrivals come before interrupts of the same instant: a poll takes what is there by then.
        if pending and (not timers or pending[0][0] <= timers[0][0]):
            now, _, number, packet = pending.popleft()
            waiting[number].append(packet)
            if number not in armed:
                armed[number] = now + usecs[number]
                heapq.heappush(timers, (armed[number], number))
            if rec.rule("N-rx-frames", 0 < frames[number] <= len(waiting[number])):
                armed[number] = min(armed[number], now)
                heapq.heappush(timers, (armed[number], number))
            continue
        now, number = heapq.heappop(timers)
        if armed.get(number) != now:
            continue  # the interrupt has fired earlier
        del armed[number]
        while waiting[number]:
            ready = [waiting[number].popleft() for _ in range(min(weight, len(waiting[number])))]
            rec.rule("N-7", len(ready) == weight)
            taken.append((now, number, ready))
    taken.sort(key=lambda poll: poll[:2])
    return _columns(taken)


def _columns(taken: list[tuple[int, int, list[int]]]) -> Polls:
    counts = [len(packets) for _, _, packets in taken]
    return (
        np.array([packet for _, _, packets in taken for packet in packets], dtype=np.int64),
        np.array([queue for _, queue, _ in taken], dtype=np.int32),
        np.array([0, *np.cumsum(counts)[:-1]] if counts else [], dtype=np.int64),
        np.array(counts, dtype=np.int32),
        np.array([time for time, _, _ in taken], dtype=np.int64),
    )
