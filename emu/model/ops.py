"""What happens between packets: masks are written, sockets open and close, threads move."""

from __future__ import annotations

from enum import IntEnum

import attrs

from emu.model import checks
from emu.model.masks import CpuSet

CPU_SET = checks.instance_of(CpuSet, "a CPU set")


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
    ONLINE = 8
    TX_QUEUES = 9
    ROUTE = 11


@attrs.frozen(kw_only=True)
class Op:
    """Something that happens *at_ps* picoseconds into the input, before packets of that instant."""

    at_ps: int = attrs.field(validator=checks.integer(0, 2**63 - 1))


@attrs.frozen(kw_only=True)
class WriteXpsCpus(Op):
    """``tx-<queue>/xps_cpus`` is written (XPS-10..19)."""

    nic: str = attrs.field(validator=checks.text)
    queue: int = attrs.field(validator=checks.integer(0))
    mask: CpuSet = attrs.field(validator=CPU_SET)


@attrs.frozen(kw_only=True)
class WriteXpsRxqs(Op):
    """``tx-<queue>/xps_rxqs`` is written; the mask's bits are rx queues."""

    nic: str = attrs.field(validator=checks.text)
    queue: int = attrs.field(validator=checks.integer(0))
    mask: CpuSet = attrs.field(validator=CPU_SET)


@attrs.frozen(kw_only=True)
class WriteRpsCpus(Op):
    """``rx-<queue>/rps_cpus`` is written."""

    nic: str = attrs.field(validator=checks.text)
    queue: int = attrs.field(validator=checks.integer(0))
    mask: CpuSet = attrs.field(validator=CPU_SET)


@attrs.frozen(kw_only=True)
class SetIncomingCpu(Op):
    """setsockopt(SO_INCOMING_CPU); -1 takes it back (SOCK-40..43)."""

    socket: str = attrs.field(validator=checks.text)
    cpu: int = attrs.field(validator=checks.integer(-(2**31), 2**31 - 1))


@attrs.frozen(kw_only=True)
class SetCpuMask(Op):
    """setsockopt(SO_INCOMING_CPU_MASK); None takes it back (SOCK-20..32)."""

    socket: str = attrs.field(validator=checks.text)
    mask: CpuSet | None = attrs.field(validator=checks.optional(CPU_SET))


@attrs.frozen(kw_only=True)
class OpenSocket(Op):
    """A socket of the host that was not open binds, listens or connects, as it is declared."""

    socket: str = attrs.field(validator=checks.text)


@attrs.frozen(kw_only=True)
class BindSocket(Op):
    """A UDP socket that is declared with a peer is bound, and not connected to it yet.

    OpenSocket connects it later: it leaves its group, or stays there before hash4 (SOCK-56).
    """

    socket: str = attrs.field(validator=checks.text)


@attrs.frozen(kw_only=True)
class DisconnectSocket(Op):
    """connect(AF_UNSPEC) of a connected UDP socket: it receives from everyone again.

    With ``keeps_port = False`` the kernel had chosen its port: it gives it up, and is found by
    nobody until it opens again.
    """

    socket: str = attrs.field(validator=checks.text)
    keeps_port: bool = attrs.field(
        default=True, validator=checks.instance_of(bool, "true or false")
    )


@attrs.frozen(kw_only=True)
class CloseSocket(Op):
    """A socket closes: it leaves its group, whose last member takes its place (SOCK-53)."""

    socket: str = attrs.field(validator=checks.text)


@attrs.frozen(kw_only=True)
class MoveThreads(Op):
    """The socket's application threads move to other CPUs."""

    socket: str = attrs.field(validator=checks.text)
    threads: CpuSet = attrs.field(validator=CPU_SET)


@attrs.frozen(kw_only=True)
class SetOnline(Op):
    """``/sys/devices/system/cpu/cpu<cpu>/online`` is written.

    Maps of RPS and XPS stay as they were written; RPS takes no CPU that is offline, RFS moves its
    flows away (R-3.3.5, R-3.3.7), and masks that are written meanwhile leave it out (XPS-18).
    """

    cpu: int = attrs.field(validator=checks.integer(0))
    online: bool = attrs.field(validator=checks.instance_of(bool, "true or false"))


@attrs.frozen(kw_only=True)
class SetTxQueues(Op):
    """``ethtool -L <nic> tx <queues>``: of the queues that the NIC is declared with, so many.

    Queues that go leave all XPS lists for good (XPS-26); sockets that kept one choose anew
    (XPS-34). A traffic class that reaches beyond gives its priorities to class 0. Rx queues stay:
    what a driver does to its table and rings then is its own.
    """

    nic: str = attrs.field(validator=checks.text)
    queues: int = attrs.field(validator=checks.integer(1))


@attrs.frozen(kw_only=True)
class RouteChange(Op):
    """Routes of a family change: its connected sockets choose their tx queue anew.

    Adding any IPv4 route does that, even an unrelated one; an unrelated IPv6 route does not.
    """

    family: int = attrs.field(default=4, validator=checks.integer(4, 6))

    def __attrs_post_init__(self) -> None:
        if self.family == 5:
            checks.fail(self, "family", self.family, "4 or 6")
