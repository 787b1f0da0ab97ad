"""Unfolds a plan into the reference's state."""

from __future__ import annotations

import numpy as np

from emu.dtypes import CpumapDesign, Direction
from emu.model.plan import Array, Plan
from emu.ref.cpumap import Cpumap
from emu.ref.gro import Gro, config_of
from emu.ref.lookup import LookupTable
from emu.ref.ops import rps_map
from emu.ref.packet import PacketView
from emu.ref.record import Recorder
from emu.ref.rfs import Rfs
from emu.ref.sockmap import Psock
from emu.ref.state import HostState, Nic, RxQueue, SocketState
from emu.ref.xps import XpsDevice

NO_CPUMAP = 255


def make_state(plan: Plan, arrived: dict[str, Array], rec: Recorder) -> HostState:
    """A host on which nothing has happened yet."""
    app_cpus = plan.app_cpus.tolist()
    host = HostState(
        plan=plan,
        rec=rec,
        view=PacketView(plan.packets),
        inner=PacketView(plan.inner),
        inner_of=plan.inner_of.tolist(),
        direction=[Direction(way) for way in arrived["direction"].tolist()],
        rx_hash=arrived["rx_hash"].tolist(),
        rx_hash_type=arrived["rx_hash_type"].tolist(),
        nics=[],
        queue_place=[
            (index, queue)
            for index, row in enumerate(plan.nics)
            for queue in range(int(row["rxq_count"]))
        ],
        socket_states=[
            SocketState(threads=app_cpus[first : first + count])
            for first, count in zip(
                plan.sockets["app_off"].tolist(), plan.sockets["app_len"].tolist(), strict=True
            )
        ],
        psocks=[Psock(cpu) for cpu in plan.sockets["psock_cpu"].tolist()],
        lookup=LookupTable(plan.sockets, plan.masks, plan.mask_words, plan.lookup_cfg, rec),
        rfs=Rfs(
            plan.sock_flow_entries,
            plan.rxq_flow_entries.tolist(),
            plan.ncpus,
            bool(plan.rfs_low_bits),
        ),
        incoming_cpu=plan.sockets["incoming_cpu"].tolist(),
        flow_hash_key=plan.flow_hash_key.astype("<u8").tobytes(),
        online=[bool(up) for up in plan.online],
    )
    host.nics = [make_nic(host, index) for index in range(len(plan.nics))]
    return host


def make_nic(host: HostState, index: int) -> Nic:
    """One NIC of the plan."""
    plan = host.plan
    row = plan.nics[index]
    rxq, txq = int(row["rxq_first"]), int(row["txq_first"])
    rx_queues, tx_queues = int(row["rxq_count"]), int(row["txq_count"])
    entries = slice(int(row["cpumap_first"]), int(row["cpumap_first"]) + int(row["cpumap_count"]))
    has_cpumap = row["cpumap_design"] != NO_CPUMAP
    cpumap_cpus = plan.cpumap_cpu[entries].tolist() if has_cpumap else []
    xps = XpsDevice(tx_queues, rx_queues, plan.ncpus, plan.online, plan.node_of)
    set_classes(xps, row)
    return Nic(
        queues=[
            RxQueue(
                irq_cpu=int(plan.rxq_irq_cpu[queue]),
                rps_cpus=rps_map(host, int(plan.rxq_rps[queue])),
                gro=Gro(config_of(plan.nic_gro[index]), host.rec),
            )
            for queue in range(rxq, rxq + rx_queues)
        ],
        tx_irq_cpus=plan.txq_irq_cpu[txq : txq + tx_queues].tolist(),
        forward_nic=int(row["forward_nic"]),
        hw_hash=bool(row["hw_hash"]),
        key_secret=bool(row["key_secret"]),
        xps=xps,
        cpumap=Cpumap(cpumap_cpus, plan.cpumap_qsize[entries].tolist()) if has_cpumap else None,
        cpumap_design=CpumapDesign(int(row["cpumap_design"])) if has_cpumap else None,
        cpumap_rule=int(row["cpumap_rule"]),
        cpumap_fixed=int(row["cpumap_fixed"]),
        cpumap_cpus=cpumap_cpus,
        kthreads=[Gro(config_of(plan.kthread_gro[index]), host.rec) for _ in cpumap_cpus],
    )


def set_classes(xps: XpsDevice, row: np.void) -> None:
    """Traffic classes of the tx side (mqprio), before any mask is written."""
    if not row["num_tc"]:
        return
    xps.set_num_tc(int(row["num_tc"]))
    for tc in range(int(row["num_tc"])):
        xps.set_tc_queue(tc, int(row["tc_count"][tc]), int(row["tc_offset"][tc]))
    for prio, tc in enumerate(row["prio_tc"].tolist()):
        xps.set_prio_tc(prio, tc)
