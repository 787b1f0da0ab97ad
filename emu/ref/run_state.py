"""The objects of a run (docs/run.md): CPUs, NAPIs, tx queues, qdiscs, sockets, threads, skbs."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple

from emu.ref.flow_limit import FlowLimit
from emu.ref.gro import Gro
from emu.ref.gro_skb import Skb
from emu.ref.run_cost import Line, Payer, Prices, SharedLine
from emu.ref.run_lock import Lock
from emu.ref.state import Nic, SocketState
from emu.run_dtypes import NEVER_PS, Ctx, Qdisc

Steps = Generator[None, None, None]  # a context: every yield is a step, or a wait for a lock
NET_TX, NET_RX = 1, 2  # bits of pending softirqs
UDP = 17


class Doing(IntEnum):
    """What an interrupt finds on a CPU."""

    IDLE = 0
    WOKEN = 1  # still idle, its next step is on its way
    OPEN = 2  # a user step that an interrupt splits
    CLOSED = 3  # a step with bottom halves or interrupts off
    WAITING = 4  # for a lock
    INTERRUPT = 5  # the interrupt of an idle CPU or of an open step


class RingFrame(NamedTuple):
    """A frame in an rx ring: its row of the packets, and when it is whole in memory."""

    row: int
    ready_ps: int


@dataclass(slots=True, eq=False)
class RxSkb:
    """A received skb on its way up."""

    skb: Skb
    home: int  # CPU whose driver made it
    nic: int
    queue: int  # rx queue within the NIC that the driver recorded
    rxq: int  # the same of the host
    proto: int  # column of the line table
    line: Line
    through_backlog: bool = False

    @property
    def row(self) -> int:
        """First row of the packets."""
        return self.skb.first


@dataclass(slots=True, eq=False)
class TxSkb:
    """An skb that is sent: a response, or a forwarded one."""

    rows: list[int]  # of the request, or its own
    frame_bytes: int
    proto: int
    txq: TxQueue
    socket: Socket | None  # that sent it
    line: Line
    done_ps: int = NEVER_PS  # when it has left the NIC

    @property
    def row(self) -> int:
        """First of the rows."""
        return self.rows[0]


@dataclass(slots=True, eq=False)
class Link:
    """A NIC: its link, the sizes of its rings, and what steers on it."""

    index: int
    steer: Nic
    rx_ring: int
    tx_ring: int
    bql_bytes: int
    ps_per_byte: int
    map_node: int
    first_txq: int
    has_cpu_maps: bool
    map_used_ps: list[int]  # when each CPU used the XPS maps last; -1 never
    rx_free_ps: int = 0
    tx_free_ps: int = 0

    @property
    def bql(self) -> bool:
        """Whether BQL limits the bytes in its tx rings."""
        return self.bql_bytes > 0


@dataclass(slots=True, eq=False)
class Napi:
    """A NAPI with its interrupt; rx queue i's is NAPI i, behind them those with tx queues only."""

    number: int
    cpu: Cpu
    usecs_ps: int
    frames: int
    link: Link | None = None  # of its rx queue
    queue: int = -1  # rx queue within the NIC
    gro: Gro | None = None
    ring: deque[RingFrame] = field(default_factory=deque)
    txqs: list[TxQueue] = field(default_factory=list)
    masked: bool = False
    draws: int = 0
    interrupts: int = 0
    polls: int = 0
    full_polls: int = 0
    received: int = 0
    lost: int = 0


@dataclass(slots=True, eq=False)
class TxQueue:
    """A tx queue: its lock, its ring, what is under way to it."""

    number: int
    link: Link
    napi: Napi
    qdisc: QdiscState
    lock: Lock
    line: Line = field(default_factory=Line)
    ring_line: Line = field(default_factory=Line)
    dql_line: Line = field(default_factory=Line)
    ring: deque[TxSkb] = field(default_factory=deque)
    entering: list[TxSkb] = field(default_factory=list)  # of an XMIT under way
    ring_bytes: int = 0  # with those that enter
    stopped: bool = False
    packets: int = 0
    bytes: int = 0
    doorbells: int = 0
    stops: int = 0

    @property
    def has_room(self) -> bool:
        """Whether another packet may enter: a descriptor is free, and BQL allows it."""
        link = self.link
        if len(self.ring) + len(self.entering) >= link.tx_ring:
            return False
        return not link.bql or self.ring_bytes < link.bql_bytes

    def stop(self) -> None:
        """netif_tx_stop_queue."""
        self.stops += not self.stopped
        self.stopped = True


@dataclass(slots=True, eq=False)
class QdiscState:
    """A qdisc: the packets in it, and who runs it."""

    number: int
    kind: int  # Qdisc
    root: Lock
    busy: Lock
    line: Line = field(default_factory=Line)
    packets: deque[TxSkb] = field(default_factory=deque)
    running: bool = False
    scheduled: bool = False  # on some CPU's list for NET_TX
    enqueued: int = 0
    bypassed: int = 0
    requeued: int = 0
    dropped: int = 0

    @property
    def is_lockless(self) -> bool:
        """Whether no ROOT lock guards it."""
        return self.kind == Qdisc.LOCKLESS

    @property
    def can_run(self) -> bool:
        """Whether there is a packet, and its tx queue takes it."""
        return bool(self.packets) and not self.packets[0].txq.stopped


@dataclass(slots=True, eq=False)
class Socket:
    """A socket in time: its receive queue, its readers, the lines of its sides."""

    number: int
    state: int  # SockState
    ip_proto: int
    rcvbuf_bytes: int
    steer: SocketState
    lock: Lock
    rx_line: Line = field(default_factory=Line)
    tx_line: Line = field(default_factory=Line)
    wmem_line: Line = field(default_factory=Line)
    chain_line: SharedLine = field(default_factory=SharedLine)
    chain: list[Socket] = field(default_factory=list)
    queue: deque[RxSkb] = field(default_factory=deque)
    queued_bytes: int = 0
    reader: Thread | None = None  # the only one; it has the socket in its ready list
    is_ready: bool = False
    sleepers: deque[Thread] = field(default_factory=deque)  # of a pool, longest first
    rx_hash: int = 0  # sk_rxhash
    in_transmit: int = 0  # its skbs in qdiscs and rings
    enqueued: int = 0
    dropped: int = 0
    read: int = 0

    @property
    def is_udp(self) -> bool:
        """Whether it is a UDP socket; else it is one of TCP."""
        return self.ip_proto == UDP


@dataclass(slots=True, eq=False)
class Thread:
    """An application's thread, or a CPU's ksoftirqd."""

    number: int
    cpu: int  # where it was last
    allowed: list[int]
    event_loop: bool = False
    is_ksoftirqd: bool = False
    pool: Socket | None = None  # the socket that it serves with others
    ready: deque[Socket] = field(default_factory=deque)
    asleep: bool = True
    just_woken: bool = False
    slice_start_ps: int = 0
    draws: int = 0


@dataclass(slots=True, eq=False)
class Flow:
    """A closed loop's client."""

    number: int
    started_ps: int = -1  # when its request at hand arrived first
    repeats: bool = False  # its next arrival follows a loss
    draws: int = 0


class Cpu(Payer):
    """A CPU: the contexts on it, its softirq data, its backlog, its run queue."""

    def __init__(self, number: int, prices: Prices, ksoftirqd: Thread) -> None:
        super().__init__(number, prices)
        # The contexts: what user threads do, and above it the softirqs that follow an interrupt.
        self.threads: Steps
        self.softirq: Steps | None = None
        self.doing = Doing.IDLE
        self.end_ps = NEVER_PS  # of the step that runs
        self.set_aside_ps: int | None = None  # what is left of an open step
        self.below: int = int(Ctx.IDLE)  # context that the interrupt came upon
        # Time.
        self.busy_ps = [0] * len(Ctx)
        self.since_ps = 0  # accounted up to here
        self.interrupt_ps = 0  # interrupts since then
        self.interrupt_end_ps = 0  # of the last of them
        # Softirqs.
        self.pending = 0
        self.fresh = False  # something of it was raised and no softirq has looked since
        self.in_net_rx_action = False
        self.entry_due = False  # the next step pays for the entry into net_rx_action
        self.poll_list: deque[Napi | Backlog] = deque()
        self.scheduled_qdiscs: deque[QdiscState] = deque()
        self.ipis: deque[Cpu] = deque()  # to be sent to
        self.hand: RxSkb | None = None  # the skb that goes up right now
        self.going_up: deque[RxSkb] = deque()
        # Its backlog, and skbs that others have read and that are to be freed here.
        self.backlog = Backlog(self)
        self.defer_line = Line()
        self.deferred = 0
        self.flow_limit: FlowLimit | None = None
        # An IPI on its way here.
        self.ipi_for_backlog = False
        self.ipi_for_deferred = False
        # Threads.
        self.ksoftirqd = ksoftirqd
        self.current: Thread | None = None
        self.run_queue: deque[Thread] = deque()
        self.counts = CpuCounts()

    @property
    def is_free(self) -> bool:
        """Whether no thread is current and none waits."""
        return self.current is None and not self.run_queue

    def raise_softirq(self, bit: int) -> None:
        """Mark a softirq as pending."""
        self.pending |= bit
        self.fresh = True

    def raise_net_rx(self) -> None:
        """The same for NET_RX, which a running net_rx_action does not need."""
        if not self.in_net_rx_action:
            self.raise_softirq(NET_RX)

    def account(self, now_ps: int) -> None:
        """Book the time up to now; then another context may begin."""
        busy, interrupts = self.busy_ps, self.interrupt_ps
        busy[self.ctx] += now_ps - self.since_ps - interrupts
        busy[Ctx.IRQ] += interrupts
        self.since_ps, self.interrupt_ps = now_ps, 0

    def busy_at(self, until_ps: int) -> list[int]:
        """Time by context up to a moment that no later step has come before."""
        busy = list(self.busy_ps)
        beyond = max(0, self.interrupt_end_ps - until_ps)
        interrupts = self.interrupt_ps - beyond
        busy[self.ctx] += until_ps - self.since_ps - interrupts
        busy[Ctx.IRQ] += interrupts
        return busy


class Backlog:
    """A CPU's backlog with its NAPI."""

    def __init__(self, cpu: Cpu) -> None:
        self.cpu = cpu
        self.line = Line()
        self.input: deque[RxSkb] = deque()
        self.process: deque[RxSkb] = deque()
        self.scheduled = False
        self.tail = 0


@dataclass(slots=True)
class CpuCounts:
    """A CPU's event counters."""

    processed: int = 0
    dropped: int = 0
    time_squeeze: int = 0
    received_rps: int = 0
    flow_limited: int = 0
    ipis: int = 0
    wakes: int = 0
    switches: int = 0
