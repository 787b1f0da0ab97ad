"""Lowering of ops: names become rows, masks become pooled words."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING

from emu.dtypes import SockState
from emu.errors import ConfigError
from emu.model import ops as model
from emu.model.cpus_in_use import CpusInUse
from emu.model.host import Host
from emu.model.lower_sockets import Sockets, state_of
from emu.model.ops import Op, OpKind

if TYPE_CHECKING:
    from emu.model.lower import RpsMaps, XpsMasks

OpRow = tuple[int, int, int, int, int]


def lower_ops(
    host: Host, ops: Sequence[Op], rps: RpsMaps, xps: XpsMasks, sockets: Sockets
) -> list[OpRow]:
    """Rows of ``dtypes.OP`` in order of time; ops of one instant keep the order given.

    Raises:
        ConfigError: an op names a NIC, queue, socket or CPU that the host does not have.
    """
    lowering = OpLowering(host, rps, xps, sockets)
    # In order of time: what a write means hangs on the CPUs that are online then.
    in_order = sorted(enumerate(ops), key=lambda pair: getattr(pair[1], "at_ps", 0))
    return [lowering.lower(index, op) for index, op in in_order]


class OpLowering:
    """One op to one row."""

    def __init__(self, host: Host, rps: RpsMaps, xps: XpsMasks, sockets: Sockets) -> None:
        self.host, self.rps, self.xps, self.sockets = host, rps, xps, sockets
        self.nics = {nic.name: index for index, nic in enumerate(host.nics)}
        self.cpus = CpusInUse(host)
        self.tx_queues = [nic.tx_queues for nic in host.nics]  # as ops change that

    def lower(self, index: int, op: Op) -> OpRow:
        """Dispatch on the op's class."""
        where = f"ops[{index}] {type(op).__name__}"
        if isinstance(op, model.WriteXpsCpus | model.WriteXpsRxqs | model.WriteRpsCpus):
            return self._mask_write(where, op)
        if isinstance(op, model.SetIncomingCpu):
            return (op.at_ps, OpKind.INCOMING_CPU, self._socket(where, op.socket), op.cpu, 0)
        if isinstance(op, model.SetCpuMask):
            offset = -1 if op.mask is None else self.sockets.mask(self._cpus(where, op.mask.bits))
            return (op.at_ps, OpKind.CPU_MASK, self._socket(where, op.socket), offset, 0)
        if isinstance(op, model.OpenSocket):
            row = self._socket(where, op.socket)
            state = int(state_of(self.host.sockets[row]))
            return (op.at_ps, OpKind.OPEN, row, state, 0)
        if isinstance(op, model.BindSocket | model.DisconnectSocket):
            keeps = isinstance(op, model.BindSocket) or op.keeps_port
            state = SockState.BOUND if keeps else SockState.CLOSED
            return (op.at_ps, OpKind.OPEN, self._udp_with_peer(where, op.socket), int(state), 0)
        if isinstance(op, model.CloseSocket):
            return (op.at_ps, OpKind.CLOSE, self._socket(where, op.socket), 0, 0)
        if isinstance(op, model.MoveThreads):
            self._cpus(where, op.threads.bits)
            self.cpus.move(where, op.socket, op.threads)
            place, count = self.sockets.threads(op.threads.cpus)
            return (op.at_ps, OpKind.THREADS, self._socket(where, op.socket), place, count)
        if isinstance(op, model.RouteChange):
            return (op.at_ps, OpKind.ROUTE, op.family, 0, 0)
        if isinstance(op, model.SetTxQueues):
            return (op.at_ps, OpKind.TX_QUEUES, self._set_tx_queues(where, op), op.queues, 0)
        if isinstance(op, model.SetOnline):
            self._cpus(where, 1 << op.cpu)
            self.cpus.set_online(where, op.cpu, op.online)
            self.rps.online[op.cpu] = op.online
            return (op.at_ps, OpKind.ONLINE, op.cpu, int(op.online), 0)
        raise ConfigError(where, type(op).__name__, "an op of emu.model.ops")

    def _mask_write(
        self, where: str, op: model.WriteXpsCpus | model.WriteXpsRxqs | model.WriteRpsCpus
    ) -> OpRow:
        row = self._nic(where, op.nic)
        nic = self.host.nics[row]
        is_rps = isinstance(op, model.WriteRpsCpus)
        queues = nic.rx_queues if is_rps else self.tx_queues[row]
        if not 0 <= op.queue < queues:
            raise ConfigError(where, f"queue={op.queue}", f"0..{queues - 1} of nic {op.nic!r}")
        if isinstance(op, model.WriteXpsRxqs):
            if op.mask.bits >> nic.rx_queues:
                raise ConfigError(
                    where, f"mask={op.mask.list()}", f"rx queues 0..{nic.rx_queues - 1}"
                )
            return (op.at_ps, OpKind.XPS_RXQS, row, op.queue, self.xps.row(op.mask.bits))
        self._cpus(where, op.mask.bits)
        if is_rps:
            return (op.at_ps, OpKind.RPS_CPUS, row, op.queue, self.rps.row(op.mask.cpus))
        if nic.tx_queues == 1:
            raise ConfigError(
                where,
                f"nic={op.nic!r}",
                "a device with more than one tx queue (xps_cpus of a one-queue device is ENOENT)",
            )
        return (op.at_ps, OpKind.XPS_CPUS, row, op.queue, self.xps.row(op.mask.bits))

    def _nic(self, where: str, name: str) -> int:
        if name not in self.nics:
            raise ConfigError(where, f"nic={name!r}", "a NIC of the host", _near(name, self.nics))
        return self.nics[name]

    def _set_tx_queues(self, where: str, op: model.SetTxQueues) -> int:
        row = self._nic(where, op.nic)
        nic = self.host.nics[row]
        if op.queues > nic.tx_queues:
            allowed = f"1..{nic.tx_queues}, as nic {op.nic!r} has"
            raise ConfigError(where, f"queues={op.queues}", allowed)
        self.tx_queues[row] = op.queues
        return row

    def _cpus(self, where: str, bits: int) -> int:
        cpus = self.host.topology.cpus
        if bits >> cpus:
            raise ConfigError(where, f"CPU {bits.bit_length() - 1}", f"CPUs 0..{cpus - 1}")
        return bits

    def _socket(self, where: str, name: str) -> int:
        if name not in self.sockets.names:
            raise ConfigError(
                where, f"socket={name!r}", "a socket of the host", _near(name, self.sockets.names)
            )
        return self.sockets.names[name]

    def _udp_with_peer(self, where: str, name: str) -> int:
        row = self._socket(where, name)
        socket = self.host.sockets[row]
        if socket.proto != "udp" or socket.peer is None:
            given = f"socket={name!r}, {socket.proto} {'with' if socket.peer else 'without'} a peer"
            raise ConfigError(where, given, "a UDP socket with a peer")
        return row


def _near(name: str, names: dict[str, int]) -> str:
    close = get_close_matches(name, names, n=1)
    return repr(close[0]) if close else ""
