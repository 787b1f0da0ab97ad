"""What GRO holds: eight buckets of up to eight, and the list for the stack (receive.md 5.1).

kernel: net/core/gro.c, gro_complete, gro_normal_one, gro_normal_list, __gro_flush, gro_flush_oldest
"""
from libc.string cimport memcpy

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
    GSO_TCPV6 = 1 << 4
    GSO_UDP_L4 = 1 << 17
    GSO_FIXEDID = 1 << 30

cdef struct skb_t:
    # dtypes.SKB
    i64 first
    u32 segs
    u32 len_bytes
    u32 gso_size
    u32 gso_type
    u32 hash
    u8 hash_type
    u8 ip_summed
    u8 csum_level
    u8 tcp_flags
    i64 after

cdef struct gro_cfg_t:
    # dtypes.GRO_CFG
    u32 max_size
    u32 ipv4_max_size
    u8 enabled
    u8 udp_forwarding
    u8 fresh_skb
    u8 fixed_id_needs_df

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

cdef struct held_t:
    # One held packet: 128 bytes. What is compared lies first.
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
    u8 fixed_id
    i64 opt_off
    i64 age          # jiffies when it was held
    i64 first        # packet index

cdef struct bucket_t:
    u32 hash[8]      # of the held packets, oldest first
    u8 slot[8]       # where each is in held; behind count: the free places
    u8 count
    held_t held[8]

cdef struct gro_t:
    # The GRO state of one NAPI.
    u32 *rx_list     # rows for the stack, in order; the caller's, who resets rx_len between polls
    u32 rx_len
    u32 rx_pending   # the last of them, not yet delivered
    u32 rx_count     # the same counted as segments
    i64 entered      # packets that have come in
    bucket_t buckets[8]

cdef inline void gro_init(gro_t *g, u32 *rx_list) noexcept nogil:
    """Hold nothing. rx_list must have room for all skbs between two of the caller's resets."""
    cdef u32 b, k
    g.rx_list = rx_list
    g.rx_len = g.rx_pending = g.rx_count = 0
    g.entered = 0
    for b in range(<u32>BUCKETS):
        g.buckets[b].count = 0
        for k in range(<u32>BUCKET_HELD):
            g.buckets[b].slot[k] = <u8>k

cdef inline void gro_deliver(gro_t *g, skb_t *skbs) noexcept nogil:
    """gro_normal_list: what waits goes to the stack now."""
    cdef u32 k
    for k in range(g.rx_len - g.rx_pending, g.rx_len):
        skbs[g.rx_list[k]].after = g.entered
    g.rx_pending = 0
    g.rx_count = 0

cdef inline void gro_append(gro_t *g, skb_t *skbs, u32 row, u32 weight) noexcept nogil:
    """gro_normal_one: put an skb on the list; eight segments are a batch (GRO-A12)."""
    g.rx_list[g.rx_len] = row
    g.rx_len += 1
    g.rx_pending += 1
    g.rx_count += weight
    if g.rx_count >= NORMAL_BATCH:
        gro_deliver(g, skbs)

cdef inline u32 network_len(const packets_t *p, i64 i) noexcept nogil:
    """skb->len in GRO: what stands behind the link header; a tag in the frame counts."""
    cdef u32 link = p.l3_off[i]
    if link > LINK_BYTES:
        link = LINK_BYTES
    return p.wire_bytes[i] - link if p.wire_bytes[i] > link else 0

cdef inline void write_skb(
    skb_t *skb, const packets_t *p, const arrival_t *s, i64 i
) noexcept nogil:
    """An skb that is this one packet (GRO-49)."""
    skb.first = i
    skb.segs = 1
    skb.len_bytes = network_len(p, i)
    skb.gso_size = skb.gso_type = 0
    skb.hash = s.hash
    skb.hash_type = s.hash_type
    skb.ip_summed = s.ip_summed
    skb.csum_level = 0 if s.level_zero else p.csum_level[i]
    skb.tcp_flags = <u8>(p.tcp_w12[i] >> 16)

cdef inline void gro_complete(gro_t *g, skb_t *skbs, const held_t *h) noexcept nogil:
    """Finish a held packet and put it on the list (receive.md 5.4)."""
    cdef skb_t *skb = &skbs[h.row]
    if h.count > 1:
        skb.segs = h.count
        skb.len_bytes = h.len_bytes
        skb.gso_size = h.gso_size
        skb.ip_summed = CHECKSUM_PARTIAL
        if <u8>(h.ends & 0xFF) == PROTO_UDP:
            skb.gso_type = GSO_UDP_L4
        elif h.family == 4:
            skb.gso_type = GSO_TCPV4 | (GSO_FIXEDID if h.fixed_id else 0)
        else:
            skb.gso_type = GSO_TCPV6
        skb.tcp_flags = <u8>(h.w12 >> 16)
        if h.family == 6 and h.len_bytes - 40 > 0xFFFF:
            skb.len_bytes += JUMBO_BYTES  # the jumbo header goes in (GRO-A11)
    gro_append(g, skbs, h.row, h.count)

cdef inline void drop_entry(bucket_t *bucket, u32 place) noexcept nogil:
    """Close the gap of a packet that is held no longer; its place becomes free."""
    cdef u8 slot = bucket.slot[place]
    cdef u32 k
    bucket.count -= 1
    for k in range(place, bucket.count):
        bucket.hash[k] = bucket.hash[k + 1]
        bucket.slot[k] = bucket.slot[k + 1]
    bucket.slot[bucket.count] = slot

cdef inline void put_out(gro_t *g, skb_t *skbs, bucket_t *bucket, u32 place) noexcept nogil:
    """Complete the held packet at this place and hold it no longer."""
    gro_complete(g, skbs, &bucket.held[bucket.slot[place]])
    drop_entry(bucket, place)

cdef inline void gro_hold(
    gro_t *g, const packets_t *p, skb_t *skbs, bucket_t *bucket, const arrival_t *s, i64 i, u32 row,
    i64 jiffy
) noexcept nogil:
    """Hold a packet as the newest of its bucket; a full bucket puts out its oldest."""
    cdef held_t *h
    if bucket.count == BUCKET_HELD:
        put_out(g, skbs, bucket, 0)
    h = &bucket.held[bucket.slot[bucket.count]]
    bucket.hash[bucket.count] = s.hash
    bucket.count += 1
    memcpy(h.mac, p.mac + 2 * i, 16)
    memcpy(h.saddr, p.saddr + 4 * i, 16)
    memcpy(h.daddr, p.daddr + 4 * i, 16)
    h.ends = s.ends
    h.tag = s.tag
    h.seq_next = s.seq + s.payload_bytes
    h.ack = s.ack
    h.w12 = s.w12
    h.gso_size = s.payload_bytes
    h.len_bytes = network_len(p, i)
    h.count = 1
    h.row = row
    h.alike = s.alike
    h.ip_id = s.ip_id
    h.opt_len = <u16>s.opt_len
    h.ext_len = <u16>s.ext_len
    h.next_header = <u8>s.next_header
    h.family = <u8>s.family
    h.fixed_id = 0
    h.opt_off = s.opt_off
    h.age = jiffy
    h.first = i

cdef inline void join_held(held_t *h, const arrival_t *s) noexcept nogil:
    """skb_gro_receive: the payload goes behind what is held."""
    h.count += 1
    h.len_bytes += s.payload_bytes

cdef inline bint fits(const gro_cfg_t *cfg, const held_t *h, const arrival_t *s) noexcept nogil:
    """Whether the sum stays below the device's limit (GRO-35)."""
    cdef u64 total = <u64>h.len_bytes + s.payload_bytes
    if total >= (cfg.max_size if s.family == 6 else cfg.ipv4_max_size):
        return False
    return total < LEGACY_MAX_SIZE or s.proto == PROTO_TCP

cdef inline void gro_flush(gro_t *g, skb_t *skbs, bint old_only, i64 jiffy) noexcept nogil:
    """Put out what is held: buckets upwards, oldest first (GRO-47); old_only spares the new."""
    cdef bucket_t *bucket
    cdef u32 b, k, kept, gone
    cdef u8 slots[8]
    for b in range(<u32>BUCKETS):
        bucket = &g.buckets[b]
        gone = 0
        while gone < bucket.count and not (
            old_only and bucket.held[bucket.slot[gone]].age == jiffy
        ):
            gro_complete(g, skbs, &bucket.held[bucket.slot[gone]])
            gone += 1
        if gone == 0:
            continue
        kept = bucket.count - gone
        for k in range(gone):
            slots[k] = bucket.slot[k]
        for k in range(kept):
            bucket.hash[k] = bucket.hash[k + gone]
            bucket.slot[k] = bucket.slot[k + gone]
        for k in range(gone):
            bucket.slot[kept + k] = slots[k]
        bucket.count = <u8>kept
