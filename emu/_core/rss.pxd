"""RSS: Toeplitz over the chosen fields, low bits into the indirection table (receive.md 1)."""
from emu._core.types cimport PF_FRAGMENT, PF_HAS_PORTS, packets_t, rss_t, u8, u16, u32

cdef enum:
    # dtypes.RssField
    FIELD_IP_SRC = 1 << 4
    FIELD_IP_DST = 1 << 5
    FIELD_L4_B_0_1 = 1 << 6
    FIELD_L4_B_2_3 = 1 << 7
    FIELD_PORTS = (1 << 6) | (1 << 7)
    FIELD_ALL = (1 << 4) | (1 << 5) | (1 << 6) | (1 << 7)

    # dtypes.HashType
    TYPE_NONE = 0
    TYPE_L3 = 2
    TYPE_L4 = 3

    XFRM_XOR = 1
    XFRM_OR_XOR = 2


cdef inline u32 hash_word(const u32 *table, u32 word) noexcept nogil:
    """Contribution of four octets, first one lowest, at the position whose tables begin here."""
    return (
        table[word & 0xFF] ^ table[256 + ((word >> 8) & 0xFF)]
        ^ table[512 + ((word >> 16) & 0xFF)] ^ table[768 + (word >> 24)]
    )


cdef inline u32 hash_port(const u32 *table, u16 port) noexcept nogil:
    """Contribution of a port in host order, high octet first."""
    return table[port >> 8] ^ table[256 + (port & 0xFF)]


cdef inline u32 toeplitz4(
    const u32 *tables, u32 saddr, u32 daddr, u16 sport, u16 dport
) noexcept nogil:
    """The 12-octet IPv4 input: addresses, then ports."""
    return (
        hash_word(tables, saddr) ^ hash_word(tables + 1024, daddr)
        ^ hash_port(tables + 2048, sport) ^ hash_port(tables + 2560, dport)
    )


cdef inline u32 toeplitz_fields(
    const u32 *tables, u32 fields, u32 words, const u32 *source, const u32 *target,
    u16 sport, u16 dport
) noexcept nogil:
    """Any subset of the fields, concatenated in order; words: 32-bit words of an address."""
    cdef u32 hash = 0
    cdef u32 k
    if fields & FIELD_IP_SRC:
        for k in range(words):
            hash ^= hash_word(tables, source[k])
            tables += 1024
    if fields & FIELD_IP_DST:
        for k in range(words):
            hash ^= hash_word(tables, target[k])
            tables += 1024
    if fields & FIELD_L4_B_0_1:
        hash ^= hash_port(tables, sport)
        tables += 512
    if fields & FIELD_L4_B_2_3:
        hash ^= hash_port(tables, dport)
    return hash


cdef inline u32 flow_type(const packets_t *p, Py_ssize_t i) noexcept nogil:
    """Field set of the packet in dtypes.RSS_FLOWS (R-1.4): fragments and the rest are plain IP."""
    cdef u32 base = 0 if p.family[i] == 4 else 4
    cdef u8 proto = p.ip_proto[i]
    if (p.flags[i] & PF_FRAGMENT) or not (p.flags[i] & PF_HAS_PORTS):
        return base + 3
    if proto == 6:
        return base
    if proto == 17:
        return base + 1
    if proto == 132:
        return base + 2
    return base + 3


cdef inline u32 rss_hash(
    const rss_t *cfg, const u32 *tables, const packets_t *p, Py_ssize_t i, u8 *hash_type
) noexcept nogil:
    """The hash that the device computes for packet i; hash_type: what it covers."""
    cdef const u32 *saddr = p.saddr + 4 * i
    cdef const u32 *daddr = p.daddr + 4 * i
    cdef u32 source[4]
    cdef u32 target[4]
    cdef u16 sport = p.sport[i]
    cdef u16 dport = p.dport[i]
    cdef u32 fields
    cdef u32 words
    cdef u32 k
    hash_type[0] = TYPE_NONE
    if p.family[i] == 0 or (p.reason[i] >= 1 and p.reason[i] <= 5):
        return 0
    fields = cfg.fields[flow_type(p, i)] & <u32>FIELD_ALL
    if fields == 0:
        return 0
    hash_type[0] = TYPE_L4 if fields & FIELD_PORTS else TYPE_L3
    tables += cfg.table_off
    words = 1 if p.family[i] == 4 else 4
    if cfg.xfrm == 0:
        if fields == FIELD_ALL and words == 1:
            return toeplitz4(tables, saddr[0], daddr[0], sport, dport)
        return toeplitz_fields(tables, fields, words, saddr, daddr, sport, dport)
    for k in range(words):
        target[k] = saddr[k] ^ daddr[k]
        source[k] = saddr[k] | daddr[k] if cfg.xfrm & XFRM_OR_XOR else target[k]
    return toeplitz_fields(
        tables, fields, words, source, target,
        sport | dport if cfg.xfrm & XFRM_OR_XOR else sport ^ dport, sport ^ dport,
    )


cdef inline u32 rss_queue(
    const rss_t *cfg, const u32 *indirection, u32 hash, u8 hash_type
) noexcept nogil:
    """The rx queue: the hash's low bits choose an entry; without a hash queue 0."""
    if hash_type == TYPE_NONE:
        return 0
    return indirection[cfg.indir_off + (hash & (cfg.indir_len - 1))]
