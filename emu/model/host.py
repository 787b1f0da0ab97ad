"""A host: CPUs, NICs, sockets, addresses, kernel, checked against each other when it is made."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs
import numpy as np
from numpy.typing import NDArray

from emu import dtypes
from emu.errors import ConfigError
from emu.kernels import KERNELS, KernelProfile, get_kernel
from emu.model import checks
from emu.model.masks import CpuSet
from emu.model.nic import MAX_FLOW_ENTRIES, Nic
from emu.model.secrets import Secrets
from emu.model.sockets import Socket
from emu.model.topology import Topology

PS_PER_SECOND = 10**12
I32_MAX = 2**31 - 1
MAX_FLOW_LIMIT_TABLE = 2**16  # the kernel remembers buckets in 16 bits
HZ_MIN, HZ_MAX = 24, 1200  # over all architectures; x86-64 has 100, 250, 300 and 1000


def _same_rows(left: object, right: object) -> bool:
    if left is None or right is None:
        return left is right
    return np.array_equal(left, right)  # type: ignore[arg-type]


@attrs.frozen(kw_only=True, slots=True)
class Host:
    """One host.

    ``addresses`` empty: every packet is for this host. ``connections``: ``SOCKET[n]`` opened after
    ``sockets``, passed through untouched. ``kernel``: a name of `emu.kernels.KERNELS`, or a
    profile. NICs come back with settled interrupts. From ``netdev_budget`` on the fields are
    sysctls that matter to a run alone, where decisions take time.

    Raises:
        ConfigError: one line that names the object and the field.
    """

    topology: Topology = attrs.field(validator=checks.instance_of(Topology, "a Topology"))
    nics: tuple[Nic, ...] = attrs.field(
        converter=checks.as_tuple, validator=checks.each(Nic, "a Nic")
    )
    sockets: tuple[Socket, ...] = attrs.field(
        default=(), converter=checks.as_tuple, validator=checks.each(Socket, "a Socket")
    )
    connections: NDArray[np.void] | None = attrs.field(
        default=None, eq=attrs.cmp_using(eq=_same_rows)
    )
    addresses: tuple[str, ...] = attrs.field(
        default=(), converter=checks.as_tuple, validator=checks.each(str, "an address")
    )
    forwarding: bool = attrs.field(default=True, validator=checks.boolean)
    kernel: str | KernelProfile = "6.18"
    hz: int = attrs.field(default=250, validator=checks.integer(HZ_MIN, HZ_MAX))
    secrets: Secrets = attrs.field(
        factory=Secrets.from_seed, validator=checks.instance_of(Secrets, "Secrets")
    )
    netdev_budget: int = attrs.field(default=300, validator=checks.integer(1, I32_MAX))
    netdev_budget_jiffies: int = attrs.field(default=2, validator=checks.integer(1, I32_MAX))
    netdev_max_backlog: int = attrs.field(default=1000, validator=checks.integer(0, I32_MAX))
    rps_sock_flow_entries: int = attrs.field(
        default=0, validator=checks.integer(0, MAX_FLOW_ENTRIES)
    )
    flow_limit_cpus: CpuSet = attrs.field(
        default=CpuSet(), validator=checks.instance_of(CpuSet, "a CPU set")
    )
    flow_limit_table_len: int = attrs.field(
        default=4096, validator=checks.integer(2, MAX_FLOW_LIMIT_TABLE)
    )

    def __attrs_post_init__(self) -> None:
        profile = get_kernel(self.kernel)
        if profile == KERNELS.get(profile.name):
            object.__setattr__(self, "kernel", profile.name)
        if not self.nics:
            raise ConfigError("host: nics", "none", "at least one NIC", 'Nic(name="eth0")')
        _check_unique("nic", [nic.name for nic in self.nics])
        _check_unique("socket", [socket.name for socket in self.sockets])
        for index, text in enumerate(self.addresses):
            checks.address(text, f"host: addresses[{index}]")
        if self.flow_limit_cpus.bits >> self.topology.cpus:
            allowed = f"CPUs 0-{self.topology.cpus - 1}"
            raise ConfigError("host: flow_limit_cpus", self.flow_limit_cpus.list(), allowed)
        if self.flow_limit_table_len & (self.flow_limit_table_len - 1):
            given = self.flow_limit_table_len
            allowed = f"a power of two up to {MAX_FLOW_LIMIT_TABLE}"
            fix = str(1 << given.bit_length() - 1)
            raise ConfigError("host: flow_limit_table_len", given, allowed, fix)
        self._check_connections()
        object.__setattr__(self, "nics", tuple(self._settle_nic(nic) for nic in self.nics))
        devices = {nic.name for nic in self.nics}
        for nic in self.nics:
            self._check_nic(nic, devices)
        names = {socket.name: socket for socket in self.sockets}
        for socket in self.sockets:
            self._check_socket(socket, devices, names)

    def _check_connections(self) -> None:
        rows = self.connections
        if rows is None:
            return
        if not isinstance(rows, np.ndarray) or rows.dtype != dtypes.SOCKET or rows.ndim != 1:
            given = getattr(rows, "dtype", type(rows).__name__)
            allowed = "a one-dimensional SOCKET array"
            raise ConfigError("host: connections", given, allowed, "emu.connections(packets)")

    def _settle_nic(self, nic: Nic) -> Nic:
        """Fill in the CPUs of interrupts that were not given."""
        online = self.topology.online_cpus
        rx = nic.irq_cpus or tuple(online[queue % len(online)] for queue in range(nic.rx_queues))
        tx = nic.tx_irq_cpus or tuple(rx[queue % nic.rx_queues] for queue in range(nic.tx_queues))
        if (rx, tx) == (nic.irq_cpus, nic.tx_irq_cpus):
            return nic
        return attrs.evolve(nic, irq_cpus=rx, tx_irq_cpus=tx)

    def _check_nic(self, nic: Nic, devices: set[str]) -> None:
        for field in ("irq_cpus", "tx_irq_cpus"):
            for queue, cpu in enumerate(getattr(nic, field)):
                self._check_cpu(nic, f"{field}[{queue}]", cpu)
                if not self.topology.online[cpu]:
                    allowed = f"a CPU that is online ({self.topology.online_list()})"
                    checks.fail(nic, f"{field}[{queue}]", cpu, allowed)
        for field in ("rps_cpus", "xps_cpus"):
            for queue, mask in enumerate(getattr(nic, field)):
                self._check_set(nic, f"{field}[{queue}]", mask)
        if nic.cpumap is not None:
            self._check_set(nic, "cpumap.cpus", nic.cpumap.cpus, online=True)
        nodes = self.topology.nodes
        if nic.xps_node is not None and nic.xps_node >= nodes:
            checks.fail(nic, "xps_node", nic.xps_node, f"a node of 0..{nodes - 1}")
        if nic.forward_to is not None:
            _check_known(nic, "forward_to", nic.forward_to, devices)

    def _check_socket(self, socket: Socket, devices: set[str], names: dict[str, Socket]) -> None:
        self._check_set(socket, "threads", socket.threads, online=True)
        if socket.cpu_mask is not None:
            self._check_set(socket, "cpu_mask", socket.cpu_mask)
        if socket.device is not None:
            _check_known(socket, "device", socket.device, devices)
        if socket.sockmap is None:
            return
        if socket.sockmap.cpu is not None:
            self._check_cpu(socket, "sockmap.cpu", socket.sockmap.cpu)
        target = socket.sockmap.redirect
        if target is not None:
            _check_known(socket, "sockmap.redirect", target, names)
            if names[target].sockmap is None:
                allowed = "a socket that is in a sockmap itself"
                fix = f"sockmap = {{}} for socket {target!r}"
                checks.fail(socket, "sockmap.redirect", target, allowed, fix)

    def _check_cpu(self, owner: Nic | Socket, field: str, cpu: int) -> None:
        if cpu >= self.topology.cpus:
            checks.fail(owner, field, cpu, f"CPUs 0-{self.topology.cpus - 1}")

    def _check_set(
        self, owner: Nic | Socket, field: str, cpus: CpuSet, *, online: bool = False
    ) -> None:
        if cpus.bits >> self.topology.cpus:
            allowed = f"CPUs 0-{self.topology.cpus - 1}"
            checks.fail(owner, field, cpus.list(), allowed)
        if online:
            down = [cpu for cpu in cpus.cpus if not self.topology.online[cpu]]
            if down:
                allowed = f"CPUs that are online ({self.topology.online_list()})"
                checks.fail(owner, field, cpus.list(), allowed)

    @property
    def profile(self) -> KernelProfile:
        """The kernel's rules."""
        return get_kernel(self.kernel)

    @property
    def jiffy_ps(self) -> int:
        """Picoseconds of one jiffy."""
        return PS_PER_SECOND // self.hz

    def nic(self, name: str) -> Nic:
        """The NIC of that name.

        Raises:
            ConfigError: no such NIC.
        """
        return _named("nic", name, self.nics)  # type: ignore[return-value]

    def socket(self, name: str) -> Socket:
        """The socket of that name.

        Raises:
            ConfigError: no such socket.
        """
        return _named("socket", name, self.sockets)  # type: ignore[return-value]

    def replace(self, **changes: Any) -> Host:
        """The same host with other fields, checked again.

        With another topology, NICs whose interrupts stand where the default put them get them anew.
        """
        _check_fields(self, changes)
        if "topology" in changes and "nics" not in changes:
            changes["nics"] = tuple(
                attrs.evolve(nic, irq_cpus=(), tx_irq_cpus=())
                if self._settle_nic(attrs.evolve(nic, irq_cpus=(), tx_irq_cpus=())) == nic
                else nic
                for nic in self.nics
            )
        return attrs.evolve(self, **changes)

    def replace_nic(self, name: str, **changes: Any) -> Host:
        """The same host with other fields of one NIC (see `Nic.replace`)."""
        old = self.nic(name)
        _check_fields(old, changes)
        new = old.replace(**changes)
        return self.replace(nics=tuple(new if nic is old else nic for nic in self.nics))

    def replace_socket(self, name: str, **changes: Any) -> Host:
        """The same host with other fields of one socket."""
        old = self.socket(name)
        _check_fields(old, changes)
        new = attrs.evolve(old, **changes)
        return self.replace(sockets=tuple(new if item is old else item for item in self.sockets))


def _check_unique(kind: str, names: list[str]) -> None:
    if len(set(names)) == len(names):
        return
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in seen:
            allowed = f"a name that {kind} {seen[name]} does not have"
            raise ConfigError(f"{kind} {index}: name", repr(name), allowed, f'"{name}-2"')
        seen[name] = index


def _check_known(owner: Nic | Socket, field: str, given: str, names: Iterable[str]) -> None:
    if given not in names:
        checks.fail(owner, field, given, checks.listed(names), checks.nearest(given, names))


def _check_fields(owner: object, changes: dict[str, Any]) -> None:
    fields = [field.name for field in attrs.fields(type(owner))]  # type: ignore[arg-type]
    for field in changes:
        if field not in fields:
            where = f"{checks.label(owner)}: replace"
            fix = checks.nearest(field, fields)
            raise ConfigError(where, repr(field), checks.listed(fields), fix)


def _named(kind: str, name: str, items: tuple[Nic, ...] | tuple[Socket, ...]) -> Nic | Socket:
    for item in items:
        if item.name == name:
            return item
    names = [item.name for item in items]
    raise ConfigError(kind, repr(name), checks.listed(names), checks.nearest(name, names))
