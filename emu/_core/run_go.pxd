"""How a CPU stands, and what follows its step."""

cdef enum:
    MODE_IDLE = 0
    MODE_BUSY = 1
    MODE_WAIT = 2      # for a lock

cdef enum:
    # What follows a step.
    GO_NOWHERE = 0     # the next step has begun, or nothing follows by itself
    GO_WAKE = 1
    GO_IRQ_END = 2
    GO_IRQ_DONE = 3
    GO_NET_TX = 4
    GO_NET_TX_HELD = 5
    GO_NET_TX_END = 6
    GO_PASSED = 7
    GO_POLL = 8
    GO_FRAME = 9
    GO_RX_DONE = 10
    GO_FLUSHED = 11
    GO_COMPLETED = 12
    GO_BACKLOG = 13
    GO_BACKLOG_POLL = 14
    GO_BACKLOG_SKB = 15
    GO_UP = 16
    GO_ENQUEUE = 17
    GO_ENQUEUE_HELD = 18
    GO_ENQUEUE_END = 19
    GO_KSOFTIRQD = 20
    GO_THREAD = 21
    GO_READ = 22
    GO_UDP_READ_END = 23
    GO_WORK = 24
    GO_READ_END = 25
    GO_SENT = 26
    GO_FORWARD = 27
    GO_BUSY_HELD = 28
    GO_QDISC = 29
    GO_QDISC_END = 30
    GO_XMIT_HELD = 31
    GO_XMIT_END = 32
    GO_REQDISC = 33
    GO_REQDISC_END = 34
