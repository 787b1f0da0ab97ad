"""An skb goes up: RPS, protocol, socket (docs/steer.md, steps 1 to 4)."""
from emu._core.direction cimport DIR_FORWARDED, DIR_OTHER, DIR_RECEIVED
from emu._core.flow_hash cimport flow_hash
from emu._core.gro_state cimport skb_t
from emu._core.lookup cimport lookup_packet
from emu._core.lookup_table cimport found_t
from emu._core.reply cimport flow_t, reply
from emu._core.rfs cimport rfs_choose
from emu._core.rps cimport rps_cpu
from emu._core.state cimport (
    COUNT_FLOW_HASH,
    COUNT_LOOKUP,
    COUNT_REUSEPORT,
    COUNT_RPS,
    COUNT_XPS,
    DROP_CSUM,
    DROP_FRAGMENT,
    DROP_NONE,
    DROP_NO_SOCKET,
    DROP_NOT_DISSECTED,
    DROP_OTHERHOST,
    DROP_UNHANDLED_PROTO,
    HASH_L4,
    HASH_NONE,
    HASH_SW,
    HASH_SW_L4,
    NO_CPUMAP,
    SECRET_FLOW_HASH,
    SECRET_RSS_KEY,
    TX_FORWARD,
    nic_t,
    skb_decision_t,
    steer_t,
)
from emu._core.types cimport (
    PF_FRAGMENT,
    PF_HAS_PORTS,
    PF_IP_CSUM_BAD,
    PF_L4_CSUM_BAD,
    i32,
    i64,
    packets_t,
    u8,
    u16,
    u32,
)
from emu._core.xps cimport pick_tx


cdef inline u32 free_row(const steer_t *s) noexcept nogil:
    """A row of the pool that no skb is in."""
    return s.spare[s.spare_count - 1] if s.spare_count else s.skb_rows


cdef inline void take_row(steer_t *s, u32 row) noexcept nogil:
    """The free row has become an skb."""
    if s.spare_count:
        s.spare_count -= 1
    else:
        s.skb_rows += 1


cdef inline skb_decision_t *new_decision(steer_t *s, u32 row, i32 napi_cpu) noexcept nogil:
    """The next place in delivery order, for the skb in this row."""
    cdef skb_decision_t *d = &s.decided[s.delivered]
    d.direction = s.direction[s.skbs[row].first]
    d.drop = d.tx_of = d.stage = d.secrets = 0
    d.pad[0] = d.pad[1] = d.pad[2] = 0
    d.napi_cpu = d.cpu = napi_cpu
    d.socket = d.app_cpu = d.backlog_cpu = d.tx_nic = d.tx_queue = d.completion_cpu = -1
    d.scanned = d.walked = 0
    return d


cdef inline void finish_skb(steer_t *s, u32 row, const skb_decision_t *d) noexcept nogil:
    """The skb has come to its end: it and its packets' columns are written, its row is free."""
    cdef i32 packet = s.last_packet[row]
    cdef i32 before
    s.out_skbs[s.delivered] = s.skbs[row]
    while packet >= 0:
        before = s.skb_of[packet]
        s.skb_of[packet] = <i32>s.delivered
        s.packet_drop[packet] = d.drop
        s.packet_secrets[packet] = d.secrets
        packet = before
    s.delivered += 1
    s.spare[s.spare_count] = row
    s.spare_count += 1


cdef inline bint hash_depends_on_key(steer_t *s, i64 first) noexcept nogil:
    """Whether a secret RSS key stands behind the packet's hardware hash."""
    return s.nics[s.p.nic[first]].key_secret and s.rx_hash_type[first] != HASH_NONE


cdef inline bint placed_by_rss_key(steer_t *s, i64 i) noexcept nogil:
    """Whether another RSS key could have brought packet i elsewhere.

    In front of a cpumap it could have filled a ring otherwise, which frames without a hash share.
    """
    cdef const nic_t *nic = &s.nics[s.p.nic[i]]
    if not nic.key_secret or nic.rxq_count == 1:
        return False
    return nic.cpumap_design != NO_CPUMAP or s.rx_hash_type[i] != HASH_NONE


cdef inline u8 hash_secret(steer_t *s, const skb_t *skb) noexcept nogil:
    """What the hash that an skb has hangs on."""
    if skb.hash_type == HASH_SW or skb.hash_type == HASH_SW_L4:
        return SECRET_FLOW_HASH
    if skb.hash_type == HASH_NONE or not s.nics[s.p.nic[skb.first]].hw_hash:
        return 0
    return SECRET_RSS_KEY if hash_depends_on_key(s, skb.first) else 0


cdef inline u32 get_hash(steer_t *s, skb_t *skb, u8 *secret) noexcept nogil:
    """skb_get_hash: the skb's hash if it covers L4 or is the stack's own, else computed (R-2.1)."""
    cdef u8 l4 = 0
    if skb.hash_type == HASH_L4:
        secret[0] = hash_secret(s, skb)
        return skb.hash
    secret[0] = SECRET_FLOW_HASH
    if skb.hash_type != HASH_SW and skb.hash_type != HASH_SW_L4:
        s.counts[COUNT_FLOW_HASH] += 1
        skb.hash = flow_hash(s.flow_hash_key, s.p, s.flow_keys, skb.first, &l4)
        skb.hash_type = HASH_SW_L4 if l4 else HASH_SW
    return skb.hash


cdef inline void steer_rps(steer_t *s, skb_decision_t *d, skb_t *skb, u32 queue) noexcept nogil:
    """get_rps_cpu: with a map on the queue, the hash picks the CPU that processes the skb."""
    cdef i32 row = s.rxq_rps[queue]
    cdef bint flows = s.rfs.queues[queue].flows != NULL
    cdef u32 n
    cdef u32 off
    cdef u32 hash
    cdef i32 cpu
    cdef i32 slot
    cdef u8 secret = 0
    if row < 0 and not flows:
        return
    s.counts[COUNT_RPS] += 1
    n = s.rps_len[row] if row >= 0 else 0
    off = s.rps_off[row] if row >= 0 else 0
    hash = get_hash(s, skb, &secret)
    if flows and s.rfs.idents != NULL:
        # Nothing waits in a backlog here: every CPU's head has passed every flow's tail.
        cpu = rfs_choose(&s.rfs, queue, hash, s.rps_cpus + off, n, s.online, s.heads, &slot)
        d.secrets |= secret | s.table_secrets
        if slot >= 0:
            d.secrets |= s.flow_secrets[hash & s.rfs.ident_mask]
    else:
        cpu = rps_cpu(s.rps_cpus + off, n, s.online, hash)
        if n > 1:
            d.secrets |= secret
    if cpu >= 0:
        d.cpu = cpu


cdef inline u32 forwarded_priority(u8 family, u8 tos) noexcept nogil:
    """skb->priority of a forwarded packet: rt_tos2priority of IPv4's TOS; IPv6 has none."""
    # Of the four TOS bits the upper two decide: 0, bulk 2, interactive 6, interactive bulk 4.
    cdef u32 upper = (tos >> 3) & 3
    if family != 4 or upper == 0:
        return 0
    if upper == 1:
        return 2
    return 6 if upper == 2 else 4


cdef inline void forward(
    steer_t *s, skb_decision_t *d, skb_t *skb, i32 nic, i32 rxq
) noexcept nogil:
    """The tx queue of a forwarded skb, on the NIC it leaves by (XPS-36)."""
    cdef i32 out = s.nics[nic].forward_nic
    cdef i32 cached = -1
    cdef u8 used_hash = 0
    cdef u8 secret = 0
    cdef u32 prio = forwarded_priority(s.p.family[skb.first], s.p.tos[skb.first])
    cdef i32 queue = pick_tx(&s.xps[out], &cached, 0, 0, -1, rxq, d.cpu, prio, 0, &used_hash)
    s.counts[COUNT_XPS] += 1
    if used_hash:
        cached = -1
        queue = pick_tx(
            &s.xps[out], &cached, 0, 0, -1, rxq, d.cpu, prio, get_hash(s, skb, &secret),
            &used_hash,
        )
        d.secrets |= secret
    d.tx_of = TX_FORWARD
    d.tx_nic = out
    d.tx_queue = queue
    d.completion_cpu = s.txq_irq_cpu[s.nics[out].txq_first + <u32>queue]


cdef inline u8 local_drop(steer_t *s, const skb_t *skb, i64 first) noexcept nogil:
    """Why a received skb ends before the socket lookup; DROP_NONE when it does not."""
    cdef const packets_t *p = s.p
    cdef u16 flags = p.flags[first]
    cdef u8 proto = p.ip_proto[first]
    if p.reason[first]:
        return DROP_NOT_DISSECTED
    if flags & PF_IP_CSUM_BAD:
        return DROP_CSUM
    if flags & PF_FRAGMENT:
        return DROP_FRAGMENT
    if proto != 6 and proto != 17:
        return DROP_UNHANDLED_PROTO
    if (flags & PF_L4_CSUM_BAD) and skb.ip_summed == 0:
        return DROP_CSUM
    return DROP_NONE


cdef inline void decide_skb(
    steer_t *s, skb_decision_t *d, skb_t *skb, i32 nic, i32 rxq
) noexcept nogil:
    """Everything the stack decides for an skb.

    rxq: rx queue within the NIC that the skb recorded, -1 none.
    """
    cdef i64 first = skb.first
    cdef const packets_t *p = s.p
    cdef const nic_t *device = &s.nics[nic]
    cdef found_t found
    cdef flow_t flow
    if placed_by_rss_key(s, first):
        d.secrets |= SECRET_RSS_KEY
    steer_rps(s, d, skb, device.rxq_first + (<u32>rxq if rxq >= 0 else 0))
    if d.direction == DIR_FORWARDED:
        if p.flags[first] & PF_IP_CSUM_BAD:
            d.drop = DROP_CSUM
        else:
            forward(s, d, skb, nic, rxq)
        return
    if d.direction != DIR_RECEIVED:
        if p.reason[first]:
            d.drop = DROP_NOT_DISSECTED
        else:
            d.drop = DROP_OTHERHOST if p.family[first] else DROP_UNHANDLED_PROTO
        return
    d.drop = local_drop(s, skb, first)
    if d.drop:
        return
    found = lookup_packet(&s.lookup, p, first, s.blob, nic + 1, <u32>d.cpu)
    s.counts[COUNT_LOOKUP] += 1
    if found.walked:
        s.counts[COUNT_REUSEPORT] += 1
    d.secrets |= <u8>found.secrets
    d.stage = found.stage
    d.scanned = found.scanned
    d.walked = found.walked
    d.socket = found.sock
    if s.rfs.idents != NULL:
        s.table_secrets |= d.secrets | hash_secret(s, skb)
    if found.sock < 0:
        d.drop = DROP_NO_SOCKET
        return
    flow.laddr = p.daddr + 4 * first
    flow.faddr = p.saddr + 4 * first
    flow.lport = p.dport[first]
    flow.fport = p.sport[first]
    flow.family = p.family[first]
    reply(s, d, <u32>found.sock, &flow, nic, rxq, skb.hash)


cdef inline void deliver_skb(steer_t *s, u32 row, i32 napi_cpu, i32 nic, i32 rxq) noexcept nogil:
    """One skb from napi_cpu to its end."""
    cdef skb_decision_t *d = new_decision(s, row, napi_cpu)
    decide_skb(s, d, &s.skbs[row], nic, rxq)
    finish_skb(s, row, d)
