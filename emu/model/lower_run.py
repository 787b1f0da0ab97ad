"""Lowering of a run: a host, its packets, a machine and a workload become a run's plan."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray

from emu.errors import ConfigError
from emu.model import checks
from emu.model.accept import Served, served_by_nobody
from emu.model.exponential import exp_table
from emu.model.host import Host
from emu.model.lower import lower
from emu.model.lower_threads import lower_chains, lower_threads
from emu.model.nic import Nic
from emu.model.packets import Packets
from emu.model.plan import Array
from emu.model.run_limits import (
    refuse_flow_tables,
    refuse_long_frames,
    refuse_rings,
    refuse_slow,
)
from emu.model.run_plan import RunPlan
from emu.model.sockets import Socket
from emu.model.topology import Topology
from emu.model.wire import MIN_FRAME_BYTES, WIRE_EXTRA_BYTES
from emu.model.workloads import OpenLoop, Workload, durations_ps
from emu.run_dtypes import COST_ONE, RUN_NIC, WORKLOAD, Latency, Limit, Qdisc

if TYPE_CHECKING:
    from emu.model.costs import Machine

QDISC_LEN = 1000  # tx_queue_len
SOFTIRQ_MS = 2  # MAX_SOFTIRQ_TIME
TIMELESS = "not in time yet, steer alone knows it"
QDISC_LOCKS = {"fq_codel": Qdisc.LOCKED, "htb": Qdisc.SINGLE, "noqueue": Qdisc.NOQUEUE}


def lower_run(
    host: Host,
    packets: Packets,
    *,
    machine: Machine,
    workload: Workload,
    seed: int = 0,
    served: Served | None = None,
) -> RunPlan:
    """Flatten everything that a run hangs on.

    Args:
        host: with the connections that exist before the run (`emu.model.accept.accept`).
        packets: closed loop: row f is the request of flow f
            (`emu.model.workloads.request_packets`); open loop: the workload's.
        machine: what things cost.
        workload: what clients and applications do.
        seed: of every draw of the run, 0 to 2**64 - 1.
        served: who accepted the connections; without it their threads are those of one process.

    Raises:
        ConfigError: the host has what no run knows yet; a packet arrived on a NIC that it lacks, or
            faster than its link; a thread stands on a CPU that is offline; an operation takes too
            long (`emu.model.run_limits`).
    """
    if not checks.is_int(seed) or not 0 <= seed < 2**64:
        raise ConfigError("run: seed", checks.shown(seed), "a whole number, 0 to 2**64 - 1")
    if len(packets) == 0:
        raise ConfigError("packets", "an empty table", "at least one packet", "another capture")
    refuse_unknown(host)
    refuse_slow(machine)
    refuse_rings(host)
    refuse_flow_tables(host)
    base = lower(host, packets)
    if isinstance(workload, OpenLoop):
        refuse_long_frames(packets, max(map(ps_per_byte, host.nics)))
        refuse_beyond_link(host, packets)
    served = served_by_nobody(host) if served is None else served
    applications = lower_threads(host, workload, served)
    chains = np.zeros(0, dtype=np.int32)
    if host.profile.refcnt_in_lookup_line:
        chains = lower_chains(base.sockets, applications["sockets"])
    ps_num, ps_den = ps_per_cost(machine.khz)
    qdiscs, qdisc_arrays = lower_qdiscs(host)
    return RunPlan(
        base=base,
        seed=seed,
        ps_num=ps_num,
        ps_den=ps_den,
        qdiscs=qdiscs,
        sock_flow_entries=base.sock_flow_entries,
        costs=machine.costs,
        transfer=machine.transfer,
        stream=machine.stream,
        lines=machine.lines,
        distance=lower_distance(host.topology),
        latencies=lower_latencies(host, machine, workload),
        limits=lower_limits(host),
        nics=lower_run_nics(host),
        **lower_napis(host),
        **qdisc_arrays,
        **applications,
        chains=chains,
        workload=lower_workload(workload),
        exp_table=exp_table(),
        flow_limit=lower_flow_limit(host),
        rxq_flow_entries=base.rxq_flow_entries,
    )


def lower_flow_limit(host: Host) -> NDArray[np.uint8]:
    """``uint8[ncpus]``: whether each CPU limits flows."""
    return np.array([cpu in host.flow_limit_cpus for cpu in range(host.topology.cpus)], dtype="u1")


def refuse_unknown(host: Host) -> None:
    """Refuse what takes no time yet, and threads on CPUs that are offline."""
    for nic in host.nics:
        if nic.cpumap is not None:
            refuse_timeless(nic, "cpumap", f"one on CPUs {nic.cpumap.cpus.list()}")
        if nic.gro.rx_gro_list:
            refuse_timeless(nic, "gro.rx_gro_list", "true")
    for socket in host.sockets:
        if socket.sockmap is not None:
            refuse_timeless(socket, "sockmap", "one")
        if socket.udp_gro:
            refuse_timeless(socket, "udp_gro", "true")
    rows = host.connections
    if rows is None or len(rows) == 0:
        return
    online = np.array(host.topology.online, dtype=bool)
    cpus = rows["app_off"].astype(np.int64)
    offline = ~(online[np.minimum(cpus, len(online) - 1)] & (cpus < len(online)))
    if offline.any():
        row = int(np.argmax(offline))
        allowed = f"CPUs that are online ({host.topology.online_list()})"
        raise ConfigError(f"host: connections[{row}]: thread", f"CPU {cpus[row]}", allowed)
    if (rows["has_psock"] != 0).any():
        row = int(np.argmax(rows["has_psock"] != 0))
        raise ConfigError(f"host: connections[{row}]: sockmap", "one", f"none: {TIMELESS}")


def refuse_timeless(owner: Nic | Socket, field: str, given: str) -> NoReturn:
    """Raise the error of something that a steer knows and a run does not."""
    raise ConfigError(f"{checks.label(owner)}: {field}", given, f"none: {TIMELESS}")


def refuse_beyond_link(host: Host, packets: Packets) -> None:
    """Refuse arrivals that are faster than a NIC's link over their whole span."""
    frames = np.maximum(packets.wire_bytes.astype(np.int64), MIN_FRAME_BYTES) + WIRE_EXTRA_BYTES
    for index, nic in enumerate(host.nics):
        rows = np.flatnonzero(packets.nic == index)
        if nic.link_mbps == 0 or len(rows) < 2:
            continue
        arrivals = packets.arrival_ps[rows]
        last = int(np.argmax(arrivals))
        span_ps = int(arrivals[last]) - int(arrivals.min())
        sent_ps = int(frames[rows].sum() - frames[rows[last]]) * ps_per_byte(nic)
        if sent_ps > span_ps:
            given = f"{nic.link_mbps} for {len(rows)} packets"
            allowed = f"a link that takes them: they need {sent_ps} ps and come in {span_ps} ps"
            where = f"{checks.label(nic)}: link_mbps"
            raise ConfigError(where, given, allowed, "a lower rate, or 0 for no limit")


def ps_per_cost(khz: int) -> tuple[int, int]:
    """Picoseconds of 1/1024 cycle, as a fraction in lowest terms."""
    num, den = 10**9, COST_ONE * khz
    common = gcd(num, den)
    return num // common, den // common


def ps_per_byte(nic: Nic) -> int:
    """Picoseconds of a byte on the link, rounded up; 0 without a limit."""
    return -(-8_000_000 // nic.link_mbps) if nic.link_mbps else 0


def lower_distance(topology: Topology) -> NDArray[np.uint8]:
    """``uint8[ncpus, ncpus]``, place in DISTANCES."""
    node, cache = np.array(topology.node_of), np.array(topology.llc_of)
    out = np.full((topology.cpus, topology.cpus), 3, dtype=np.uint8)
    out[node[:, None] == node] = 2
    out[cache[:, None] == cache] = 1
    np.fill_diagonal(out, 0)
    return out


def lower_latencies(host: Host, machine: Machine, workload: Workload) -> NDArray[np.int64]:
    """``int64[len(Latency)]``."""
    out = np.zeros(len(Latency), dtype=np.int64)
    out[Latency.IRQ_DELAY], out[Latency.IRQ_JITTER] = machine.irq_delay_ps, machine.irq_jitter_ps
    out[Latency.IPI], out[Latency.SLICE] = machine.ipi_ps, machine.slice_ps
    out[Latency.MAP_RESIDENCY] = machine.map_residency_ps
    for name, duration_ps in durations_ps(workload).items():
        out[Latency[name.upper()]] = duration_ps
    out[Latency.JIFFY] = host.jiffy_ps
    return out


def lower_limits(host: Host) -> NDArray[np.int64]:
    """``int64[len(Limit)]``."""
    kernel = host.profile
    out = np.zeros(len(Limit), dtype=np.int64)
    out[Limit.NETDEV_BUDGET] = host.netdev_budget
    out[Limit.BUDGET_JIFFIES] = host.netdev_budget_jiffies
    out[Limit.MAX_BACKLOG] = host.netdev_max_backlog
    out[Limit.FLOW_LIMIT_BITS] = host.flow_limit_table_len.bit_length() - 1
    out[Limit.QDISC_LEN] = QDISC_LEN
    out[Limit.SOFTIRQ_JIFFIES] = max(1, -(-SOFTIRQ_MS * host.hz // 1000))
    out[Limit.DEFER_FREE] = kernel.defer_free
    out[Limit.REFCNT_IN_LOOKUP_LINE] = kernel.refcnt_in_lookup_line
    out[Limit.WMEM_OOO] = kernel.ooo_needs_empty_wmem
    return out


def qdisc_of(host: Host, nic: Nic) -> Qdisc:
    """How the NIC's tx queues are locked under the host's kernel."""
    if nic.qdisc == "pfifo_fast":
        return Qdisc.LOCKLESS if host.profile.pfifo_fast_lockless else Qdisc.LOCKED
    return QDISC_LOCKS[nic.qdisc]


def lower_run_nics(host: Host) -> NDArray[np.void]:
    """``RUN_NIC[k]``."""
    out = np.zeros(len(host.nics), dtype=RUN_NIC)
    for row, nic in zip(out, host.nics, strict=True):
        row["rx_ring"], row["tx_ring"] = nic.rx_ring, nic.tx_ring
        row["qdisc"], row["bql_bytes"] = qdisc_of(host, nic), nic.bql_bytes
        row["ps_per_byte"] = ps_per_byte(nic)
        row["map_node"] = -1 if nic.xps_node is None else nic.xps_node
    return out


def lower_napis(host: Host) -> dict[str, Array]:
    """``napi_cpu``, ``napi_usecs_ps``, ``napi_frames``, ``txq_napi``.

    A tx queue completes in the NAPI of the rx queue of its number when both interrupt one CPU;
    else it has a NAPI, and an interrupt, of its own.
    """
    cpus = [cpu for nic in host.nics for cpu in nic.irq_cpus]
    usecs = [nic.rx_usecs_ps for nic in host.nics for _ in nic.irq_cpus]
    frames = [nic.rx_frames for nic in host.nics for _ in nic.irq_cpus]
    napi_of: list[int] = []
    first = 0
    for nic in host.nics:
        for queue, cpu in enumerate(nic.tx_irq_cpus):
            if queue < nic.rx_queues and nic.irq_cpus[queue] == cpu:
                napi_of.append(first + queue)
                continue
            napi_of.append(len(cpus))
            cpus.append(cpu)
            usecs.append(nic.rx_usecs_ps)
            frames.append(0)  # counts frames received
        first += nic.rx_queues
    return {
        "napi_cpu": _i4(cpus),
        "napi_usecs_ps": np.array(usecs, dtype=np.int64),
        "napi_frames": _i4(frames),
        "txq_napi": _i4(napi_of),
    }


def lower_qdiscs(host: Host) -> tuple[int, dict[str, Array]]:
    """How many qdiscs there are; ``txq_nic`` and ``txq_qdisc``."""
    nic_of: list[int] = []
    qdisc: list[int] = []
    count = 0
    for index, nic in enumerate(host.nics):
        nic_of += [index] * nic.tx_queues
        own = 1 if qdisc_of(host, nic) == Qdisc.SINGLE else nic.tx_queues
        qdisc += [count + queue % own for queue in range(nic.tx_queues)]
        count += own
    return count, {"txq_nic": _i4(nic_of), "txq_qdisc": _i4(qdisc)}


def lower_workload(workload: Workload) -> NDArray[np.void]:
    """``WORKLOAD[1]``."""
    out = np.zeros(1, dtype=WORKLOAD)
    out[0]["closed"] = not isinstance(workload, OpenLoop)
    out[0]["work_exponential"] = workload.work_exponential
    out[0]["response_bytes"] = workload.response_bytes
    out[0]["work"] = workload.work
    return out


def _i4(values: Iterable[int]) -> NDArray[np.int32]:
    return np.array(list(values), dtype=np.int32)
