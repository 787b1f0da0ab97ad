"""What an skb says of itself when it leaves GRO (receive.md 5.4, GRO-A6, A9..A11, C3).

kernel: net/ipv4/tcp_offload.c, tcp4_gro_complete; net/ipv4/udp_offload.c, udp4_gro_complete;
net/ipv4/af_inet.c, inet_gro_complete, ipip_gro_complete; net/ipv6/ip6_offload.c, ipv6_gro_complete
"""
from emu._core.gro_state cimport (
    CHECKSUM_NONE,
    CHECKSUM_PARTIAL,
    CHECKSUM_UNNECESSARY,
    GSO_FIXEDID,
    GSO_FIXEDID_INNER,
    GSO_FIXEDID_OLD,
    GSO_FRAGLIST,
    GSO_IPXIP4,
    GSO_IPXIP6,
    GSO_TCP_ACCECN,
    GSO_TCP_ECN,
    GSO_TCPV4,
    GSO_TCPV6,
    GSO_UDP_L4,
    JUMBO_BYTES,
    LINK_BYTES,
    PROTO_UDP,
    RARE_FLIST,
    RARE_TAGS,
    RARE_TUNNEL,
    arrival_t,
    gro_cfg_t,
    held_t,
    rare_t,
    skb_t,
)
from emu._core.types cimport i64, packets_t, u8, u32

cdef enum:
    TCP_CHECK = 16
    UDP_CHECK = 6
    IPV6_HEADER = 40
    LARGEST_PAYLOAD = 0xFFFF
    MAX_CSUM_LEVEL = 3
    FIRST_CWR = 0x00800000  # of the word at TCP offset 12

cdef inline u32 network_len(const packets_t *p, i64 i) noexcept nogil:
    """skb->len in GRO: what stands behind the link header; a tag in the frame counts."""
    cdef u32 link = p.l3_off[i]
    if link > LINK_BYTES:
        link = LINK_BYTES
    return p.wire_bytes[i] - link if p.wire_bytes[i] > link else 0

cdef inline void write_skb(
    skb_t *skb, const packets_t *p, const arrival_t *s, i64 i, u32 w12
) noexcept nogil:
    """An skb that is this one packet (GRO-49)."""
    skb.first = i
    skb.segs = 1
    skb.len_bytes = network_len(p, i)
    skb.gso_size = skb.gso_type = skb.gso_segs = 0
    skb.csum_start = skb.csum_off = 0
    skb.hash = s.hash
    skb.hash_type = s.hash_type
    skb.ip_summed = s.ip_summed
    skb.csum_level = 0 if s.level_zero else p.csum_level[i]
    skb.tcp_flags = <u8>(w12 >> 16)
    if s.ip_summed == CHECKSUM_PARTIAL:
        skb.csum_start = p.csum_start[i]
        skb.csum_off = p.csum_off[i]
    if s.gso:
        skb.gso_size = p.gso_size[i]
        skb.gso_type = p.gso_type[i]
        skb.gso_segs = p.gso_segs[i]

cdef inline u32 tcp_bits(const held_t *h, const gro_cfg_t *cfg) noexcept nogil:
    """SKB_GSO_* of joined TCP segments."""
    cdef u32 bits = GSO_TCPV4 if h.family == 4 else GSO_TCPV6
    if h.w12 & FIRST_CWR:
        bits |= GSO_TCP_ECN if cfg.old_gso_bits else GSO_TCP_ACCECN
    if h.family == 4 and h.fixed_ids:
        if cfg.old_gso_bits:
            bits |= GSO_FIXEDID_OLD
        else:
            if h.fixed_ids & 1:
                bits |= <u32>GSO_FIXEDID
            if h.fixed_ids & 2:
                bits |= <u32>GSO_FIXEDID_INNER
    return bits

cdef inline void finish_fraglist(skb_t *skb, const held_t *h, bint udp) noexcept nogil:
    """The members stay as they are; one more checksum is vouched for."""
    if udp:
        skb.gso_type |= GSO_UDP_L4 | GSO_FRAGLIST
    else:
        skb.gso_type |= (GSO_TCPV4 if h.family == 4 else GSO_TCPV6) | GSO_FRAGLIST
    if skb.ip_summed == CHECKSUM_UNNECESSARY:
        if skb.csum_level < MAX_CSUM_LEVEL:
            skb.csum_level += 1
    elif skb.ip_summed == CHECKSUM_NONE:
        skb.ip_summed = CHECKSUM_UNNECESSARY
        skb.csum_level = 0

cdef inline void finish(
    skb_t *skb, const held_t *h, const rare_t *rare, const gro_cfg_t *cfg
) noexcept nogil:
    """Several segments become one packet."""
    cdef bint udp = <u8>(h.ends & 0xFF) == PROTO_UDP
    cdef bint tunnel = h.rare & RARE_TUNNEL
    cdef u32 outer = rare.outer.family if tunnel else h.family
    cdef u32 before = IPV6_HEADER
    skb.len_bytes = h.len_bytes
    skb.gso_size = h.gso_size
    skb.gso_segs = h.count
    if h.rare & RARE_FLIST and not (udp and tunnel):
        finish_fraglist(skb, h, udp)
    else:
        skb.ip_summed = CHECKSUM_PARTIAL
        skb.csum_start = h.l4_off
        skb.csum_off = UDP_CHECK if udp else TCP_CHECK
        skb.gso_type |= <u32>GSO_UDP_L4 if udp else tcp_bits(h, cfg)
        if not udp:
            skb.tcp_flags = <u8>(h.w12 >> 16)
    if tunnel:
        skb.gso_type |= GSO_IPXIP4 if outer == 4 else GSO_IPXIP6
    if outer == 6 and cfg.jumbo_header:
        if h.rare & RARE_TAGS:
            before += rare.tags_len
        if h.len_bytes > before + LARGEST_PAYLOAD:
            skb.len_bytes += JUMBO_BYTES  # the jumbo header goes in (GRO-A11)
            skb.csum_start += JUMBO_BYTES
