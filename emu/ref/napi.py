"""The interrupt model, event by event: which packets each NAPI poll takes, and when (docs/steer.md)."""

from __future__ import annotations

import heapq
from collections import defaultdict, deque

import numpy as np
from numpy.typing import NDArray

from emu.errors import ConfigError
from emu.ref.record import SILENT, Recorder

Polls = tuple[
    NDArray[np.int64], NDArray[np.int32], NDArray[np.int64], NDArray[np.int32], NDArray[np.int64]
]
ARRIVAL, INTERRUPT = 0, 1


def make_polls(
    queue: NDArray[np.int32],
    arrival_ps: NDArray[np.int64],
    rx_usecs_ps: NDArray[np.int64],
    rx_frames: NDArray[np.int32],
    *,
    weight: int = 64,
    jiffy_ps: int = 4 * 10**9,
    rec: Recorder = SILENT,
) -> Polls:
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
    _check_input(queue, arrival_ps, rx_usecs_ps, rx_frames, weight)
    queues, times = np.asarray(queue).tolist(), np.asarray(arrival_ps).tolist()
    usecs, frames = np.asarray(rx_usecs_ps).tolist(), np.asarray(rx_frames).tolist()
    events = [(times[i], ARRIVAL, queues[i], i) for i in range(len(queues)) if queues[i] >= 0]
    events.sort(key=lambda event: event[0])
    waiting: dict[int, deque[int]] = defaultdict(deque)
    armed: dict[int, int] = {}
    taken: list[tuple[int, int, list[int]]] = []  # time, queue, packets
    pending = deque(events)
    timers: list[tuple[int, int]] = []  # time, queue
    while pending or timers:
        # At one instant every arrival comes before the interrupts: a poll takes what has arrived by then.
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


def _check_input(
    queue: NDArray[np.int32],
    arrival_ps: NDArray[np.int64],
    rx_usecs_ps: NDArray[np.int64],
    rx_frames: NDArray[np.int32],
    weight: int,
) -> None:
    if len(queue) != len(arrival_ps) or len(rx_usecs_ps) != len(rx_frames):
        allowed = "one entry per packet, one per queue"
        raise ConfigError("make_polls", "columns of different lengths", allowed)
    if len(queue) and (int(np.max(queue)) >= len(rx_usecs_ps) or int(np.min(queue)) < -1):
        raise ConfigError("make_polls: queue", int(np.max(queue)), f"-1..{len(rx_usecs_ps) - 1}")
    if len(arrival_ps) and int(np.min(arrival_ps)) < 0:
        raise ConfigError("make_polls: arrival_ps", int(np.min(arrival_ps)), "0 or more")
    if weight < 1:
        raise ConfigError("make_polls: weight", weight, "1 or more")
