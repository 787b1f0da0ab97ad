"""What GRO holds: eight buckets of up to eight, and the list for the stack (receive.md 5.1).

kernel: net/core/gro.c, gro_complete, gro_normal_one, gro_normal_list, __gro_flush,
gro_flush_oldest; net/core/dev.c, napi_complete_done
"""
from libc.string cimport memcpy

from emu._core.gro_finish cimport finish, network_len, write_skb
from emu._core.gro_state cimport (
    BUCKET_HELD,
    BUCKETS,
    LEGACY_MAX_SIZE,
    NORMAL_BATCH,
    PROTO_TCP,
    RARE_FLIST,
    RARE_TAGS,
    RARE_TUNNEL,
    arrival_t,
    bucket_t,
    gro_cfg_t,
    gro_init,
    gro_t,
    held_t,
    rare_t,
    skb_t,
)
from emu._core.types cimport i64, packets_t, u8, u16, u32, u64

cdef enum:
    NAPI_WEIGHT = 64
    HZ_OF_YOUNG_PACKETS = 1000

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

cdef inline void gro_complete(
    gro_t *g, skb_t *skbs, const held_t *h, const rare_t *rare
) noexcept nogil:
    """Finish a held packet and put it on the list (receive.md 5.4)."""
    if h.count > 1:
        finish(&skbs[h.row], h, rare, g.cfg)
    else:
        skbs[h.row].gso_size = 0
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
    gro_complete(g, skbs, &bucket.held[bucket.slot[place]], &bucket.rare[bucket.slot[place]])
    drop_entry(bucket, place)

cdef inline void gro_hold(
    gro_t *g, const packets_t *p, const packets_t *q, skb_t *skbs, bucket_t *bucket,
    const arrival_t *s, i64 i, i64 j, u32 row, i64 jiffy
) noexcept nogil:
    """Hold a packet as the newest of its bucket; a full bucket puts out its oldest.

    Packet i of p is the frame, row j of q what GRO read of it: another one in a tunnel only.
    """
    cdef held_t *h
    cdef rare_t *rare
    if bucket.count == BUCKET_HELD:
        put_out(g, skbs, bucket, 0)
    h = &bucket.held[bucket.slot[bucket.count]]
    bucket.hash[bucket.count] = s.hash
    memcpy(h.mac, p.mac + 2 * i, 16)
    memcpy(h.saddr, q.saddr + 4 * j, 16)
    memcpy(h.daddr, q.daddr + 4 * j, 16)
    h.ends = s.ends
    h.tag = s.tag
    h.seq_next = s.seq + s.payload_bytes
    h.ack = s.ack
    h.w12 = s.w12
    h.gso_size = p.gso_size[i] if s.gso else s.payload_bytes
    h.len_bytes = network_len(p, i)
    h.count = s.segments
    h.row = row
    h.alike = s.alike
    h.ip_id = s.ip_id
    h.opt_len = <u16>s.opt_len
    h.ext_len = <u16>s.ext_len
    h.next_header = <u8>s.next_header
    h.family = <u8>s.family
    h.fixed_ids = 0
    h.rare = s.rare
    h.l4_off = <u16>(q.l4_off[j] + s.base)
    h.opt_off = s.opt_off
    h.age = jiffy
    h.first = j
    if s.rare & (RARE_TUNNEL | RARE_TAGS):
        rare = &bucket.rare[bucket.slot[bucket.count]]
        rare.outer = s.outer
        rare.tags_at = p.frame_off[i] + 14
        rare.tags_len = s.tags_len
    bucket.count += 1

cdef inline void join_held(held_t *h, const arrival_t *s) noexcept nogil:
    """skb_gro_receive: the payload goes behind what is held."""
    h.count += s.segments
    h.len_bytes += s.payload_bytes

cdef inline bint fits(const gro_cfg_t *cfg, const held_t *h, const arrival_t *s) noexcept nogil:
    """Whether the sum stays below the device's limit (GRO-35)."""
    cdef u64 total = <u64>h.len_bytes + s.payload_bytes
    if total >= (cfg.max_size if s.limit_family == 6 else cfg.ipv4_max_size):
        return False
    return total < LEGACY_MAX_SIZE or s.proto == PROTO_TCP

cdef inline bint same_state(
    const skb_t *skb, const packets_t *p, const arrival_t *s, i64 i
) noexcept nogil:
    """Checksum states are equal, as a fraglist wants them (GRO-45, GRO-C6)."""
    cdef u8 level = 0 if s.level_zero else p.csum_level[i]
    return skb.ip_summed == s.ip_summed and skb.csum_level == level

cdef inline bint fits_fraglist(const held_t *h, const packets_t *p, i64 i) noexcept nogil:
    """A fraglist stays below 64 KiB, with the joined packet's headers counted (GRO-C4)."""
    return <u64>h.len_bytes + network_len(p, i) < LEGACY_MAX_SIZE

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
            gro_complete(
                g, skbs, &bucket.held[bucket.slot[gone]], &bucket.rare[bucket.slot[gone]]
            )
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

cdef inline bint holds_any(const gro_t *g) noexcept nogil:
    """Whether a packet is held in any bucket."""
    cdef u32 b
    cdef u32 held = 0
    for b in range(<u32>BUCKETS):
        held |= g.buckets[b].count
    return held != 0

cdef inline bint keeps_young(gro_t *g, const gro_cfg_t *cfg, u32 work) noexcept nogil:
    """napi_complete_done: whether a timer is started, which will come for what is held (N-8)."""
    cdef u64 timeout = 0
    if work > 0:
        if holds_any(g):
            timeout = cfg.flush_timeout_ns
        g.defer_count = cfg.defer_hard_irqs
    if g.defer_count > 0:
        g.defer_count -= 1
        timeout = cfg.flush_timeout_ns
    return timeout != 0

cdef inline void gro_end_poll(
    gro_t *g, const gro_cfg_t *cfg, skb_t *skbs, u32 work, bint complete, u32 hz, i64 jiffy
) noexcept nogil:
    """What napi_poll does behind the driver's work (N-7, N-8): flush and hand over.

    A poll that was not full always completes; a full one only when the driver found no more.
    """
    if work >= NAPI_WEIGHT:
        gro_flush(g, skbs, hz >= HZ_OF_YOUNG_PACKETS, jiffy)
        gro_deliver(g, skbs)
    if work < NAPI_WEIGHT or complete:
        gro_flush(g, skbs, keeps_young(g, cfg, work), jiffy)
        gro_deliver(g, skbs)
