"""A steer's state: the plan unfolded into objects, and what stages remember between packets."""

from __future__ import annotations

from dataclasses import dataclass, field

from emu.dtypes import STEER_STAGES, CpumapDesign, Direction, Drop, GroResult, Secret, TxOf
from emu.model.plan import Plan
from emu.ref.cpumap import Cpumap
from emu.ref.gro import Gro
from emu.ref.gro_skb import Skb
from emu.ref.lookup import LookupTable
from emu.ref.packet import PacketView
from emu.ref.record import Recorder
from emu.ref.rfs import Rfs
from emu.ref.sockmap import Psock
from emu.ref.xps import XpsDevice

NO_SECRET = Secret(0)


@dataclass
class Decision:
    """What the stack decided for one skb."""

    direction: Direction
    napi_cpu: int
    cpu: int
    drop: Drop = Drop.NONE
    tx_of: TxOf = TxOf.NOTHING
    stage: int = 0
    secrets: Secret = NO_SECRET
    socket: int = -1
    app_cpu: int = -1
    backlog_cpu: int = -1
    tx_nic: int = -1
    tx_queue: int = -1
    completion_cpu: int = -1
    scanned: int = 0
    walked: int = 0


@dataclass
class RxQueue:
    """One rx queue: who polls it, its RPS map, and its NAPI's GRO."""

    irq_cpu: int
    rps_cpus: list[int]
    gro: Gro


@dataclass
class Nic:
    """One NIC: what steers on it, and its stateful parts."""

    queues: list[RxQueue]
    tx_irq_cpus: list[int]
    forward_nic: int
    hw_hash: bool
    key_secret: bool
    xps: XpsDevice
    cpumap: Cpumap | None
    cpumap_design: CpumapDesign | None
    cpumap_rule: int
    cpumap_fixed: int
    cpumap_cpus: list[int]
    kthreads: list[Gro]  # GRO of each cpumap entry's kthread


@dataclass
class SocketState:
    """What a socket remembers between packets, beside the lookup tables."""

    threads: list[int]
    tx_queue: int = -1  # sk_tx_queue_mapping
    tx_secrets: Secret = NO_SECRET  # what that queue hangs on
    rx_queue: int = -1  # sk_rx_queue_mapping
    rx_secrets: Secret = NO_SECRET
    worker_secrets: Secret = NO_SECRET  # what the CPU of its psock's pending worker hangs on
    rx_hash: int = 0  # sk_rxhash: hash of the last packet that was delivered to it


@dataclass
class HostState:
    """Everything a steer reads and writes."""

    plan: Plan
    rec: Recorder
    view: PacketView
    inner: PacketView  # packets that ride in IP in IP
    inner_of: list[int]  # row of it that each packet carries, -1 none
    direction: list[Direction]
    rx_hash: list[int]
    rx_hash_type: list[int]
    nics: list[Nic]
    queue_place: list[tuple[int, int]]  # (NIC, queue within it) of each rx queue
    socket_states: list[SocketState]
    psocks: list[Psock]
    lookup: LookupTable
    rfs: Rfs
    incoming_cpu: list[int]  # SO_INCOMING_CPU as each socket says it now
    flow_hash_key: bytes
    online: list[bool]
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(STEER_STAGES, 0))
    # What the CPU in an entry of RFS's table hangs on, by place.
    flow_secrets: dict[int, Secret] = field(default_factory=dict)
    # What it hangs on who writes which of its places: other flows share them.
    table_secrets: Secret = field(default_factory=lambda: Secret(0))
    scheduled: list[Psock] = field(default_factory=list)  # their workers run at the end of the poll
    delivered: list[tuple[Skb, Decision]] = field(default_factory=list)
    gro_result: dict[int, GroResult] = field(default_factory=dict)
    packet_drop: dict[int, Drop] = field(default_factory=dict)
