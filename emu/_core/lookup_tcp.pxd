"""TCP listeners and 4-tuples (SOCK-63..70).

inet_lhash2_lookup in net/ipv4/inet_hashtables.c, inet6_lhash2_lookup.
"""
from emu._core.lookup_table cimport (
    NOT_IPV4,
    TCP,
    address_slot,
    flow_key4_t,
    found_t,
    lookup_ehash,
    lookup_t,
    query_t,
)
from emu._core.flow_table cimport flow_table_t
from emu._core.reuseport cimport group_select, group_t, is_excluded, pick_t, run_program
from emu._core.sk cimport BY_ADDRESS, SK_INET, SK_INET6, SK_V4, sk_t
from emu._core.types cimport i32, socket_t, u32

cdef enum:
    # dtypes.LookupStage
    STAGE_NONE = 0
    STAGE_ESTABLISHED = 1
    STAGE_EXACT = 2
    STAGE_WILDCARD = 3
    STAGE_PRIMARY = 4
    STAGE_HASH4 = 5

    # dtypes.Secret
    EHASH = 2


cdef inline bint same6(const u32 *a, const u32 *b) noexcept nogil:
    return a[0] == b[0] and a[1] == b[1] and a[2] == b[2] and a[3] == b[3]


cdef inline bint flow_matches(const lookup_t *t, u32 s, const query_t *q) noexcept nogil:
    """Whether a connected socket's 4-tuple and device are the packet's (SOCK-64).

    Sockets of two mapped addresses stand among the IPv4 ones.
    """
    cdef const flow_key4_t *key = &t.keys[s]
    cdef const socket_t *row
    if key.fport != q.sport or key.lport != q.dport:
        return False
    if q.family == 4:
        return (
            key.foreign4 == q.saddr[0] and key.local4 == q.daddr[0]
            and (key.bound_dev == 0 or key.bound_dev == q.dif)
        )
    row = &t.socks[s]
    return (
        key.bound_dev == NOT_IPV4 and same6(row.faddr, q.saddr) and same6(row.laddr, q.daddr)
        and (row.bound_dev == 0 or row.bound_dev == q.dif)
    )


cdef inline i32 find_flow(
    const lookup_t *t, const flow_table_t *f, const query_t *q, u32 hash
) noexcept nogil:
    """The socket of this very peer, -1 none (__inet_lookup_established, udp4_lib_lookup4)."""
    cdef u32 at = hash & f.mask
    cdef u32 found
    while True:
        found = f.slots[at].sock_plus1
        if found == 0:
            return -1
        if f.slots[at].hash == hash and flow_matches(t, found - 1, q):
            return <i32>(found - 1)
        at = (at + 1) & f.mask


cdef inline u32 group_hash(const lookup_t *t, const query_t *q, const u32 *wanted) noexcept nogil:
    """The hash that chooses in groups: of the address looked for (SOCK-70, SOCK-77)."""
    if t.forced:
        return t.forced_hash
    return lookup_ehash(&t.cfg, q.proto, q.family, wanted, q.dport, q.saddr, q.sport)


cdef inline pick_t ask_group(
    const lookup_t *t, const query_t *q, const group_t *g, bint masks, u32 hash
) noexcept nogil:
    """The group's member for the packet (reuseport_select_sock, SOCK-57..59); -1 none."""
    cdef pick_t pick
    cdef u32 index
    if g.prog_kind and q.p != NULL:
        index = run_program(g, q.p, q.i, q.blob, q.cpu)
        if index < g.count:
            pick.sock = <i32>g.socks[index]
            pick.walked = 1
            pick.hangs = 0
            return pick
    return group_select(g, t.sks, &t.rules, masks, hash, q.cpu)


cdef inline i32 listener_score(
    const lookup_t *t, u32 s, const query_t *q, const u32 *wanted
) noexcept nogil:
    """How well a listener fits; -1 for not at all (SOCK-65; compute_score)."""
    cdef const sk_t *sk = &t.sks[s]
    cdef i32 score
    if sk.lport != q.dport:
        return -1
    if q.family == 4:
        if not (sk.flags & SK_V4) or sk.local4 != wanted[0]:
            return -1
    elif not (sk.flags & SK_INET6) or not same6(t.socks[s].laddr, wanted):
        return -1
    if sk.bound_dev and sk.bound_dev != q.dif:
        return -1
    score = 2 if sk.bound_dev else 1
    if sk.mask_off >= 0:
        if is_excluded(sk, &t.rules, q.cpu):
            if not t.rules.mask_boost:
                return -1
        elif t.rules.mask_boost:
            score += 1
    if q.family == 4 and sk.flags & SK_INET:
        score += 1
    if sk.incoming_cpu == <i32>q.cpu:
        score += 1
    return score


cdef inline bint scan_listeners(
    const lookup_t *t, const query_t *q, const u32 *wanted, found_t *found
) noexcept nogil:
    """Walk the listeners of one address: the first group that is met wins (SOCK-66, SOCK-67)."""
    cdef i32 s = t.listeners.head[address_slot(t, q.family, wanted, q.dport)]
    cdef i32 high = 0
    cdef i32 score
    cdef pick_t pick
    while s >= 0:
        found.scanned += 1
        score = listener_score(t, <u32>s, q, wanted)
        if score > high:
            high = score
            found.sock = s
            if t.sks[s].group >= 0:
                pick = ask_group(t, q, &t.groups[t.sks[s].group], True, group_hash(t, q, wanted))
                found.walked += pick.walked
                if pick.sock >= 0:
                    found.sock = pick.sock
                    if pick.hangs:
                        found.secrets = EHASH
                    return True
        s = t.sks[s].link[BY_ADDRESS]
    return found.sock >= 0


cdef inline void find_tcp(
    const lookup_t *t, const query_t *q, const u32 *any_address, found_t *found
) noexcept nogil:
    """Look a TCP packet up (__inet_lookup)."""
    found.sock = find_flow(
        t, &t.established, q,
        lookup_ehash(&t.cfg, TCP, q.family, q.daddr, q.dport, q.saddr, q.sport),
    )
    if found.sock >= 0:
        found.stage = STAGE_ESTABLISHED
    elif t.cfg.legacy:
        pass  # lookup_legacy.pxd goes on
    elif scan_listeners(t, q, q.daddr, found):
        found.stage = STAGE_EXACT
    elif scan_listeners(t, q, any_address, found):
        found.stage = STAGE_WILDCARD
