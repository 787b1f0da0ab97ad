"""One frame to one row of the packet table: what was understood before a fault stays.

kernel: how eth_type_trans, ip_rcv_core, ip6_rcv_core, tcp_gro_receive, udp_gro_receive read headers
"""
from libc.string cimport memcmp
from libc.string cimport memcpy
from libc.string cimport memset

from emu._core.checksum cimport csum_fold
from emu._core.checksum cimport csum_partial
from emu._core.checksum cimport csum_pseudo
from emu._core.flow_dissect cimport AT_ADDRS
from emu._core.flow_dissect cimport AT_PORTS
from emu._core.flow_dissect cimport flow_dissect
from emu._core.flow_dissect cimport flow_key_finish
from emu._core.flow_dissect cimport is_port_proto
from emu._core.octets cimport load_be16
from emu._core.octets cimport load_be32
from emu._core.octets cimport store_be16
from emu._core.types cimport (
    PF_EXT_BYPASS, PF_EXT_HEADERS, PF_FRAGMENT, PF_HAS_PORTS, PF_IP_CSUM_BAD, PF_L4_CSUM_BAD,
    PF_LATER_FRAGMENT, PF_MALFORMED_LEN, PF_SNAP_CUT, PF_TUNNEL, PF_UDP_CSUM_ZERO,
)
from emu._core.types cimport flow_key_t, i64, u8, u16, u32, u64

cdef enum:
    LINK_ETHERNET = 0
    LINK_RAW_IP = 1

    R_OK = 0  # dtypes.Reason
    R_EMPTY = 1
    R_TRUNCATED_LINK = 2
    R_TRUNCATED_L3 = 3
    R_BAD_VERSION = 4
    R_BAD_IHL = 5
    R_TRUNCATED_EXT = 6
    R_TRUNCATED_L4 = 7
    R_BAD_DOFF = 8
    R_SNAPPED = 9

    MAX_TAGS = 15

cdef struct frame_t:
    const u8 *data
    u32 cap  # octets kept
    u32 wire  # octets on the wire

cdef struct row_t:
    # The columns of one packet; opt_off is counted from the start of the frame.
    u64 mac[2]
    i64 opt_off
    u32 saddr[4]
    u32 daddr[4]
    u32 flow_label
    u32 seq
    u32 ack
    u32 tcp_w12
    u32 payload_bytes
    u16 flags
    u16 ethertype
    u16 vlan_tci
    u16 vlan_tpid
    u16 sport
    u16 dport
    u16 l3_off
    u16 l4_off
    u16 ip_frag
    u16 ip_id
    u16 ip_len
    u16 udp_len
    u8 reason
    u8 family
    u8 ip_proto
    u8 ip_b0
    u8 tos
    u8 ttl

cdef inline u8 lacks(const frame_t *f, u64 end, u8 truncated) noexcept nogil:
    """Why the first *end* octets cannot be read; 0 if they can."""
    if end <= f.cap:
        return R_OK
    return R_SNAPPED if end <= f.wire else truncated

cdef inline u32 l4_header_bytes(u8 proto) noexcept nogil:
    """What the transport header must have at least; 0 for protocols nobody here reads."""
    if proto == 6:
        return 20
    if proto == 132 or proto == 33 or proto == 51:
        return 12
    if proto == 17 or proto == 136 or proto == 1 or proto == 58 or proto == 50:
        return 8
    return 4 if proto == 47 else 0

cdef inline bint l4_sum_bad(const frame_t *f, const row_t *d) noexcept nogil:
    """Sum over everything from the L4 header to the end of the frame, padding too (GRO-A4)."""
    cdef u32 length = f.wire - d.l4_off
    if f.cap < f.wire:
        return False
    return csum_fold(
        csum_pseudo(d.family, d.saddr, d.daddr, d.ip_proto, length)
        + csum_partial(f.data + d.l4_off, length)
    ) != 0xFFFF

cdef inline u8 dissect_tcp(const frame_t *f, row_t *d) noexcept nogil:
    """A whole TCP header of 20 octets stands at l4_off."""
    cdef const u8 *tcp = f.data + d.l4_off
    cdef u32 header_bytes = (tcp[12] >> 4) * 4
    cdef u64 end = <u64>d.l4_off + header_bytes
    d.seq = load_be32(tcp + 4)
    d.ack = load_be32(tcp + 8)
    d.tcp_w12 = load_be32(tcp + 12)
    if l4_sum_bad(f, d):
        d.flags |= PF_L4_CSUM_BAD
    if header_bytes < 20 or end > f.wire:
        return R_BAD_DOFF
    d.payload_bytes = <u32>(f.wire - end)
    if end > f.cap:
        return R_SNAPPED
    if header_bytes > 20:
        d.opt_off = d.l4_off + 20
    return R_OK

cdef inline u8 dissect_l4(const frame_t *f, row_t *d) noexcept nogil:
    """The transport header at l4_off, of protocol ip_proto; not called for fragments."""
    cdef const u8 *header = f.data + d.l4_off
    cdef u8 lack = lacks(f, <u64>d.l4_off + l4_header_bytes(d.ip_proto), R_TRUNCATED_L4)
    if d.ip_proto == 4 or d.ip_proto == 41 or d.ip_proto == 47:
        d.flags |= PF_TUNNEL
    if is_port_proto(d.ip_proto) and <u64>d.l4_off + 4 <= f.cap:
        d.sport = load_be16(header)
        d.dport = load_be16(header + 2)
        d.flags |= PF_HAS_PORTS
    if lack:
        return lack
    if d.ip_proto == 6:
        return dissect_tcp(f, d)
    if d.ip_proto == 17:
        d.udp_len = load_be16(header + 4)
        d.payload_bytes = f.wire - d.l4_off - 8
        if load_be16(header + 6) == 0:
            d.flags |= PF_UDP_CSUM_ZERO
        elif l4_sum_bad(f, d):
            d.flags |= PF_L4_CSUM_BAD
    return R_OK

cdef inline u8 dissect_ipv4(const frame_t *f, row_t *d) noexcept nogil:
    """An IPv4 header at l3_off."""
    cdef const u8 *ip = f.data + d.l3_off
    cdef u32 header_bytes
    cdef u8 lack = lacks(f, <u64>d.l3_off + 20, R_TRUNCATED_L3)
    if lack:
        return lack
    header_bytes = (ip[0] & 0xF) * 4
    d.family = 4
    d.ip_b0 = ip[0]
    d.tos = ip[1]
    d.ip_len = load_be16(ip + 2)
    d.ip_id = load_be16(ip + 4)
    d.ip_frag = load_be16(ip + 6)
    d.ttl = ip[8]
    d.ip_proto = ip[9]
    memcpy(d.saddr, ip + 12, 4)
    memcpy(d.daddr, ip + 16, 4)
    if d.ip_len != f.wire - d.l3_off:
        d.flags |= PF_MALFORMED_LEN
    if d.ip_frag & 0x3FFF:
        d.flags |= PF_FRAGMENT
        if d.ip_frag & 0x1FFF:
            d.flags |= PF_LATER_FRAGMENT
    if header_bytes < 20:
        return R_BAD_IHL
    lack = lacks(f, <u64>d.l3_off + header_bytes, R_TRUNCATED_EXT)
    if lack:
        return lack
    d.l4_off = <u16>(d.l3_off + header_bytes)
    if f.cap == f.wire and csum_fold(csum_partial(ip, header_bytes)) != 0xFFFF:
        d.flags |= PF_IP_CSUM_BAD
    return R_OK if d.flags & PF_FRAGMENT else dissect_l4(f, d)

cdef inline u8 skip_extensions(const frame_t *f, row_t *d) noexcept nogil:
    """Walk from the next header to the transport header; a fragment header ends it."""
    cdef const u8 *header
    cdef u64 end
    cdef u8 lack
    cdef u8 proto = d.ip_proto
    while True:
        if proto == 50 or proto == 135 or proto == 139 or proto == 140:
            d.flags |= PF_EXT_BYPASS
        if proto != 0 and proto != 43 and proto != 60 and proto != 44 and proto != 51:
            return R_OK
        header = f.data + d.l4_off
        d.flags |= PF_EXT_BYPASS if proto == 44 or proto == 51 else PF_EXT_HEADERS
        lack = lacks(f, <u64>d.l4_off + (8 if proto == 44 else 2), R_TRUNCATED_EXT)
        if lack:
            return lack
        end = <u64>d.l4_off + 8
        if proto != 44:
            end += <u64>header[1] * (4 if proto == 51 else 8)
        lack = lacks(f, end, R_TRUNCATED_EXT)
        if lack == R_OK and end > 0xFFFF:  # l4_off could not say it; no real chain is that long
            lack = R_TRUNCATED_EXT
        if lack:
            return lack
        if proto == 44:
            d.flags |= PF_FRAGMENT
            if load_be16(header + 2) & 0xFFF8:
                d.flags |= PF_LATER_FRAGMENT
        d.l4_off = <u16>end
        d.ip_proto = header[0]
        if proto == 44:
            return R_OK
        proto = d.ip_proto

cdef inline u8 dissect_ipv6(const frame_t *f, row_t *d) noexcept nogil:
    """An IPv6 header at l3_off."""
    cdef const u8 *ip = f.data + d.l3_off
    cdef u32 word
    cdef u8 lack = lacks(f, <u64>d.l3_off + 40, R_TRUNCATED_L3)
    if lack:
        return lack
    word = load_be32(ip)
    d.family = 6
    d.ip_b0 = ip[0]
    d.tos = <u8>((word >> 20) & 0xFF)
    d.flow_label = word & 0xFFFFF
    d.ip_len = load_be16(ip + 4)
    d.ip_proto = ip[6]
    d.ttl = ip[7]
    memcpy(d.saddr, ip + 8, 16)
    memcpy(d.daddr, ip + 24, 16)
    if <u64>d.ip_len + 40 + d.l3_off != f.wire:
        d.flags |= PF_MALFORMED_LEN
    d.l4_off = d.l3_off + 40
    lack = skip_extensions(f, d)
    if lack:
        return lack
    return R_OK if d.flags & PF_FRAGMENT else dissect_l4(f, d)

cdef inline u8 dissect_ethernet(const frame_t *f, row_t *d) noexcept nogil:
    """The Ethernet header and the tags in the frame; leaves l3_off and ethertype."""
    cdef const u8 *tag
    cdef u32 at = 14
    cdef u8 lack = lacks(f, 14, R_TRUNCATED_LINK)
    cdef int tags
    if lack:
        return lack
    memcpy(d.mac, f.data, 14)
    d.ethertype = load_be16(f.data + 12)
    d.l3_off = 14
    for tags in range(MAX_TAGS):
        if d.ethertype != 0x8100 and d.ethertype != 0x88A8:
            break
        lack = lacks(f, at + 4, R_TRUNCATED_LINK)
        if lack:
            return lack
        tag = f.data + at
        if tags == 0:
            d.vlan_tpid = d.ethertype
            d.vlan_tci = load_be16(tag)
        d.ethertype = load_be16(tag + 2)
        at += 4
        d.l3_off = <u16>at
    return R_OK

cdef inline u8 dissect_raw(const frame_t *f, row_t *d) noexcept nogil:
    """A frame that begins with its network header: the version says which."""
    cdef u8 version
    if f.cap == 0:
        return R_SNAPPED
    version = f.data[0] >> 4
    if version == 4:
        d.ethertype = 0x0800
    elif version == 6:
        d.ethertype = 0x86DD
    else:
        d.ip_b0 = f.data[0]
        return R_BAD_VERSION
    return R_OK

cdef inline void dissect_frame(const frame_t *f, u8 link, row_t *d) noexcept nogil:
    """Fill one row; the deepest fault is its reason: BAD_VERSION only if all else could be read."""
    memset(d, 0, sizeof(row_t))
    d.opt_off = -1
    if f.cap < f.wire:
        d.flags = PF_SNAP_CUT
    if f.wire == 0:
        d.reason = R_EMPTY
        return
    d.reason = dissect_raw(f, d) if link == LINK_RAW_IP else dissect_ethernet(f, d)
    if d.reason:
        return
    if d.ethertype == 0x0800:
        d.reason = dissect_ipv4(f, d)
    elif d.ethertype == 0x86DD:
        d.reason = dissect_ipv6(f, d)
    if d.reason == R_OK and d.family and d.ip_b0 >> 4 != d.family:
        d.reason = R_BAD_VERSION

cdef inline bint is_plain(const row_t *d) noexcept nogil:
    """Whether the columns surely give the flow-hash block, without a look at the frame."""
    cdef u8 proto = d.ip_proto
    if d.reason or d.vlan_tpid or d.flow_label or d.ethertype < 0x600 or d.flags & (
        PF_TUNNEL | PF_EXT_HEADERS | PF_EXT_BYPASS
    ):
        return False
    if d.family == 4 and d.flags & PF_FRAGMENT:
        return True
    return proto != 50 and proto != 51 and proto != 137

cdef inline void plain_flow_key(const row_t *d, flow_key_t *key) noexcept nogil:
    """The block that the columns alone give."""
    memset(key, 0, sizeof(flow_key_t))
    if d.flags & PF_HAS_PORTS:
        store_be16(key.block + AT_PORTS, d.sport)
        store_be16(key.block + AT_PORTS + 2, d.dport)
    if d.family == 4:
        memcpy(key.block + AT_ADDRS, d.saddr, 4)
        memcpy(key.block + AT_ADDRS + 4, d.daddr, 4)
    elif d.family == 6:
        memcpy(key.block + AT_ADDRS, d.saddr, 16)
        memcpy(key.block + AT_ADDRS + 16, d.daddr, 16)
    flow_key_finish(key, d.ethertype, d.ip_proto, d.family)

cdef inline bint needs_flow_key(
    const frame_t *f, u8 link, const row_t *d, flow_key_t *key
) noexcept nogil:
    """Whether the kernel's block differs from the columns'; then *key* holds it."""
    cdef flow_key_t plain
    cdef u16 proto
    if is_plain(d):
        return False
    if link == LINK_RAW_IP:
        flow_dissect(f.data, f.cap, 0, d.ethertype, key)
    elif f.cap < 14:
        return False
    else:
        proto = load_be16(f.data + 12)
        if proto < 0x600:  # 802.3 lengths: ETH_P_802_3 for raw IPX, ETH_P_802_2 else
            proto = 1 if f.cap >= 16 and load_be16(f.data + 14) == 0xFFFF else 4
        flow_dissect(f.data, f.cap, 14, proto, key)
    plain_flow_key(d, &plain)
    return memcmp(key, &plain, sizeof(flow_key_t)) != 0
