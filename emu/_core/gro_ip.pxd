"""What GRO wants of the network header, and which held packet is of the same flow (GRO-1..18).

kernel: net/ipv4/af_inet.c, inet_gro_receive; net/ipv6/ip6_offload.c, ipv6_gro_receive;
include/net/gro.h, gro_receive_network_flush
"""
from libc.string cimport memcmp

from emu._core.gro_rare cimport is_tunnel, rare_marks, same_rare, takes_tags
from emu._core.gro_state cimport (
    LINK_BYTES,
    PROTO_TCP,
    PROTO_UDP,
    arrival_t,
    bucket_t,
    gro_cfg_t,
    held_t,
    outer_t,
    rare_t,
)
from emu._core.types cimport (
    PF_EXT_BYPASS,
    PF_EXT_HEADERS,
    PF_FRAGMENT,
    PF_IP_CSUM_BAD,
    PF_MALFORMED_LEN,
    PF_VLAN_META,
    i64,
    packets_t,
    u8,
    u16,
    u32,
    u64,
)

cdef enum:
    REASON_BAD_VERSION = 4
    REASON_BAD_DOFF = 8

    IPV6_BYTES = 40
    IPV6_NEXT_HEADER = 6
    FRAG_DF = 0x4000
    FRAG_RESERVED = 0x8000
    EXT_MARK = 0x01000000

cdef inline bint tag_in_frame(const packets_t *p, i64 i, u16 flags) noexcept nogil:
    """A VLAN tag that only the module 8021Q handles."""
    return p.vlan_tpid[i] != 0 and (p.l3_off[i] > LINK_BYTES or not flags & PF_VLAN_META)

cdef inline bint read_extensions(
    arrival_t *s, const packets_t *p, const u8 *blob, i64 i
) noexcept nogil:
    """The span of the IPv6 extension headers; False if the bytes are not there (GRO-18)."""
    cdef u32 begin = <u32>p.l3_off[i] + IPV6_BYTES
    if p.frame_off[i] < 0 or p.l4_off[i] < begin or p.l4_off[i] > p.cap_bytes[i]:
        return False
    s.ext_len = p.l4_off[i] - begin
    s.next_header = blob[p.frame_off[i] + p.l3_off[i] + IPV6_NEXT_HEADER]
    return True

cdef inline bint network_takes(
    arrival_t *s, const gro_cfg_t *cfg, const packets_t *p, const u8 *blob, i64 i
) noexcept nogil:
    """Whether the IP handlers take the packet; if not it goes by all that is held (GRO-8, 18)."""
    cdef u16 flags = p.flags[i]
    cdef u8 reason = p.reason[i]
    if reason and reason != REASON_BAD_VERSION and reason != REASON_BAD_DOFF:
        return False
    s.family = p.family[i]
    s.proto = p.ip_proto[i]
    s.ext_len = 0
    s.next_header = 0
    s.ip_id = 0
    s.df = 0
    if s.proto != PROTO_TCP and s.proto != PROTO_UDP and not is_tunnel(s.proto):
        return False
    if flags & (PF_FRAGMENT | PF_IP_CSUM_BAD | PF_EXT_BYPASS):
        return False
    if tag_in_frame(p, i, flags) and not takes_tags(s, cfg, p, i):
        return False
    s.soft |= flags & PF_MALFORMED_LEN
    if s.family == 4:
        if p.ip_b0[i] != 0x45:
            return False
        s.ip_id = p.ip_id[i]
        s.df = (p.ip_frag[i] & FRAG_DF) != 0
        s.soft |= p.ip_frag[i] & FRAG_RESERVED
    elif s.family != 6:
        return False
    elif flags & PF_EXT_HEADERS and not read_extensions(s, p, blob, i):
        return False
    s.alike = (<u32>s.df << 16) | (<u32>p.ttl[i] << 8) | p.tos[i]
    return True

cdef inline void read_flow(
    arrival_t *s, const packets_t *p, i64 i, const packets_t *q, i64 j, bint fresh_skb
) noexcept nogil:
    """All that must be equal for two packets to be of one flow (GRO-1, 2, 10, 15, 21)."""
    cdef u64 vlan = 0
    if p.vlan_tpid[i] and not fresh_skb and p.flags[i] & PF_VLAN_META:
        vlan = (<u64>p.vlan_tpid[i] << 16) | p.vlan_tci[i]
    s.ends = (
        (<u64>q.sport[j] << 48) | (<u64>q.dport[j] << 32) | (<u64>p.nic[i] << 16)
        | (<u64>s.family << 8) | s.proto
    )
    s.tag = vlan << 32
    if s.family == 6:
        s.tag |= (<u64>(q.ip_b0[j] >> 4) << 28) | q.flow_label[j] | (EXT_MARK if s.ext_len else 0)
    if s.rare:
        s.tag |= rare_marks(s.rare)

cdef inline bint same_flow(
    const held_t *h, const arrival_t *s, const packets_t *p, i64 i, const packets_t *q, i64 j
) noexcept nogil:
    """All but the extension headers, and what few packets have, is equal."""
    cdef const u64 *mac = p.mac + 2 * i
    cdef const u64 *saddr = <const u64 *>(q.saddr + 4 * j)
    cdef const u64 *daddr = <const u64 *>(q.daddr + 4 * j)
    return (
        (h.ends ^ s.ends) | (h.tag ^ s.tag)
        | (h.mac[0] ^ mac[0]) | (h.mac[1] ^ mac[1])
        | (h.saddr[0] ^ saddr[0]) | (h.saddr[1] ^ saddr[1])
        | (h.daddr[0] ^ daddr[0]) | (h.daddr[1] ^ daddr[1])
    ) == 0

cdef inline bint same_extensions(
    const held_t *h, const arrival_t *s, const packets_t *p, const u8 *blob, i64 i
) noexcept nogil:
    """The chains of extension headers are equal, octet for octet."""
    if s.ext_len == 0:  # and so is the other: the mark in the tags is equal
        return True
    return h.ext_len == s.ext_len and h.next_header == s.next_header and memcmp(
        blob + p.frame_off[i] + p.l3_off[i] + IPV6_BYTES,
        blob + p.frame_off[h.first] + p.l3_off[h.first] + IPV6_BYTES,
        s.ext_len,
    ) == 0

cdef inline int find_held(
    const bucket_t *bucket, const arrival_t *s, const packets_t *p, const u8 *blob, i64 i,
    const packets_t *q, const u8 *qblob, i64 j
) noexcept nogil:
    """The place of the held packet of the same flow, one at most (GRO-5), newest first; or -1."""
    cdef int place = <int>bucket.count - 1
    cdef const held_t *h
    while place >= 0:
        if bucket.hash[place] == s.hash:
            h = &bucket.held[bucket.slot[place]]
            if same_flow(h, s, p, i, q, j) and same_extensions(h, s, q, qblob, j):
                if not s.rare or same_rare(&bucket.rare[bucket.slot[place]], s, p, blob, i):
                    return place
        place -= 1
    return -1

cdef inline u32 ids_flush(
    const gro_cfg_t *cfg, held_t *h, u16 first_id, u16 ip_id, u8 df, u8 bit
) noexcept nogil:
    """Not 0 when an IPv4 ID forbids to join (GRO-12); may settle that IDs are fixed."""
    cdef u16 step = ip_id - first_id
    if h.count == 1 and step == 0 and (df or not cfg.fixed_id_needs_df):
        h.fixed_ids |= bit
    return step if h.fixed_ids & bit else step ^ <u16>h.count

cdef inline u32 outer_flush(
    const gro_cfg_t *cfg, held_t *h, const outer_t *theirs, const outer_t *ours
) noexcept nogil:
    """The same of the outer header of two (GRO-14)."""
    cdef u32 differs = theirs.alike ^ ours.alike
    if ours.family != 4 or differs:
        return differs
    if cfg.outer_id_unchecked and ours.df:
        return 0
    return ids_flush(cfg, h, theirs.ip_id, ours.ip_id, ours.df, 1)

cdef inline u32 network_flush(
    const gro_cfg_t *cfg, held_t *h, const rare_t *rare, const arrival_t *s
) noexcept nogil:
    """Not 0 when TTL, TOS, DF, ID forbid to join (GRO-11, 12, 16); may settle that ID is fixed."""
    cdef u32 differs = h.alike ^ s.alike
    cdef u32 outer = 0
    cdef u8 bit = 1
    if s.base:
        outer = outer_flush(cfg, h, &rare.outer, &s.outer)
        bit = 2
    if s.family != 4 or differs:
        return differs | outer
    return ids_flush(cfg, h, h.ip_id, s.ip_id, s.df, bit) | outer
