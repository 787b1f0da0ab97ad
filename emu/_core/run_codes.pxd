"""The codes of emu/run_dtypes.py, as the core spells them."""

cdef enum:
    # run_dtypes.Cost: rows of costs
    COST_HARDIRQ = 0
    COST_SOFTIRQ = 1
    COST_IPI_SEND = 2
    COST_IPI_HANDLER = 3
    COST_IDLE_EXIT = 4
    COST_WAKE = 5
    COST_CTX_SWITCH = 6
    COST_EPOLL_WAIT = 7
    COST_NAPI_POLL = 8
    COST_NAPI_COMPLETE = 9
    COST_DRIVER_RX = 10
    COST_GRO_PASS = 11
    COST_GRO_MERGE = 12
    COST_FLOW_HASH = 13
    COST_RPS = 14
    COST_BACKLOG = 15
    COST_IP_RX = 16
    COST_IP6_RX = 17
    COST_LOOKUP = 18
    COST_SCORE = 19
    COST_WALK = 20
    COST_TCP_RX = 21
    COST_UDP_RX = 22
    COST_FORWARD = 23
    COST_LOCK = 24
    COST_TCP_RECV = 25
    COST_UDP_RECV = 26
    COST_RECV_BYTE = 27
    COST_SKB_FREE = 28
    COST_DEFER_FREE = 29
    COST_TCP_SEND = 30
    COST_UDP_SEND = 31
    COST_SEND_BYTE = 32
    COST_IP6_TX = 33
    COST_QDISC = 34
    COST_QDISC_RUN = 35
    COST_DRIVER_TX = 36
    COST_DOORBELL = 37
    COST_TX_COMPLETE = 38
    COST_MAP_MISS_LOCAL = 39
    COST_MAP_MISS_REMOTE = 40

cdef enum:
    # run_dtypes.Stage (lookup_tcp.pxd has the STAGE_ of a lookup)
    AT_ENTRY = 0
    AT_SCHED = 1
    AT_NAPI = 2
    AT_DRIVER_RX = 3
    AT_GRO = 4
    AT_RPS = 5
    AT_IP = 6
    AT_LOOKUP = 7
    AT_TRANSPORT = 8
    AT_SOCKET = 9
    AT_COPY = 10
    AT_FREE = 11
    AT_WORK = 12
    AT_SEND = 13
    AT_XPS = 14
    AT_QDISC = 15
    AT_DRIVER_TX = 16
    AT_COMPLETION = 17

cdef enum:
    # run_dtypes.Kind
    KIND_BASE = 0
    KIND_BYTES = 1
    KIND_LINES = 2

cdef enum:
    # run_dtypes.Ctx
    CTX_IDLE = 0
    CTX_IRQ = 1
    CTX_SOFTIRQ = 2
    CTX_KSOFTIRQD = 3
    CTX_USER = 4

cdef enum:
    # run_dtypes.Touch: rows of lines
    TOUCH_SOCK_RX_SOFTIRQ = 0
    TOUCH_SOCK_RX_READ = 1
    TOUCH_SOCK_TX_SOFTIRQ = 2
    TOUCH_SOCK_TX_SEND = 3
    TOUCH_WMEM_SEND = 4
    TOUCH_WMEM_COMPLETE = 5
    TOUCH_SKB_PROTO = 6
    TOUCH_SKB_READ = 7
    TOUCH_SKB_FREE = 8
    TOUCH_DEFER = 9
    TOUCH_BACKLOG_ENQUEUE = 10
    TOUCH_BACKLOG_SPLICE = 11
    TOUCH_QDISC = 12
    TOUCH_TXQ = 13
    TOUCH_TX_RING = 14
    TOUCH_DQL = 15
    TOUCH_SKB_XMIT = 16
    TOUCH_TX_RING_COMPLETE = 17
    TOUCH_DQL_COMPLETE = 18
    TOUCH_SKB_COMPLETE = 19
    TOUCH_CHAIN = 20
    TOUCH_CHAIN_DELIVER = 21

cdef enum:
    # run_dtypes.Latency
    LATENCY_IRQ_DELAY = 0
    LATENCY_IRQ_JITTER = 1
    LATENCY_IPI = 2
    LATENCY_SLICE = 3
    LATENCY_MAP_RESIDENCY = 4
    LATENCY_WIRE = 5
    LATENCY_TURNAROUND = 6
    LATENCY_TURNAROUND_MEAN = 7
    LATENCY_RTO = 8
    LATENCY_SPREAD = 9
    LATENCY_JIFFY = 10

cdef enum:
    # run_dtypes.Limit
    LIMIT_NETDEV_BUDGET = 0
    LIMIT_BUDGET_JIFFIES = 1
    LIMIT_MAX_BACKLOG = 2
    LIMIT_QDISC_LEN = 3
    LIMIT_SOFTIRQ_JIFFIES = 4
    LIMIT_DEFER_FREE = 5
    LIMIT_REFCNT_IN_LOOKUP_LINE = 6
    LIMIT_WMEM_OOO = 7
    LIMIT_FLOW_LIMIT_BITS = 8

cdef enum:
    # run_dtypes.Lock
    LOCK_ROOT = 0
    LOCK_BUSY = 1
    LOCK_TX = 2
    LOCK_SOCK = 3

cdef enum:
    # run_dtypes.Total
    TOTAL_ARRIVED = 0
    TOTAL_READ = 1
    TOTAL_FORWARDED = 2
    TOTAL_DROPPED = 3
    TOTAL_INSIDE = 4
    TOTAL_SKBS = 5
    TOTAL_SENT = 6
    TOTAL_TX_DROPPED = 7
    TOTAL_TX_DONE = 8
    TOTAL_TX_INSIDE = 9
    TOTAL_REPEATED = 10
    TOTAL_SAMPLES = 11

cdef enum:
    # run_dtypes.Qdisc
    QDISC_LOCKLESS = 0
    QDISC_LOCKED = 1
    QDISC_SINGLE = 2
    QDISC_NOQUEUE = 3

cdef enum:
    # run_dtypes.Step
    STEP_ARRIVE = 0
    STEP_IRQ = 1
    STEP_IPI = 2
    STEP_POLL = 3
    STEP_RX = 4
    STEP_COMPLETE = 5
    STEP_RPS = 6
    STEP_PROTO = 7
    STEP_ENQUEUE = 8
    STEP_KICK = 9
    STEP_DISPATCH = 10
    STEP_READ = 11
    STEP_WORK = 12
    STEP_SEND = 13
    STEP_QDISC = 14
    STEP_XMIT = 15
    STEP_REQDISC = 16
    STEP_NET_TX = 17

cdef enum:
    # run_dtypes.RunDrop
    LOST_RX_RING_FULL = 16
    LOST_CPU_BACKLOG = 17
    LOST_SOCKET_RCVBUFF = 18
    LOST_QDISC_DROP = 19

cdef enum:
    # How many there are.
    COSTS = 41
    STAGES = 18
    KINDS = 3
    CONTEXTS = 5
    TOUCHES = 22
    LATENCIES = 11
    LIMITS = 9
    LOCKS = 4
    TOTALS = 12
    STEPS = 18
    DROPS = 32
    CELLS = STAGES * KINDS  # cost cells of one CPU and context
