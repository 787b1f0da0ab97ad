"""The lookup of 3.9 to 4.4 (SOCK-79..84): whole chains are scanned, and equal scores share."""
from emu._core.jhash cimport next_pseudo_random32
from emu._core.lookup_table cimport (
    TCP,
    UDP,
    address_slot,
    chains_t,
    found_t,
    lookup_ehash,
    lookup_t,
    query_t,
)
from emu._core.lookup_tcp cimport EHASH, STAGE_EXACT, STAGE_PRIMARY, STAGE_WILDCARD, same6
from emu._core.lookup_udp cimport mask_points, masks_count, peer_points
from emu._core.sk cimport (
    BY_ADDRESS,
    BY_PORT,
    SK_ANY,
    SK_INET,
    SK_INET6,
    SK_REUSEPORT,
    SK_V4,
    sk_t,
)
from emu._core.types cimport i32, reciprocal_scale, u32

cdef enum:
    LONG_CHAIN = 10
    MAX_V6_HASH2_SCORE = 3


cdef inline i32 legacy_score(
    const lookup_t *t, u32 s, const query_t *q, const u32 *wanted, bint masks
) noexcept nogil:
    """How well a socket fits; -1 for not at all (SOCK-79, SOCK-82; compute_score, compute_score2).

    In a chain of one port (*wanted* NULL) a socket bound to any address fits, and one bound to this
    address fits better.
    """
    cdef const sk_t *sk = &t.sks[s]
    cdef bint at_any = (sk.flags & SK_ANY) != 0
    cdef const u32 *local = q.daddr if wanted == NULL else wanted
    cdef i32 points
    cdef i32 from_mask
    if sk.lport != q.dport or (sk.bound_dev and sk.bound_dev != q.dif):
        return -1
    if q.family == 4:
        if not (sk.flags & SK_V4):
            return -1
        at_any = sk.local4 == 0
        if sk.local4 != local[0] and not (wanted == NULL and at_any):
            return -1
    elif not (sk.flags & SK_INET6):
        return -1
    elif not same6(t.socks[s].laddr, local) and not (wanted == NULL and at_any):
        return -1
    points = peer_points(t, s, q)
    from_mask = mask_points(t, sk, q, masks)
    if points < 0 or from_mask < 0:
        return -1
    if sk.bound_dev:
        points += 1
    if wanted == NULL and not at_any:
        points += 1
    if q.family == 4:
        points = 4 * points + (2 if sk.flags & SK_INET else 1)
    elif q.proto == TCP:
        points += 1
    if t.rules.cpu_aware and sk.incoming_cpu == <i32>q.cpu:
        points += 1
    return points + from_mask


cdef inline bint scan_chain(
    const lookup_t *t, const query_t *q, i32 s, u32 which, const u32 *wanted, found_t *found
) noexcept nogil:
    """Walk a chain from *s*: the best score leads (SOCK-80, SOCK-81).

    Its equals share when it has SO_REUSEPORT. *wanted*: the address of a UDP hash2 chain, NULL in a
    chain of one port.
    """
    cdef bint masks = q.proto == TCP or masks_count(t, q, wanted == NULL)
    # A bonus on the score would break this exit, and the kernel that brought one deleted it.
    cdef bint exits_early = (
        wanted != NULL and q.family == 6 and not t.rules.mask_boost and not t.rules.cpu_aware
    )
    cdef i32 high = -1 if q.proto == UDP and q.family == 6 else 0
    cdef i32 score
    cdef u32 matches = 0
    cdef u32 phash = 0
    while s >= 0:
        found.scanned += 1
        score = legacy_score(t, <u32>s, q, wanted, masks)
        if score > high:
            high = score
            found.sock = s
            matches = 0
            if t.sks[s].flags & SK_REUSEPORT:
                matches = 1
                if t.forced:
                    phash = t.forced_hash
                else:
                    phash = lookup_ehash(
                        &t.cfg, q.proto, q.family, q.daddr if wanted == NULL else wanted, q.dport,
                        q.saddr, q.sport,
                    )
            elif exits_early and score == MAX_V6_HASH2_SCORE:
                break
        elif score == high and matches:
            matches += 1
            if reciprocal_scale(phash, matches) == 0:
                found.sock = s
            phash = next_pseudo_random32(phash)
        s = t.sks[s].link[which]
    found.walked = matches
    if matches > 1:
        found.secrets = EHASH
    return found.sock >= 0


cdef inline void find_legacy(
    const lookup_t *t, const query_t *q, const u32 *any_address, found_t *found
) noexcept nogil:
    """Look a listener or a UDP socket up as a kernel without reuseport arrays does."""
    cdef const chains_t *by_port = &t.udp_port if q.proto == UDP else &t.listening
    cdef u32 port_slot = (q.dport + t.cfg.hash_mix) & by_port.mask
    cdef u32 slot
    if q.proto == UDP and by_port.length[port_slot] > LONG_CHAIN:
        slot = address_slot(t, q.family, q.daddr, q.dport)
        if by_port.length[port_slot] >= t.udp_address.length[slot]:
            if scan_chain(t, q, t.udp_address.head[slot], BY_ADDRESS, q.daddr, found):
                found.stage = STAGE_EXACT
                return
            slot = address_slot(t, q.family, any_address, q.dport)
            if by_port.length[port_slot] >= t.udp_address.length[slot]:
                if scan_chain(t, q, t.udp_address.head[slot], BY_ADDRESS, any_address, found):
                    found.stage = STAGE_WILDCARD
                return
    if scan_chain(t, q, by_port.head[port_slot], BY_PORT, NULL, found):
        found.stage = STAGE_PRIMARY
