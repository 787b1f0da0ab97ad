"""Lowering of a run's applications: which threads there are, where they run, what they serve."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from emu.dtypes import SockState
from emu.model.accept import Served
from emu.model.host import Host
from emu.model.plan import Array
from emu.model.sockets import RCVBUF_BYTES
from emu.model.workloads import Server
from emu.run_dtypes import RUN_SOCKET, RUN_THREAD

NOBODY = -1  # listener of what nobody accepted
ANYWHERE = -1  # CPU of a loop that its socket has one of


class Threads:
    """Threads while they are collected, and what each socket is served by."""

    def __init__(self, pinned: bool) -> None:
        self.pinned = pinned
        self.rows: list[tuple[int, int, int, int, tuple[int, int, int]]] = []
        self.cpus: list[int] = []
        self.of_sockets: list[int] = []
        self._allowed: dict[tuple[int, ...], int] = {}
        self._loops: dict[tuple[int, int], int] = {}
        self._served: dict[tuple[int, ...], int] = {}

    def add(self, cpu: int, allowed: tuple[int, ...], *, event_loop: bool) -> int:
        """A thread that starts on *cpu*; its number."""
        allowed = (cpu,) if self.pinned else allowed
        if allowed not in self._allowed:
            self._allowed[allowed] = len(self.cpus)
            self.cpus.extend(allowed)
        place = self._allowed[allowed]
        self.rows.append((cpu, place, len(allowed), int(event_loop), (0, 0, 0)))
        return len(self.rows) - 1

    def loop(self, process: int, cpu: int, allowed: tuple[int, ...]) -> int:
        """The event loop of a process that starts on that CPU, made when it is asked for first."""
        if (process, cpu) not in self._loops:
            self._loops[process, cpu] = self.add(cpu, allowed, event_loop=True)
        return self._loops[process, cpu]

    def only(self, socket: int, cpu: int, allowed: tuple[int, ...]) -> int:
        """The one event loop of a socket, which starts on that CPU."""
        if (socket, ANYWHERE) not in self._loops:
            self._loops[socket, ANYWHERE] = self.add(cpu, allowed, event_loop=True)
        return self._loops[socket, ANYWHERE]

    def serve(self, threads: Sequence[int]) -> tuple[int, int]:
        """Place and number of a socket's threads."""
        key = tuple(threads)
        if key not in self._served:
            self._served[key] = len(self.of_sockets)
            self.of_sockets.extend(key)
        return self._served[key], len(key)


def lower_threads(host: Host, server: Server, served: Served) -> dict[str, Array]:
    """The plan's ``threads``, ``thread_cpus``, ``sockets`` (chains left out), ``sock_threads``.

    A socket that is not open has no thread.
    """
    threads = Threads(server.threads_pinned)
    declared = len(host.sockets)
    rows = np.zeros(declared + len(served.listener), dtype=RUN_SOCKET)
    rows["rcvbuf_bytes"] = [socket.rcvbuf_bytes for socket in host.sockets] + [
        RCVBUF_BYTES if listener == NOBODY else host.sockets[listener].rcvbuf_bytes
        for listener in served.listener.tolist()
    ]
    serving = serve_sockets(host, server, served, threads)
    serving += serve_connections(host, server, served, threads)
    places = [threads.serve(numbers) for numbers in serving]
    if places:
        rows["thread_off"], rows["thread_len"] = np.array(places, dtype=np.uint32).T
    return {
        "threads": np.array(threads.rows, dtype=RUN_THREAD),
        "thread_cpus": np.array(threads.cpus, dtype=np.int32),
        "sockets": rows,
        "sock_threads": np.array(threads.of_sockets, dtype=np.int32),
    }


def serve_sockets(
    host: Host, server: Server, served: Served, threads: Threads
) -> list[tuple[int, ...]]:
    """The threads of each declared socket."""
    out: list[tuple[int, ...]] = []
    accepting = set(served.listener.tolist())
    commons = unaccepted_cpus(host, served)
    for index, socket in enumerate(host.sockets):
        cpus, loops = socket.threads.cpus, server.server_style == "event-loop"
        first = int(served.first_cpu[index])
        start = first if first in socket.threads else cpus[0]
        if socket.state == SockState.CLOSED:
            out.append(())
        elif server.server_style == "processes":
            out.append((threads.add(start, cpus, event_loop=False),))
        elif server.server_style == "threads":
            out.append((threads.only(index, start, cpus),))
        elif socket.state == SockState.ESTABLISHED:
            out.append((threads.loop(NOBODY, start, commons),))
        elif socket.state == SockState.LISTEN:
            every = tuple(threads.loop(index, cpu, cpus) for cpu in cpus)
            # Loops with connections serve exclusive sockets: the first of them accepts.
            out.append(every[:1] if index in accepting else every)
        else:
            out.append(tuple(threads.add(cpu, cpus, event_loop=loops) for cpu in cpus))
    return out


def serve_connections(
    host: Host, server: Server, served: Served, threads: Threads
) -> list[tuple[int, ...]]:
    """The thread of each of the host's connections."""
    if host.connections is None:
        return []
    out: list[tuple[int, ...]] = []
    commons = unaccepted_cpus(host, served)
    sets = [socket.threads.cpus for socket in host.sockets]
    starts: list[int] = host.connections["app_off"].tolist()
    states: list[int] = host.connections["state"].tolist()
    for cpu, listener, state in zip(starts, served.listener.tolist(), states, strict=True):
        if state == SockState.CLOSED:
            out.append(())
        elif server.server_style == "processes":
            allowed = (cpu,) if listener == NOBODY else sets[listener]
            out.append((threads.add(cpu, allowed, event_loop=False),))
        elif server.server_style == "threads" and listener != NOBODY:
            out.append((threads.only(listener, cpu, sets[listener]),))
        else:
            allowed = commons if listener == NOBODY else sets[listener]
            out.append((threads.loop(listener, cpu, allowed),))
    return out


def unaccepted_cpus(host: Host, served: Served) -> tuple[int, ...]:
    """CPUs of the one process that serves connected sockets which nobody accepted."""
    cpus = {
        cpu
        for socket in host.sockets
        if socket.state == SockState.ESTABLISHED
        for cpu in socket.threads.cpus
    }
    if host.connections is not None:
        cpus |= set(host.connections["app_off"][served.listener == NOBODY].tolist())
    return tuple(sorted(cpus))


def lower_chains(sockets: NDArray[np.void], rows: NDArray[np.void]) -> NDArray[np.int32]:
    """Fill ``chain_off`` and ``chain_len`` of RUN_SOCKET *rows*; the plan's ``chains``.

    A chain has the unconnected sockets of one protocol and local port.
    """
    waiting = (sockets["state"] == SockState.BOUND) | (sockets["state"] == SockState.LISTEN)
    members = np.flatnonzero(waiting)
    keys = sockets["proto"].astype(np.int64) << 16 | sockets["lport"]
    _, chain_of = np.unique(keys[members], return_inverse=True)
    lengths = np.bincount(chain_of)
    starts = np.cumsum(lengths) - lengths
    rows["chain_off"][members] = starts[chain_of]
    rows["chain_len"][members] = lengths[chain_of]
    return members[np.argsort(chain_of, kind="stable")].astype(np.int32)
