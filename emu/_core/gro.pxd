"""GRO of one NAPI: packets in, skbs for the stack out (receive.md 5).

kernel: net/core/gro.c, dev_gro_receive
omits: tunnels (IP in IP is never held), the module 8021Q, UDP_GRO sockets, fraglists, GSO input
"""
from emu._core.gro_held cimport (
    BUCKETS,
    CHECKSUM_NONE,
    PROTO_TCP,
    arrival_t,
    gro_cfg_t,
    gro_deliver,
    gro_flush,
    gro_init,
    gro_t,
    skb_t,
)
from emu._core.gro_ip cimport network_takes, read_flow
from emu._core.gro_tcp cimport receive_tcp, send_up
from emu._core.gro_udp cimport receive_udp
from emu._core.types cimport i64, packets_t, u8, u32

cdef inline u8 gro_receive(
    gro_t *g, const gro_cfg_t *cfg, const packets_t *p, const u8 *blob, skb_t *skbs,
    i64 i, u32 row, u32 hash, u8 hash_type, i64 jiffy, u32 *skb_of
) noexcept nogil:
    """Take packet i in: answers GroResult; skb_of is its row, the given one unless joined."""
    cdef arrival_t s
    g.entered += 1
    skb_of[0] = row
    s.level_zero = cfg.fresh_skb
    if cfg.fresh_skb:
        s.hash = 0
        s.hash_type = 0
        s.ip_summed = CHECKSUM_NONE
    else:
        s.hash = hash
        s.hash_type = hash_type
        s.ip_summed = p.ip_summed[i]
    if not cfg.enabled or not network_takes(&s, p, blob, i):
        return send_up(g, p, skbs, &s, i, row)
    read_flow(&s, p, i, cfg.fresh_skb)
    if s.proto == PROTO_TCP:
        return receive_tcp(
            g, cfg, p, blob, skbs, &g.buckets[s.hash % BUCKETS], &s, i, row, jiffy, skb_of
        )
    s.seq = s.ack = s.w12 = 0
    s.opt_len = 0
    s.opt_off = 0
    return receive_udp(
        g, cfg, p, blob, skbs, &g.buckets[s.hash % BUCKETS], &s, i, row, jiffy, skb_of
    )
