"""cpumap: XDP frames to other CPUs through bulks and rings (sockets.md 5, 8.5)."""
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from emu._core.types cimport PF_HAS_PORTS, i32, i64, packets_t, u8, u32, u64

cdef enum:
    CPUMAP_BULK = 8        # frames of a bulk, and of a kthread's step
    RING_BATCH = 16        # slots that a consumer clears together: two cache lines (CPUMAP-9)
    NAPI_BUDGET = 64

    # dtypes.CpumapDesign
    DESIGN_PLAIN = 0
    DESIGN_MERGED_GRO = 1
    DESIGN_NAPI = 2

    # dtypes.CpumapRule
    RULE_RX_QUEUE = 0
    RULE_HASH = 1
    RULE_SADDR = 2
    RULE_FIXED = 3

    FLUSH_NONE = 0
    FLUSH_ALL = 1
    FLUSH_OLD = 2

cdef struct bulk_t:
    # Frames that a driver's poll has for one entry. The kernel has one per entry and producing CPU;
    # here one per entry is enough: polls run one after the other, and each ends with a flush that
    # leaves all bulks empty.
    u32 pkts[8]
    u32 len
    i32 prev     # in the flush list, towards its front; -1 none
    i32 next
    u8 listed

cdef struct cpumap_entry_t:
    u32 cpu
    u32 qsize
    u32 batch      # slots the consumer clears together
    u64 first      # its ring in cpumap_t.slots
    # The ring's three places as counts since the start, cleared <= consumed <= produced. A slot is
    # taken from when it is produced into until it is cleared: full is produced - cleared == qsize.
    u64 produced
    u64 consumed
    u64 cleared
    u64 processed  # frames that got into the ring
    u64 dropped
    bulk_t bulk

cdef struct cpumap_t:
    cpumap_entry_t *entries
    u32 *slots     # all rings, one behind the other
    u32 *woken     # entries whose kthreads cpumap_flush woke, in order
    u32 *lost      # frames that found no room, in order, until the caller resets lost_count
    u32 count
    u32 woken_count
    u32 lost_count
    u32 max_lost
    u32 producer   # CPU whose poll has frames in bulks
    i32 front      # of the flush list, -1 empty


cdef inline int cpumap_init(
    cpumap_t *m, const i32 *cpus, const u32 *qsizes, u32 count, u32 max_lost
) noexcept nogil:
    """Empty rings of qsizes[] slots for kthreads on cpus[]; -1 when memory ran out.

    max_lost: no more than so many frames are enqueued between two resets of lost_count.
    """
    cdef u64 total = 0
    cdef u32 k
    memset(m, 0, sizeof(cpumap_t))
    for k in range(count):
        total += qsizes[k]
    m.count = count
    m.max_lost = max_lost
    m.front = -1
    m.entries = <cpumap_entry_t *>calloc(count + 1, sizeof(cpumap_entry_t))
    m.slots = <u32 *>malloc((total + 1) * sizeof(u32))
    m.woken = <u32 *>malloc((count + 1) * sizeof(u32))
    m.lost = <u32 *>malloc((<u64>max_lost + 1) * sizeof(u32))
    if m.entries == NULL or m.slots == NULL or m.woken == NULL or m.lost == NULL:
        cpumap_free(m)
        return -1
    total = 0
    for k in range(count):
        m.entries[k].cpu = <u32>cpus[k]
        m.entries[k].qsize = qsizes[k]
        m.entries[k].batch = RING_BATCH if qsizes[k] >= 2 * RING_BATCH else 1
        m.entries[k].first = total
        m.entries[k].bulk.prev = m.entries[k].bulk.next = -1
        total += qsizes[k]
    return 0


cdef inline void cpumap_free(cpumap_t *m) noexcept nogil:
    """Give the memory back."""
    free(m.entries)
    free(m.slots)
    free(m.woken)
    free(m.lost)
    memset(m, 0, sizeof(cpumap_t))


cdef inline bint cpumap_insert(cpumap_t *m, u32 entry, u32 pkt) noexcept nogil:
    """One frame into the entry's ring; False: it is full. Generic XDP does only this (CPUMAP-8)."""
    cdef cpumap_entry_t *e = &m.entries[entry]
    if e.produced - e.cleared >= e.qsize:
        e.dropped += 1
        return False
    m.slots[e.first + e.produced % e.qsize] = pkt
    e.produced += 1
    e.processed += 1
    return True


cdef inline void cpumap_drain(cpumap_t *m, u32 entry) noexcept nogil:
    """The bulk's frames into the ring, in order; what does not fit is lost (CPUMAP-4).

    The bulk leaves the flush list.
    """
    cdef bulk_t *b = &m.entries[entry].bulk
    cdef u32 k
    for k in range(b.len):
        if not cpumap_insert(m, entry, b.pkts[k]) and m.lost_count < m.max_lost:
            m.lost[m.lost_count] = b.pkts[k]
            m.lost_count += 1
    b.len = 0
    if not b.listed:
        return
    if b.prev >= 0:
        m.entries[b.prev].bulk.next = b.next
    else:
        m.front = b.next
    if b.next >= 0:
        m.entries[b.next].bulk.prev = b.prev
    b.prev = b.next = -1
    b.listed = 0


cdef inline void cpumap_enqueue(cpumap_t *m, u32 producer, u32 entry, u32 pkt) noexcept nogil:
    """A frame to an entry, in the poll of CPU producer.

    The ninth first drains the eight before it (CPUMAP-3). All calls of one poll name one producer,
    and cpumap_flush ends the poll.
    """
    cdef bulk_t *b = &m.entries[entry].bulk
    m.producer = producer
    if b.len == CPUMAP_BULK:
        cpumap_drain(m, entry)
    b.pkts[b.len] = pkt
    b.len += 1
    if b.listed:
        return
    b.listed = 1
    b.prev = -1
    b.next = m.front
    if m.front >= 0:
        m.entries[m.front].bulk.prev = <i32>entry
    m.front = <i32>entry


cdef inline u32 cpumap_flush(cpumap_t *m, u32 producer) noexcept nogil:
    """End of the poll: drains every bulk, most recently touched first, and wakes its kthread.

    CPUMAP-6.

    Answers how many were woken; woken[] names their entries in order.
    """
    m.woken_count = 0
    while m.front >= 0:
        m.woken[m.woken_count] = <u32>m.front
        m.woken_count += 1
        cpumap_drain(m, <u32>m.front)
    return m.woken_count


cdef inline bint cpumap_empty(const cpumap_t *m, u32 entry) noexcept nogil:
    """Whether the entry's ring holds no frame."""
    return m.entries[entry].produced == m.entries[entry].consumed


cdef inline u32 cpumap_consume(cpumap_t *m, u32 entry, u32 *out) noexcept nogil:
    """One kthread step: up to 8 frames of the ring into out[8]; answers how many.

    Their slots are free again only when a batch of them, or the ring's end, is reached
    (CPUMAP-9, CPUMAP-10).
    """
    cdef cpumap_entry_t *e = &m.entries[entry]
    cdef u32 n = 0
    while n < CPUMAP_BULK and e.consumed != e.produced:
        out[n] = m.slots[e.first + e.consumed % e.qsize]
        n += 1
        e.consumed += 1
        if e.consumed - e.cleared >= e.batch or e.consumed % e.qsize == 0:
            e.cleared = e.consumed
    return n


cdef inline int cpumap_step_flush(u8 design, u32 packets, bint ring_empty, u32 hz) noexcept nogil:
    """What the kthread does with GRO after a step: 0 nothing, 1 flush all, 2 flush only the old.

    packets: frames taken since the last flush (merged) or in this poll (napi); the caller starts
    again at 0 after an answer other than 0. Plain has no GRO (CPUMAP-11). Merged: 64 frames or an
    empty ring (CPUMAP-15). Napi: a poll of 64 flushes as full polls do, one that ends early
    completes (CPUMAP-21); after a full poll that emptied the ring the next one takes nothing and
    completes: ask again with 0 packets.
    """
    if design == DESIGN_PLAIN:
        return FLUSH_NONE
    if packets >= NAPI_BUDGET and (design == DESIGN_NAPI or not ring_empty):
        return FLUSH_OLD if hz >= 1000 else FLUSH_ALL
    return FLUSH_ALL if ring_empty else FLUSH_NONE


cdef inline u32 program_hash(const packets_t *p, i64 i) noexcept nogil:
    """The XDP program's own hash: it stands for what such programs do, and is no kernel's.

    Addresses and ports, the same in both directions: their 32-bit words xored, then murmur3's
    32-bit finaliser.
    """
    cdef u32 mixed = 0
    cdef u32 ports
    cdef u32 k
    for k in range(4):
        mixed ^= p.saddr[4 * i + k] ^ p.daddr[4 * i + k]
    if p.flags[i] & PF_HAS_PORTS:
        ports = <u32>p.sport[i] + <u32>p.dport[i]
        mixed ^= (<u32>(p.sport[i] ^ p.dport[i]) << 16) | (ports & 0xFFFF)
    mixed = (mixed ^ (mixed >> 16)) * <u32>0x85EBCA6B
    mixed = (mixed ^ (mixed >> 13)) * <u32>0xC2B2AE35
    return mixed ^ (mixed >> 16)


cdef inline i32 cpumap_target(
    u8 rule, u32 entries, i32 fixed, u32 rx_queue, const packets_t *p, i64 i
) noexcept nogil:
    """The entry, 0 .. entries - 1, that the XDP program redirects packet i to; -1: XDP_PASS.

    rx_queue: within the NIC. Rules that need an address pass what has none.
    """
    cdef u32 word
    if rule == RULE_FIXED:
        return fixed
    if rule == RULE_RX_QUEUE:
        return <i32>(rx_queue % entries)
    if p.family[i] == 0 or (p.reason[i] >= 1 and p.reason[i] <= 5):
        return -1
    if rule == RULE_HASH:
        return <i32>(program_hash(p, i) % entries)
    word = p.saddr[4 * i] if p.family[i] == 4 else p.saddr[4 * i + 3]
    return <i32>((word >> 24) % entries)
