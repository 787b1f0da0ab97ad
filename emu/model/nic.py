"""A NIC and what is set on it: queues, interrupts, RSS, RPS, XPS, GRO, cpumap."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import attrs

from emu.dtypes import RSS_FLOWS, RssField
from emu.errors import ConfigError
from emu.model import checks
from emu.model.masks import CpuSet
from emu.units import format_duration_ps, parse_duration_ps

MAX_CLASSES = 16  # TC_MAX_QUEUE
MAX_QUEUES = 65535  # an XPS list holds u16 queue numbers, and 0xffff means none
MIN_INDIRECTION = 128
MAX_INDIRECTION = 1 << 16
GRO_MAX_SIZE = 8 * 65535
CPUMAP_MAX_QSIZE = 16384
MAX_RING = 65536
MAX_FLOW_ENTRIES = 2**24  # of an RFS table; the kernel takes more
MAX_LINK_MBPS = 1_000_000
QDISCS = ("pfifo_fast", "fq_codel", "htb", "noqueue")
MICROSOFT_KEY = bytes.fromhex(
    "6d5a56da255b0ec24167253d43a38fb0d0ca2bcbae7b30b477cb2da38030f20c6a42b73bbeac01fa"
)
SYMMETRIC_KEY = bytes.fromhex("6d5a" * 20)
KEYS = {"microsoft": MICROSOFT_KEY, "symmetric": SYMMETRIC_KEY}
LETTERS = {
    "s": RssField.IP_SRC,
    "d": RssField.IP_DST,
    "f": RssField.L4_B_0_1,
    "n": RssField.L4_B_2_3,
}
UDP_HASH = {"2tuple": "sd", "4tuple": "sdfn"}
XFRM = ("none", "symmetric-xor", "symmetric-or-xor")


def parse_rss_key(text: Any) -> Any:
    """The bytes of a key given as ``"6d:5a:..."``, plain hex, ``"microsoft"`` or ``"symmetric"``.

    Raises:
        ConfigError: text that is none of these.
    """
    if not isinstance(text, str):
        return text
    if text in KEYS:
        return KEYS[text]
    plain = text.strip()
    if not re.fullmatch("[0-9a-fA-F]{2}(:?[0-9a-fA-F]{2})*", plain):
        raise ConfigError(
            "rss: key",
            checks.shown(text),
            'hex bytes ("6d:5a:..." or "6d5a..."), "microsoft" or "symmetric"',
            checks.nearest(text, KEYS),
        )
    return bytes.fromhex(plain.replace(":", ""))


@attrs.frozen(kw_only=True, slots=True)
class Rss:
    """How the NIC chooses an rx queue (receive.md 1).

    ``key`` None: the kernel's own random key, drawn from the host's secrets. ``hash_fields`` maps
    flow types to ethtool's letters (s, d addresses; f, n ports; "" none) and goes before
    ``udp_hash``. ``indirection`` () is settled by the NIC.

    Raises:
        ConfigError: one line naming the field.
    """

    key: bytes | None = attrs.field(
        default=None, converter=parse_rss_key, validator=checks.optional(checks.octets(40, 52))
    )
    udp_hash: str = attrs.field(default="4tuple", validator=checks.one_of(*UDP_HASH))
    hash_fields: Mapping[str, str] = attrs.field(factory=dict)
    input_xfrm: str = attrs.field(default="none", validator=checks.one_of(*XFRM))
    indirection: tuple[int, ...] = attrs.field(default=(), converter=checks.as_tuple)

    def __attrs_post_init__(self) -> None:
        self._check_fields()
        self._check_indirection()

    def _check_fields(self) -> None:
        if not isinstance(self.hash_fields, Mapping):
            checks.fail(self, "hash_fields", self.hash_fields, 'a table such as { udp4 = "sdfn" }')
        for flow, letters in self.hash_fields.items():
            if flow not in RSS_FLOWS:
                allowed = checks.listed(RSS_FLOWS)
                checks.fail(self, "hash_fields", flow, allowed, checks.nearest(flow, RSS_FLOWS))
            field = f"hash_fields.{flow}"
            usable = "sd" if flow.startswith("ip") else "sdfn"
            if not isinstance(letters, str) or not set(letters) <= set(usable):
                checks.fail(self, field, letters, f'letters of "{usable}"', f'"{usable}"')
            if len(set(letters)) != len(letters):
                checks.fail(self, field, letters, "each letter once")
            paired = ("s" in letters) == ("d" in letters) and ("f" in letters) == ("n" in letters)
            if self.input_xfrm != "none" and not paired:
                allowed = f'"sd", "sdfn", "fn" or "" with input_xfrm="{self.input_xfrm}"'
                checks.fail(self, field, letters, allowed)

    def _check_indirection(self) -> None:
        table = self.indirection
        if not isinstance(table, tuple):
            checks.fail(self, "indirection", table, "a list of rx queues")
        size = len(table)
        if size & (size - 1) or size > MAX_INDIRECTION:
            given = f"{size} entries"
            nearest = f"{1 << (size.bit_length() - 1)} or {1 << size.bit_length()} entries"
            allowed = f"a power of two of entries, at most {MAX_INDIRECTION}"
            raise ConfigError("rss: indirection", given, allowed, nearest)
        for index, queue in enumerate(table):
            if not checks.is_int(queue) or queue < 0:
                checks.fail(self, f"indirection[{index}]", queue, "an rx queue")

    def letters(self, flow: str) -> str:
        """ethtool's letters for a flow type: what is hashed of it."""
        if flow in self.hash_fields:
            return self.hash_fields[flow]
        if flow.startswith("tcp"):
            return "sdfn"
        # Drivers disagree on SCTP as on UDP; two addresses is what all of them can do.
        return UDP_HASH[self.udp_hash] if flow.startswith("udp") else "sd"

    def fields(self) -> tuple[int, ...]:
        """RssField bits for each of RSS_FLOWS."""
        return tuple(
            sum(int(LETTERS[letter]) for letter in self.letters(flow)) for flow in RSS_FLOWS
        )


def default_indirection(rx_queues: int) -> tuple[int, ...]:
    """The table of a fresh driver: ``i % rx_queues``, 128 entries or enough for every queue."""
    size = max(MIN_INDIRECTION, 1 << (rx_queues - 1).bit_length())
    return tuple(index % rx_queues for index in range(size))


@attrs.frozen(kw_only=True, slots=True)
class Gro:
    """GRO on a device: on or off, UDP trains, and the sizes that a packet stays below."""

    enabled: bool = attrs.field(default=True, validator=checks.boolean)
    rx_udp_gro_forwarding: bool = attrs.field(default=False, validator=checks.boolean)
    rx_gro_list: bool = attrs.field(default=False, validator=checks.boolean)
    max_size: int = attrs.field(default=65536, validator=checks.integer(1, GRO_MAX_SIZE))
    ipv4_max_size: int = attrs.field(default=65536, validator=checks.integer(1, GRO_MAX_SIZE))


@attrs.frozen(kw_only=True, slots=True)
class Cpumap:
    """An XDP program that redirects every packet to a cpumap (sockets.md 5).

    Entry k stands on the k-th CPU of ``cpus``. ``rule`` chooses it: "rx-queue" queue % n, "hash"
    the program's own hash of addresses and ports % n, "saddr" last octet of the source % n,
    "fixed" always the entry on CPU ``fixed``.
    """

    cpus: CpuSet = attrs.field(validator=checks.instance_of(CpuSet, "a CPU set"))
    qsize: int = attrs.field(default=192, validator=checks.integer(1, CPUMAP_MAX_QSIZE))
    design: str = attrs.field(default="merged", validator=checks.one_of("merged", "plain", "napi"))
    rule: str = attrs.field(
        default="rx-queue", validator=checks.one_of("rx-queue", "hash", "saddr", "fixed")
    )
    fixed: int | None = attrs.field(default=None, validator=checks.optional(checks.integer(0)))

    def __attrs_post_init__(self) -> None:
        if not self.cpus.bits:
            checks.fail(self, "cpus", self.cpus.list(), "at least one CPU")
        if self.rule == "fixed" and self.fixed is None:
            allowed = f'a CPU of cpus ({self.cpus.list()}) with rule="fixed"'
            raise ConfigError("cpumap: fixed", "nothing", allowed, f"fixed={self.cpus.cpus[0]}")
        if self.rule != "fixed" and self.fixed is not None:
            checks.fail(self, "fixed", self.fixed, f'none with rule="{self.rule}"', 'rule="fixed"')
        if self.fixed is not None and self.fixed not in self.cpus:
            checks.fail(self, "fixed", self.fixed, f"a CPU of cpus ({self.cpus.list()})")


def usecs_text(value: Any) -> Any:
    """Whole microseconds as a duration text; what no duration can be stays as it is."""
    return f"{value}us" if checks.is_int(value) and abs(value) < 2**64 else value


def _queues() -> Any:
    return attrs.field(default=1, validator=checks.integer(1, MAX_QUEUES))


def _sets() -> Any:
    return attrs.field(default=(), converter=checks.as_tuple)


def _ints() -> Any:
    return attrs.field(
        default=(), converter=checks.as_tuple, validator=checks.each(int, "a CPU for each queue")
    )


@attrs.frozen(kw_only=True, slots=True)
class Nic:
    """A network device.

    Per-queue fields have one entry per queue; () stands for the default (``irq_cpus``: the host
    settles queue i on its i-th online CPU, round and round; ``tx_irq_cpus``: the CPU of rx queue
    i % rx_queues; masks: none). One `CpuSet` in place of a list of masks stands for every queue; a
    shorter list leaves the other queues without one. From ``rx_ring`` on the fields matter to a run
    alone, where decisions take time.

    Raises:
        ConfigError: one line naming the NIC and the field.
    """

    name: str = attrs.field(validator=checks.text)
    rx_queues: int = _queues()
    tx_queues: int = _queues()
    irq_cpus: tuple[int, ...] = _ints()
    tx_irq_cpus: tuple[int, ...] = _ints()
    rss: Rss = attrs.field(factory=Rss, validator=checks.instance_of(Rss, "an Rss"))
    rps_cpus: tuple[CpuSet, ...] = _sets()
    xps_cpus: tuple[CpuSet, ...] = _sets()
    xps_rxqs: tuple[CpuSet, ...] = _sets()
    gro: Gro = attrs.field(factory=Gro, validator=checks.instance_of(Gro, "a Gro"))
    cpumap: Cpumap | None = attrs.field(
        default=None, validator=checks.optional(checks.instance_of(Cpumap, "a Cpumap"))
    )
    rx_usecs: str = attrs.field(default="10us", converter=usecs_text)
    rx_frames: int = attrs.field(default=0, validator=checks.integer(0, 2**31 - 1))
    rx_checksum: bool = attrs.field(default=True, validator=checks.boolean)
    hw_hash: bool = attrs.field(default=True, validator=checks.boolean)
    # mqprio: tx queues of each traffic class, one behind the other, and each priority's class.
    tc_queues: tuple[int, ...] = _ints()
    prio_tc: tuple[int, ...] = _ints()
    forward_to: str | None = attrs.field(default=None, validator=checks.optional(checks.text))
    rx_ring: int = attrs.field(default=1024, validator=checks.integer(1, MAX_RING))
    tx_ring: int = attrs.field(default=1024, validator=checks.integer(1, MAX_RING))
    qdisc: str = attrs.field(default="pfifo_fast", validator=checks.one_of(*QDISCS))
    bql_bytes: int = attrs.field(default=0, validator=checks.integer(0, 2**31 - 1))
    link_mbps: int = attrs.field(default=0, validator=checks.integer(0, MAX_LINK_MBPS))
    rps_flow_cnt: int = attrs.field(default=0, validator=checks.integer(0, MAX_FLOW_ENTRIES))
    xps_node: int | None = attrs.field(default=None, validator=checks.optional(checks.integer(0)))

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.rx_usecs, str):
            checks.fail(self, "rx_usecs", self.rx_usecs, "a duration or microseconds", '"10us"')
        with checks.of(self, "rx_usecs"):
            delay_ps = self.rx_usecs_ps
        object.__setattr__(self, "rx_usecs", format_duration_ps(delay_ps) if delay_ps else "0us")
        self._settle_masks("rps_cpus", "rx", self.rx_queues)
        self._settle_masks("xps_cpus", "tx", self.tx_queues)
        self._settle_masks("xps_rxqs", "tx", self.tx_queues)
        self._check_irqs("irq_cpus", "rx", self.rx_queues)
        self._check_irqs("tx_irq_cpus", "tx", self.tx_queues)
        self._check_xps()
        self._check_classes()
        self._settle_indirection()

    def _settle_masks(self, field: str, kind: str, queues: int) -> None:
        masks = getattr(self, field)
        if isinstance(masks, CpuSet):
            masks = (masks,) * queues
        checks.items(self, field, masks, CpuSet, "a CPU set for each queue")
        if not masks:
            return
        if len(masks) > queues:
            where = f"{field}[{queues}]"
            allowed = f"{kind} queues 0..{queues - 1}"
            checks.fail(self, where, masks[queues].list(), allowed, f"{kind}_queues={len(masks)}")
        object.__setattr__(self, field, masks + (CpuSet(),) * (queues - len(masks)))

    def _check_irqs(self, field: str, kind: str, queues: int) -> None:
        cpus = getattr(self, field)
        if cpus and len(cpus) != queues:
            given = f"{len(cpus)} CPUs"
            allowed = f"one for each of the {queues} {kind} queues"
            raise ConfigError(f"{checks.label(self)}: {field}", given, allowed)
        for queue, cpu in enumerate(cpus):
            if cpu < 0 or type(cpu) is not int:
                checks.fail(self, f"{field}[{queue}]", cpu, "a CPU")

    def _check_xps(self) -> None:
        if self.tx_queues == 1 and any(mask.bits for mask in self.xps_cpus):
            allowed = "none with 1 tx queue: the kernel answers ENOENT (XPS-8)"
            checks.fail(
                self, "xps_cpus[0]", self.xps_cpus[0].list(), allowed, "tx_queues=2 or more"
            )
        for queue, rxqs in enumerate(self.xps_rxqs):
            if rxqs.bits >> self.rx_queues:
                allowed = f"rx queues 0..{self.rx_queues - 1}"
                checks.fail(self, f"xps_rxqs[{queue}]", rxqs.list(), allowed)

    def _check_classes(self) -> None:
        counts, classes = self.tc_queues, len(self.tc_queues)
        if classes > MAX_CLASSES:
            checks.fail(self, "tc_queues", counts, f"at most {MAX_CLASSES} classes")
        for tc, count in enumerate(counts):
            if type(count) is not int or count < 1:
                checks.fail(self, f"tc_queues[{tc}]", count, "1 queue or more")
        if sum(counts) > self.tx_queues:
            checks.fail(self, "tc_queues", counts, f"{self.tx_queues} queues in all")
        if self.prio_tc and len(self.prio_tc) != MAX_CLASSES:
            allowed = f"a class for each of {MAX_CLASSES} priorities"
            checks.fail(self, "prio_tc", self.prio_tc, allowed)
        for prio, tc in enumerate(self.prio_tc):
            if type(tc) is not int or not 0 <= tc < max(classes, 1):
                allowed = f"a class of 0..{max(classes, 1) - 1}"
                checks.fail(self, f"prio_tc[{prio}]", tc, allowed)

    def _settle_indirection(self) -> None:
        table = self.rss.indirection
        if not table:
            settled = attrs.evolve(self.rss, indirection=default_indirection(self.rx_queues))
            object.__setattr__(self, "rss", settled)
            return
        for index, queue in enumerate(table):
            if queue >= self.rx_queues:
                where = f"rss.indirection[{index}]"
                checks.fail(self, where, queue, f"rx queues 0..{self.rx_queues - 1}")

    @property
    def rx_usecs_ps(self) -> int:
        """How long the interrupt is held back, in picoseconds."""
        return parse_duration_ps(self.rx_usecs)

    def replace(self, **changes: Any) -> Nic:
        """The same NIC with other fields.

        With another number of queues, what hung on the old number and is not given goes as
        ``ethtool -L`` does it: interrupts and a default indirection are made anew, masks of dropped
        queues go, new queues have none.
        """
        for kind, fields in (("rx", ("rps_cpus",)), ("tx", ("xps_cpus", "xps_rxqs"))):
            queues = changes.get(f"{kind}_queues", getattr(self, f"{kind}_queues"))
            if queues == getattr(self, f"{kind}_queues") or not checks.is_int(queues):
                continue
            for field in fields:
                changes.setdefault(field, getattr(self, field)[: max(queues, 0)])
            changes.setdefault("irq_cpus" if kind == "rx" else "tx_irq_cpus", ())
            is_default = self.rss.indirection == default_indirection(self.rx_queues)
            if kind == "rx" and is_default:
                changes.setdefault("rss", attrs.evolve(self.rss, indirection=()))
        return attrs.evolve(self, **changes)
