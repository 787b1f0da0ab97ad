"""Connections that exist before a run: who accepted them is what a steer of their packets says."""

from __future__ import annotations

from ipaddress import ip_address

import attrs
import numpy as np
from numpy.typing import NDArray

from emu.dtypes import SockState
from emu.errors import ConfigError
from emu.model.arrays import column
from emu.model.connections import connections, first_of_each, flow_words
from emu.model.host import Host
from emu.model.packets import Packets


@attrs.frozen(kw_only=True, eq=False)
class Served:
    """What a steer of a run's packets says of the host's sockets.

    Attributes:
        listener: ``int32[connections]``: row of the listening socket that accepted each of the
            host's connections; -1 unknown.
        first_cpu: ``int32[sockets + connections]``: CPU of the thread that reads the first packet
            of each socket; -1 none comes.
    """

    listener: NDArray[np.int32]
    first_cpu: NDArray[np.int32]


def served_by_nobody(host: Host) -> Served:
    """What is known of a host whose packets nobody has steered."""
    connected = 0 if host.connections is None else len(host.connections)
    return Served(
        listener=np.full(connected, -1, dtype=np.int32),
        first_cpu=np.full(len(host.sockets) + connected, -1, dtype=np.int32),
    )


def accept(
    host: Host,
    packets: Packets,
    sockets: NDArray[np.integer],
    app_cpus: NDArray[np.integer],
    *,
    all_served: bool,
) -> tuple[Host, Served]:
    """Make a connection of each TCP flow that a listening socket gets.

    Sockets that are connected already, and UDP, stay as they are.

    Args:
        host: the host that decided.
        packets: the rows of the decisions.
        sockets: ``int[packets]``, the socket of each row; -1 none.
        app_cpus: ``int[packets]``, the CPU of its thread; -1 none.
        all_served: a row without a socket is an error.

    Returns:
        the host with one more row of ``connections`` for each such flow, in the order of their
        first packets; and who serves what.

    Raises:
        ConfigError: *all_served*, and nobody serves some flow.
    """
    rows = len(packets)
    known = len(host.sockets) + (0 if host.connections is None else len(host.connections))
    found = column("accept: sockets", sockets, "i4", rows=rows, low=-1, high=known - 1)
    cpu_of = column("accept: app_cpus", app_cpus, "i4", rows=rows, low=-1)
    if all_served and rows and int(found.min()) < 0:
        refuse_unserved(packets, int(np.argmax(found < 0)))
    listening = np.zeros(known + 1, dtype=bool)  # the last entry stands for no socket
    for index, socket in enumerate(host.sockets):
        listening[index] = socket.state == SockState.LISTEN
    accepted = np.flatnonzero(listening[found])
    first = accepted[first_of_each(flow_words(packets, accepted))]
    new = connections(packets.take(first))
    new["app_off"] = thread_cpus(host, found[first], cpu_of[first])
    for field in ("bound_dev", "uid"):
        new[field] = listener_column(host, field)[found[first]]
    before = served_by_nobody(host)
    old = host.connections if host.connections is not None else new[:0]
    served = Served(
        listener=np.concatenate([before.listener, found[first]]).astype(np.int32),
        first_cpu=np.concatenate([first_cpus(found, cpu_of, known), new["app_off"]]).astype(
            np.int32
        ),
    )
    if len(new) == 0:
        return host, served
    return host.replace(connections=np.concatenate([old, new])), served


def thread_cpus(
    host: Host, found: NDArray[np.int32], cpu_of: NDArray[np.int32]
) -> NDArray[np.int32]:
    """``int32[n]``: the threads' CPUs; the listener's first where none was decided."""
    first = np.array([socket.threads.cpus[0] for socket in host.sockets], dtype=np.int32)
    return np.where(cpu_of < 0, first[found], cpu_of) if len(found) else cpu_of


def first_cpus(
    found: NDArray[np.int32], cpu_of: NDArray[np.int32], known: int
) -> NDArray[np.int32]:
    """``int32[known]``: CPU that reads the first packet of each socket; -1 none comes."""
    out = np.full(known + 1, -1, dtype=np.int32)
    out[found[::-1]] = cpu_of[::-1]  # the first of several is written last
    return out[:known]


def listener_column(host: Host, field: str) -> NDArray[np.int64]:
    """``int64[sockets]``: what a connection has of the socket that accepted it."""
    if field == "uid":
        return np.array([socket.uid for socket in host.sockets], dtype=np.int64)
    devices = {nic.name: index + 1 for index, nic in enumerate(host.nics)}
    numbers = [devices[socket.device] if socket.device else 0 for socket in host.sockets]
    return np.array(numbers, dtype=np.int64)


def refuse_unserved(packets: Packets, row: int) -> None:
    """Raise the error of a flow that no socket takes."""
    proto = {6: "tcp", 17: "udp"}.get(int(packets.ip_proto[row]), "IP")
    there, port = shown_address(packets, "daddr", row), int(packets.dport[row])
    source = f"{shown_address(packets, 'saddr', row)}:{int(packets.sport[row])}"
    raise ConfigError(
        f"flow {row}",
        f"no socket for {proto} from {source} to {there}:{port}",
        "flows that a socket of the host serves",
        f'a [[socket]] with proto = "{proto}", bind = "{there}:{port}"',
    )


def shown_address(packets: Packets, name: str, row: int) -> str:
    """An address of a packet as people write it, IPv6 in brackets."""
    octets = packets.columns[name][row].astype("<u4").tobytes()
    if packets.family[row] == 6:
        return f"[{ip_address(octets)}]"
    return str(ip_address(octets[:4]))
