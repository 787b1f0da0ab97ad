"""Lowering of sockets: SOCKET rows, their CPU masks and their threads' CPUs."""

from __future__ import annotations

import ipaddress

import attrs
import numpy as np
from numpy.typing import NDArray

from emu import dtypes
from emu.dtypes import Prog, SockState
from emu.errors import ConfigError
from emu.kernels import KernelProfile
from emu.model.host import Host
from emu.model.secrets import Secrets
from emu.model.sockets import Socket, parse_endpoint

PROGRAMS = {"fixed": Prog.FIXED, "cpu": Prog.CPU, "payload": Prog.PAYLOAD}
PROTOCOLS = {"tcp": 6, "udp": 17}


class Sockets:
    """Socket rows while they are collected, with the pools they point into."""

    def __init__(self, host: Host) -> None:
        self.host = host
        self.mask_words = (host.topology.cpus + 63) // 64
        self.masks: list[int] = []
        self.app_cpus: list[int] = []
        self.names: dict[str, int] = {}
        self.rows: NDArray[np.void] = np.zeros(0, dtype=dtypes.SOCKET)
        self._threads: dict[tuple[int, ...], int] = {}

    def mask(self, bits: int) -> int:
        """First word of a CPU mask that is kept from now on."""
        self.masks.append(bits)
        return (len(self.masks) - 1) * self.mask_words

    def threads(self, cpus: tuple[int, ...]) -> tuple[int, int]:
        """Place and number of a list of threads' CPUs."""
        if cpus not in self._threads:
            self._threads[cpus] = len(self.app_cpus)
            self.app_cpus.extend(cpus)
        return self._threads[cpus], len(cpus)

    def masks_array(self) -> NDArray[np.uint64]:
        """``uint64[...]``, ``mask_words`` for each mask."""
        out = np.zeros((len(self.masks), self.mask_words), dtype=np.uint64)
        for row, bits in enumerate(self.masks):
            out[row] = [(bits >> (64 * word)) & (2**64 - 1) for word in range(self.mask_words)]
        return out.reshape(-1)

    def app_cpus_array(self) -> NDArray[np.int32]:
        """``int32[...]``."""
        return np.array(self.app_cpus, dtype=np.int32)


def lower_sockets(host: Host) -> Sockets:
    """Rows of the declared sockets, then of the host's connections, in that order."""
    out = Sockets(host)
    out.names = {socket.name: index for index, socket in enumerate(host.sockets)}
    declared = len(host.sockets)
    connected = 0 if host.connections is None else len(host.connections)
    out.rows = np.zeros(declared + connected, dtype=dtypes.SOCKET)
    devices = {nic.name: index + 1 for index, nic in enumerate(host.nics)}
    for index, socket in enumerate(host.sockets):
        fill_socket(out.rows[index], socket, devices, out)
    if host.connections is not None and connected:
        check_connections(host, host.connections)
        # Raw octets: numpy copies a record field by field.
        octets = out.rows.view(np.uint8).reshape(-1, dtypes.SOCKET.itemsize)
        given = np.ascontiguousarray(host.connections)
        octets[declared:] = given.view(np.uint8).reshape(octets[declared:].shape)
        # The connections' app_off holds the CPU of their one thread until it is pooled here.
        cpus = host.connections["app_off"]
        place = np.zeros(int(cpus.max()) + 1, dtype=np.uint32)
        for cpu in np.flatnonzero(np.bincount(cpus)):
            place[cpu], _ = out.threads((int(cpu),))
        out.rows["app_off"][declared:] = place[cpus]
        out.rows["app_len"][declared:] = 1
    return out


def check_connections(host: Host, rows: NDArray[np.void]) -> None:
    """Refuse rows that are no connection, or point at what the host does not have.

    Raises:
        ConfigError: the first field that does not fit.
    """
    last = host.topology.cpus - 1
    limits = {
        "prog_kind": (0, int(max(Prog))),
        "app_off": (0, last),
        "mask_off": (-1, -1),
        "psock_target": (-1, len(host.sockets) + len(rows) - 1),
        "psock_cpu": (-1, last),
    }
    states = (int(SockState.CLOSED), int(SockState.ESTABLISHED))
    for field, (one, other) in (("family", (4, 6)), ("proto", (6, 17)), ("state", states)):
        wrong = (rows[field] != one) & (rows[field] != other)
        _refuse_row(rows, field, wrong, f"{one} or {other}")
    for field, (low, high) in limits.items():
        wrong = (rows[field] < low) | (rows[field] > high)
        _refuse_row(rows, field, wrong, f"{low}..{high}")


def _refuse_row(rows: NDArray[np.void], field: str, wrong: NDArray[np.bool_], allowed: str) -> None:
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ConfigError(f"host: connections[{row}].{field}", int(rows[field][row]), allowed)


def fill_socket(row: np.void, socket: Socket, devices: dict[str, int], pools: Sockets) -> None:
    """Write one socket into its row."""
    local, lport = parse_endpoint(socket.bind)
    row["family"], row["laddr"] = local.version, address_words(local)
    row["proto"], row["lport"] = PROTOCOLS[socket.proto], lport
    if socket.peer is not None:
        peer, row["fport"] = parse_endpoint(socket.peer)
        row["faddr"] = address_words(peer)
    row["state"] = socket.state
    row["v6only"], row["reuseport"], row["uid"] = socket.v6only, socket.reuseport, socket.uid
    row["priority"], row["udp_gro"] = socket.priority, socket.udp_gro
    row["bound_dev"] = devices[socket.device] if socket.device else 0
    row["incoming_cpu"] = socket.incoming_cpu
    row["mask_off"] = -1 if socket.cpu_mask is None else pools.mask(socket.cpu_mask.bits)
    if socket.cbpf is not None:
        row["prog_kind"], row["prog_value"] = PROGRAMS[socket.cbpf.kind], socket.cbpf.value
    row["app_off"], row["app_len"] = pools.threads(socket.threads.cpus)
    row["psock_target"] = row["psock_cpu"] = -1
    if socket.sockmap is not None:
        row["has_psock"] = 1
        row["redirect_ingress"] = socket.sockmap.ingress
        if socket.sockmap.cpu is not None:
            row["psock_cpu"] = socket.sockmap.cpu
        if socket.sockmap.redirect is not None:
            row["psock_target"] = pools.names[socket.sockmap.redirect]


def state_of(socket: Socket) -> SockState:
    """The state of the socket once it is open."""
    return socket.state if socket.opened else attrs.evolve(socket, opened=True).state


def address_words(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> NDArray[np.uint32]:
    """``uint32[4]``: network bytes loaded little-endian, IPv4 in word 0."""
    return np.frombuffer(address.packed.ljust(16, b"\0"), dtype="<u4").astype(np.uint32)


def lookup_cfg(host: Host) -> NDArray[np.void]:
    """``LOOKUP_CFG[1]`` of the host's kernel and secrets."""
    return make_lookup_cfg(host.secrets, host.profile, host.topology.cpus)


def make_lookup_cfg(secrets: Secrets, kernel: KernelProfile, ncpus: int) -> NDArray[np.void]:
    """``LOOKUP_CFG[1]`` of a kernel's rules and its secrets."""
    out = np.zeros(1, dtype=dtypes.LOOKUP_CFG)
    row = out[0]
    row["tcp4_secret"], row["udp4_secret"] = secrets.tcp_ehash, secrets.udp_ehash
    row["tcp6_secret"], row["udp6_secret"] = secrets.tcp6_ehash, secrets.udp6_ehash
    row["tcp6_addr_secret"], row["udp6_addr_secret"] = secrets.tcp6_addr, secrets.udp6_addr
    row["hash_mix"] = secrets.hash_mix
    row["legacy"] = kernel.lookup == "legacy"
    row["mask_boost"] = kernel.mask_policy == "boost"
    row["mask_v6_udp_quirk"] = ("none", "primary_only", "hash2_only").index(
        kernel.mask_v6_udp_quirk
    )
    row["cpu_aware"] = kernel.reuseport_cpu_aware
    row["tcp_port_added"] = kernel.tcp_ehash_port_added
    row["udp_conn_stays"] = kernel.udp_conn_stays
    row["udp_slots"] = kernel.udp_slots
    row["ncpus"] = ncpus
    return out
