"""Socket lookup (SOCK-1..84): the state, its operations, and the lookup of a packet or a 4-tuple.

What is and is not modelled stands in emu/ref/lookup.py. The caller owns the masks; everything else
is an own copy.
"""
from libc.stdlib cimport calloc, free
from libc.string cimport memcpy, memset

from emu._core.flow_table cimport flow_table_t
from emu._core.lookup_legacy cimport find_legacy
from emu._core.lookup_ops cimport (
    connect_socket,
    disconnect_socket,
    lookup_close,
    open_socket,
    tables_init,
)
from emu._core.lookup_table cimport (
    CLOSED,
    ESTABLISHED,
    TCP,
    UDP,
    chains_free,
    flow_key4_t,
    found_t,
    lookup_cfg_t,
    lookup_ehash,
    lookup_t,
    query_t,
)
from emu._core.lookup_tcp cimport find_tcp
from emu._core.lookup_udp cimport find_udp
from emu._core.reuseport cimport group_free
from emu._core.sk cimport sk_t
from emu._core.types cimport PF_HAS_PORTS, i32, packets_t, socket_t, u8, u16, u32, u64

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define emu_prefetch(p) __builtin_prefetch(p)
    #else
    #define emu_prefetch(p) ((void)(p))
    #endif
    """
    void emu_prefetch(const void *p) noexcept nogil


cdef inline int lookup_open(lookup_t *t, u32 s, u8 state) noexcept nogil:
    """Bring a socket into a state: open, close, connect (UDP), disconnect (UDP); -1 no memory.

    A socket whose group is full stays closed (SOCK-52).
    """
    cdef u8 now = t.socks[s].state
    if state == now:
        return 0
    if t.socks[s].proto == UDP and now != CLOSED and state != CLOSED:
        if state == ESTABLISHED:
            return connect_socket(t, s)
        disconnect_socket(t, s)
        return 0
    lookup_close(t, s)
    return open_socket(t, s, state) if state != CLOSED else 0


cdef inline void lookup_set_incoming_cpu(lookup_t *t, u32 s, i32 cpu) noexcept nogil:
    """Set SO_INCOMING_CPU: any int (SOCK-40); the group counts members that have one (SOCK-43)."""
    cdef i32 group = t.sks[s].group if t.socks[s].state != CLOSED else -1
    if group >= 0:
        t.groups[group].with_cpu -= t.sks[s].incoming_cpu >= 0
        t.groups[group].with_cpu += cpu >= 0
    t.socks[s].incoming_cpu = t.sks[s].incoming_cpu = cpu


cdef inline void lookup_set_mask(lookup_t *t, u32 s, i32 mask_off) noexcept nogil:
    """Set the CPU mask by its first word; -1 clears it (SOCK-32)."""
    cdef i32 group = t.sks[s].group if t.socks[s].state != CLOSED else -1
    if group >= 0:
        t.groups[group].with_mask -= t.sks[s].mask_off >= 0
        t.groups[group].with_mask += mask_off >= 0
    t.socks[s].mask_off = t.sks[s].mask_off = mask_off


cdef inline void lookup_free(lookup_t *t) noexcept nogil:
    """Give all memory back; also after a lookup_init that failed, and on zeroed memory."""
    cdef u32 number
    for number in range(t.groups_made):
        group_free(&t.groups[number])
    free(t.groups)
    chains_free(&t.listeners)
    chains_free(&t.udp_address)
    chains_free(&t.udp_port)
    chains_free(&t.listening)
    free(t.established.slots)
    free(t.connected.slots)
    free(t.socks)
    free(t.sks)
    free(t.keys)
    memset(t, 0, sizeof(lookup_t))


cdef inline int lookup_init(
    lookup_t *t, const socket_t *socks, u32 n, const u64 *masks, u32 mask_words,
    const lookup_cfg_t *cfg,
) noexcept nogil:
    """Open every row that is not CLOSED, in order; -1 no memory. *masks* stay the caller's."""
    cdef u32 s
    cdef u8 state
    memset(t, 0, sizeof(lookup_t))
    t.cfg = cfg[0]
    t.rules.masks = masks
    t.rules.mask_words = mask_words
    t.rules.cpu_aware = cfg.cpu_aware
    t.rules.mask_boost = cfg.mask_boost
    t.free_group = -1
    t.count = n
    t.socks = <socket_t *> calloc(n + 1, sizeof(socket_t))
    if t.socks == NULL:
        return -1
    if n:
        memcpy(t.socks, socks, n * sizeof(socket_t))
    if tables_init(t) < 0:
        return -1
    t.sks = <sk_t *> calloc(n + 1, sizeof(sk_t))
    t.keys = <flow_key4_t *> calloc(n + 1, sizeof(flow_key4_t))
    if t.sks == NULL or t.keys == NULL:
        return -1
    for s in range(n):
        state = t.socks[s].state
        t.socks[s].state = CLOSED
        if state != CLOSED and open_socket(t, s, state) < 0:
            return -1
    return 0


cdef inline found_t lookup_query(const lookup_t *t, const query_t *q) noexcept nogil:
    """Look up what a query says; its ports and addresses are valid, its protocol TCP or UDP."""
    cdef u32 any_address[4]
    cdef found_t found
    memset(any_address, 0, sizeof(any_address))
    memset(&found, 0, sizeof(found_t))
    found.sock = -1
    if q.proto == TCP:
        find_tcp(t, q, any_address, &found)
    elif not t.cfg.legacy:
        find_udp(t, q, any_address, &found)
    if t.cfg.legacy and found.sock < 0:
        find_legacy(t, q, any_address, &found)
    return found


cdef inline bint is_looked_up(const packets_t *p, Py_ssize_t i) noexcept nogil:
    return (
        p.flags[i] & PF_HAS_PORTS and (p.family[i] == 4 or p.family[i] == 6)
        and (p.ip_proto[i] == TCP or p.ip_proto[i] == UDP)
    )


cdef inline found_t lookup_packet(
    lookup_t *t, const packets_t *p, Py_ssize_t i, const u8 *blob, i32 dif, u32 cpu
) noexcept nogil:
    """Find the socket of a packet from a device, processed on a CPU."""
    cdef query_t q
    cdef found_t found
    if not is_looked_up(p, i):
        memset(&found, 0, sizeof(found_t))
        found.sock = -1
        return found
    q.p = p
    q.i = i
    q.blob = blob
    q.saddr = p.saddr + 4 * i
    q.daddr = p.daddr + 4 * i
    q.sport = p.sport[i]
    q.dport = p.dport[i]
    q.dif = dif
    q.cpu = cpu
    q.family = p.family[i]
    q.proto = p.ip_proto[i]
    return lookup_query(t, &q)


cdef inline found_t lookup_tuple(
    lookup_t *t, u8 proto, u8 family, const u32 *saddr, const u32 *daddr, u16 sport, u16 dport,
    i32 dif, u32 cpu,
) noexcept nogil:
    """Find the socket of a 4-tuple without a packet: programs do not run (SOCK-58)."""
    cdef query_t q
    q.p = NULL
    q.i = 0
    q.blob = NULL
    q.saddr = saddr
    q.daddr = daddr
    q.sport = sport
    q.dport = dport
    q.dif = dif
    q.cpu = cpu
    q.family = family
    q.proto = proto
    return lookup_query(t, &q)


cdef inline u32 packet_ehash(const lookup_t *t, const packets_t *p, Py_ssize_t i) noexcept nogil:
    return lookup_ehash(
        &t.cfg, p.ip_proto[i], p.family[i], p.daddr + 4 * i, p.dport[i], p.saddr + 4 * i, p.sport[i]
    )


cdef inline const flow_table_t *flows_of(const lookup_t *t, u8 proto) noexcept nogil:
    return &t.established if proto == TCP else &t.connected


cdef inline u32 lookup_prefetch(const lookup_t *t, const packets_t *p, Py_ssize_t i) noexcept nogil:
    """Fetch the slot of the 4-tuple table that the packet's lookup will begin at; its hash."""
    cdef const flow_table_t *f
    cdef u32 hash
    if not is_looked_up(p, i):
        return 0
    f = flows_of(t, p.ip_proto[i])
    if f.count == 0:
        return 0
    hash = packet_ehash(t, p, i)
    emu_prefetch(&f.slots[hash & f.mask])
    return hash


cdef inline i32 lookup_prefetch_sock(const lookup_t *t, u8 proto, u32 hash) noexcept nogil:
    """Fetch the key of the socket that a slot, fetched before, names first; which it is, or -1."""
    cdef const flow_table_t *f = flows_of(t, proto)
    cdef i32 sock
    if f.count == 0:
        return -1
    sock = <i32>f.slots[hash & f.mask].sock_plus1 - 1
    if sock >= 0:
        emu_prefetch(&t.keys[sock])
    return sock
