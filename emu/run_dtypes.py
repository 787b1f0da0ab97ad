"""The layout law of a run: costs, line counts, records and codes that both timing engines share.

Beside `emu.dtypes`, which says the same of decisions. docs/run.md says what each means.
"""

from __future__ import annotations

from enum import IntEnum

import numpy as np

COST_ONE = 1024  # cost is counted in 1/1024 cycle
DISTANCES = ("same_cpu", "same_llc", "same_node", "other_node")
NEVER_PS = 2**63 - 1


class Cost(IntEnum):
    """Rows of the plan's ``costs``, 1/1024 cycle; ``*_BYTE`` rows per byte."""

    # Entry and scheduling
    HARDIRQ = 0  # entry and exit of a hard interrupt, NAPI scheduled
    SOFTIRQ = 1  # one net_rx_action around its polls
    IPI_SEND = 2  # one IPI, sender's side
    IPI_HANDLER = 3  # the interrupt on the CPU that gets it
    IDLE_EXIT = 4  # out of the idle loop
    WAKE = 5  # try_to_wake_up, waker's side, without the IPI
    CTX_SWITCH = 6  # one thread to another (or from idle)
    EPOLL_WAIT = 7  # an event loop's system call, once per wake-up
    # Receive
    NAPI_POLL = 8  # one poll without its packets
    NAPI_COMPLETE = 9  # napi_complete_done, interrupt unmasked
    DRIVER_RX = 10  # descriptor, skb allocated
    GRO_PASS = 11  # a packet that GRO looked at and did not merge
    GRO_MERGE = 12
    FLOW_HASH = 13  # skb_get_hash that had to compute
    RPS = 14  # get_rps_cpu and enqueue_to_backlog
    BACKLOG = 15  # one skb out of the backlog
    IP_RX = 16  # netif_receive_skb to the transport
    IP6_RX = 17  # more for IPv6
    LOOKUP = 18  # a socket lookup without what it scores
    SCORE = 19  # one socket scored
    WALK = 20  # one reuseport member looked at
    TCP_RX = 21
    UDP_RX = 22
    FORWARD = 23  # ip_forward: route, TTL
    # Socket and application
    LOCK = 24  # one spin lock, uncontended
    TCP_RECV = 25  # recvmsg with its system call, without the copy
    UDP_RECV = 26
    RECV_BYTE = 27
    SKB_FREE = 28
    DEFER_FREE = 29  # skb_attempt_defer_free
    TCP_SEND = 30  # sendmsg down to dev_queue_xmit, without the copy
    UDP_SEND = 31
    SEND_BYTE = 32
    IP6_TX = 33  # more for IPv6
    # Transmit
    QDISC = 34  # enqueue, or the bypass
    QDISC_RUN = 35  # one dequeue
    DRIVER_TX = 36  # ndo_start_xmit of one skb
    DOORBELL = 37
    TX_COMPLETE = 38  # one descriptor reclaimed, its skb freed at home
    # Memory
    MAP_MISS_LOCAL = 39  # a read-mostly line that has left the cache, from this node's memory
    MAP_MISS_REMOTE = 40


class Stage(IntEnum):
    """Where a cycle went: rows of a run's cost cells."""

    ENTRY = 0  # interrupts, softirq entry, IPIs
    SCHED = 1  # wake-ups, context switches, idle exit, epoll
    NAPI = 2
    DRIVER_RX = 3
    GRO = 4
    RPS = 5  # hash, choice, backlog
    IP = 6
    LOOKUP = 7
    TRANSPORT = 8
    SOCKET = 9  # receive queue: from the softirq and in recvmsg
    COPY = 10
    FREE = 11
    WORK = 12  # the application's own
    SEND = 13
    XPS = 14
    QDISC = 15
    DRIVER_TX = 16
    COMPLETION = 17


class Kind(IntEnum):
    """What a cycle went for: columns of a run's cost cells."""

    BASE = 0
    BYTES = 1
    LINES = 2


class Ctx(IntEnum):
    """What a CPU is doing."""

    IDLE = 0
    IRQ = 1
    SOFTIRQ = 2
    KSOFTIRQD = 3
    USER = 4


class Touch(IntEnum):
    """Rows of the plan's ``lines``: cache lines that one operation touches of one object."""

    SOCK_RX_SOFTIRQ = 0  # receive side of the socket, by the softirq that enqueues
    SOCK_RX_READ = 1  # the same, by the reader
    SOCK_TX_SOFTIRQ = 2  # send side, by the softirq (TCP: the acknowledgment)
    SOCK_TX_SEND = 3  # the same, by the sender
    WMEM_SEND = 4  # sk_wmem_alloc, by the sender
    WMEM_COMPLETE = 5  # the same, by the completion
    SKB_PROTO = 6  # received skb, by a protocol CPU that is not the driver's
    SKB_READ = 7  # received skb, by the reader
    SKB_FREE = 8  # allocator state of the skb's home, when it is freed elsewhere
    DEFER = 9  # the home CPU's list of deferred skbs
    BACKLOG_ENQUEUE = 10
    BACKLOG_SPLICE = 11
    QDISC = 12  # root lock, counters, queue
    TXQ = 13  # tx lock and state of the tx queue
    TX_RING = 14  # descriptors, buffer table, producer index
    DQL = 15  # BQL counters, by the sender
    SKB_XMIT = 16  # sent skb, by a qdisc runner that is not the sender
    TX_RING_COMPLETE = 17
    DQL_COMPLETE = 18
    SKB_COMPLETE = 19
    CHAIN = 20  # legacy: the line with the reference count of one socket of the chain
    CHAIN_DELIVER = 21  # the same line, written by the delivery


class Latency(IntEnum):
    """Rows of the plan's ``latencies``, picoseconds."""

    IRQ_DELAY = 0  # device event to the CPU's interrupt, moderation not counted
    IRQ_JITTER = 1  # most that is added to it by chance
    IPI = 2  # send to handler
    SLICE = 3  # a thread's time slice
    MAP_RESIDENCY = 4  # how long an unused read-mostly line stays in a cache
    WIRE = 5  # client to NIC, one way
    TURNAROUND = 6  # client: response to next request, fixed part
    TURNAROUND_MEAN = 7  # and the mean of the exponential part
    RTO = 8  # client: a lost request or response is repeated after this
    SPREAD = 9  # closed loop: first requests come within this
    JIFFY = 10


class Limit(IntEnum):
    """Rows of the plan's ``limits``."""

    NETDEV_BUDGET = 0
    BUDGET_JIFFIES = 1
    MAX_BACKLOG = 2
    QDISC_LEN = 3  # packets of one qdisc
    SOFTIRQ_JIFFIES = 4  # MAX_SOFTIRQ_TIME
    DEFER_FREE = 5  # 1: skb_attempt_defer_free, 0: freed where it is read
    REFCNT_IN_LOOKUP_LINE = 6  # 1: LOCK-3's layout of 3.13 to 4.3
    FLOW_LIMIT_BITS = 8  # net.core.flow_limit_table_len is 2 to this power
    WMEM_OOO = 7  # 1: ooo_okay needs an empty sk_wmem_alloc (before Aug 2023); 0: TCP always


class Lock(IntEnum):
    """Rows of a run's ``locks`` counters."""

    ROOT = 0  # of a qdisc
    BUSY = 1  # busylock in front of it
    TX = 2  # of a tx queue
    SOCK = 3  # receive queue of a UDP socket


class Total(IntEnum):
    """Entries of a run's ``totals``. Packets count segments, skbs count once."""

    ARRIVED = 0  # packets at the NICs, repeated ones included
    READ = 1  # packets that applications read
    FORWARDED = 2  # packets given to a tx queue's qdisc
    DROPPED = 3  # received packets that ended otherwise, whatever the reason
    INSIDE = 4  # packets in rings, GRO, backlogs, deliveries and socket queues right now
    SKBS = 5  # what GRO gave to the stack
    SENT = 6  # skbs given to transmit
    TX_DROPPED = 7
    TX_DONE = 8  # reclaimed
    TX_INSIDE = 9  # in qdiscs, on their way to a ring, in rings
    REPEATED = 10  # arrivals after a loss
    SAMPLES = 11


class Qdisc(IntEnum):
    """How a NIC's tx queues are locked."""

    LOCKLESS = 0  # mq with pfifo_fast of 4.16 and later (NOLOCK)
    LOCKED = 1  # mq, a locked qdisc per tx queue (fq_codel; pfifo_fast of before)
    SINGLE = 2  # one locked root qdisc for all tx queues (HTB)
    NOQUEUE = 3


class Step(IntEnum):
    """Kinds of steps in a trace."""

    ARRIVE = 0  # arg: row of the packets
    IRQ = 1  # arg: NAPI
    IPI = 2  # arg: CPU that gets it
    POLL = 3  # arg: NAPI
    RX = 4  # arg: row of the packets
    COMPLETE = 5  # arg: NAPI
    RPS = 6  # arg: first row of the skb
    PROTO = 7  # arg: first row of the skb
    ENQUEUE = 8  # arg: first row of the skb
    KICK = 9  # arg: CPU; IPIs sent, deferred skbs freed
    DISPATCH = 10  # arg: thread
    READ = 11  # arg: first row of the skb
    WORK = 12  # arg: first row of the skb
    SEND = 13  # arg: row of the request
    QDISC = 14  # arg: row of the packet that is sent
    XMIT = 15  # arg: row of the first packet that is sent
    REQDISC = 16  # arg: qdisc
    NET_TX = 17  # arg: qdisc


class RunDrop(IntEnum):
    """Why a packet ended before its application read it; 0 to 15 are `emu.dtypes.Drop`."""

    RX_RING_FULL = 16  # no descriptor: the NIC counts it, the CPUs never see it
    CPU_BACKLOG = 17  # netdev_max_backlog
    SOCKET_RCVBUFF = 18
    QDISC_DROP = 19  # a packet that is sent


DROPS = 32  # entries of the drop counters

RUN_NIC = np.dtype(
    [  # one row per NIC: what time adds to NIC
        ("rx_ring", "u4"),  # descriptors per rx queue
        ("tx_ring", "u4"),
        ("qdisc", "u4"),  # Qdisc
        ("bql_bytes", "u4"),  # most bytes in a tx ring; 0 no limit
        ("ps_per_byte", "i8"),  # of the link, each way; 0 no limit
        ("map_node", "i4"),  # home node of all its XPS lists; -1 each on its CPU's node
        ("pad", "i4"),
    ],
    align=True,
)

RUN_THREAD = np.dtype(
    [  # one row per application thread
        ("cpu", "i4"),  # where it is at the start
        ("allow_off", "u4"),  # its CPUs in the plan's thread_cpus
        ("allow_len", "u4"),
        ("event_loop", "u1"),  # pays EPOLL_WAIT at each wake-up
        ("pad", "u1", (3,)),
    ],
    align=True,
)

RUN_SOCKET = np.dtype(
    [  # one row per row of the plan's sockets
        ("thread_off", "u4"),  # its threads in the plan's sock_threads
        ("thread_len", "u4"),  # 0 nobody reads; 1 exclusive; more: a pool that serves it alone
        ("chain_off", "u4"),  # legacy: sockets in its chain in the plan's chains, itself included
        ("chain_len", "u4"),
        ("rcvbuf_bytes", "i8"),
    ],
    align=True,
)

WORKLOAD = np.dtype(
    [  # one row
        ("closed", "u1"),  # 1: row f of the packets is flow f's request; 0: each row arrives once
        ("work_exponential", "u1"),  # work is drawn with the mean ``work``
        ("pad", "u2"),
        ("response_bytes", "i4"),  # payload; -1: nothing is sent back
        ("work", "i8"),  # application's cost per message, 1/1024 cycle
    ],
    align=True,
)

TRACE = np.dtype(
    [  # one row per step, in the order they were taken
        ("time_ps", "i8"),  # when it began
        ("cost", "i8"),  # 1/1024 cycle, all lines and bytes in it
        ("arg", "i8"),  # see Step
        ("source", "i4"),  # see docs/run.md, "Order"
        ("cpu", "i4"),  # -1: no CPU works
        ("step", "u1"),  # Step
        ("ctx", "u1"),  # Ctx
        ("pad", "u1", (6,)),
    ],
    align=True,
)
