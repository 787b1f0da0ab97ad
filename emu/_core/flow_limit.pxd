"""Flow limit: a flow that fills half a backlog loses packets there first (R-3.6).

kernel: net/core/dev.c, skb_flow_limit
"""
from emu._core.types cimport u8, u16, u32

cdef enum:
    FLOW_LIMIT_HISTORY = 128
    FLOW_LIMIT_MOST = 64

cdef struct flow_limit_t:
    # What one CPU remembers of the packets that it put into half full backlogs.
    u8 *buckets        # of as many as the table has; NULL: the CPU limits nobody
    u32 mask           # table_len - 1
    u32 shift          # of hash_32; 0: low bits are the bucket (6.12)
    u32 next
    u16 history[128]


cdef inline void flow_limit_init(
    flow_limit_t *f, u8 *buckets, u32 table_len, bint low_bits
) noexcept nogil:
    """Remember nothing; buckets are zero, table_len a power of two, 2 to 65536."""
    cdef u32 k
    f.buckets = buckets
    f.mask = table_len - 1
    f.shift = 0
    f.next = 0
    if not low_bits:
        f.shift = 32
        while table_len > 1:
            table_len >>= 1
            f.shift -= 1
    for k in range(<u32>FLOW_LIMIT_HISTORY):
        f.history[k] = 0


cdef inline bint flow_limit_drops_one(flow_limit_t *f, u32 hash) noexcept nogil:
    """Take note of a packet; whether its flow has more than half of those remembered."""
    cdef u32 bucket = (hash * <u32>0x61C88647) >> f.shift if f.shift else hash & f.mask
    cdef u16 forgotten = f.history[f.next]
    f.history[f.next] = <u16>bucket
    f.next = (f.next + 1) % FLOW_LIMIT_HISTORY
    if f.buckets[forgotten]:
        f.buckets[forgotten] -= 1
    f.buckets[bucket] += 1
    return f.buckets[bucket] > FLOW_LIMIT_MOST
