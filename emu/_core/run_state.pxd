"""A run's state: what time adds to a host's memory (docs/run.md).

Everything that waits is in a list that its own record links: nothing is allocated while it runs.
A row of the packets is in the host at most once at a time, so an skb needs no pool: it is the row
of its first packet. Of what is sent there are never more than the rows and what all rings hold.
"""
from emu._core.flow_limit cimport flow_limit_t
from emu._core.rfs cimport rfs_t
from emu._core.run_codes cimport COSTS, DROPS, LATENCIES, LIMITS, TOTALS, TOUCHES
from emu._core.run_records cimport run_nic_t, trace_t, workload_t
from emu._core.state cimport steer_t
from emu._core.types cimport i32, i64, u8, u32, u64

cdef struct list_t:
    # A first-in, first-out list of records that link themselves; -1 the end.
    i32 head
    i32 tail

cdef struct lock_t:
    i32 owner          # CPU, -1 free
    i32 head           # CPUs that wait, linked by cpu_t.lock_next
    i32 tail
    u32 kind           # run_dtypes.Lock

cdef struct race_t:
    # A winner tree over sources that have one next step each: node k is the match of nodes 2k and
    # 2k + 1, the root is 1, the leaves are the sources.
    i64 *nodes         # time of each node's winner
    i64 *times         # the leaves among them, by source; NEVER_PS none
    u32 *winner        # of each node
    u32 leaves         # a power of two
    i64 best           # the root's time

cdef struct coming_t:
    # An ARRIVE that will be.
    i64 time_ps
    i64 flow

cdef struct found_row_t:
    # What the lookup last answered for a row. Sockets do not change in a run: it is a function of
    # the row and the CPU.
    i32 cpu            # -1 not asked yet
    i32 sock
    u32 scanned
    u32 walked
    u8 stage

cdef struct packet_t:
    # 64 bytes: a row of the packets while it is in the host; its skb if it is the first of one.
    i64 ready          # the NIC has it
    i64 started        # its message began
    u64 draws          # of a closed loop's flow
    i32 next           # in the ring, on the way up, in a backlog, at a socket
    i32 follows        # the next packet of its skb; -1 none
    i32 last           # last packet of the skb
    i32 rxq            # of the plan
    i32 home           # CPU whose driver made the skb
    i32 touched        # CPU that touched it last
    u32 payload        # of the skb
    u8 proto           # 0 TCP, 1 all else: column of the lines
    u8 v6
    u8 nic_gro
    u8 repeats         # its next arrival is a repeat
    u32 nic
    u32 wire           # bytes on the link, with what stands between frames

cdef struct sent_t:
    # 64 bytes: an skb that is sent, from SEND or the forwarding to its reclaim.
    i64 done           # the link has sent it
    i32 next           # in a qdisc, a list for the driver, a ring
    i32 row            # first packet of what it answers, or of what is forwarded
    i32 sock           # -1 forwarded
    i32 txq            # of the plan
    u32 bytes
    i32 touched
    u32 proto
    u32 pad[7]

cdef struct napi_t:
    i64 delay          # fixed part from the event to the interrupt
    u64 span           # of what chance adds
    u64 key            # of its stream
    u64 draws
    i32 cpu
    i32 frames
    i32 nic            # of its rx queue
    u32 rx_ring
    u32 waiting        # frames in the ring
    i32 head
    i32 tail
    i32 first_txq      # linked by txq_t.of_napi
    i32 next           # in a poll list
    u8 masked
    u8 holds           # GRO may hold packets
    i64 interrupts
    i64 polls
    i64 full_polls
    i64 polled
    i64 lost

cdef struct txq_t:
    lock_t lock
    i32 nic
    i32 napi
    i32 qdisc
    i32 of_napi        # next queue of the same NAPI
    i32 touched        # lock and state
    i32 ring_touched
    i32 dql_touched
    u32 ring
    u32 room_taken     # descriptors, those on their way included
    u32 bql_bytes
    i64 bytes          # in the ring, those on their way included
    list_t sent        # descriptors
    u32 kind           # run_dtypes.Qdisc
    u8 stopped
    i64 packets
    i64 all_bytes
    i64 doorbells
    i64 stops

cdef struct qdisc_t:
    lock_t root
    lock_t busy
    list_t queue
    u32 length
    i32 runner         # CPU, -1 nobody
    i32 touched
    i32 next           # in a CPU's list for NET_TX
    u8 scheduled
    u8 lockless
    u8 single
    i64 enqueued
    i64 bypassed
    i64 requeued
    i64 dropped

cdef struct run_sock_t:
    # 192 bytes; what TCP uses of it comes first.
    list_t queue
    i64 queued_bytes
    i64 rcvbuf_bytes
    i32 thread         # an exclusive socket's; -1
    i32 ready_next     # in its thread's ready list
    i32 rx_touched
    i32 tx_touched
    i32 wmem_touched
    u32 sent           # skbs in qdiscs and rings, or on their way there
    u32 hash           # sk_rxhash
    u8 ready
    u8 pool
    u8 proto           # column of the lines
    u8 state           # dtypes.SockState
    i64 enqueued
    i64 read
    i64 dropped
    lock_t lock
    list_t sleepers    # of a pool
    i32 chain_touched
    u32 chain_off
    u32 chain_len
    u32 pad[19]

cdef struct thread_t:
    u64 key            # of its stream
    u64 draws
    i32 cpu
    i32 next           # in a run queue or a list of sleepers
    i32 pool           # socket that it serves with others; -1
    u32 allow_off
    u32 allow_len
    list_t ready       # sockets, linked by ready_next
    u8 asleep
    u8 event_loop
    u8 awoken          # EPOLL_WAIT is due

cdef struct cpu_t:
    # What runs.
    i64 *cells         # cost cells of the context
    i64 charged        # of the step that is being chosen
    i64 since          # time per context is booked up to here
    i64 irq_ps         # of it, interrupts that lengthened what ran
    i64 irq_until      # end of the interrupts so far
    i64 aside_ps       # left of the user step that an interrupt set aside
    u32 number
    u32 go             # what follows the step (GO_*)
    u32 aside_go
    u8 mode
    u8 ctx
    u8 open            # an interrupt sets the step aside
    u8 aside
    # Threads.
    i32 current        # -1 none
    list_t run_queue
    i64 slice_begin
    u8 from_idle       # IDLE_EXIT is due
    # The softirq.
    u8 rx_raised
    u8 fresh           # something was raised since the last run of softirqs ended
    u8 inside          # net_rx_action
    u8 entry_due       # SOFTIRQ
    u8 pass_rx
    u8 again           # the NAPI asks for a repoll
    u8 ipi_backlog
    u8 ipi_defer
    u32 passes
    u32 soft_go        # behind the run of softirqs
    i64 soft_jiffy
    i64 rx_jiffy
    i64 budget
    list_t poll
    list_t taken
    list_t repoll
    i32 napi
    u32 work
    list_t out         # qdiscs scheduled for NET_TX
    list_t out_taken
    i32 ipis           # CPUs to be sent an IPI, the last one first; linked by ipi_next
    i32 ipi_next
    # The backlog.
    u32 deferred
    i32 defer_touched
    i32 backlog_touched
    list_t input
    list_t process
    u32 input_length
    u8 backlog_scheduled
    flow_limit_t *flow_limit  # NULL: it limits nobody
    # The skb at hand.
    u8 behind          # the backlog
    u8 splice
    list_t up          # what GRO gave
    u32 up_go
    u32 skb_go
    i32 skb
    i32 hand           # the skb again while no list has it; -1
    i32 sock
    # The message at hand.
    i32 message
    i32 message_sock
    i32 user_tx        # its answer while SEND may be interrupted; -1
    # Transmit.
    i32 tx             # the packet between its SEND and its qdisc; -1
    list_t list        # for the driver
    u32 list_sent      # of it, those that the driver takes
    u32 run_sent       # in this run of the qdisc
    i32 txq
    i32 qdisc
    u32 tx_go
    u8 tx_dequeued     # QDISC_RUN and a touch are part of the XMIT
    u8 holds_busy
    # The lock it waits for.
    u8 waited
    u32 lock_kind
    i32 lock_next
    i64 asked
    # Counters.
    i64 processed
    i64 backlog_dropped
    i64 squeezed
    i64 received_rps
    i64 flow_limited
    i64 ipis_sent
    i64 wakes
    i64 switches

cdef struct run_t:
    steer_t s          # the host: plan, GRO, XPS, lookup
    rfs_t rfs
    # The plan.
    u32 cpu_count
    u32 napi_count
    u32 rxq_count
    u32 txq_count
    u32 thread_count
    u32 qdisc_count
    i64 rows
    i64 costs[COSTS]
    i64 lines[TOUCHES * 2]
    i64 transfer[4]
    i64 stream[4]
    i64 latencies[LATENCIES]
    i64 limits[LIMITS]
    u64 ps_num
    u64 ps_den
    u64 ps_factor      # ps_num / ps_den with ps_shift binary places, rounded down
    u32 ps_shift
    workload_t workload
    const u8 *distance
    const i32 *node_of
    const run_nic_t *nics
    const i32 *thread_cpus
    const i32 *chains
    const i64 *exp_table
    const u64 *flow_keys  # of each flow's stream
    # The queue of next steps.
    race_t cpu_race
    race_t irq_race
    race_t ipi_race
    coming_t *coming   # closed loop: a heap
    i64 coming_count
    const i64 *order   # open loop: rows by arrival
    i64 order_count
    i64 order_at
    i64 next_arrival   # time of the next ARRIVE
    # State.
    cpu_t *cpus
    napi_t *napis      # those of the rx queues, those with tx queues only, every CPU's backlog
    txq_t *txqs
    qdisc_t *qdiscs
    run_sock_t *socks
    thread_t *threads  # the applications', then ksoftirqd of every CPU
    packet_t *packets
    found_row_t *found
    sent_t *sent
    i32 sent_spare     # free records, linked by next
    i64 *rx_free       # per NIC, when the link is free
    i64 *tx_free
    i64 *map_used      # [CPU, NIC]: when the CPU last used its XPS maps, -1 never
    u64 *chain_seen    # [socket, words]: CPUs that have seen the reference line as it is now
    u32 chain_words
    u32 *heads         # input_queue_head per CPU
    u32 *tails
    i64 jiffy
    i64 jiffy_end
    # Results.
    i64 *busy          # [CPU, context]
    i64 *cells         # [CPU, context, stage, kind]
    i64 *transfers     # [CPU, distance]
    i64 *locks         # [lock, 3]
    i64 drops[DROPS]
    i64 totals[TOTALS]
    i64 *steps
    i64 taken          # steps
    i64 *samples
    i64 sample_count
    i64 sample_room
    u8 failed          # memory ran out
    trace_t *trace
    i64 trace_room
    i64 trace_count
