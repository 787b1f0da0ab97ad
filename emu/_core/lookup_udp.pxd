"""UDP in today's form (SOCK-72..77).

__udp4_lib_lookup in net/ipv4/udp.c, __udp6_lib_lookup in net/ipv6/udp.c.
"""
from emu._core.jhash cimport is_any6
from emu._core.lookup_table cimport UDP, address_slot, found_t, lookup_ehash, lookup_t, query_t
from emu._core.lookup_tcp cimport (
    EHASH,
    STAGE_EXACT,
    STAGE_HASH4,
    STAGE_PRIMARY,
    STAGE_WILDCARD,
    ask_group,
    find_flow,
    group_hash,
    same6,
)
from emu._core.reuseport cimport group_t, is_excluded, pick_t
from emu._core.sk cimport BY_ADDRESS, BY_PORT, SK_CONNECTED, SK_INET, SK_INET6, SK_V4, sk_t
from emu._core.types cimport i32, socket_t, u32, u64

cdef enum:
    QUIRK_PRIMARY_ONLY = 1
    QUIRK_HASH2_ONLY = 2


cdef inline bint masks_count(const lookup_t *t, const query_t *q, bint primary) noexcept nogil:
    """Whether a scan honours CPU masks: historically only one of IPv6's two did (SOCK-29)."""
    if q.family != 6:
        return True
    return t.cfg.mask_v6_udp_quirk != (QUIRK_HASH2_ONLY if primary else QUIRK_PRIMARY_ONLY)


cdef inline i32 peer_points(const lookup_t *t, u32 s, const query_t *q) noexcept nogil:
    """How many of a socket's peer address and port are set, to the packet's; -1: to another's."""
    cdef const sk_t *sk = &t.sks[s]
    cdef const socket_t *row = &t.socks[s]
    cdef i32 points = 0
    if sk.fport:
        if sk.fport != q.sport:
            return -1
        points = 1
    if q.family == 4:
        if sk.foreign4 == 0:
            return points
        return points + 1 if sk.foreign4 == q.saddr[0] else -1
    if not (sk.flags & SK_CONNECTED) or is_any6(row.faddr):
        return points
    return points + 1 if same6(row.faddr, q.saddr) else -1


cdef inline i32 mask_points(
    const lookup_t *t, const sk_t *sk, const query_t *q, bint masks
) noexcept nogil:
    """What a CPU mask adds to a score; -1 rejects the socket (SOCK-24..28)."""
    if sk.mask_off < 0 or not masks:
        return 0
    if is_excluded(sk, &t.rules, q.cpu):
        return 0 if t.rules.mask_boost else -1
    return 1 if t.rules.mask_boost else 0


cdef inline i32 udp_score(
    const lookup_t *t, u32 s, const query_t *q, const u32 *wanted, bint masks
) noexcept nogil:
    """How well a socket fits; -1 for not at all (SOCK-74; compute_score)."""
    cdef const sk_t *sk = &t.sks[s]
    cdef i32 points
    cdef i32 from_mask
    if sk.lport != q.dport:
        return -1
    if q.family == 4:
        if not (sk.flags & SK_V4) or sk.local4 != wanted[0]:
            return -1
    elif not (sk.flags & SK_INET6) or not same6(t.socks[s].laddr, wanted):
        return -1
    if sk.bound_dev and sk.bound_dev != q.dif:
        return -1
    points = peer_points(t, s, q)
    from_mask = mask_points(t, sk, q, masks)
    if points < 0 or from_mask < 0:
        return -1
    if sk.bound_dev:
        points += 1
    if q.family == 4:
        points = 4 * points + (2 if sk.flags & SK_INET else 1)
    if sk.incoming_cpu == <i32>q.cpu:
        points += 1
    return points + from_mask


cdef inline bint scan_with(
    const lookup_t *t, const query_t *q, const u32 *wanted, u32 hash, found_t *found, bint *hung
) noexcept nogil:
    """Walk the sockets of one address with a hash (udp4_lib_lookup2).

    Answers whether the hash chose the socket among several. *hung* is set when it chose among
    several at all: what it chose may have been beaten later.
    """
    cdef i32 s = t.udp_address.head[address_slot(t, q.family, wanted, q.dport)]
    cdef bint masks = masks_count(t, q, False)
    cdef i32 high = 0 if q.family == 4 else -1
    cdef i32 score
    cdef bint hangs = False
    cdef const group_t *g
    cdef pick_t pick
    while s >= 0:
        found.scanned += 1
        score = udp_score(t, <u32>s, q, wanted, masks)
        if score > high:
            high = score
            found.sock = s
            hangs = False
            if not (t.sks[s].flags & SK_CONNECTED) and t.sks[s].group >= 0:
                g = &t.groups[t.sks[s].group]
                pick = ask_group(t, q, g, masks, hash)
                found.walked += pick.walked
                if pick.sock >= 0:
                    found.sock = pick.sock
                    hangs = pick.hangs
                    if not g.has_conns:
                        break
                    hung[0] |= hangs
                    found.scanned += 1
                    score = udp_score(t, <u32>pick.sock, q, wanted, masks)
                    if score > high:
                        high = score
        s = t.sks[s].link[BY_ADDRESS]
    return hangs


cdef inline bint another_hash_differs(
    const lookup_t *t, const query_t *q, const u32 *wanted, i32 sock
) noexcept nogil:
    """Whether some hash gives another socket than *sock*: tries the starts of all shares."""
    cdef i32 s = t.udp_address.head[address_slot(t, q.family, wanted, q.dport)]
    cdef bint hung = False
    cdef const group_t *g
    cdef found_t other
    cdef u64 k
    while s >= 0:
        if t.sks[s].group >= 0 and t.sks[s].index == 0:
            g = &t.groups[t.sks[s].group]
            for k in range(g.count):
                other.sock = -1
                other.scanned = other.walked = 0
                scan_with(t, q, wanted, <u32>(((k << 32) + g.count - 1) // g.count), &other, &hung)
                if other.sock != sock:
                    return True
        s = t.sks[s].link[BY_ADDRESS]
    return False


cdef inline bint scan_address(
    const lookup_t *t, const query_t *q, const u32 *wanted, found_t *found
) noexcept nogil:
    """Find a socket of one address, and whether that hangs on the hash."""
    cdef bint hung = False
    cdef bint hangs
    if t.udp_address.head[address_slot(t, q.family, wanted, q.dport)] < 0:
        return False
    hangs = scan_with(t, q, wanted, group_hash(t, q, wanted), found, &hung)
    if found.sock >= 0 and (hangs or (hung and another_hash_differs(t, q, wanted, found.sock))):
        found.secrets = EHASH
    return found.sock >= 0


cdef inline void scan_port(const lookup_t *t, const query_t *q, found_t *found) noexcept nogil:
    """The net for sockets that change their address just now; empty when nothing races."""
    cdef i32 s = t.udp_port.head[(q.dport + t.cfg.hash_mix) & t.udp_port.mask]
    cdef bint masks = masks_count(t, q, True)
    cdef i32 high = 0 if q.family == 4 else -1
    cdef i32 score
    while s >= 0:
        found.scanned += 1
        score = udp_score(t, <u32>s, q, q.daddr, masks)
        if score > high:
            high = score
            found.sock = s
        s = t.sks[s].link[BY_PORT]
    if found.sock >= 0:
        found.stage = STAGE_PRIMARY


cdef inline void find_udp(
    const lookup_t *t, const query_t *q, const u32 *any_address, found_t *found
) noexcept nogil:
    """Look a UDP packet up."""
    if t.connected.count:
        found.sock = find_flow(
            t, &t.connected, q,
            lookup_ehash(&t.cfg, UDP, q.family, q.daddr, q.dport, q.saddr, q.sport),
        )
        if found.sock >= 0:
            found.stage = STAGE_HASH4
            return
    if scan_address(t, q, q.daddr, found):
        found.stage = STAGE_EXACT
    elif scan_address(t, q, any_address, found):
        found.stage = STAGE_WILDCARD
    else:
        scan_port(t, q, found)
