"""SO_REUSEPORT groups: who is in, and which member a packet goes to (SOCK-43..62).

Mirrors net/core/sock_reuseport.c.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from emu.dtypes import Prog, SockState
from emu.ref.jhash import reciprocal_scale
from emu.ref.lookup_sockets import Program, Query, Socket
from emu.ref.record import SILENT, Recorder

MAX_MEMBERS = 32768  # SOCK-52: the array doubles from 128 and its size is a 16-bit number


class Pick(NamedTuple):
    """A group's answer."""

    sock: Socket | None
    candidates: list[Socket]  # what the hash chose among: several, and the answer hangs on it
    walked: int  # members looked at


class Group:
    """Sockets that share an address and port."""

    def __init__(self) -> None:
        self.socks: list[Socket] = []
        self.program: Program | None = None
        self.has_conns = False

    def join(self, sk: Socket) -> bool:
        """Take a socket in, as the last; False when the group is full (SOCK-52)."""
        if len(self.socks) >= MAX_MEMBERS:
            return False
        self.socks.append(sk)
        sk.group = self
        return True

    def leave(self, sk: Socket, rec: Recorder = SILENT) -> None:
        """Let a socket go: the last one takes its place (SOCK-53)."""
        last = self.socks.pop()
        if rec.rule("SOCK-53", last is not sk):
            self.socks[self.socks.index(sk)] = last
        sk.group = None

    def select(
        self,
        query: Query,
        hash_value: int,
        *,
        cpu_aware: bool,
        boost: bool,
        masks: bool,
        rec: Recorder,
    ) -> Pick:
        """The member for a packet (reuseport_select_sock).

        Args:
            cpu_aware: SO_INCOMING_CPU counts (SOCK-45).
            boost: a CPU mask prefers, instead of rejecting.
            masks: CPU masks count at all (SOCK-29).
        """
        if (
            rec.rule("SOCK-58", self.program is not None and query.octet is not None)
            and self.program
        ):
            index = run_program(self.program, query)
            if rec.rule("SOCK-59", index < len(self.socks), index=index, members=len(self.socks)):
                return Pick(self.socks[index], [], 1)
        start = reciprocal_scale(hash_value, len(self.socks))
        return self.walk(start, query.cpu, cpu_aware=cpu_aware, boost=boost, masks=masks, rec=rec)

    def walk(
        self, start: int, cpu: int, *, cpu_aware: bool, boost: bool, masks: bool, rec: Recorder
    ) -> Pick:
        """The first fitting member from *start* round (SOCK-34, SOCK-44)."""
        masks = masks and any(sk.mask is not None for sk in self.socks)
        reject, looks_at_mask = masks and not boost, masks and boost
        round_trip = [*self.socks[start:], *self.socks[:start]]
        eligible = [
            sk
            for sk in round_trip
            if not sk.connected and not (reject and rec.rule("SOCK-34", excludes(sk, cpu), cpu=cpu))
        ]
        looks_at_cpu = rec.rule("SOCK-45", cpu_aware) and rec.rule(
            "SOCK-43", any(sk.incoming_cpu >= 0 for sk in self.socks)
        )
        wanted = [
            sk
            for sk in eligible
            if (looks_at_cpu and sk.incoming_cpu == cpu)
            or (looks_at_mask and sk.mask is not None and not excludes(sk, cpu))
        ]
        candidates = wanted or eligible
        if not candidates:
            return Pick(None, [], len(round_trip))
        chosen = candidates[0]
        if looks_at_cpu or looks_at_mask:
            found = rec.rule("SOCK-44", bool(wanted), cpu=cpu, start=start)
            walked = round_trip.index(chosen) + 1 if found else len(round_trip)
        else:
            walked = round_trip.index(chosen) + 1
        return Pick(chosen, candidates, walked)


def excludes(sk: Socket, cpu: int) -> bool:
    """Whether a socket's mask leaves a CPU out; no mask leaves none out (SOCK-25)."""
    return sk.mask is not None and not sk.mask >> cpu & 1


def run_program(program: Program, query: Query) -> int:
    """The 32-bit index that a classic BPF program returns (SOCK-59).

    A load beyond the packet's end ends a classic program with 0: the first member, not the
    hash's choice. Octets that a capture has cut off count as beyond it.
    """
    if program.kind == Prog.CPU:
        return query.cpu
    if program.kind == Prog.PAYLOAD:
        assert query.octet is not None
        return query.octet(program.value) or 0
    return program.value & 0xFFFFFFFF


def reuseport_select(
    hash: NDArray[np.uint32], cpu: NDArray[np.int32], incoming_cpu: NDArray[np.int32], *,
    established: NDArray[np.uint8] | None = None, cpu_aware: bool = True,
) -> NDArray[np.int32]:  # fmt: skip
    """Pick a member of one group for each packet by its hash (SOCK-44).

    Mirrors reuseport_select_sock_by_hash.

    Args:
        hash: ``uint32[n]``, the socket hash of each packet.
        cpu: ``int32[n]``, the CPU that processes it.
        incoming_cpu: ``int32[m]``, SO_INCOMING_CPU of the members in the group's order; -1 unset.
        established: ``uint8[m]``, members that are connected and skipped; None: nobody is.
        cpu_aware: False before 6.2, where SO_INCOMING_CPU had no effect in a group (SOCK-45).

    Returns:
        ``int32[n]``, the member's index; -1 for none.
    """
    group = Group()
    states = [0] * len(incoming_cpu) if established is None else established.tolist()
    for index, (value, connected) in enumerate(zip(incoming_cpu.tolist(), states, strict=True)):
        state = SockState.ESTABLISHED if connected else SockState.BOUND
        group.join(Socket(index, incoming_cpu=value, state=state))
    out = np.full(len(hash), -1, dtype=np.int32)
    if not group.socks:
        return out
    for row, (value, this_cpu) in enumerate(zip(hash.tolist(), cpu.tolist(), strict=True)):
        start = reciprocal_scale(value, len(group.socks))
        sock = group.walk(
            start, this_cpu, cpu_aware=cpu_aware, boost=False, masks=False, rec=SILENT
        ).sock
        if sock is not None:
            out[row] = sock.index
    return out
