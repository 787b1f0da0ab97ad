"""GRO of UDP datagrams: for UDP_GRO sockets, for forwarding, as fraglists (GRO-37..46).

kernel: net/ipv4/udp_offload.c, udp_gro_receive, udp_gro_receive_segment
"""
from emu._core.gro_finish cimport write_skb
from emu._core.gro_held cimport (
    fits,
    fits_fraglist,
    gro_hold,
    join_held,
    put_out,
    same_state,
)
from emu._core.gro_ip cimport find_held, network_flush
from emu._core.gro_state cimport (
    GRO_HELD,
    GRO_MERGED,
    RARE_FLIST,
    HAS_UDP_GRO,
    arrival_t,
    bucket_t,
    gro_cfg_t,
    gro_t,
    held_t,
    rare_t,
    skb_t,
)
from emu._core.gro_tcp cimport send_up, verify_l4
from emu._core.types cimport PF_UDP_CSUM_ZERO, i64, packets_t, u8, u16, u32

cdef enum:
    UDP_BYTES = 8
    UDP_GRO_CNT_MAX = 64

    # What becomes of a datagram whose flow is held.
    JOINS = 0
    BEHIND = 1    # what is held is completed, the datagram held; or sent up when it may not stay
    GOES_UP = 2   # what is held is completed, the datagram sent up
    PASSES = 3    # the datagram is sent up, what is held stays

cdef inline bint udp_eligible(
    const gro_cfg_t *cfg, arrival_t *s, const packets_t *q, i64 j
) noexcept nogil:
    """Somebody wants it joined, there is a checksum, the length is what is there (GRO-38..40)."""
    if s.sock == HAS_UDP_GRO:
        pass
    elif cfg.fraglist:
        s.rare |= RARE_FLIST
    elif not cfg.udp_forwarding or s.sock:
        return False
    if q.flags[j] & PF_UDP_CSUM_ZERO or q.udp_len[j] <= UDP_BYTES:
        return False
    return q.udp_len[j] == q.payload_bytes[j] + UDP_BYTES

cdef inline u8 udp_fate(
    const gro_cfg_t *cfg, held_t *h, const rare_t *rare, const skb_t *skb, const packets_t *p,
    const arrival_t *s, i64 i
) noexcept nogil:
    """What a datagram does to the held packet of its flow, and what becomes of it."""
    # seq_next of a datagram: the first one's payload, and what joins leaves it so.
    if (h.rare ^ s.rare) & RARE_FLIST:
        return GOES_UP
    if s.payload_bytes > h.seq_next or network_flush(cfg, h, rare, s):
        return BEHIND
    if s.rare & RARE_FLIST:
        if not same_state(skb, p, s, i):
            return PASSES
        return JOINS if fits_fraglist(h, p, i) and not s.soft else BEHIND
    return JOINS if fits(cfg, h, s) and not s.soft else BEHIND

cdef inline u8 receive_udp(
    gro_t *g, const gro_cfg_t *cfg, const packets_t *p, const u8 *blob, const packets_t *q,
    const u8 *qblob, i64 j, skb_t *skbs, bucket_t *bucket, arrival_t *s, i64 i, u32 row, i64 jiffy,
    u32 *skb_of
) noexcept nogil:
    """One datagram that IP has taken; the order of the checks is GRO-C1's."""
    cdef int place
    cdef held_t *h
    cdef u8 fate
    if (not s.soft and not verify_l4(s, p, i, q, j)) or not udp_eligible(cfg, s, q, j):
        return send_up(g, p, skbs, s, i, row, p.tcp_w12[i])
    s.payload_bytes = q.payload_bytes[j]
    place = find_held(bucket, s, p, blob, i, q, qblob, j)
    if place >= 0:
        h = &bucket.held[bucket.slot[place]]
        fate = udp_fate(cfg, h, &bucket.rare[bucket.slot[place]], &skbs[h.row], p, s, i)
        if fate == JOINS:
            join_held(h, s)
            skbs[h.row].segs += 1
            skb_of[0] = h.row
            if s.payload_bytes != h.seq_next or h.count >= UDP_GRO_CNT_MAX:
                put_out(g, skbs, bucket, place)
            return GRO_MERGED
        if fate != PASSES:
            put_out(g, skbs, bucket, place)
        if fate != BEHIND:
            return send_up(g, p, skbs, s, i, row, p.tcp_w12[i])
    if s.soft:
        return send_up(g, p, skbs, s, i, row, p.tcp_w12[i])
    write_skb(&skbs[row], p, s, i, p.tcp_w12[i])
    gro_hold(g, p, q, skbs, bucket, s, i, j, row, jiffy)
    return GRO_HELD
