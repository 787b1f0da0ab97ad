"""RFS: packets go to the CPU that reads their flow (receive.md 3.1 to 3.4), without aRFS."""
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from emu._core.rps cimport rps_cpu
from emu._core.types cimport i32, u8, u16, u32, u64

cdef enum:
    RFS_NO_CPU = 0xffff            # what a fresh entry of either table holds
    RFS_MAX_ENTRIES = 1 << 29
    RFS_NO_MEMORY = -1

cdef struct dev_flow_t:
    # Where the packets of a flow of an rx queue go.
    u32 last_qtail     # tail of that CPU's backlog behind the flow's last packet
    u16 cpu
    u16 pad

cdef struct dev_flows_t:
    # One per rx queue. flows NULL: the queue has no table.
    dev_flow_t *flows
    u32 mask           # entries - 1
    u8 shift           # 32 - log2(entries)

cdef struct rfs_t:
    u32 *idents        # the global table: bits of the flow's hash above, its CPU below; NULL: none
    u32 ident_mask     # entries - 1
    u32 cpu_mask       # the bits of the CPU
    u32 ncpus
    u32 rxqs
    dev_flows_t *queues
    bint low_bits      # low bits of the hash choose a flow's place (6.12), not hash_32 (6.18)


cdef inline u32 rfs_size(u32 number) noexcept nogil:
    """The least power of two that is not below 1..2**31."""
    cdef u32 size = 1
    while size < number:
        size <<= 1
    return size


cdef inline int rfs_add_flows(dev_flows_t *q, u32 entries) noexcept nogil:
    """Give an rx queue its table, without flows in it; -1 when memory ran out."""
    cdef u32 size = rfs_size(entries)
    cdef u32 slot
    q.flows = <dev_flow_t *>calloc(size, sizeof(dev_flow_t))
    if q.flows == NULL:
        return RFS_NO_MEMORY
    for slot in range(size):
        q.flows[slot].cpu = RFS_NO_CPU
    q.mask = size - 1
    q.shift = 32
    while size > 1:
        size >>= 1
        q.shift -= 1
    return 0


cdef inline int rfs_add_idents(rfs_t *f, u32 entries) noexcept nogil:
    """Make the global table, without entries of flows; -1 when memory ran out."""
    cdef u32 size = rfs_size(entries)
    cdef u32 place
    f.idents = <u32 *>malloc(size * sizeof(u32))
    if f.idents == NULL:
        return RFS_NO_MEMORY
    for place in range(size):
        f.idents[place] = RFS_NO_CPU
    f.ident_mask = size - 1
    return 0


cdef inline int rfs_init(
    rfs_t *f, u32 sock_entries, const u32 *rxq_entries, u32 rxqs, u32 ncpus, bint low_bits
) noexcept nogil:
    """Make empty tables; sizes are rounded up to powers of two, 0 means no table.

    Answers -1 when memory ran out or a size is beyond RFS_MAX_ENTRIES; then nothing is held.
    ncpus: 1..65535.
    """
    cdef u32 queue
    memset(f, 0, sizeof(rfs_t))
    f.ncpus = ncpus
    f.cpu_mask = rfs_size(ncpus) - 1
    f.low_bits = low_bits
    f.queues = <dev_flows_t *>calloc(<size_t>rxqs + 1, sizeof(dev_flows_t))
    if f.queues == NULL or sock_entries > <u32>RFS_MAX_ENTRIES:
        rfs_free(f)
        return RFS_NO_MEMORY
    f.rxqs = rxqs
    if sock_entries and rfs_add_idents(f, sock_entries) < 0:
        rfs_free(f)
        return RFS_NO_MEMORY
    for queue in range(rxqs):
        if rxq_entries[queue] > <u32>RFS_MAX_ENTRIES or (
            rxq_entries[queue] and rfs_add_flows(&f.queues[queue], rxq_entries[queue]) < 0
        ):
            rfs_free(f)
            return RFS_NO_MEMORY
    return 0


cdef inline void rfs_free(rfs_t *f) noexcept nogil:
    """Give the memory back; the struct, zeroed, may be initialised or freed again."""
    cdef u32 queue
    for queue in range(f.rxqs):
        free(f.queues[queue].flows)
    free(f.queues)
    free(f.idents)
    memset(f, 0, sizeof(rfs_t))


cdef inline void rfs_record(rfs_t *f, u32 hash, u32 cpu) noexcept nogil:
    """rps_record_sock_flow: a connected socket with that sk_rxhash is read or sends on cpu (R-3.2).

    The last writer of an entry has it.
    """
    if f.idents != NULL and hash != 0:
        f.idents[hash & f.ident_mask] = (hash & ~f.cpu_mask) | cpu


cdef inline void rfs_forget(rfs_t *f, u32 hash) noexcept nogil:
    """The socket with that sk_rxhash is gone: its entry, whoever has it, is empty (6.18)."""
    if f.idents != NULL and hash != 0:
        f.idents[hash & f.ident_mask] = RFS_NO_CPU


cdef inline bint rfs_asks_hash(const rfs_t *f, u32 rxq, u32 map_len) noexcept nogil:
    """Whether the packet's hash is wanted at all: for a map, or for the queue's table (R-3.3.2)."""
    return map_len != 0 or f.queues[rxq].flows != NULL


cdef inline u32 rfs_slot(const rfs_t *f, const dev_flows_t *q, u32 hash) noexcept nogil:
    """Place of a hash in a queue's table; a table of one has no bits for hash_32 to take."""
    if f.low_bits or q.mask == 0:
        return hash & q.mask
    return (hash * <u32>0x61C88647) >> q.shift


cdef inline i32 rfs_choose(
    rfs_t *f, u32 rxq, u32 hash, const u16 *cpus, u32 map_len, const u8 *online, const u32 *heads,
    i32 *slot
) noexcept nogil:
    """get_rps_cpu: the CPU that a packet is queued to, -1 none (R-3.3.3 to R-3.3.7).

    cpus: the rx queue's RPS map, all below ncpus. online, heads (input_queue_head): per CPU.
    slot becomes the flow's place for rfs_note_tail; -1 where RFS did not choose.
    """
    cdef dev_flows_t *q = &f.queues[rxq]
    cdef dev_flow_t *flow
    cdef u32 ident
    cdef u32 wanted
    cdef u32 at
    slot[0] = -1
    if f.idents == NULL or q.flows == NULL or hash == 0:
        return rps_cpu(cpus, map_len, online, hash)
    ident = f.idents[hash & f.ident_mask]
    if (ident ^ hash) & ~f.cpu_mask:
        return rps_cpu(cpus, map_len, online, hash)
    wanted = ident & f.cpu_mask
    at = rfs_slot(f, q, hash)
    flow = &q.flows[at]
    # Packets that wait on an online CPU keep the flow there: none may overtake another (R-3.3.5).
    if flow.cpu != wanted and (
        flow.cpu >= f.ncpus or not online[flow.cpu]
        or <i32>(heads[flow.cpu] - flow.last_qtail) >= 0
    ):
        # An entry nobody wrote can name a CPU that does not exist (R-3.4).
        if wanted < f.ncpus:
            flow.last_qtail = heads[wanted]
        flow.cpu = <u16>wanted
    if flow.cpu < f.ncpus and online[flow.cpu]:
        slot[0] = <i32>at
        return <i32>flow.cpu
    return rps_cpu(cpus, map_len, online, hash)


cdef inline void rfs_note_tail(rfs_t *f, u32 rxq, i32 slot, u32 tail) noexcept nogil:
    """The packet that rfs_choose gave slot for is in the backlog, whose tail is tail now."""
    cdef dev_flows_t *q = &f.queues[rxq]
    if slot >= 0 and q.flows != NULL:
        q.flows[<u32>slot & q.mask].last_qtail = tail
