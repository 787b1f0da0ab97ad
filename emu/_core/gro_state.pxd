"""GRO's records: the packet at hand, what is held, and the list for the stack (receive.md 5.1)."""
from emu._core.types cimport i64, packets_t, u8, u16, u32, u64

cdef enum:
    BUCKETS = 8
    BUCKET_HELD = 8
    NORMAL_BATCH = 8
    LEGACY_MAX_SIZE = 65536
    LINK_BYTES = 14
    JUMBO_BYTES = 8

    PROTO_TCP = 6
    PROTO_UDP = 17

    # dtypes.GroResult
    GRO_MERGED = 0
    GRO_HELD = 2
    GRO_NORMAL = 3

    # dtypes.IpSummed
    CHECKSUM_NONE = 0
    CHECKSUM_UNNECESSARY = 1
    CHECKSUM_PARTIAL = 3

    # SKB_GSO_* of 6.18
    GSO_TCPV4 = 1 << 0
    GSO_DODGY = 1 << 1
    GSO_TCP_ECN = 1 << 2
    GSO_FIXEDID_OLD = 1 << 3
    GSO_TCPV6 = 1 << 4
    GSO_IPXIP4 = 1 << 8
    GSO_IPXIP6 = 1 << 9
    GSO_UDP_L4 = 1 << 17
    GSO_FRAGLIST = 1 << 18
    GSO_TCP_ACCECN = 1 << 19
    GSO_FIXEDID = 1 << 30
    GSO_FIXEDID_INNER = 1 << 31

    NO_DESIGN = 255    # gro_cfg_t.design of a NAPI

    # What a socket lookup answers.
    HAS_SOCKET = 1     # UDP: a socket; TCP: an established one
    HAS_UDP_GRO = 2

    # arrival_t.rare and held_t.rare: what few packets have.
    RARE_TUNNEL = 1    # IP in IP
    RARE_TAGS = 2      # VLAN tags in the frame, which the module 8021Q handles
    RARE_FLIST = 4     # it is chained, not joined
    # Marks of the first two in the tag of a flow, beside EXT_MARK.
    TUNNEL_MARK = 0x02000000
    TAGS_MARK = 0x04000000

cdef struct skb_t:
    # dtypes.SKB
    i64 first
    u32 segs
    u32 len_bytes
    u32 gso_size
    u32 gso_type
    u32 gso_segs
    u32 hash
    u8 hash_type
    u8 ip_summed
    u8 csum_level
    u8 tcp_flags
    u16 csum_start
    u16 csum_off
    i64 after

cdef struct gro_cfg_t:
    # dtypes.GRO_CFG
    u32 max_size
    u32 ipv4_max_size
    u64 flush_timeout_ns
    u32 defer_hard_irqs
    u8 enabled
    u8 udp_forwarding
    u8 fraglist
    u8 fresh_skb
    u8 design
    u8 vlan_module
    u8 fixed_id_needs_df
    u8 outer_id_unchecked
    u8 cwr_masked
    u8 cwr_merges
    u8 old_gso_bits
    u8 tcp_fraglist
    u8 jumbo_header
    u8 pad[7]

cdef struct outer_t:
    # A network header around another one.
    u64 saddr[2]
    u64 daddr[2]
    u64 flow         # version and flow label, next header, family and protocol
    i64 at           # row in the table, for the extension headers
    u32 alike
    u32 ext_len
    u16 ip_id
    u8 family
    u8 df

cdef struct arrival_t:
    # The packet at hand, read out of the columns once.
    u64 ends         # ports, NIC, family, protocol
    u64 tag          # VLAN tag in metadata; IPv6 version and flow label; whether extensions follow
    i64 opt_off      # TCP options in the blob
    u32 seq
    u32 ack
    u32 w12          # TCP offset 12: doff, flags, window
    u32 payload_bytes
    u32 hash
    u32 opt_len
    u32 ext_len      # IPv6 extension headers
    u32 next_header  # of the fixed IPv6 header, when extension headers follow
    u32 alike        # TTL, TOS and DF, or hop limit and traffic class
    u32 family
    u32 proto
    u32 soft         # the kernel's flush: it may not stay, but ends its flow's (GRO-9, 17)
    u16 ip_id
    u8 df
    u8 ip_summed
    u8 level_zero    # csum_level is 0, whatever it was before
    u8 hash_type
    u8 rare          # RARE_*
    u8 gso           # it came as a GSO packet
    u8 sock          # HAS_SOCKET or HAS_UDP_GRO
    u8 limit_family  # whose size limit holds: 6 only for plain IPv6
    u32 segments
    u32 base         # of a carried packet: how much further in the frame it lies than in its row
    u32 tags_len
    outer_t outer    # with RARE_TUNNEL

cdef struct rare_t:
    # What few held packets have.
    outer_t outer
    i64 tags_at      # in the blob
    u32 tags_len

cdef struct held_t:
    # One held packet. What is compared lies first.
    u64 mac[2]
    u64 saddr[2]
    u64 daddr[2]
    u64 ends
    u64 tag
    u32 seq_next     # sequence number behind its last octet (GRO-26)
    u32 ack
    u32 w12          # of the first segment, FIN and PSH of the joined ones in it (GRO-29)
    u32 gso_size     # payload of the first packet
    u32 len_bytes
    u32 count
    u32 row          # in skbs
    u32 alike
    u16 ip_id        # of the first packet
    u16 opt_len
    u16 ext_len
    u8 next_header
    u8 family
    u8 fixed_ids     # by network header: bit 0 the outermost
    u8 rare
    u16 l4_off       # from the start of the frame
    i64 opt_off
    i64 age          # jiffies when it was held
    i64 first        # its row in the table that its network and transport fields come from

cdef struct bucket_t:
    u32 hash[8]      # of the held packets, oldest first
    u8 slot[8]       # where each is in held; behind count: the free places
    u8 count
    held_t held[8]
    rare_t rare[8]

cdef struct gro_t:
    # The GRO state of one NAPI.
    u32 *rx_list     # rows for the stack, in order; the caller's, who resets rx_len between polls
    u32 rx_len
    u32 rx_pending   # the last of them, not yet delivered
    u32 rx_count     # the same counted as segments
    i64 entered      # packets that have come in
    const gro_cfg_t *cfg  # of the last packet that came in
    u32 defer_count  # completions that still keep the interrupt masked (N-8)
    bucket_t buckets[8]

cdef inline void gro_init(gro_t *g, u32 *rx_list) noexcept nogil:
    """Hold nothing. rx_list must have room for all skbs between two of the caller's resets."""
    cdef u32 b, k
    g.rx_list = rx_list
    g.rx_len = g.rx_pending = g.rx_count = 0
    g.entered = 0
    g.cfg = NULL
    g.defer_count = 0
    for b in range(<u32>BUCKETS):
        g.buckets[b].count = 0
        for k in range(<u32>BUCKET_HELD):
            g.buckets[b].slot[k] = <u8>k

