"""What opening, connecting and closing a socket does to the tables and the groups (SOCK-50..56)."""
from libc.stdlib cimport realloc
from libc.string cimport memset

from emu._core.flow_table cimport flows_init
from emu._core.lookup_table cimport (
    BOUND,
    CLOSED,
    ESTABLISHED,
    LEGACY_LISTENING_SLOTS,
    LISTEN,
    TCP,
    UDP,
    address_slot,
    chain_add,
    chain_remove,
    chains_init,
    flow_add,
    flow_remove,
    in_address_chain,
    in_port_chain,
    lookup_t,
    port_chains,
    see_socket,
)
from emu._core.reuseport cimport PROG_NONE, group_free, group_join, group_leave, group_t
from emu._core.sk cimport BY_ADDRESS, BY_PORT, SK_ANY, SK_CONNECTED, SK_OPEN, sk_t
from emu._core.types cimport i32, socket_t, u8, u32


cdef inline i32 group_new(lookup_t *t) noexcept nogil:
    """An empty group's number; -1 no memory."""
    cdef i32 number = t.free_group
    cdef group_t *groups
    cdef u32 room
    if number >= 0:
        t.free_group = t.groups[number].next_free
    else:
        if t.groups_made == t.groups_room:
            room = 2 * t.groups_room + 16
            groups = <group_t *> realloc(t.groups, room * sizeof(group_t))
            if groups == NULL:
                return -1
            t.groups = groups
            t.groups_room = room
        number = <i32>t.groups_made
        t.groups_made += 1
    memset(&t.groups[number], 0, sizeof(group_t))
    t.groups[number].used = 1
    return number


cdef inline void leave_group(lookup_t *t, u32 s) noexcept nogil:
    """Take a socket out of its group; an empty group is given back (SOCK-54)."""
    cdef i32 number = t.sks[s].group
    cdef group_t *g
    if number < 0:
        return
    g = &t.groups[number]
    group_leave(g, t.sks, s)
    if g.count == 0:
        group_free(g)
        g.next_free = t.free_group
        t.free_group = number


cdef inline bint may_share(const lookup_t *t, u32 s, u32 other) noexcept nogil:
    """Whether two sockets belong into one group (SOCK-51)."""
    cdef const socket_t *a = &t.socks[s]
    cdef const socket_t *b = &t.socks[other]
    if not b.reuseport or a.lport != b.lport or a.family != b.family or a.bound_dev != b.bound_dev:
        return False
    if a.uid != b.uid or (a.family == 6 and (a.v6only != 0) != (b.v6only != 0)):
        return False
    # A connect gives a socket that was bound to any address a local one.
    if t.sks[other].flags & SK_ANY and t.sks[other].flags & SK_CONNECTED:
        return False
    return (
        a.laddr[0] == b.laddr[0] and a.laddr[1] == b.laddr[1]
        and a.laddr[2] == b.laddr[2] and a.laddr[3] == b.laddr[3]
    )


cdef inline int join_group(lookup_t *t, u32 s, u32 port_slot) noexcept nogil:
    """Find the socket's group, or found one (SOCK-50, SOCK-51); -1 no memory, 1 it is full.

    The first fitting socket of the chain decides. One that is in no group any more (it connected,
    SOCK-56) gets a new group, even when others of its old one are still there.
    """
    cdef bint udp = t.socks[s].proto == UDP
    cdef u32 which = BY_PORT if udp else BY_ADDRESS
    cdef i32 other = t.udp_port.head[port_slot] if udp else t.listeners.head[t.sks[s].slot]
    cdef i32 number
    while other >= 0 and not may_share(t, s, <u32>other):
        other = t.sks[other].link[which]
    if other >= 0 and t.sks[other].group >= 0:
        number = t.sks[other].group
        return group_join(&t.groups[number], t.sks, s, number)
    number = group_new(t)
    if number < 0 or (other >= 0 and group_join(&t.groups[number], t.sks, <u32>other, number) < 0):
        return -1
    return group_join(&t.groups[number], t.sks, s, number)


cdef inline int connect_socket(lookup_t *t, u32 s) noexcept nogil:
    """Connect a bound UDP socket (SOCK-56, SOCK-73); -1 no memory."""
    cdef sk_t *sk = &t.sks[s]
    cdef bint at_any = (sk.flags & SK_ANY) != 0
    if sk.group >= 0:
        if not at_any:
            t.groups[sk.group].has_conns = 1
        if at_any or not t.cfg.udp_conn_stays:
            leave_group(t, s)
        else:
            t.groups[sk.group].connected += 1
    see_socket(&t.socks[s], sk, True)
    t.socks[s].state = ESTABLISHED
    if t.cfg.legacy or at_any or t.cfg.udp_conn_stays:
        return 0
    return flow_add(t, s)


cdef inline void disconnect_socket(lookup_t *t, u32 s) noexcept nogil:
    """Dissolve a UDP connection: the socket stays bound, in the group that it is in."""
    cdef sk_t *sk = &t.sks[s]
    flow_remove(t, s)
    if sk.group >= 0:
        t.groups[sk.group].connected -= 1
    see_socket(&t.socks[s], sk, False)
    t.socks[s].state = BOUND


cdef inline u32 port_slot_of(const lookup_t *t, const socket_t *row) noexcept nogil:
    """Slot in the chains by port (SOCK-16)."""
    cdef u32 mask = t.udp_port.mask if row.proto == UDP else t.listening.mask
    return (row.lport + t.cfg.hash_mix) & mask


cdef inline int open_socket(lookup_t *t, u32 s, u8 state) noexcept nogil:
    """Bring a closed socket into a state; -1 no memory. A full group leaves it closed (SOCK-52)."""
    cdef socket_t *row = &t.socks[s]
    cdef sk_t *sk = &t.sks[s]
    cdef u32 port_slot = port_slot_of(t, row)
    cdef int answer
    sk.group = -1
    sk.lport = row.lport
    sk.bound_dev = row.bound_dev
    sk.incoming_cpu = row.incoming_cpu
    sk.mask_off = row.mask_off
    sk.flags = 0
    see_socket(row, sk, row.proto == TCP and state == ESTABLISHED)
    if row.proto == TCP and state == ESTABLISHED:
        row.state = ESTABLISHED
        return flow_add(t, s)
    sk.slot = address_slot(t, row.family, row.laddr, row.lport)
    if row.reuseport and not t.cfg.legacy:
        answer = join_group(t, s, port_slot)
        if answer:
            return 0 if answer > 0 else -1
    if in_port_chain(t, row.proto):
        chain_add(port_chains(t, row.proto), t.sks, port_slot, s, BY_PORT, False)
    if in_address_chain(t, row.proto):
        chain_add(
            &t.udp_address if row.proto == UDP else &t.listeners, t.sks, sk.slot, s, BY_ADDRESS,
            not t.cfg.legacy and row.reuseport and row.family == 6,  # SOCK-55
        )
    sk.flags |= SK_OPEN
    row.state = BOUND if row.proto == UDP else LISTEN
    if row.prog_kind != PROG_NONE and sk.group >= 0:
        # The last attached counts for all (SOCK-62).
        t.groups[sk.group].prog_kind = row.prog_kind
        t.groups[sk.group].prog_value = row.prog_value
    return connect_socket(t, s) if state == ESTABLISHED else 0


cdef inline void lookup_close(lookup_t *t, u32 s) noexcept nogil:
    """Take a socket out of everything."""
    cdef socket_t *row = &t.socks[s]
    cdef sk_t *sk = &t.sks[s]
    if row.state == CLOSED:
        return
    flow_remove(t, s)
    if sk.flags & SK_OPEN:
        if in_port_chain(t, row.proto):
            chain_remove(port_chains(t, row.proto), t.sks, port_slot_of(t, row), s, BY_PORT)
        if in_address_chain(t, row.proto):
            chain_remove(
                &t.udp_address if row.proto == UDP else &t.listeners, t.sks, sk.slot, s, BY_ADDRESS
            )
    leave_group(t, s)
    row.state = CLOSED


cdef inline int tables_init(lookup_t *t) noexcept nogil:
    """Empty tables; -1 no memory."""
    cdef u32 tcp = 0
    cdef u32 s
    for s in range(t.count):
        tcp += t.socks[s].proto == TCP and t.socks[s].state == ESTABLISHED
    if chains_init(&t.listeners, t.cfg.udp_slots) < 0:
        return -1
    if chains_init(&t.udp_address, t.cfg.udp_slots) < 0:
        return -1
    if chains_init(&t.udp_port, t.cfg.udp_slots) < 0:
        return -1
    if chains_init(&t.listening, LEGACY_LISTENING_SLOTS) < 0:
        return -1
    if flows_init(&t.established, tcp) < 0 or flows_init(&t.connected, 0) < 0:
        return -1
    return 0
