"""GRO of TCP segments (GRO-19..36).

kernel: net/ipv4/tcp_offload.c, tcp_gro_receive
"""
from emu._core.gro_finish cimport write_skb
from emu._core.gro_held cimport (
    fits,
    fits_fraglist,
    gro_append,
    gro_hold,
    join_held,
    put_out,
    same_state,
)
from emu._core.gro_ip cimport REASON_BAD_DOFF, find_held, network_flush
from emu._core.gro_state cimport (
    CHECKSUM_NONE,
    CHECKSUM_PARTIAL,
    CHECKSUM_UNNECESSARY,
    GRO_HELD,
    GRO_MERGED,
    GRO_NORMAL,
    RARE_FLIST,
    arrival_t,
    bucket_t,
    gro_cfg_t,
    gro_t,
    held_t,
    rare_t,
    skb_t,
)
from emu._core.octets cimport load_le32
from emu._core.types cimport PF_L4_CSUM_BAD, i64, packets_t, u8, u16, u32

cdef enum:
    TCP_BYTES = 20
    # Of the word at TCP offset 12.
    W12_FIN = 0x00010000
    W12_SYN = 0x00020000
    W12_RST = 0x00040000
    W12_PSH = 0x00080000
    W12_URG = 0x00200000
    W12_CWR = 0x00800000
    W12_ENDS = 0x002F0000  # FIN, SYN, RST, PSH, URG
    MAX_FRAGLIST = 64

cdef inline bint verify_l4(
    arrival_t *s, const packets_t *p, i64 i, const packets_t *q, i64 j
) noexcept nogil:
    """Whether the checksum is good or trusted (GRO-19); a good NONE becomes UNNECESSARY."""
    if s.ip_summed == CHECKSUM_UNNECESSARY:
        return True
    if s.ip_summed == CHECKSUM_PARTIAL and p.csum_start[i] >= q.l4_off[j] + s.base:
        return True
    if q.flags[j] & PF_L4_CSUM_BAD:
        return False
    if s.ip_summed == CHECKSUM_NONE:
        s.ip_summed = CHECKSUM_UNNECESSARY
        s.level_zero = 1
    return True

cdef inline u8 send_up(
    gro_t *g, const packets_t *p, skb_t *skbs, const arrival_t *s, i64 i, u32 row, u32 w12
) noexcept nogil:
    """The packet goes to the stack as it is."""
    write_skb(&skbs[row], p, s, i, w12)
    gro_append(g, skbs, row, 1)
    return GRO_NORMAL

cdef inline bint read_tcp(arrival_t *s, const packets_t *p, i64 i) noexcept nogil:
    """The header's fields; False if it is not whole (GRO-20)."""
    cdef u32 doff
    s.w12 = p.tcp_w12[i]
    doff = (s.w12 >> 28) * 4
    if doff < TCP_BYTES or p.reason[i] == REASON_BAD_DOFF:
        return False
    s.opt_len = doff - TCP_BYTES
    s.opt_off = p.opt_off[i] if doff > TCP_BYTES else 0
    if s.opt_off < 0:
        return False
    s.seq = p.seq[i]
    s.ack = p.ack[i]
    s.payload_bytes = p.payload_bytes[i]
    return True

cdef inline bint same_options(const held_t *h, const arrival_t *s, const u8 *blob) noexcept nogil:
    """Option octets are equal (GRO-25); the lengths are, as doff is."""
    cdef const u8 *ours = blob + s.opt_off
    cdef const u8 *theirs = blob + h.opt_off
    cdef u32 at = 0
    cdef u32 differs = 0
    while at < s.opt_len:
        differs |= load_le32(ours + at) ^ load_le32(theirs + at)
        at += 4
    return differs == 0

cdef inline bint tcp_fits(
    const gro_cfg_t *cfg, const held_t *h, const skb_t *skb, const packets_t *p,
    const arrival_t *s, i64 i
) noexcept nogil:
    """Size (GRO-35); and what else a fraglist wants (GRO-45)."""
    if not s.rare & RARE_FLIST:
        return fits(cfg, h, s)
    if (h.w12 ^ s.w12) & (W12_FIN | W12_PSH) or h.count >= MAX_FRAGLIST:
        return False
    return same_state(skb, p, s, i) and fits_fraglist(h, p, i)

cdef inline bint tcp_joins(
    const gro_cfg_t *cfg, held_t *h, const rare_t *rare, const skb_t *skb, const packets_t *p,
    const arrival_t *s, i64 i, const u8 *qblob
) noexcept nogil:
    """Whether nothing forbids to put the segment behind what is held (GRO-22..28, GRO-35)."""
    cdef u32 differs = (s.w12 ^ h.w12) & ~<u32>(W12_FIN | W12_PSH)
    if cfg.cwr_masked:
        differs &= ~<u32>W12_CWR
    if not cfg.cwr_merges:
        differs |= s.w12 & W12_CWR
    differs |= (s.ack ^ h.ack) | (s.seq ^ h.seq_next)
    differs |= network_flush(cfg, h, rare, s)
    if s.gso:
        differs |= h.gso_size ^ p.gso_size[i]
    elif s.payload_bytes - 1 >= h.gso_size:
        return False
    if differs or s.soft:
        return False
    return tcp_fits(cfg, h, skb, p, s, i) and same_options(h, s, qblob)

cdef inline bint ends_short(
    const packets_t *p, const arrival_t *s, i64 i, u32 mss
) noexcept nogil:
    """Whether a segment is too short for others to follow (GRO-30)."""
    if s.gso:
        return s.payload_bytes != s.segments * p.gso_size[i]
    return s.payload_bytes < mss

cdef inline u8 receive_tcp(
    gro_t *g, const gro_cfg_t *cfg, const packets_t *p, const u8 *blob, const packets_t *q,
    const u8 *qblob, i64 j, skb_t *skbs, bucket_t *bucket, arrival_t *s, i64 i, u32 row, i64 jiffy,
    u32 *skb_of
) noexcept nogil:
    """One TCP segment that IP has taken (receive.md 5.5)."""
    cdef int place
    cdef held_t *h = NULL
    cdef bint joined = False
    cdef bint ends
    cdef u32 mss = 1
    if (not s.soft and not verify_l4(s, p, i, q, j)) or not read_tcp(s, q, j):
        return send_up(g, p, skbs, s, i, row, p.tcp_w12[i])
    place = find_held(bucket, s, p, blob, i, q, qblob, j)
    if place >= 0:
        h = &bucket.held[bucket.slot[place]]
    if cfg.fraglist and cfg.tcp_fraglist:
        if h == NULL:
            s.rare |= 0 if s.sock else RARE_FLIST
        else:
            s.rare |= h.rare & RARE_FLIST
    if h != NULL:
        if tcp_joins(
            cfg, h, &bucket.rare[bucket.slot[place]], &skbs[h.row], p, s, i, qblob
        ):
            joined = True
            mss = h.gso_size
            join_held(h, s)
            skbs[h.row].segs += 1
            h.seq_next += s.payload_bytes
            if not s.rare & RARE_FLIST:
                h.w12 |= s.w12 & (W12_FIN | W12_PSH)
            skb_of[0] = h.row
    ends = s.w12 & W12_ENDS or ends_short(p, s, i, mss)
    if h != NULL and (ends or not joined):
        put_out(g, skbs, bucket, place)
    if joined:
        return GRO_MERGED
    if ends or s.soft:
        return send_up(g, p, skbs, s, i, row, s.w12)
    write_skb(&skbs[row], p, s, i, s.w12)
    gro_hold(g, p, q, skbs, bucket, s, i, j, row, jiffy)
    return GRO_HELD
