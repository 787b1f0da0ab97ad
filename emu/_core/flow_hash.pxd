"""The stack's own flow hash (skb_get_hash): SipHash over a flow's keys (receive.md 2)."""
from emu._core.siphash cimport sip_final, sip_init, sip_t, sip_word
from emu._core.types cimport PF_HAS_PORTS, flow_key_t, i32, packets_t, u8, u16, u32, u64

cdef enum:
    ETH_P_IP = 0x0800
    ETH_P_IPV6 = 0x86DD


cdef inline u16 swap16(u16 value) noexcept nogil:
    """Host order to network order on a little-endian host."""
    return <u16>((value >> 8) | (value << 8))


cdef inline u32 nonzero_hash(u64 hash) noexcept nogil:
    """The low 32 bits, 0 replaced by 1."""
    cdef u32 low = <u32>hash
    return low if low else 1


cdef inline u64 ports_word(u16 sport, u16 dport) noexcept nogil:
    """Both ports as they stand in the block: network bytes, the smaller raw value first (R-2.2)."""
    cdef u16 first = swap16(sport)
    cdef u16 second = swap16(dport)
    if second < first:
        first, second = second, first
    return <u64>first | (<u64>second << 16)


cdef inline bint v6_before(const u32 *a, const u32 *b) noexcept nogil:
    """Whether address a is smaller than b, byte by byte."""
    cdef int k
    cdef u32 x
    cdef u32 y
    for k in range(4):
        if a[k] != b[k]:
            x = a[k]
            y = b[k]
            x = (x >> 24) | ((x >> 8) & 0xFF00) | ((x << 8) & 0xFF0000) | (x << 24)
            y = (y >> 24) | ((y >> 8) & 0xFF00) | ((y << 8) & 0xFF0000) | (y << 24)
            return x < y
    return False


cdef inline u64 two_words(const u32 *at) noexcept nogil:
    """Two address words as one little-endian 64-bit word."""
    return <u64>at[0] | (<u64>at[1] << 32)


cdef inline u32 flow_hash_tuple(
    const u64 *key, u8 family, u8 proto, const u32 *saddr, const u32 *daddr, u16 sport, u16 dport,
    u32 flow_label
) noexcept nogil:
    """The hash of a plain IP flow: no VLAN, no tunnel.

    With a flow label the caller passes ports 0: the dissector stops there (receive.md 2.3, 4).
    """
    cdef sip_t s
    cdef u64 ports = ports_word(sport, dport)
    cdef const u32 *first = saddr
    cdef const u32 *second = daddr
    cdef u64 proto_word = <u64>proto << 16
    sip_init(&s, key)
    if family == 4:
        if daddr[0] < saddr[0]:
            first = daddr
            second = saddr
        sip_word(&s, <u64>swap16(ETH_P_IP) | proto_word)
        sip_word(&s, 0)
        sip_word(&s, 0)
        sip_word(&s, ports << 32)
        sip_word(&s, <u64>first[0] << 32)
        sip_word(&s, <u64>second[0])
        return nonzero_hash(sip_final(&s, <u64>48 << 56))
    if v6_before(daddr, saddr):
        first = daddr
        second = saddr
    sip_word(&s, <u64>swap16(ETH_P_IPV6) | proto_word | (<u64>flow_label << 32))
    sip_word(&s, 0)
    sip_word(&s, 0)
    sip_word(&s, ports << 32)
    sip_word(&s, <u64>first[0] << 32)
    sip_word(&s, <u64>first[1] | (<u64>first[2] << 32))
    sip_word(&s, <u64>first[3] | (<u64>second[0] << 32))
    sip_word(&s, <u64>second[1] | (<u64>second[2] << 32))
    sip_word(&s, <u64>second[3])
    return nonzero_hash(sip_final(&s, <u64>72 << 56))


cdef inline u32 flow_hash_block(const u64 *key, const u8 *block, u32 length) noexcept nogil:
    """The hash of a block as dissect stored it; length is a multiple of 4."""
    cdef sip_t s
    cdef u32 at = 0
    cdef u64 last = <u64>length << 56
    cdef const u32 *words = <const u32 *> block
    sip_init(&s, key)
    while at + 8 <= length:
        sip_word(&s, two_words(words + at / 4))
        at += 8
    if at < length:
        last |= words[at / 4]
    return nonzero_hash(sip_final(&s, last))


cdef inline u32 flow_hash(
    const u64 *key, const packets_t *p, const flow_key_t *keys, Py_ssize_t i, u8 *l4
) noexcept nogil:
    """skb_get_hash of packet i; l4: ports or a flow label stand in it."""
    cdef sip_t s
    cdef u16 sport = 0
    cdef u16 dport = 0
    cdef i32 row = p.flow_key[i]
    if row >= 0:
        l4[0] = keys[row].l4
        return flow_hash_block(key, keys[row].block, keys[row].len)
    if p.flags[i] & PF_HAS_PORTS:
        sport = p.sport[i]
        dport = p.dport[i]
    l4[0] = sport != 0 or dport != 0
    if p.family[i] == 0:
        sip_init(&s, key)
        sip_word(&s, swap16(p.ethertype[i]))
        sip_word(&s, 0)
        sip_word(&s, 0)
        sip_word(&s, 0)
        sip_word(&s, 0)
        return nonzero_hash(sip_final(&s, <u64>40 << 56))
    return flow_hash_tuple(
        key, p.family[i], p.ip_proto[i], p.saddr + 4 * i, p.daddr + 4 * i, sport, dport, 0
    )
