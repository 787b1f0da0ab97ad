"""GRO of one NAPI: packets in, skbs for the stack out (receive.md 5).

kernel: net/core/gro.c, dev_gro_receive
omits: slow-path state (GRO-3), TLS, PSP, page pools, the handlers of GRE, VXLAN and ESP
"""
from emu._core.gro_held cimport gro_deliver, gro_end_poll, gro_flush
from emu._core.gro_ip cimport network_takes, read_flow
from emu._core.gro_rare cimport is_tunnel, keep_outer
from emu._core.gro_state cimport (
    BUCKETS,
    CHECKSUM_NONE,
    GSO_DODGY,
    GSO_TCPV4,
    GSO_TCPV6,
    PROTO_TCP,
    RARE_TAGS,
    arrival_t,
    gro_cfg_t,
    gro_init,
    gro_t,
    skb_t,
)
from emu._core.gro_tcp cimport receive_tcp, send_up
from emu._core.gro_udp cimport receive_udp
from emu._core.types cimport PF_GSO, i64, packets_t, u8, u32


cdef inline void read_gso(arrival_t *s, const packets_t *p, i64 i) noexcept nogil:
    """A GSO packet counts as its segments, and joins only as TCP of a trusted source (R-5.2.4)."""
    s.gso = 1
    s.segments = p.gso_segs[i] if p.gso_segs[i] else 1
    if not p.gso_type[i] & (GSO_TCPV4 | GSO_TCPV6) or p.gso_type[i] & GSO_DODGY:
        s.soft = 1


cdef inline void begin_arrival(
    arrival_t *s, const gro_cfg_t *cfg, const packets_t *p, i64 i, u32 hash, u8 hash_type, u8 sock
) noexcept nogil:
    """The packet as the driver, or a cpumap's kthread, hands it to GRO."""
    s.soft = 0
    s.rare = s.gso = 0
    s.sock = sock
    s.segments = 1
    s.base = 0
    s.tags_len = 0
    s.level_zero = cfg.fresh_skb
    if cfg.fresh_skb:
        s.hash = 0
        s.hash_type = 0
        s.ip_summed = CHECKSUM_NONE
        return
    s.hash = hash
    s.hash_type = hash_type
    s.ip_summed = p.ip_summed[i]
    if p.flags[i] & PF_GSO:
        read_gso(s, p, i)


cdef inline u8 gro_receive(
    gro_t *g, const gro_cfg_t *cfg, const packets_t *p, const u8 *blob, skb_t *skbs, i64 i, u32 row,
    u32 hash, u8 hash_type, u8 sock, const packets_t *inner, const u8 *inner_blob, i64 inner_row,
    i64 jiffy, u32 *skb_of
) noexcept nogil:
    """Take packet i in: answers GroResult; skb_of is its row, the given one unless joined.

    sock: what a socket lookup says of it (HAS_SOCKET, HAS_UDP_GRO). inner, inner_row: the packet
    that rides in it; NULL or -1 for none.
    """
    cdef arrival_t s
    cdef const packets_t *q = p
    cdef const u8 *qblob = blob
    cdef i64 j = i
    g.entered += 1
    g.cfg = cfg
    skb_of[0] = row
    begin_arrival(&s, cfg, p, i, hash, hash_type, sock)
    if not cfg.enabled or not network_takes(&s, cfg, p, blob, i):
        return send_up(g, p, skbs, &s, i, row, p.tcp_w12[i])
    s.limit_family = 4 if s.rare & RARE_TAGS else <u8>s.family
    if is_tunnel(s.proto):
        if inner == NULL or inner_row < 0:
            return send_up(g, p, skbs, &s, i, row, p.tcp_w12[i])
        keep_outer(&s, p, blob, i)
        q, qblob, j = inner, inner_blob, inner_row
        if not network_takes(&s, cfg, q, qblob, j) or is_tunnel(s.proto):
            return send_up(g, p, skbs, &s, i, row, p.tcp_w12[i])
    read_flow(&s, p, i, q, j, cfg.fresh_skb)
    if s.proto == PROTO_TCP:
        return receive_tcp(
            g, cfg, p, blob, q, qblob, j, skbs, &g.buckets[s.hash % BUCKETS], &s, i, row, jiffy,
            skb_of
        )
    s.seq = s.ack = s.w12 = 0
    s.opt_len = 0
    s.opt_off = 0
    return receive_udp(
        g, cfg, p, blob, q, qblob, j, skbs, &g.buckets[s.hash % BUCKETS], &s, i, row, jiffy, skb_of
    )
