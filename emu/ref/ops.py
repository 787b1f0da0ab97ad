"""What happens between packets: masks written, sockets opened and closed, threads moved.

The kinds are those of emu/model/ops.py.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from emu.dtypes import Secret, SockState
from emu.model.ops import OpKind
from emu.ref.state import HostState, SocketState

CPUS_TYPE, RXQS_TYPE = 0, 1


def apply_op(host: HostState, op: np.void) -> None:
    """Change the host's state."""
    target, arg0, arg1 = int(op["target"]), int(op["arg0"]), int(op["arg1"])
    HANDLERS[OpKind(int(op["kind"]))](host, target, arg0, arg1)


def write_xps_cpus(host: HostState, nic: int, queue: int, row: int) -> None:
    """``tx-<queue>/xps_cpus``."""
    host.nics[nic].xps.set(CPUS_TYPE, queue, host.plan.xps_masks[row])


def write_xps_rxqs(host: HostState, nic: int, queue: int, row: int) -> None:
    """``tx-<queue>/xps_rxqs``."""
    host.nics[nic].xps.set(RXQS_TYPE, queue, host.plan.xps_masks[row])


def write_rps_cpus(host: HostState, nic: int, queue: int, row: int) -> None:
    """``rx-<queue>/rps_cpus``: another map, or none."""
    host.nics[nic].queues[queue].rps_cpus = rps_map(host, row)


def rps_map(host: HostState, row: int) -> list[int]:
    """The CPUs of a map; none for row -1."""
    if row < 0:
        return []
    first = int(host.plan.rps_off[row])
    cpus: list[int] = host.plan.rps_cpus[first : first + int(host.plan.rps_len[row])].tolist()
    return cpus


def set_incoming_cpu(host: HostState, sock: int, cpu: int, _: int) -> None:
    """setsockopt(SO_INCOMING_CPU)."""
    host.lookup.set_incoming_cpu(sock, cpu)
    host.incoming_cpu[sock] = cpu


def set_cpu_mask(host: HostState, sock: int, first_word: int, _: int) -> None:
    """setsockopt(SO_INCOMING_CPU_MASK); -1 takes it back."""
    host.lookup.set_mask(sock, first_word)


def open_socket(host: HostState, sock: int, state: int, _: int) -> None:
    """bind, listen or connect, as the socket is declared. It remembers nothing yet."""
    host.socket_states[sock] = SocketState(threads=host.socket_states[sock].threads)
    host.lookup.open(sock, SockState(state))


def close_socket(host: HostState, sock: int, _: int, __: int) -> None:
    """close: RFS forgets the flow where the kernel does (R-3.2.forget)."""
    if host.plan.rfs_forgets:
        forget_flow(host, host.socket_states[sock].rx_hash)
    host.socket_states[sock].rx_hash = 0
    host.lookup.close(sock)


def forget_flow(host: HostState, hash_value: int) -> None:
    """The entry of a flow, whoever has it, is empty."""
    host.rfs.forget(hash_value, host.rec)
    if host.rfs.size and hash_value:
        host.flow_secrets.pop(hash_value & host.rfs.size - 1, None)


def set_online(host: HostState, cpu: int, online: int, _: int) -> None:
    """A CPU comes or goes; no map changes (observed-many-cpus.md)."""
    host.online[cpu] = bool(online)
    for nic in host.nics:
        nic.xps.set_online(cpu, bool(online))


def set_tx_queues(host: HostState, nic: int, queues: int, _: int) -> None:
    """The NIC uses so many of its tx queues."""
    host.nics[nic].xps.set_real_num_tx(queues, host.rec)


def route_change(host: HostState, family: int, _: int, __: int) -> None:
    """Connected sockets of the family choose their tx queue anew (transmit.md 6.1)."""
    for state, row in zip(host.socket_states, host.lookup.sockets, strict=True):
        if row["family"] == family and row["state"] == SockState.ESTABLISHED:
            state.tx_queue, state.tx_secrets = -1, Secret(0)


def move_threads(host: HostState, sock: int, first: int, count: int) -> None:
    """The socket's threads run on other CPUs from now on."""
    host.socket_states[sock].threads = host.plan.app_cpus[first : first + count].tolist()


HANDLERS: dict[OpKind, Callable[[HostState, int, int, int], None]] = {
    OpKind.XPS_CPUS: write_xps_cpus,
    OpKind.XPS_RXQS: write_xps_rxqs,
    OpKind.RPS_CPUS: write_rps_cpus,
    OpKind.INCOMING_CPU: set_incoming_cpu,
    OpKind.CPU_MASK: set_cpu_mask,
    OpKind.OPEN: open_socket,
    OpKind.CLOSE: close_socket,
    OpKind.THREADS: move_threads,
    OpKind.ONLINE: set_online,
    OpKind.TX_QUEUES: set_tx_queues,
    OpKind.ROUTE: route_change,
}
