"""A steer's state: the plan's arrays as pointers, and what the stages remember between packets."""
from emu._core.cpumap cimport cpumap_t
from emu._core.gro_state cimport gro_cfg_t, gro_t, skb_t
from emu._core.lookup_table cimport lookup_t
from emu._core.rfs cimport rfs_t
from emu._core.sockmap cimport psock_t
from emu._core.types cimport flow_key_t, i32, i64, packets_t, socket_t, u8, u16, u32, u64
from emu._core.xps cimport xps_dev_t

cdef enum:
    # Order of dtypes.STEER_STAGES.
    COUNT_RSS = 0
    COUNT_CPUMAP = 1
    COUNT_GRO = 2
    COUNT_FLOW_HASH = 3
    COUNT_RPS = 4
    COUNT_LOOKUP = 5
    COUNT_REUSEPORT = 6
    COUNT_SOCKMAP = 7
    COUNT_XPS = 8
    COUNT_STAGES = 9

    NO_CPUMAP = 255

    # dtypes.Secret
    SECRET_FLOW_HASH = 1
    SECRET_EHASH = 2
    SECRET_TXHASH = 4
    SECRET_THREAD = 8
    SECRET_RSS_KEY = 16

    # dtypes.HashType
    HASH_NONE = 0
    HASH_L4 = 3
    HASH_SW = 4
    HASH_SW_L4 = 5

    # dtypes.Drop
    DROP_NONE = 0
    DROP_NO_SOCKET = 1
    DROP_CPUMAP_RING_FULL = 2
    DROP_XDP_DROP = 3
    DROP_OTHERHOST = 4
    DROP_NOT_DISSECTED = 5
    DROP_CSUM = 6
    DROP_FRAGMENT = 7
    DROP_UNHANDLED_PROTO = 8

    # dtypes.TxOf
    TX_NOTHING = 0
    TX_REPLY = 1
    TX_FORWARD = 2
    TX_SENT = 3
    TX_REDIRECT = 4

    # dtypes.GroResult
    GRO_BYPASS = 4

    # dtypes.SockState
    SOCK_CLOSED = 0
    SOCK_LISTEN = 2
    SOCK_ESTABLISHED = 3

cdef struct nic_t:
    # dtypes.NIC
    u32 rxq_first
    u32 rxq_count
    u32 txq_first
    u32 txq_count
    i32 forward_nic
    u8 hw_hash
    u8 key_secret
    u8 cpumap_design
    u8 cpumap_rule
    u32 num_tc
    u16 tc_offset[16]
    u16 tc_count[16]
    u8 prio_tc[16]
    u32 cpumap_first
    u32 cpumap_count
    i32 cpumap_fixed

cdef struct op_t:
    # dtypes.OP
    i64 time_ps
    i32 kind
    i32 target
    i32 arg0
    i32 arg1

cdef struct skb_decision_t:
    # dtypes.SKB_DECISION
    u8 direction
    u8 drop
    u8 tx_of
    u8 stage
    u8 secrets
    u8 pad[3]
    i32 napi_cpu
    i32 cpu
    i32 socket
    i32 app_cpu
    i32 backlog_cpu
    i32 tx_nic
    i32 tx_queue
    i32 completion_cpu
    u32 scanned
    u32 walked

cdef struct sock_state_t:
    # What a socket remembers between packets, beside the lookup tables.
    i32 tx_queue     # sk_tx_queue_mapping, -1 none
    i32 rx_queue     # sk_rx_queue_mapping, -1 none
    u32 app_off      # its threads' CPUs
    u32 app_len
    # What these hang on (dtypes.Secret):
    u8 tx_secrets
    u8 rx_secrets
    u8 worker_secrets  # the CPU of its psock's pending worker
    u32 rx_hash        # sk_rxhash: hash of the last packet that was delivered to it

cdef struct steer_t:
    # The plan: arrays that the caller keeps alive.
    const packets_t *p
    const u8 *blob
    const packets_t *inner  # packets that ride in IP in IP
    const u8 *inner_blob
    const i32 *inner_of     # row of it that each packet carries, -1 none
    const flow_key_t *flow_keys
    const u64 *flow_hash_key
    const nic_t *nics
    const gro_cfg_t *nic_gro      # GRO settings per NIC
    const gro_cfg_t *kthread_gro  # the same for its cpumap's kthreads
    const i32 *rxq_irq_cpu
    const u32 *rps_off
    const u32 *rps_len
    const u16 *rps_cpus
    const i32 *txq_irq_cpu
    u8 *online        # ops change it
    const i32 *app_cpus
    const u8 *direction
    const u32 *rx_hash
    const u8 *rx_hash_type
    const i32 *rx_queue
    const u32 *queue_nic  # NIC of each rx queue
    u64 txhash_seed
    u32 nic_count
    u32 socket_count
    u32 hz
    # State, allocated by steer.pyx for the run.
    i32 *rxq_rps          # row of the queue's rps map, -1 none; ops write it
    gro_t *napis          # one per rx queue
    gro_t *kthreads       # one per cpumap entry
    cpumap_t cpumap       # every NIC's entries, one behind the other
    xps_dev_t *xps        # one per NIC
    lookup_t lookup
    rfs_t rfs             # a steer's; a run has its own
    u8 *flow_secrets      # what the CPU in each entry of its global table hangs on
    u8 table_secrets      # what it hangs on who writes which of its entries: flows share them
    u32 *heads            # of backlogs in which nothing waits: all 0
    u8 rfs_forgets
    i32 *incoming_cpu     # SO_INCOMING_CPU as each socket says it now
    i32 udp_gro_open      # open sockets with UDP_GRO
    i32 udp_gro_open6     # those of IPv6 among them
    const socket_t *rows  # the sockets as they are now: the lookup's own copy
    sock_state_t *socks
    psock_t *psocks
    u32 *scheduled        # psocks whose workers run at the end of the poll
    u32 scheduled_count
    u32 *rx_list          # rows that GRO gives to the stack, of the poll at hand
    # Skbs on their way: a pool of rows that are used again, so that it stays in the cache.
    skb_t *skbs
    u32 skb_rows          # rows of the pool that have been used at all
    u32 *spare            # rows that are free again
    u32 spare_count
    i32 *last_packet      # per row, the packet that joined last
    # Results.
    skb_t *out_skbs       # of the d-th skb given to the stack
    skb_decision_t *decided
    u32 delivered
    i32 *skb_of           # per packet: the one before it in an skb on its way, then its d; -1 none
    u8 *gro_result        # per packet
    u8 *packet_drop       # per packet
    u8 *packet_secrets    # per packet
    u64 counts[9]
