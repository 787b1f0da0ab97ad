"""A host as a TOML file: read, with every mistake told in one line, and written (docs/host.md)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import attrs

from emu.dtypes import RSS_FLOWS
from emu.errors import ConfigError
from emu.io.toml import Reader, build, expect, join, load_toml, read_list, read_table, to_toml
from emu.kernels import KERNELS, KernelProfile, get_kernel
from emu.model import checks
from emu.model.host import Host
from emu.model.masks import CpuSet, parse_cpulist, parse_cpumask
from emu.model.nic import MAX_QUEUES, Cpumap, Gro, Nic, Rss, default_indirection
from emu.model.secrets import Secrets
from emu.model.sockets import Cbpf, Socket, Sockmap
from emu.model.topology import Topology

MAX_COPIES = 1_000_000
# Keys of the top level that need no reader of their own, then those that do.
PLAIN_KEYS = (
    "hz",
    "forwarding",
    "addresses",
    "netdev_budget",
    "netdev_budget_jiffies",
    "netdev_max_backlog",
    "rps_sock_flow_entries",
    "flow_limit_table_len",
)
HOST_KEYS = (*PLAIN_KEYS, "flow_limit_cpus", "kernel", "secrets", "topology", "nic", "socket")
TOPOLOGY_KEYS = ("cpus", "nodes", "llcs", "cores", "offline")


def load_host(path: str | Path) -> Host:
    """Read a host from a TOML file.

    Raises:
        ConfigError: the file, or anything in it, is wrong: one line with the file and the place.
    """
    try:
        return host_from_toml(load_toml(path))
    except ConfigError as error:
        if error.where == str(path):
            raise
        raise checks.relocate(error, f"{path}: {error.where}") from None


def host_from_toml(tables: dict[str, Any]) -> Host:
    """Make a host from the tables of a TOML file.

    Raises:
        ConfigError: one line with the place: ``nic[1].rss.key``.
    """
    if "topology" not in tables:
        given = f"no table in {len(tables)} entries" if tables else "an empty file"
        raise ConfigError("topology", given, "a host with CPUs", "[topology] cpus = 8")
    read_table(tables, "", dict.fromkeys(HOST_KEYS))
    topology = _topology(tables["topology"], "topology")
    values = read_table(
        tables,
        "",
        dict.fromkeys(PLAIN_KEYS)
        | {
            "flow_limit_cpus": _cpu_mask(topology.cpus),
            "kernel": _kernel,
            "secrets": _secrets,
            "topology": lambda _value, _place: topology,
            "nic": lambda value, place: read_list(value, place, _nic_reader(topology)),
            "socket": lambda value, place: _sockets(value, place, topology),
        },
    )
    values["nics"] = values.pop("nic", [])
    values["sockets"] = values.pop("socket", [])
    if not values["nics"]:
        raise ConfigError("nic", "none", "at least one [[nic]] table", '[[nic]] name = "eth0"')
    try:
        return Host(**values)
    except ConfigError as error:
        if error.where.startswith("host: "):
            raise checks.relocate(error, error.where[len("host: ") :]) from None
        raise


def _plain(kind: type[Any], **readers: Reader | None) -> Reader:
    """Reader of a table whose keys are the fields of a class; *readers* for those that need one."""
    names = [field.name for field in attrs.fields(kind)]
    keys: dict[str, Reader | None] = {name: readers.get(name) for name in names}
    required = [field.name for field in attrs.fields(kind) if field.default is attrs.NOTHING]

    def read(value: Any, place: str) -> Any:
        return build(kind, read_table(value, place, keys, required), place)

    return read


def _cpu_list(nbits: int) -> Reader:
    """Reader of a CPU set that is a list when it is plain text."""

    def read(value: Any, place: str) -> CpuSet:
        if isinstance(value, str):
            return parse_cpulist(value, nbits, place)
        return _cpu_table(value, nbits, place)

    return read


def _cpu_mask(nbits: int) -> Reader:
    """Reader of a CPU set that is a mask when it is plain text, as a sysfs file takes it."""

    def read(value: Any, place: str) -> CpuSet:
        if isinstance(value, str):
            return parse_cpumask(value, nbits, place)
        return _cpu_table(value, nbits, place)

    return read


def _cpu_table(value: Any, nbits: int, place: str) -> CpuSet:
    """A CPU set that says how it is spelt: ``{ list = "0-3" }`` or ``{ mask = "f" }``."""
    allowed = 'text, { list = "0-3" } or { mask = "f" }'
    if not isinstance(value, dict):
        fix = ""
        if isinstance(value, list) and all(checks.is_int(cpu) for cpu in value):
            fix = f'{{ list = "{",".join(map(str, value))}" }}'
        elif checks.is_int(value):
            fix = (
                f'{{ list = "{value}" }} for CPU {value}, or {{ mask = "{value:x}" }} for the mask'
            )
        raise ConfigError(place, checks.shown(value), allowed, fix)
    if len(value) != 1 or not set(value) <= {"list", "mask"}:
        raise ConfigError(place, checks.shown(value), allowed)
    ((kind, text),) = value.items()
    expect(text, str, join(place, kind), f'"{text}"' if checks.is_int(text) else "")
    parse = parse_cpulist if kind == "list" else parse_cpumask
    return parse(text, nbits, join(place, kind))


def _per_queue(reader: Reader) -> Reader:
    """Reader of one mask per queue, or of one for all queues."""

    def read(value: Any, place: str) -> Any:
        if isinstance(value, list) and not (value and all(checks.is_int(item) for item in value)):
            return read_list(value, place, reader)
        return reader(value, place)

    return read


def _topology(value: Any, place: str) -> Topology:
    values = read_table(value, place, dict.fromkeys(TOPOLOGY_KEYS), ("cpus",))
    topology: Topology = build(Topology.from_lists, values, place)
    return topology


def _kernel(value: Any, place: str) -> str | KernelProfile:
    """A kernel's name, or ``{ name = "legacy", mask_policy = "boost" }``."""
    if isinstance(value, dict):
        names = [field.name for field in attrs.fields(KernelProfile) if field.name != "unsourced"]
        values = read_table(value, place, dict.fromkeys(names), ("name",))
        profile = get_kernel(_kernel(values.pop("name"), join(place, "name")))
        return build(profile.replace, values, place) if values else profile.name
    if not isinstance(value, str) or value not in KERNELS:
        raise ConfigError(
            place, checks.shown(value), checks.listed(KERNELS), checks.nearest(value, KERNELS)
        )
    return value


def _secrets(value: Any, place: str) -> Secrets:
    """Secrets drawn from ``seed`` (default 0), single ones given in their place."""
    names = [field.name for field in attrs.fields(Secrets)]
    values = read_table(value, place, dict.fromkeys(["seed", *names]))
    seed = values.pop("seed", 0)
    if not checks.is_int(seed) or not 0 <= seed < 2**64:
        raise ConfigError(join(place, "seed"), checks.shown(seed), "a whole number, 0 to 2**64 - 1")
    secrets: Secrets = build(
        lambda **given: attrs.evolve(Secrets.from_seed(seed), **given), values, place
    )
    return secrets


def _nic_reader(topology: Topology) -> Reader:
    """Reader of one ``[[nic]]`` table."""
    mask = _per_queue(_cpu_mask(topology.cpus))
    irqs = _irq_reader(topology)
    readers: dict[str, Reader | None] = {
        "rss": _plain(Rss, hash_fields=lambda value, place: _hash_fields(value, place)),
        "gro": _plain(Gro),
        "cpumap": _plain(Cpumap, cpus=_cpu_list(topology.cpus)),
        "rps_cpus": mask,
        "xps_cpus": mask,
    }

    def read(value: Any, place: str) -> Nic:
        expect(value, dict, place)
        queues = {  # as far as there may be any: the Nic refuses what is none
            kind: min(count, MAX_QUEUES) if checks.is_int(count) else 1
            for kind in ("rx", "tx")
            for count in [value.get(f"{kind}_queues", 1)]
        }
        own = {
            "xps_rxqs": _per_queue(_cpu_mask(max(queues["rx"], 1))),
            "irq_cpus": irqs(queues["rx"]),
            "tx_irq_cpus": irqs(queues["tx"]),
        }
        nic: Nic = _plain(Nic, **readers, **own)(value, place)
        return nic

    return read


def _irq_reader(topology: Topology) -> Callable[[int], Reader]:
    """Reader of the interrupts' CPUs: a list of them, or a CPU list that the queues go round."""

    def for_queues(queues: int) -> Reader:
        def read(value: Any, place: str) -> Any:
            if isinstance(value, list):
                return value
            if not isinstance(value, (str, dict)):
                allowed = 'a list with a CPU for each queue, or a CPU list such as "0-3"'
                raise ConfigError(place, checks.shown(value), allowed, f"[{value}]")
            cpus = _cpu_list(topology.cpus)(value, place).cpus
            if not cpus:
                raise ConfigError(place, checks.shown(value), "at least one CPU")
            return [cpus[queue % len(cpus)] for queue in range(queues)]

        return read

    return for_queues


def _hash_fields(value: Any, place: str) -> Any:
    return read_table(value, place, dict.fromkeys(RSS_FLOWS))


def _sockets(value: Any, place: str, topology: Topology) -> list[Socket]:
    """All ``[[socket]]`` tables; one with ``count`` stands for that many sockets."""
    readers: dict[str, Reader | None] = {
        "cpu_mask": _cpu_mask(topology.cpus),
        "threads": _cpu_list(topology.cpus),
        "cbpf": _plain(Cbpf),
        "sockmap": _plain(Sockmap),
    }
    keys = {field.name: readers.get(field.name) for field in attrs.fields(Socket)}
    keys |= {"count": None, "per_cpu": None}
    out: list[Socket] = []
    for index, table in enumerate(expect(value, list, place)):
        here = f"{place}[{index}]"
        values = read_table(table, here, keys, ("name",))
        if "count" in values or "per_cpu" in values:
            out.extend(_copies(values, here, topology))
        else:
            out.append(build(Socket, values, here))
    return out


def _copies(values: dict[str, Any], place: str, topology: Topology) -> list[Socket]:
    """``count`` sockets ``name-0`` ...; with ``per_cpu``, copy i belongs to the i-th online CPU."""
    online = topology.online_cpus
    per_cpu = expect(values.pop("per_cpu", False), bool, join(place, "per_cpu"))
    count = values.pop("count", len(online) if per_cpu else 1)
    if not checks.is_int(count) or not 1 <= count <= MAX_COPIES:
        allowed = f"a whole number from 1 to {MAX_COPIES}"
        raise ConfigError(join(place, "count"), checks.shown(count), allowed)
    if per_cpu:
        for key in ("incoming_cpu", "threads"):
            if key in values:
                allowed = "none with per_cpu = true, which sets it"
                raise ConfigError(join(place, key), "one", allowed)
    name = expect(values.pop("name"), str, join(place, "name"))
    out = []
    for index in range(count):
        own: dict[str, Any] = {"name": f"{name}-{index}"}
        if per_cpu:
            cpu = online[index % len(online)]
            own |= {"incoming_cpu": cpu, "threads": CpuSet(1 << cpu)}
        out.append(build(Socket, values | own, place))
    return out


def dump_host(host: Host) -> str:
    """Write a host as TOML; `host_from_toml` of it gives an equal host.

    Raises:
        ConfigError: the host has connections, which a TOML file cannot hold.
    """
    if host.connections is not None:
        given = f"{len(host.connections)} rows"
        raise ConfigError("host: connections", given, "none in a TOML file", "connections=None")
    top = _changed(host, ("topology", "nics", "sockets", "connections", "kernel", "secrets"))
    if "flow_limit_cpus" in top:
        top["flow_limit_cpus"] = host.flow_limit_cpus.mask(host.topology.cpus)
    kernel = _dump_kernel(host.kernel)
    parts = ["".join(_lines({"kernel": kernel} | top)), _dump_topology(host.topology)]
    parts.append("[secrets]\n" + "".join(_lines(_dump_secrets(host.secrets))))
    parts.extend(f"[[nic]]\n{''.join(_lines(_dump_nic(nic, host)))}" for nic in host.nics)
    parts.extend(
        f"[[socket]]\n{''.join(_lines(_dump_socket(socket, host)))}" for socket in host.sockets
    )
    return "\n".join(parts)


def _lines(values: dict[str, Any]) -> list[str]:
    return [f"{key} = {to_toml(value)}\n" for key, value in values.items()]


def _changed(item: Any, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """Fields of an attrs object that are not at their default."""
    out = {}
    for field in attrs.fields(type(item)):
        value = getattr(item, field.name)
        if field.name not in without and value != field.default and value is not None:
            out[field.name] = value
    return out


def _dump_kernel(kernel: str | KernelProfile) -> object:
    if isinstance(kernel, str):
        return kernel
    name = kernel.name.rstrip("+")
    base = KERNELS.get(name, KERNELS["6.18"])
    values = attrs.asdict(kernel, filter=lambda field, value: value != getattr(base, field.name))
    return {"name": base.name} | {key: value for key, value in values.items() if key != "name"}


def _dump_topology(topology: Topology) -> str:
    values: dict[str, Any] = {"cpus": topology.cpus}
    default = Topology(cpus=topology.cpus, node_of=topology.node_of)
    if any(topology.node_of):
        values["nodes"] = _lists(topology.node_of)
    if topology.llc_of != default.llc_of:
        values["llcs"] = _lists(topology.llc_of)
    if topology.core_of != default.core_of:
        values["cores"] = _lists(topology.core_of)
    if not all(topology.online):
        values["offline"] = topology.online_list(False)
    return "[topology]\n" + "".join(_lines(values))


def _lists(column: tuple[int, ...]) -> list[str]:
    groups: list[list[int]] = [[] for _ in range(max(column) + 1)]
    for cpu, group in enumerate(column):
        groups[group].append(cpu)
    return [CpuSet(group).list() for group in groups]


def _dump_secrets(secrets: Secrets) -> dict[str, Any]:
    values = attrs.asdict(secrets)
    return {
        key: value.hex() if isinstance(value, bytes) else value for key, value in values.items()
    }


def _dump_nic(nic: Nic, host: Host) -> dict[str, Any]:
    values = _changed(nic, ("rss", "gro"))
    for field, nbits in (
        ("rps_cpus", host.topology.cpus),
        ("xps_cpus", host.topology.cpus),
        ("xps_rxqs", nic.rx_queues),
    ):
        if field in values:
            values[field] = [cpus.mask(nbits) for cpus in values[field]]
    rss = _changed(nic.rss, ("hash_fields", "key"))
    if nic.rss.indirection == default_indirection(nic.rx_queues):
        del rss["indirection"]
    if nic.rss.key is not None:
        rss["key"] = nic.rss.key.hex(":")
    if nic.rss.hash_fields:
        rss["hash_fields"] = dict(nic.rss.hash_fields)
    values |= {"rss": rss} if rss else {}
    gro = _changed(nic.gro)
    values |= {"gro": gro} if gro else {}
    if nic.cpumap is not None:
        values["cpumap"] = _changed(nic.cpumap) | {"cpus": nic.cpumap.cpus.list()}
    return values


def _dump_socket(socket: Socket, host: Host) -> dict[str, Any]:
    values = _changed(socket)
    if socket.cpu_mask is not None:
        values["cpu_mask"] = socket.cpu_mask.mask(host.topology.cpus)
    if "threads" in values:
        values["threads"] = socket.threads.list()
    if socket.cbpf is not None:
        values["cbpf"] = attrs.asdict(socket.cbpf)
    if socket.sockmap is not None:
        values["sockmap"] = _changed(socket.sockmap)
    return values
