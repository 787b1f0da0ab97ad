"""The tables of open sockets: chains by port and by address, tables of 4-tuples.

SOCK-15..16, SOCK-64, SOCK-69.
"""
from libc.stdlib cimport calloc, free, malloc
from libc.string cimport memset

from emu._core.flow_table cimport flow_table_t, flows_add, flows_init, flows_remove
from emu._core.jhash cimport ehash4, ehash6, is_any6, is_mapped, portaddr4, portaddr6
from emu._core.reuseport cimport group_t, pick_rules_t
from emu._core.sk cimport (
    SK_ANY,
    SK_CONNECTED,
    SK_IN_FLOWS,
    SK_INET,
    SK_INET6,
    SK_OPEN,
    SK_REUSEPORT,
    SK_V4,
    sk_t,
)
from emu._core.types cimport i32, i64, packets_t, socket_t, u8, u16, u32, u64

cdef enum:
    TCP = 6
    UDP = 17

    # dtypes.SockState
    CLOSED = 0
    BOUND = 1
    LISTEN = 2
    ESTABLISHED = 3

    LEGACY_LISTENING_SLOTS = 32
    NOT_IPV4 = -2147483647

cdef struct lookup_cfg_t:
    # dtypes.LOOKUP_CFG
    u32 tcp4_secret
    u32 udp4_secret
    u32 tcp6_secret
    u32 udp6_secret
    u32 tcp6_addr_secret
    u32 udp6_addr_secret
    u32 hash_mix
    u8 legacy
    u8 mask_boost
    u8 mask_v6_udp_quirk
    u8 cpu_aware
    u8 tcp_port_added
    u8 udp_conn_stays
    u16 pad
    u32 udp_slots
    u32 ncpus

cdef struct chains_t:
    i32 *head          # by slot; -1 empty
    i32 *tail
    u32 *length
    u32 mask           # slots - 1

cdef struct flow_key4_t:
    # An IPv4 4-tuple in 16 bytes: a million of them stay near the CPU, a million rows do not.
    u32 local4
    u32 foreign4
    u16 lport
    u16 fport
    i32 bound_dev      # NOT_IPV4: of an IPv6 socket, no device's number

cdef struct lookup_t:
    lookup_cfg_t cfg
    pick_rules_t rules
    socket_t *socks    # an own copy: state, incoming_cpu and mask_off follow the operations
    sk_t *sks
    flow_key4_t *keys  # of the sockets with SK_IN_FLOWS
    u32 count
    chains_t listeners   # TCP by address and port (lhash2)
    chains_t udp_address  # hash2
    chains_t udp_port     # the primary slots
    chains_t listening    # legacy TCP by port
    flow_table_t established  # TCP
    flow_table_t connected    # UDP (hash4)
    group_t *groups
    u32 groups_made
    u32 groups_room
    i32 free_group
    u8 forced          # forced_hash stands for the socket hash that chooses in groups
    u32 forced_hash

cdef struct query_t:
    # What is looked for, and who looks.
    const packets_t *p  # NULL without a packet: programs do not run (SOCK-58)
    i64 i
    const u8 *blob
    const u32 *saddr
    const u32 *daddr
    u16 sport
    u16 dport
    i32 dif
    u32 cpu
    u8 family
    u8 proto

cdef struct found_t:
    i32 sock           # -1 none
    u8 error           # of an eBPF program; none are modelled
    u16 secrets        # dtypes.Secret
    u32 scanned        # sockets scored
    u32 walked         # group members looked at
    u8 stage           # dtypes.LookupStage


cdef inline int chains_init(chains_t *c, u32 slots) noexcept nogil:
    """Empty chains; -1 no memory."""
    c.mask = slots - 1
    c.head = <i32 *> malloc(slots * sizeof(i32))
    c.tail = <i32 *> malloc(slots * sizeof(i32))
    c.length = <u32 *> calloc(slots, sizeof(u32))
    if c.head == NULL or c.tail == NULL or c.length == NULL:
        return -1
    memset(c.head, 0xFF, slots * sizeof(i32))
    memset(c.tail, 0xFF, slots * sizeof(i32))
    return 0


cdef inline void chains_free(chains_t *c) noexcept nogil:
    free(c.head)
    free(c.tail)
    free(c.length)


cdef inline void chain_add(
    chains_t *c, sk_t *sks, u32 slot, u32 s, u32 which, bint to_tail
) noexcept nogil:
    """Link a socket in at the head or the tail of a slot's chain."""
    cdef i32 *link = &sks[s].link[which]
    c.length[slot] += 1
    if to_tail:
        link[0] = -1
        link[1] = c.tail[slot]
        c.tail[slot] = <i32>s
        if link[1] >= 0:
            sks[link[1]].link[which] = <i32>s
        else:
            c.head[slot] = <i32>s
    else:
        link[0] = c.head[slot]
        link[1] = -1
        c.head[slot] = <i32>s
        if link[0] >= 0:
            sks[link[0]].link[which + 1] = <i32>s
        else:
            c.tail[slot] = <i32>s


cdef inline void chain_remove(chains_t *c, sk_t *sks, u32 slot, u32 s, u32 which) noexcept nogil:
    """Unlink a socket from its slot's chain."""
    cdef i32 following = sks[s].link[which]
    cdef i32 previous = sks[s].link[which + 1]
    c.length[slot] -= 1
    if previous >= 0:
        sks[previous].link[which] = following
    else:
        c.head[slot] = following
    if following >= 0:
        sks[following].link[which + 1] = previous
    else:
        c.tail[slot] = previous


cdef inline u32 lookup_ehash(
    const lookup_cfg_t *cfg, u8 proto, u8 family, const u32 *laddr, u16 lport, const u32 *faddr,
    u16 fport,
) noexcept nogil:
    """Hash a 4-tuple as sockets are hashed (SOCK-10..14)."""
    cdef bint port_added = proto == TCP and cfg.tcp_port_added
    if family == 4:
        return ehash4(
            laddr[0], lport, faddr[0], fport,
            (cfg.tcp4_secret if proto == TCP else cfg.udp4_secret) + cfg.hash_mix, port_added,
        )
    return ehash6(
        laddr, lport, faddr, fport,
        (cfg.tcp6_secret if proto == TCP else cfg.udp6_secret) + cfg.hash_mix,
        cfg.tcp6_addr_secret if proto == TCP else cfg.udp6_addr_secret,
        port_added, cfg.legacy,
    )


cdef inline u32 address_slot(
    const lookup_t *t, u8 family, const u32 *address, u16 port
) noexcept nogil:
    """Slot of an address and port in the chains by address (SOCK-15)."""
    if family == 4:
        return portaddr4(address[0], port, t.cfg.hash_mix) & (t.cfg.udp_slots - 1)
    return portaddr6(address, port, t.cfg.hash_mix) & (t.cfg.udp_slots - 1)


cdef inline chains_t *port_chains(lookup_t *t, u8 proto) noexcept nogil:
    return &t.udp_port if proto == UDP else &t.listening


cdef inline bint in_port_chain(const lookup_t *t, u8 proto) noexcept nogil:
    return proto == UDP or t.cfg.legacy


cdef inline bint in_address_chain(const lookup_t *t, u8 proto) noexcept nogil:
    return proto == UDP or not t.cfg.legacy


cdef inline void see_socket(const socket_t *row, sk_t *sk, bint connected) noexcept nogil:
    """Set what packets see of a socket: bound, or connected (SOCK-69)."""
    cdef bint peer_set = connected and not is_any6(row.faddr)
    sk.flags &= SK_IN_FLOWS | SK_OPEN
    sk.flags |= SK_INET if row.family == 4 else SK_INET6
    if is_any6(row.laddr):
        sk.flags |= SK_ANY
    if row.reuseport:
        sk.flags |= SK_REUSEPORT
    if connected:
        sk.flags |= SK_CONNECTED
    sk.fport = row.fport if connected else 0
    sk.local4 = sk.foreign4 = 0
    if row.family == 4:
        sk.flags |= SK_V4
        sk.local4 = row.laddr[0]
        if peer_set:
            sk.foreign4 = row.faddr[0]
    elif not row.v6only and (sk.flags & SK_ANY or is_mapped(row.laddr)):
        if not peer_set or is_mapped(row.faddr):
            sk.flags |= SK_V4
            sk.local4 = row.laddr[3]
            if peer_set:
                sk.foreign4 = row.faddr[3]


cdef inline int flow_add(lookup_t *t, u32 s) noexcept nogil:
    """Enter a socket into its protocol's table of 4-tuples; -1 no memory."""
    cdef const socket_t *row = &t.socks[s]
    cdef sk_t *sk = &t.sks[s]
    cdef flow_table_t *flows = &t.established if row.proto == TCP else &t.connected
    cdef flow_key4_t *key = &t.keys[s]
    cdef u32 word = 0 if row.family == 4 else 3
    key.lport = row.lport
    key.fport = row.fport
    key.bound_dev = NOT_IPV4
    if row.family == 4 or (is_mapped(row.laddr) and is_mapped(row.faddr)):
        key.local4 = row.laddr[word]
        key.foreign4 = row.faddr[word]
        key.bound_dev = row.bound_dev
        sk.flow_hash = lookup_ehash(
            &t.cfg, row.proto, 4, &key.local4, row.lport, &key.foreign4, row.fport
        )
    else:
        sk.flow_hash = lookup_ehash(
            &t.cfg, row.proto, row.family, row.laddr, row.lport, row.faddr, row.fport
        )
    sk.flags |= SK_IN_FLOWS
    return flows_add(flows, sk.flow_hash, s)


cdef inline void flow_remove(lookup_t *t, u32 s) noexcept nogil:
    cdef sk_t *sk = &t.sks[s]
    if sk.flags & SK_IN_FLOWS:
        flows_remove(&t.established if t.socks[s].proto == TCP else &t.connected, sk.flow_hash, s)
        sk.flags &= ~<u8>SK_IN_FLOWS
