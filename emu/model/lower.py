"""Lowering: a checked host, its packets and ops become a plan."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emu import dtypes
from emu.dtypes import CpumapDesign, CpumapRule, IpSummed, PacketFlag
from emu.errors import ConfigError
from emu.kernels import KernelProfile
from emu.model import lower_sockets
from emu.model.consistency import check_packets
from emu.model.host import Host
from emu.model.lower_ops import lower_ops
from emu.model.nic import Gro, Nic
from emu.model.ops import Op
from emu.model.packets import Packets
from emu.model.plan import Plan

CPUMAP_DESIGNS = {
    "plain": CpumapDesign.PLAIN,
    "merged": CpumapDesign.MERGED_GRO,
    "napi": CpumapDesign.NAPI,
}
CPUMAP_RULES = {
    "rx-queue": CpumapRule.RX_QUEUE,
    "hash": CpumapRule.HASH,
    "saddr": CpumapRule.SADDR,
    "fixed": CpumapRule.FIXED,
}
XFRM = {"none": 0, "symmetric-xor": 1, "symmetric-or-xor": 2}
KEY_BYTES = 52
NO_CPUMAP = 255
# Fields of GRO_CFG that are the kernel's: KernelProfile.gro_*.
GRO_SWITCHES = (
    "fixed_id_needs_df",
    "outer_id_unchecked",
    "cwr_masked",
    "cwr_merges",
    "old_gso_bits",
    "tcp_fraglist",
    "jumbo_header",
)
EMPTY = Packets(dtypes.allocate(dtypes.PACKET_COLUMNS, 0))


def lower(host: Host, packets: Packets, ops: Sequence[Op] = ()) -> Plan:
    """Flatten a host and its input.

    Raises:
        ConfigError: a packet arrived on a NIC, or an op names something, that the host lacks.
    """
    if len(packets) and int(packets.nic.max()) >= len(host.nics):
        row = int(np.argmax(packets.nic >= len(host.nics)))
        raise ConfigError(
            f"packet {row}",
            f"nic={int(packets.nic[row])}",
            f"the host's NICs 0..{len(host.nics) - 1}",
            "a host with as many NICs as the capture has interfaces, or nic=0 when reading it",
        )
    check_packets(packets)
    topology = host.topology
    online = np.array(topology.online, dtype=np.uint8)
    rps = RpsMaps(online)
    rxq_rps = [
        rps.row(nic.rps_cpus[queue].cpus) if queue < len(nic.rps_cpus) else -1
        for nic in host.nics
        for queue in range(nic.rx_queues)
    ]
    xps = XpsMasks(topology.cpus, max((nic.rx_queues for nic in host.nics), default=1))
    sockets = lower_sockets.lower_sockets(host)
    op_rows = [*initial_xps(host, xps), *lower_ops(host, ops, rps, xps, sockets)]
    rss, keys, indirection = lower_rss(host)
    family, words = lower_addresses(host)
    return Plan(
        hz=host.hz,
        forwarding=int(host.forwarding),
        mask_words=sockets.mask_words,
        txhash_seed=host.secrets.txhash_seed,
        online=online,
        node_of=np.array(topology.node_of, dtype=np.int32),
        nics=lower_nics(host),
        nic_gro=lower_gro(host),
        kthread_gro=lower_kthread_gro(host),
        rss=rss,
        rss_keys=keys,
        indirection=indirection,
        rxq_irq_cpu=_i4(cpu for nic in host.nics for cpu in nic.irq_cpus),
        rxq_usecs_ps=np.array(
            [nic.rx_usecs_ps for nic in host.nics for _ in range(nic.rx_queues)], dtype=np.int64
        ),
        rxq_frames=_i4(nic.rx_frames for nic in host.nics for _ in range(nic.rx_queues)),
        rxq_rps=_i4(rxq_rps),
        **lower_flow_tables(host),
        inner=EMPTY,
        inner_of=np.full(len(packets), -1, dtype=np.int32),
        **rps.arrays(),
        txq_irq_cpu=_i4(cpu for nic in host.nics for cpu in nic.tx_irq_cpus),
        xps_masks=xps.array(),
        cpumap_cpu=_i4(cpu for nic in host.nics if nic.cpumap for cpu in nic.cpumap.cpus.cpus),
        cpumap_qsize=np.array(
            [nic.cpumap.qsize for nic in host.nics if nic.cpumap for _ in nic.cpumap.cpus.cpus],
            dtype=np.uint32,
        ),
        sockets=sockets.rows,
        masks=sockets.masks_array(),
        app_cpus=sockets.app_cpus_array(),
        lookup_cfg=lower_sockets.lookup_cfg(host),
        addr_family=family,
        addr_words=words,
        flow_hash_key=np.frombuffer(host.secrets.flow_hash_key, dtype="<u8").astype(np.uint64),
        packets=as_the_driver_hands_up(host, packets),
        ops=np.array([tuple(row) for row in op_rows], dtype=dtypes.OP),
    )


def lower_flow_tables(host: Host) -> dict[str, Any]:
    """Sizes of RFS's tables, and the kernel's switches of them."""
    counts = [nic.rps_flow_cnt for nic in host.nics for _ in range(nic.rx_queues)]
    return {
        "rxq_flow_entries": np.array([table_size(count) for count in counts], dtype=np.uint32),
        "sock_flow_entries": table_size(host.rps_sock_flow_entries),
        "rfs_low_bits": int(host.profile.rfs_low_bits),
        "rfs_forgets": int(host.profile.rfs_forgets),
    }


def table_size(entries: int) -> int:
    """Entries of a table of RFS: rounded up to a power of two; 0 none (R-3.1)."""
    return 1 << (entries - 1).bit_length() if entries else 0


class RpsMaps:
    """Collects rps maps: the ascending online CPUs of each mask written (receive.md 3.1)."""

    def __init__(self, online: NDArray[np.uint8]) -> None:
        self.online = online.copy()  # ops change it
        self.maps: list[tuple[int, ...]] = []
        self.rows: dict[tuple[int, ...], int] = {}

    def row(self, cpus: Sequence[int]) -> int:
        """The row of that mask's map; -1 when no CPU is left, which means no map."""
        effective = tuple(cpu for cpu in sorted(cpus) if self.online[cpu])
        if not effective:
            return -1
        if effective not in self.rows:
            self.rows[effective] = len(self.maps)
            self.maps.append(effective)
        return self.rows[effective]

    def arrays(self) -> dict[str, Any]:
        """The plan's ``rps_off``, ``rps_len`` and ``rps_cpus``."""
        lengths = np.array([len(cpus) for cpus in self.maps], dtype=np.uint32)
        offsets = np.zeros(len(lengths), dtype=np.uint32)
        offsets[1:] = np.cumsum(lengths)[:-1] if len(lengths) else 0
        flat = np.array([cpu for cpus in self.maps for cpu in cpus], dtype=np.uint16)
        return {"rps_off": offsets, "rps_len": lengths, "rps_cpus": flat}


class XpsMasks:
    """Collects the masks written to XPS: rows of words wide enough for CPUs and rx queues."""

    def __init__(self, cpus: int, rx_queues: int) -> None:
        self.words = (max(cpus, rx_queues) + 63) // 64
        self.masks: list[int] = []
        self.rows: dict[int, int] = {}

    def row(self, bits: int) -> int:
        """The row that holds these mask bits."""
        if bits not in self.rows:
            self.rows[bits] = len(self.masks)
            self.masks.append(bits)
        return self.rows[bits]

    def array(self) -> NDArray[np.uint64]:
        """``uint64[rows, words]``."""
        out = np.zeros((len(self.masks), self.words), dtype=np.uint64)
        for row, bits in enumerate(self.masks):
            out[row] = [(bits >> (64 * word)) & (2**64 - 1) for word in range(self.words)]
        return out


def initial_xps(host: Host, masks: XpsMasks) -> list[tuple[int, int, int, int, int]]:
    """The host's XPS masks as writes at time 0, by queue: order of writing is order in the map."""
    from emu.model.ops import OpKind

    rows = []
    for index, nic in enumerate(host.nics):
        for kind, sets in ((OpKind.XPS_CPUS, nic.xps_cpus), (OpKind.XPS_RXQS, nic.xps_rxqs)):
            for queue, cpus in enumerate(sets):
                if cpus.bits:
                    rows.append((0, int(kind), index, queue, masks.row(cpus.bits)))
    return rows


def lower_nics(host: Host) -> NDArray[np.void]:
    """``NIC[k]``."""
    out = np.zeros(len(host.nics), dtype=dtypes.NIC)
    names = {nic.name: index for index, nic in enumerate(host.nics)}
    rxq = txq = entry = 0
    for index, nic in enumerate(host.nics):
        row = out[index]
        row["rxq_first"], row["rxq_count"] = rxq, nic.rx_queues
        row["txq_first"], row["txq_count"] = txq, nic.tx_queues
        row["forward_nic"] = names[nic.forward_to] if nic.forward_to else index
        row["hw_hash"], row["key_secret"] = nic.hw_hash, nic.rss.key is None
        lower_classes(row, nic)
        row["cpumap_design"], row["cpumap_fixed"] = NO_CPUMAP, -1
        if nic.cpumap:
            entries = nic.cpumap.cpus.cpus
            row["cpumap_design"] = CPUMAP_DESIGNS[nic.cpumap.design]
            row["cpumap_rule"] = CPUMAP_RULES[nic.cpumap.rule]
            row["cpumap_first"], row["cpumap_count"] = entry, len(entries)
            if nic.cpumap.fixed is not None:
                row["cpumap_fixed"] = entries.index(nic.cpumap.fixed)
            entry += len(entries)
        rxq += nic.rx_queues
        txq += nic.tx_queues
    return out


def lower_classes(row: np.void, nic: Nic) -> None:
    """Traffic classes: tx queues one behind the other."""
    row["num_tc"] = len(nic.tc_queues)
    offset = 0
    for tc, count in enumerate(nic.tc_queues):
        row["tc_offset"][tc], row["tc_count"][tc] = offset, count
        offset += count
    if nic.prio_tc:
        row["prio_tc"] = nic.prio_tc


def lower_gro(host: Host) -> NDArray[np.void]:
    """``GRO_CFG[k]``: GRO of each NIC's own NAPIs."""
    return np.concatenate([gro_cfg(nic.gro, host.profile) for nic in host.nics])


def lower_kthread_gro(host: Host) -> NDArray[np.void]:
    """``GRO_CFG[k]``: GRO in each NIC's cpumap kthreads, if the design has any (CPUMAP-29)."""
    out = lower_gro(host)
    out["fresh_skb"] = 1
    for row, nic in zip(out, host.nics, strict=True):
        if nic.cpumap:
            row["design"] = CPUMAP_DESIGNS[nic.cpumap.design]
            row["enabled"] &= row["design"] != CpumapDesign.PLAIN
    return out


def gro_cfg(gro: Gro, kernel: KernelProfile) -> NDArray[np.void]:
    """``GRO_CFG[1]`` of a device under a kernel's rules."""
    out = np.zeros(1, dtype=dtypes.GRO_CFG)
    row = out[0]
    row["max_size"], row["ipv4_max_size"] = gro.max_size, gro.ipv4_max_size
    row["enabled"], row["udp_forwarding"] = gro.enabled, gro.rx_udp_gro_forwarding
    row["fraglist"] = gro.rx_gro_list
    row["design"] = NO_CPUMAP
    for switch in GRO_SWITCHES:
        row[switch] = getattr(kernel, f"gro_{switch}")
    return out


def lower_rss(host: Host) -> tuple[NDArray[np.void], NDArray[np.uint8], NDArray[np.uint32]]:
    """``RSS[k]``, the distinct keys ``uint8[r, 52]``, the indirection tables in a row."""
    out = np.zeros(len(host.nics), dtype=dtypes.RSS)
    keys: dict[bytes, int] = {}
    tables: list[int] = []
    for index, nic in enumerate(host.nics):
        key = (nic.rss.key if nic.rss.key is not None else host.secrets.rss_key)[:KEY_BYTES]
        row = keys.setdefault(key.ljust(KEY_BYTES, b"\0"), len(keys))
        out[index]["fields"] = nic.rss.fields()
        out[index]["xfrm"] = XFRM[nic.rss.input_xfrm]
        out[index]["table_off"] = row * dtypes.TOEPLITZ_WORDS
        out[index]["indir_off"] = len(tables)
        out[index]["indir_len"] = len(nic.rss.indirection)
        tables.extend(nic.rss.indirection)
    flat = np.frombuffer(b"".join(keys), dtype=np.uint8).reshape(len(keys), KEY_BYTES)
    return out, flat.copy(), np.array(tables, dtype=np.uint32)


def lower_addresses(host: Host) -> tuple[NDArray[np.uint8], NDArray[np.uint32]]:
    """The host's addresses: ``uint8[a]`` families and ``uint32[a, 4]`` words."""
    family = np.zeros(len(host.addresses), dtype=np.uint8)
    words = np.zeros((len(host.addresses), 4), dtype=np.uint32)
    for index, text in enumerate(host.addresses):
        address = ipaddress.ip_address(text)
        family[index] = address.version
        words[index] = np.frombuffer(address.packed.ljust(16, b"\0"), dtype="<u4")
    return family, words


def as_the_driver_hands_up(host: Host, packets: Packets) -> Packets:
    """The packets with the checksum state and hash that each NIC's driver puts on its skbs.

    A device with rx checksumming vouches for good TCP and UDP sums (UNNECESSARY, level 0) and
    leaves the rest NONE. A device that reports its hash replaces whatever the packet carried
    (`steer` fills it in from RSS).
    """
    if not (packets.ip_summed == IpSummed.NONE).any():
        return packets
    checks = np.array([nic.rx_checksum for nic in host.nics], dtype=bool)
    bad = int(PacketFlag.IP_CSUM_BAD | PacketFlag.L4_CSUM_BAD | PacketFlag.FRAGMENT)
    vouched = (
        checks[packets.nic]
        & ((packets.ip_proto == 6) | (packets.ip_proto == 17))
        & (packets.family != 0)
        & ((packets.flags & bad) == 0)
        & (packets.ip_summed == IpSummed.NONE)
    )
    if not vouched.any():
        return packets
    return packets.replace(
        ip_summed=np.where(vouched, np.uint8(IpSummed.UNNECESSARY), packets.ip_summed).astype(
            np.uint8
        )
    )


def _i4(values: Iterable[int]) -> NDArray[np.int32]:
    return np.array(list(values), dtype=np.int32)
