"""SO_REUSEPORT groups: who is in, and which member a packet goes to (SOCK-43..62).

net/core/sock_reuseport.c.
"""
from libc.stdlib cimport free, realloc

from emu._core.sk cimport SK_CONNECTED, mask_has, sk_t
from emu._core.types cimport i32, i64, packets_t, reciprocal_scale, u8, u32, u64

cdef enum:
    GROUP_START = 128       # SOCK-52
    GROUP_MAX = 32768

    # dtypes.Prog
    PROG_NONE = 0
    PROG_FIXED = 1
    PROG_CPU = 2
    PROG_PAYLOAD = 3

cdef struct group_t:
    u32 *socks
    u32 count
    u32 capacity
    u32 with_cpu       # members with SO_INCOMING_CPU set (SOCK-43)
    u32 with_mask      # members with a CPU mask
    u32 connected      # members that are skipped
    i32 prog_value
    i32 next_free      # of the unused groups
    u8 prog_kind
    u8 has_conns       # sticky (SOCK-54)
    u8 used
    u8 pad

cdef struct pick_rules_t:
    const u64 *masks
    u32 mask_words
    u8 cpu_aware       # SOCK-45
    u8 mask_boost      # SOCK-28 instead of SOCK-24

cdef struct pick_t:
    i32 sock           # -1 none
    u32 walked         # members looked at
    u8 hangs           # on the hash: it chose among several


cdef inline int group_join(group_t *g, sk_t *sks, u32 s, i32 number) noexcept nogil:
    """Take a socket in, as the last; -1 no memory, 1 the group is full (SOCK-52)."""
    cdef sk_t *sk = &sks[s]
    cdef u32 capacity
    cdef u32 *socks
    if g.count == g.capacity:
        if g.count >= GROUP_MAX:
            return 1
        capacity = 2 * g.capacity if g.capacity else GROUP_START
        socks = <u32 *> realloc(g.socks, capacity * sizeof(u32))
        if socks == NULL:
            return -1
        g.socks = socks
        g.capacity = capacity
    g.socks[g.count] = s
    sk.group = number
    sk.index = g.count
    g.count += 1
    g.with_cpu += sk.incoming_cpu >= 0
    g.with_mask += sk.mask_off >= 0
    g.connected += (sk.flags & SK_CONNECTED) != 0
    return 0


cdef inline void group_leave(group_t *g, sk_t *sks, u32 s) noexcept nogil:
    """Let a socket go: the last one takes its place (SOCK-53)."""
    cdef sk_t *sk = &sks[s]
    g.count -= 1
    g.socks[sk.index] = g.socks[g.count]
    sks[g.socks[sk.index]].index = sk.index
    sk.group = -1
    g.with_cpu -= sk.incoming_cpu >= 0
    g.with_mask -= sk.mask_off >= 0
    g.connected -= (sk.flags & SK_CONNECTED) != 0


cdef inline u32 run_program(
    const group_t *g, const packets_t *p, i64 i, const u8 *blob, u32 cpu
) noexcept nogil:
    """The index that the group's classic BPF program returns (SOCK-59).

    A load beyond the packet's end ends a classic program with 0: the first member, not the hash's
    choice. Octets that a capture has cut off count as beyond it.
    """
    cdef i64 at
    cdef i64 end
    if g.prog_kind == PROG_CPU:
        return cpu
    if g.prog_kind == PROG_FIXED:
        return <u32>g.prog_value
    end = <i64>p.l3_off[i] + (0 if p.family[i] == 4 else 40) + p.ip_len[i]
    at = <i64>p.l4_off[i] + g.prog_value
    if p.ip_proto[i] == 17:
        at += 8
        end = min(end, <i64>p.l4_off[i] + p.udp_len[i])
    else:
        at += (p.tcp_w12[i] >> 28) * 4
    end = min(end, <i64>p.cap_bytes[i])
    if g.prog_value < 0 or p.frame_off[i] < 0 or at >= end:
        return 0
    return blob[p.frame_off[i] + at]


cdef inline bint is_excluded(const sk_t *sk, const pick_rules_t *rules, u32 cpu) noexcept nogil:
    """Whether the socket's mask leaves this CPU out; no mask leaves none out (SOCK-25)."""
    return sk.mask_off >= 0 and not mask_has(rules.masks, rules.mask_words, sk.mask_off, cpu)


cdef inline bint is_wanted(
    const sk_t *sk, const pick_rules_t *rules, bint by_cpu, bint by_mask, u32 cpu
) noexcept nogil:
    """Whether a member is preferred: by SO_INCOMING_CPU, or by its mask where masks only prefer."""
    if by_cpu and sk.incoming_cpu == <i32>cpu:
        return True
    return by_mask and sk.mask_off >= 0 and not is_excluded(sk, rules, cpu)


cdef inline pick_t group_walk(
    const group_t *g, const sk_t *sks, const pick_rules_t *rules, bint masks, u32 hash, u32 cpu
) noexcept nogil:
    """The first fitting member from the hash's one round (SOCK-34, SOCK-44).

    It knows whether another hash would differ.
    """
    cdef pick_t pick
    cdef bint by_cpu = rules.cpu_aware and g.with_cpu
    cdef bint by_mask = masks and rules.mask_boost and g.with_mask
    cdef bint reject = masks and not rules.mask_boost and g.with_mask
    cdef u32 at = reciprocal_scale(hash, g.count)
    cdef u32 eligible = 0
    cdef u32 wanted = 0
    cdef i32 first = -1
    cdef u32 first_walked = g.count
    cdef u32 d
    cdef const sk_t *sk
    pick.sock = -1
    pick.walked = g.count
    for d in range(g.count):
        sk = &sks[g.socks[at]]
        if not (sk.flags & SK_CONNECTED or (reject and is_excluded(sk, rules, cpu))):
            eligible += 1
            if first < 0:
                first = <i32>g.socks[at]
                first_walked = d + 1
            if is_wanted(sk, rules, by_cpu, by_mask, cpu):
                wanted += 1
                if wanted == 1:
                    pick.sock = <i32>g.socks[at]
                    pick.walked = d + 1
            if wanted > 1 or (eligible > 1 and not by_cpu and not by_mask):
                break
        at += 1
        if at == g.count:
            at = 0
    if wanted:
        pick.hangs = wanted > 1
        return pick
    pick.sock = first
    pick.hangs = eligible > 1
    if not by_cpu and not by_mask:
        pick.walked = first_walked
    return pick


cdef inline pick_t group_select(
    const group_t *g, const sk_t *sks, const pick_rules_t *rules, bint masks, u32 hash, u32 cpu
) noexcept nogil:
    """The member of a non-empty group by the hash (reuseport_select_sock_by_hash)."""
    cdef pick_t pick
    if g.connected or (rules.cpu_aware and g.with_cpu) or (masks and g.with_mask):
        return group_walk(g, sks, rules, masks, hash, cpu)
    pick.sock = <i32>g.socks[reciprocal_scale(hash, g.count)]
    pick.walked = 1
    pick.hangs = g.count > 1
    return pick


cdef inline void group_free(group_t *g) noexcept nogil:
    free(g.socks)
    g.socks = NULL
    g.count = g.capacity = g.with_cpu = g.with_mask = g.connected = 0
    g.prog_kind = g.has_conns = g.used = 0
