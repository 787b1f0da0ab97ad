"""GRO of UDP datagrams for forwarding (GRO-37..44): no socket is looked up here.

kernel: net/ipv4/udp_offload.c, udp_gro_receive, udp_gro_receive_segment
omits: UDP_GRO sockets, tunnels, fraglists
"""
from emu._core.gro_held cimport (
    GRO_HELD,
    GRO_MERGED,
    arrival_t,
    bucket_t,
    fits,
    gro_cfg_t,
    gro_hold,
    gro_t,
    held_t,
    join_held,
    put_out,
    skb_t,
    write_skb,
)
from emu._core.gro_ip cimport find_held, network_flush
from emu._core.gro_tcp cimport send_up, verify_l4
from emu._core.types cimport PF_UDP_CSUM_ZERO, i64, packets_t, u8, u16, u32

cdef enum:
    UDP_BYTES = 8
    UDP_GRO_CNT_MAX = 64

cdef inline bint udp_eligible(
    const gro_cfg_t *cfg, const packets_t *p, i64 i, u16 flags
) noexcept nogil:
    """Forwarding is on, there is a checksum, the length field says what is there (GRO-38..40)."""
    if not cfg.udp_forwarding or flags & PF_UDP_CSUM_ZERO or p.udp_len[i] <= UDP_BYTES:
        return False
    return p.udp_len[i] == p.payload_bytes[i] + UDP_BYTES

cdef inline u8 receive_udp(
    gro_t *g, const gro_cfg_t *cfg, const packets_t *p, const u8 *blob, skb_t *skbs,
    bucket_t *bucket, arrival_t *s, i64 i, u32 row, i64 jiffy, u32 *skb_of
) noexcept nogil:
    """One datagram that IP has taken; the order of the checks is GRO-C1's."""
    cdef int place
    cdef held_t *h
    cdef bint joined = False
    cdef u16 flags = p.flags[i]
    if (not s.soft and not verify_l4(s, flags)) or not udp_eligible(cfg, p, i, flags):
        return send_up(g, p, skbs, s, i, row)
    s.payload_bytes = p.payload_bytes[i]
    place = find_held(bucket, s, p, blob, i)
    if place >= 0:
        h = &bucket.held[bucket.slot[place]]
        if s.payload_bytes <= h.gso_size and network_flush(cfg, h, s) == 0 and not s.soft:
            if fits(cfg, h, s):
                joined = True
                join_held(h, s)
                skb_of[0] = h.row
        if not joined or s.payload_bytes != h.gso_size or h.count >= UDP_GRO_CNT_MAX:
            put_out(g, skbs, bucket, place)
    if joined:
        return GRO_MERGED
    if s.soft:
        return send_up(g, p, skbs, s, i, row)
    write_skb(&skbs[row], p, s, i)
    gro_hold(g, p, skbs, bucket, s, i, row, jiffy)
    return GRO_HELD
