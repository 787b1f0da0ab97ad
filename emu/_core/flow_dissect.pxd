"""What the kernel's flow dissector leaves in the hashed block (receive.md 2.2, 2.3).

kernel: net/core/flow_dissector.c, __skb_flow_dissect, __flow_hash_consistentify
omits: TIPC addresses, PPPoE sessions, batman-adv (they count as unknown ethertypes)
"""
from libc.string cimport memcmp
from libc.string cimport memcpy
from libc.string cimport memset

from emu._core.octets cimport load_be16
from emu._core.octets cimport load_be32
from emu._core.octets cimport load_le32
from emu._core.octets cimport store_be16
from emu._core.types cimport flow_key_t, i64, u8, u16, u32

cdef enum:
    MAX_HEADERS = 15  # header transitions before the dissector stops "good"

    AT_PROTO = 0  # offsets in the block
    AT_IP_PROTO = 2
    AT_FLOW_LABEL = 4
    AT_VLAN = 8
    AT_VLAN_TPID = 10
    AT_VLAN_TYPE = 12
    AT_GRE_KEY = 24
    AT_PORTS = 28
    AT_ADDRS = 36

    GO_STOP = 0  # "good" and "bad" end alike: what is stored is hashed
    GO_PROTO = 1  # an ethertype stands in walk.proto
    GO_IP_PROTO = 2  # an IP protocol stands in walk.ip_proto

cdef struct walk_t:
    const u8 *data
    i64 cap  # octets at data
    i64 nhoff  # where the next header begins
    u16 proto  # ethertype
    u8 ip_proto
    u8 family  # of the addresses stored last: 0, 4, 6
    u8 tagged  # a VLAN tag is in the block already
    u8 fragment
    u8 *block

cdef inline bint is_port_proto(u8 proto) noexcept nogil:
    """Protocols whose header begins with two 16-bit ports: TCP, UDP, DCCP, SCTP, UDPLITE."""
    return proto == 6 or proto == 17 or proto == 33 or proto == 132 or proto == 136

cdef inline void walk_ports(walk_t *w) noexcept nogil:
    """Store the four octets that count as ports; ESP and AH give their SPI (2.3 item 6)."""
    cdef i64 at = w.nhoff
    if w.ip_proto == 51:
        at += 4
    elif w.ip_proto != 50 and not is_port_proto(w.ip_proto):
        return
    if at + 4 <= w.cap:
        memcpy(w.block + AT_PORTS, w.data + at, 4)

cdef inline u8 walk_vlan(walk_t *w) noexcept nogil:
    """The first tag is stored without its DEI bit, later ones are skipped (2.3 item 2)."""
    cdef const u8 *tag = w.data + w.nhoff
    cdef u16 tci
    if w.nhoff + 4 > w.cap:
        return GO_STOP
    if not w.tagged:
        tci = load_be16(tag) & 0xEFFF
        w.block[AT_VLAN] = <u8>(tci & 0xFF)
        w.block[AT_VLAN + 1] = <u8>(tci >> 8)
        store_be16(w.block + AT_VLAN_TPID, w.proto)
        store_be16(w.block + AT_VLAN_TYPE, load_be16(tag + 2))
        w.tagged = 1
    w.proto = load_be16(tag + 2)
    w.nhoff += 4
    return GO_PROTO

cdef inline u8 walk_ipv4(walk_t *w) noexcept nogil:
    """Addresses and protocol; any fragment ends it without ports (2.3 item 3)."""
    cdef const u8 *ip = w.data + w.nhoff
    if w.nhoff + 20 > w.cap or (ip[0] & 0xF) < 5:
        return GO_STOP
    w.nhoff += (ip[0] & 0xF) * 4
    w.ip_proto = ip[9]
    # Only eight octets: an outer IPv6 source shows behind them (observed-live R4).
    memcpy(w.block + AT_ADDRS, ip + 12, 8)
    w.family = 4
    return GO_STOP if load_be16(ip + 6) & 0x3FFF else GO_IP_PROTO

cdef inline u8 walk_ipv6(walk_t *w) noexcept nogil:
    """Addresses and next header; a flow label ends it (2.3 item 4)."""
    cdef const u8 *ip = w.data + w.nhoff
    cdef u32 label
    if w.nhoff + 40 > w.cap:
        return GO_STOP
    w.nhoff += 40
    w.ip_proto = ip[6]
    memcpy(w.block + AT_ADDRS, ip + 8, 32)
    w.family = 6
    label = load_be32(ip) & 0xFFFFF
    if label:
        memcpy(w.block + AT_FLOW_LABEL, &label, 4)
        return GO_STOP
    return GO_IP_PROTO

cdef inline u8 walk_pptp(walk_t *w, i64 at) noexcept nogil:
    """The PPP header of GRE version 1; anything but IP in it is unknown."""
    cdef u16 protocol
    if at + 4 > w.cap:
        return GO_STOP
    protocol = load_be16(w.data + at + 2)
    if protocol == 0x21:
        w.proto = 0x0800
    elif protocol == 0x57:
        w.proto = 0x86DD
    w.nhoff = at + 4
    return GO_PROTO

cdef inline u8 walk_gre(walk_t *w) noexcept nogil:
    """GRE version 0 without routing, or version 1 as PPTP; the key is stored (2.3 item 5)."""
    cdef const u8 *gre = w.data + w.nhoff
    cdef i64 at = w.nhoff + 4
    cdef u16 flags
    cdef u8 version
    if at > w.cap:
        return GO_STOP
    flags = load_be16(gre)
    version = flags & 7
    if flags & 0x4000 or version > 1:
        return GO_STOP
    w.proto = load_be16(gre + 2)
    if version == 1 and not (w.proto == 0x880B and flags & 0x2000):
        return GO_STOP
    if flags & 0x8000:
        at += 4
    if flags & 0x2000:
        if at + 4 > w.cap:
            return GO_STOP
        memcpy(w.block + AT_GRE_KEY, w.data + at, 4)
        if version == 1:
            memset(w.block + AT_GRE_KEY, 0, 2)
        at += 4
    if flags & 0x1000:
        at += 4
    if version == 1:
        return walk_pptp(w, at + 4 if flags & 0x80 else at)
    if w.proto == 0x6558:
        if at + 14 > w.cap:
            return GO_STOP
        w.proto = load_be16(w.data + at + 12)
        at += 14
    w.nhoff = at
    return GO_PROTO

cdef inline u8 walk_ip_proto(walk_t *w) noexcept nogil:
    """One header behind IP. Extension headers count only if the last ethertype was IPv6."""
    cdef const u8 *header = w.data + w.nhoff
    cdef u8 proto = w.ip_proto
    if proto == 4 or proto == 41 or proto == 137:
        w.proto = 0x0800 if proto == 4 else 0x86DD if proto == 41 else 0x8847
        return GO_PROTO
    if proto == 47:
        return walk_gre(w)
    if w.proto != 0x86DD:
        return GO_STOP
    if proto == 0 or proto == 43 or proto == 60:
        if w.nhoff + 2 > w.cap:
            return GO_STOP
        w.ip_proto = header[0]
        w.nhoff += (header[1] + 1) * 8
        return GO_IP_PROTO
    if proto == 44 and w.nhoff + 8 <= w.cap:
        w.ip_proto = header[0]
        w.fragment = 1
    return GO_STOP

cdef inline u8 walk_proto(walk_t *w) noexcept nogil:
    """One header named by an ethertype; an unknown one ends it (2.3 item 7)."""
    if w.proto == 0x0800:
        return walk_ipv4(w)
    if w.proto == 0x86DD:
        return walk_ipv6(w)
    if w.proto == 0x8100 or w.proto == 0x88A8:
        return walk_vlan(w)
    return GO_STOP

cdef inline void flow_key_finish(flow_key_t *key, u16 proto, u8 ip_proto, u8 family) noexcept nogil:
    """Put addresses and ports, each by itself, into one order; set the length."""
    cdef u8 *block = key.block
    cdef u8 *addrs = block + AT_ADDRS
    cdef u8 spare[16]
    cdef u32 ports = load_le32(block + AT_PORTS)
    store_be16(block + AT_PROTO, proto)
    block[AT_IP_PROTO] = ip_proto
    key.l4 = ports != 0 or load_le32(block + AT_FLOW_LABEL) != 0
    key.len = 48 if family == 4 else 72 if family == 6 else 40
    if family == 4 and load_le32(addrs + 4) < load_le32(addrs):
        memcpy(spare, addrs, 4)
        memcpy(addrs, addrs + 4, 4)
        memcpy(addrs + 4, spare, 4)
    if family == 6 and memcmp(addrs + 16, addrs, 16) < 0:
        memcpy(spare, addrs, 16)
        memcpy(addrs, addrs + 16, 16)
        memcpy(addrs + 16, spare, 16)
    if family and (ports >> 16) < (ports & 0xFFFF):
        ports = (ports >> 16) | (ports << 16)
        memcpy(block + AT_PORTS, &ports, 4)
    memset(block + key.len, 0, 72 - key.len)

cdef inline void flow_dissect(
    const u8 *data, i64 cap, i64 nhoff, u16 proto, flow_key_t *key
) noexcept nogil:
    """Fill *key* for a frame whose header at *nhoff* is named by the ethertype *proto*."""
    cdef walk_t w
    cdef u8 go = GO_PROTO
    cdef int headers = 0
    memset(key, 0, sizeof(flow_key_t))
    memset(&w, 0, sizeof(walk_t))
    w.data = data
    w.cap = cap
    w.nhoff = nhoff
    w.proto = proto
    w.block = key.block
    while True:
        if go == GO_PROTO:
            go = walk_proto(&w)
            if go == GO_STOP:
                break
            if go == GO_IP_PROTO:
                continue  # the headers of one ethertype count once, at its end
        else:
            go = walk_ip_proto(&w)
            if go != GO_PROTO and not w.fragment:
                walk_ports(&w)
            if go == GO_STOP:
                break
        headers += 1
        if headers > MAX_HEADERS:
            break
    flow_key_finish(key, w.proto, w.ip_proto, w.family)
