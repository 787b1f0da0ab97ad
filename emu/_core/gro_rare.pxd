"""What few packets have in GRO: a network header around another, tags in the frame.

GRO-6, GRO-14; kernel: net/ipv4/af_inet.c, ipip_gro_receive; net/8021q/vlan_core.c, vlan_gro_receive
"""
from libc.string cimport memcmp, memcpy

from emu._core.gro_state cimport (
    LINK_BYTES,
    RARE_TAGS,
    RARE_TUNNEL,
    TAGS_MARK,
    TUNNEL_MARK,
    arrival_t,
    gro_cfg_t,
    outer_t,
    rare_t,
)
from emu._core.types cimport PF_EXT_HEADERS, i64, packets_t, u8, u16, u32, u64

cdef enum:
    PROTO_IPIP = 4
    PROTO_IPV6 = 41
    FIXED_IPV6_BYTES = 40
    AT_NEXT_HEADER = 6

cdef inline bint is_tunnel(u32 proto) noexcept nogil:
    """IPv4 or IPv6 rides directly in IP."""
    return proto == PROTO_IPIP or proto == PROTO_IPV6

cdef inline bint takes_tags(
    arrival_t *s, const gro_cfg_t *cfg, const packets_t *p, i64 i
) noexcept nogil:
    """Whether tags in the frame have a handler, and are there to be compared."""
    cdef u32 end = p.l3_off[i]
    if not cfg.vlan_module or p.frame_off[i] < 0 or p.cap_bytes[i] < end:
        return False
    s.rare |= RARE_TAGS
    s.tags_len = end - LINK_BYTES if end > LINK_BYTES else 0
    return True

cdef inline void keep_outer(
    arrival_t *s, const packets_t *p, const u8 *blob, i64 i
) noexcept nogil:
    """The header just read is around another one: put it aside, and begin anew (GRO-14)."""
    cdef outer_t *outer = &s.outer
    memcpy(outer.saddr, p.saddr + 4 * i, 16)
    memcpy(outer.daddr, p.daddr + 4 * i, 16)
    outer.family = <u8>s.family
    outer.flow = (<u64>s.next_header << 48) | (<u64>s.family << 40) | (<u64>s.proto << 32)
    if s.family == 6:
        outer.flow |= (<u64>(p.ip_b0[i] >> 4) << 28) | p.flow_label[i]
    outer.at = i
    outer.alike = s.alike
    outer.ext_len = s.ext_len
    outer.ip_id = s.ip_id
    outer.df = s.df
    s.rare |= RARE_TUNNEL
    s.base = <u32>p.l4_off[i] - LINK_BYTES

cdef inline u64 rare_marks(u8 rare) noexcept nogil:
    """What keeps flows with and without such headers apart."""
    cdef u64 marks = 0
    if rare & RARE_TUNNEL:
        marks |= TUNNEL_MARK
    if rare & RARE_TAGS:
        marks |= TAGS_MARK
    return marks

cdef inline bint same_rare(
    const rare_t *rare, const arrival_t *s, const packets_t *p, const u8 *blob, i64 i
) noexcept nogil:
    """Outer headers are of one flow, and tags in the frame equal, octet by octet."""
    cdef const outer_t *ours = &s.outer
    cdef const outer_t *theirs = &rare.outer
    if s.rare & RARE_TAGS:
        if rare.tags_len != s.tags_len or memcmp(
            blob + p.frame_off[i] + LINK_BYTES, blob + rare.tags_at, s.tags_len
        ) != 0:
            return False
    if not s.rare & RARE_TUNNEL:
        return True
    if ours.flow != theirs.flow or ours.ext_len != theirs.ext_len:
        return False
    if memcmp(ours.saddr, theirs.saddr, 16) or memcmp(ours.daddr, theirs.daddr, 16):
        return False
    return ours.ext_len == 0 or memcmp(
        blob + p.frame_off[i] + p.l3_off[i] + FIXED_IPV6_BYTES,
        blob + p.frame_off[theirs.at] + p.l3_off[theirs.at] + FIXED_IPV6_BYTES,
        ours.ext_len,
    ) == 0
