"""What happens between packets: masks are written, sockets open and close, threads move."""

from __future__ import annotations

from enum import IntEnum

import attrs

from emu.model.masks import CpuSet


class OpKind(IntEnum):
    """Codes of the plan's ops."""

    XPS_CPUS = 0
    XPS_RXQS = 1
    RPS_CPUS = 2
    INCOMING_CPU = 3
    CPU_MASK = 4
    OPEN = 5
    CLOSE = 6
    THREADS = 7


@attrs.frozen(kw_only=True)
class Op:
    """Something that happens *at_ps* picoseconds into the input, before packets of that instant."""

    at_ps: int = attrs.field(validator=[attrs.validators.instance_of(int), attrs.validators.ge(0)])


@attrs.frozen(kw_only=True)
class WriteXpsCpus(Op):
    """``tx-<queue>/xps_cpus`` is written (XPS-10..19)."""

    nic: str
    queue: int
    mask: CpuSet


@attrs.frozen(kw_only=True)
class WriteXpsRxqs(Op):
    """``tx-<queue>/xps_rxqs`` is written; the mask's bits are rx queues."""

    nic: str
    queue: int
    mask: CpuSet


@attrs.frozen(kw_only=True)
class WriteRpsCpus(Op):
    """``rx-<queue>/rps_cpus`` is written."""

    nic: str
    queue: int
    mask: CpuSet


@attrs.frozen(kw_only=True)
class SetIncomingCpu(Op):
    """setsockopt(SO_INCOMING_CPU); -1 takes it back (SOCK-40..43)."""

    socket: str
    cpu: int


@attrs.frozen(kw_only=True)
class SetCpuMask(Op):
    """setsockopt(SO_INCOMING_CPU_MASK); None takes it back (SOCK-20..32)."""

    socket: str
    mask: CpuSet | None


@attrs.frozen(kw_only=True)
class OpenSocket(Op):
    """A socket of the host that was not open binds, listens or connects, as it is declared."""

    socket: str


@attrs.frozen(kw_only=True)
class CloseSocket(Op):
    """A socket closes: it leaves its group, whose last member takes its place (SOCK-53)."""

    socket: str


@attrs.frozen(kw_only=True)
class MoveThreads(Op):
    """The socket's application threads move to other CPUs."""

    socket: str
    threads: CpuSet
