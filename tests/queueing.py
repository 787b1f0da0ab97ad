"""What queueing theory says of small networks, and the same networks walked message by message.

Rates and times are in one unit each, whichever the caller has. A walk takes the very draws that an
engine takes, so that its mean is off from the theory's by the same luck: see `Station`.
"""

from __future__ import annotations

from collections import deque
from heapq import heapify, heappop, heappush
from math import comb, exp, factorial
from typing import Any

import numpy as np

from emu.model.draw import draws

FLOW, THREAD = 2 << 32, 3 << 32  # docs/run.md, "Order": numbers of streams


def mm1_time(arrivals: float, service: float) -> float:
    """Mean time in M/M/1: queue and service."""
    return service / (1 - arrivals * service)


def md1_time(arrivals: float, service: float) -> float:
    """Mean time in M/D/1 (Pollaczek-Khinchine)."""
    load = arrivals * service
    return service * (1 + load / (2 * (1 - load)))


def mmc_time(arrivals: float, service: float, servers: int) -> float:
    """Mean time in M/M/c (Erlang C)."""
    offered = arrivals * service
    load = offered / servers
    waits = offered**servers / factorial(servers) / (1 - load)
    waits /= sum(offered**k / factorial(k) for k in range(servers)) + waits
    return service * (1 + waits / (servers - offered))


def repairman_rate(clients: int, think: float, service: float, servers: int) -> float:
    """Throughput of M/M/c//N: N clients that think and are served, both exponential."""
    weights = [1.0]
    for k in range(1, clients + 1):
        weights.append(weights[-1] * (clients - k + 1) / think * service / min(k, servers))
    busy = sum(min(k, servers) * weight for k, weight in enumerate(weights)) / sum(weights)
    return busy / service


def lock_rate(cpus: int, think: float, hold: float) -> float:
    """Throughput of M/D/1//N: CPUs that think (exponential) and hold one lock for a fixed time.

    The chain of how many CPUs wait when the lock is given up, solved exactly.
    """
    arrives = 1 - exp(-hold / think)
    chain = np.zeros((cpus, cpus))
    for left in range(cpus):
        present = max(left, 1)  # with nobody left, the next to come holds it at once
        absent = cpus - present
        for more in range(absent + 1):
            odds = comb(absent, more) * arrives**more * (1 - arrives) ** (absent - more)
            chain[left, present - 1 + more] += odds
    balance = np.vstack([chain.T - np.eye(cpus), np.ones(cpus)])
    share = np.linalg.lstsq(balance, np.append(np.zeros(cpus), 1.0), rcond=None)[0]
    return 1 / (hold + share[0] * think / cpus)


def exponentials(seed: int, stream: int, mean: float, count: int, first: int = 0) -> Any:
    """float64[count]: the exponential numbers of a stream, from its *first*."""
    bits = draws(seed, stream, np.arange(first, first + count))
    return -np.log((bits.astype(np.float64) + 1) * 2.0**-64) * mean


class Station:
    """Servers in front of one queue, with the draws of a run's threads."""

    def __init__(self, seed: int, servers: int, service: float, messages: int, fixed: bool) -> None:
        self.idle = deque(range(servers))
        self.queue: deque[int] = deque()
        drawn = [exponentials(seed, THREAD | t, service, messages) for t in range(servers)]
        self.times = [iter([service] * messages if fixed else row.tolist()) for row in drawn]
        self.events: list[tuple[float, int, int, int]] = []  # time, 0 done or 1 arrives, whose
        self.began: dict[int, float] = {}

    def arrive(self, now: float, who: int) -> None:
        self.began[who] = now
        self.queue.append(who)
        if self.idle:
            self.serve(now, self.idle.popleft())

    def serve(self, now: float, server: int) -> None:
        heappush(self.events, (now + next(self.times[server]), 0, self.queue.popleft(), server))

    def done(self, now: float, who: int, server: int) -> float:
        """A message leaves; its time in the station."""
        if self.queue:
            self.serve(now, server)
        else:
            self.idle.append(server)
        return now - self.began.pop(who)


def walk_open(station: Station, arrivals: Any) -> list[float]:
    """The time of each message in the station, in the order in which they leave."""
    out = []
    for who, now in enumerate(arrivals.tolist()):
        while station.events and station.events[0][0] <= now:
            time, _, other, server = heappop(station.events)
            out.append(station.done(time, other, server))
        station.arrive(now, who)
    while station.events:
        time, _, other, server = heappop(station.events)
        out.append(station.done(time, other, server))
    return out


def walk_closed(
    station: Station, seed: int, starts: list[float], think: float, until: float
) -> list[float]:
    """When each message of a closed loop left, up to a time; each flow draws its own pauses."""
    room = max(64, int(4 * until / think))
    pauses = [
        iter(exponentials(seed, FLOW | flow, think, room, first=1).tolist())
        for flow in range(len(starts))
    ]
    for flow, start in enumerate(starts):
        heappush(station.events, (start, 1, flow, 0))
    out = []
    while station.events and station.events[0][0] < until:
        now, kind, flow, server = heappop(station.events)
        if kind:
            station.arrive(now, flow)
            continue
        station.done(now, flow, server)
        out.append(now)
        heappush(station.events, (now + next(pauses[flow]), 1, flow, 0))
    return out


def walk_lock(seed: int, cpus: int, think: float, hold: float, until: float) -> int:
    """How often a lock was got before a time: CPU t draws what it thinks as thread t does."""
    room = max(64, int(4 * until / think))
    thinks = [iter(exponentials(seed, THREAD | t, think, room).tolist()) for t in range(cpus)]
    asks = [(next(mine), cpu) for cpu, mine in enumerate(thinks)]
    heapify(asks)
    count, free = 0, 0.0
    while True:
        now, cpu = heappop(asks)
        begins = max(now, free)
        if begins >= until:
            return count
        count += 1
        free = begins + hold
        heappush(asks, (free + next(thinks[cpu]), cpu))
