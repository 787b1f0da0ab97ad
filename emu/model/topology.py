"""The CPUs of a host: nodes, last-level caches, cores, and which are online."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from emu.errors import ConfigError
from emu.model import checks
from emu.model.masks import CpuSet, format_cpulist, parse_cpulist

MAX_CPUS = 8192  # NR_CPUS of the largest x86-64 configuration


@attrs.frozen(kw_only=True, slots=True)
class Topology:
    """Where each CPU stands. Every field but ``cpus`` has one entry per CPU.

    Defaults: one node; a last-level cache for each node; a core for each CPU; all online.

    Raises:
        ConfigError: no CPU, a field of another length, a negative number, or no CPU online.
    """

    cpus: int = attrs.field(validator=checks.integer(1, MAX_CPUS))
    node_of: tuple[int, ...] = attrs.field(default=(), converter=checks.as_tuple)
    llc_of: tuple[int, ...] = attrs.field(default=(), converter=checks.as_tuple)
    core_of: tuple[int, ...] = attrs.field(default=(), converter=checks.as_tuple)
    online: tuple[bool, ...] = attrs.field(default=(), converter=checks.as_tuple)

    def __attrs_post_init__(self) -> None:
        settle = object.__setattr__
        defaults: dict[str, Any] = {
            "node_of": lambda: (0,) * self.cpus,
            "llc_of": lambda: self.node_of,
            "core_of": lambda: tuple(range(self.cpus)),
            "online": lambda: (True,) * self.cpus,
        }
        for field, default in defaults.items():
            if getattr(self, field) == ():
                settle(self, field, default())
            self._check_column(field, bool if field == "online" else int)
        if not any(self.online):
            checks.fail(self, "offline", self.online_list(False), "at least one CPU online")

    def _check_column(self, field: str, kind: type) -> None:
        column: tuple[Any, ...] = getattr(self, field)
        if not isinstance(column, tuple) or len(column) != self.cpus:
            checks.fail(self, field, column, f"one entry for each of the {self.cpus} CPUs")
        for cpu, value in enumerate(column):
            right = type(value) is bool if kind is bool else checks.is_int(value) and value >= 0
            if not right:
                allowed = "true or false" if kind is bool else "a whole number >= 0"
                checks.fail(self, f"{field}[{cpu}]", value, allowed)

    @property
    def nodes(self) -> int:
        """Number of NUMA nodes: the highest number and one."""
        return max(self.node_of) + 1

    @property
    def online_cpus(self) -> tuple[int, ...]:
        """CPUs that are online, ascending."""
        return tuple(cpu for cpu in range(self.cpus) if self.online[cpu])

    @property
    def online_set(self) -> CpuSet:
        """CPUs that are online."""
        return CpuSet(self.online_cpus)

    def online_list(self, online: bool = True) -> str:
        """CPUs that are online (or offline) as a list."""
        return format_cpulist(cpu for cpu in range(self.cpus) if self.online[cpu] == online)

    @classmethod
    def from_lists(
        cls,
        *,
        cpus: int,
        nodes: Sequence[str] = (),
        llcs: Sequence[str] = (),
        cores: Sequence[str] = (),
        offline: str = "",
    ) -> Topology:
        """Build one from CPU lists: ``nodes=["0-7", "8-15"]`` puts CPU 0 to 7 on node 0.

        Raises:
            ConfigError: a list that does not parse; a CPU in no list or in two of them.
        """
        if not checks.is_int(cpus) or not 1 <= cpus <= MAX_CPUS:
            allowed = f"a whole number from 1 to {MAX_CPUS}"
            raise ConfigError("topology: cpus", checks.shown(cpus), allowed)
        if not isinstance(offline, str):
            raise ConfigError("topology: offline", checks.shown(offline), 'a list such as "3,5"')
        down = parse_cpulist(offline, cpus, "topology: offline")
        return cls(
            cpus=cpus,
            node_of=_members("nodes", nodes, cpus),
            llc_of=_members("llcs", llcs, cpus),
            core_of=_members("cores", cores, cpus),
            online=tuple(cpu not in down for cpu in range(cpus)),
        )


def _members(field: str, lists: Sequence[str], cpus: int) -> tuple[int, ...]:
    """Which list each CPU is in; () when no list was given."""
    if isinstance(lists, str) or not isinstance(lists, Sequence):
        raise ConfigError(
            f"topology: {field}", checks.shown(lists), "lists of CPUs", '["0-7", "8-15"]'
        )
    if not lists:
        return ()
    out: list[int | None] = [None] * cpus
    for index, text in enumerate(lists):
        where = f"topology: {field}[{index}]"
        if not isinstance(text, str):
            raise ConfigError(where, checks.shown(text), "a list of CPUs", '"0-7"')
        for cpu in parse_cpulist(text, cpus, where).cpus:
            if out[cpu] is not None:
                allowed = f"each CPU once; CPU {cpu} is in {field}[{out[cpu]}] already"
                raise ConfigError(where, checks.shown(text), allowed)
            out[cpu] = index
    missing = [cpu for cpu in range(cpus) if out[cpu] is None]
    if missing:
        given = f"lists without CPU {format_cpulist(missing)}"
        raise ConfigError(f"topology: {field}", given, "each CPU in one list")
    return tuple(index for index in out if index is not None)
