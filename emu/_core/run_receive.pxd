"""An skb goes up: RPS and RFS, protocol, socket (docs/run.md, "An skb goes up")."""
from emu._core.deliver cimport get_hash, local_drop
from emu._core.direction cimport DIR_FORWARDED, DIR_RECEIVED
from emu._core.flow_limit cimport flow_limit_drops_one
from emu._core.gro_state cimport skb_t
from emu._core.lookup cimport lookup_packet
from emu._core.lookup_table cimport found_t
from emu._core.lookup_tcp cimport STAGE_ESTABLISHED, STAGE_HASH4, STAGE_NONE
from emu._core.rfs cimport rfs_asks_hash, rfs_choose, rfs_note_tail
from emu._core.rps cimport rps_cpu
from emu._core.run_codes cimport (
    AT_FREE,
    AT_IP,
    AT_LOOKUP,
    AT_RPS,
    AT_SOCKET,
    AT_TRANSPORT,
    COST_BACKLOG,
    COST_FLOW_HASH,
    COST_FORWARD,
    COST_IP6_RX,
    COST_IP_RX,
    COST_LOCK,
    COST_LOOKUP,
    COST_RPS,
    COST_SCORE,
    COST_SKB_FREE,
    COST_TCP_RX,
    COST_UDP_RX,
    COST_WALK,
    KIND_BASE,
    LIMIT_MAX_BACKLOG,
    LIMIT_REFCNT_IN_LOOKUP_LINE,
    LOST_CPU_BACKLOG,
    LOST_SOCKET_RCVBUFF,
    STEP_ENQUEUE,
    STEP_PROTO,
    STEP_RPS,
    TOTAL_FORWARDED,
    TOUCH_BACKLOG_ENQUEUE,
    TOUCH_BACKLOG_SPLICE,
    TOUCH_CHAIN,
    TOUCH_CHAIN_DELIVER,
    TOUCH_SKB_PROTO,
    TOUCH_SOCK_RX_SOFTIRQ,
    TOUCH_SOCK_TX_SOFTIRQ,
)
from emu._core.run_cost cimport begin, charge, pay, pay_lines, touch
from emu._core.run_counters cimport count_drop
from emu._core.run_go cimport (
    GO_ENQUEUE,
    GO_ENQUEUE_END,
    GO_ENQUEUE_HELD,
    GO_FORWARD,
    GO_NOWHERE,
    GO_UP,
)
from emu._core.run_irq cimport napi_append, raise_rx, repeat_request
from emu._core.run_lock cimport lock_ask, lock_release
from emu._core.run_send cimport forward_skb
from emu._core.run_state cimport cpu_t, found_row_t, packet_t, run_sock_t, run_t
from emu._core.run_wake cimport wake_reader
from emu._core.state cimport (
    DROP_CSUM,
    DROP_NONE,
    DROP_NOT_DISSECTED,
    DROP_NO_SOCKET,
    DROP_OTHERHOST,
    DROP_UNHANDLED_PROTO,
    HASH_L4,
    HASH_SW,
    HASH_SW_L4,
    SOCK_ESTABLISHED,
)
from emu._core.types cimport PF_IP_CSUM_BAD, i32, i64, u8, u32, u64

cdef enum:
    SKB_TRUESIZE = 768     # of each queued skb, beside its length


cdef inline void end_skb(run_t *r, i32 row, u32 reason, i64 t) noexcept nogil:
    """The skb is dropped; every client in it sends again."""
    cdef i32 at = row
    cdef i32 following
    count_drop(r, reason, r.s.skbs[row].segs)
    while at >= 0:
        following = r.packets[at].follows
        repeat_request(r, at, t)
        at = following


cdef inline i32 choose_cpu(
    run_t *r, skb_t *skb, u32 rxq, bint *computed, i32 *slot
) noexcept nogil:
    """get_rps_cpu: the CPU whose backlog gets the skb; -1: it stays here."""
    cdef i32 row = r.s.rxq_rps[rxq]
    cdef u32 length = r.s.rps_len[row] if row >= 0 else 0
    cdef u8 secret = 0
    computed[0] = False
    slot[0] = -1
    if length == 0 and (r.rfs.idents == NULL or not rfs_asks_hash(&r.rfs, rxq, 0)):
        return -1
    computed[0] = (
        skb.hash_type != HASH_L4 and skb.hash_type != HASH_SW and skb.hash_type != HASH_SW_L4
    )
    get_hash(&r.s, skb, &secret)
    if row < 0:
        row = 0
    if r.rfs.idents == NULL:
        return rps_cpu(r.s.rps_cpus + r.s.rps_off[row], length, r.s.online, skb.hash)
    return rfs_choose(
        &r.rfs, rxq, skb.hash, r.s.rps_cpus + r.s.rps_off[row], length, r.s.online, r.heads, slot
    )


cdef inline bint limits_flow(run_t *r, cpu_t *me, const cpu_t *other, i32 row) noexcept nogil:
    """skb_flow_limit: whether a half full backlog takes no more of the skb's flow (R-3.6)."""
    if me.flow_limit == NULL or other.input_length < <u64>(r.limits[LIMIT_MAX_BACKLOG] >> 1):
        return False
    if not flow_limit_drops_one(me.flow_limit, r.s.skbs[row].hash):
        return False
    me.flow_limited += 1
    return True


cdef inline void to_backlog(
    run_t *r, cpu_t *me, packet_t *packet, i32 row, u32 target, i32 slot, i64 t
) noexcept nogil:
    """enqueue_to_backlog: the target's input queue, and its NAPI if it sleeps."""
    cdef cpu_t *other = &r.cpus[target]
    touch(r, me, &other.backlog_touched, TOUCH_BACKLOG_ENQUEUE, packet.proto, AT_RPS)
    if (
        other.input_length > <u64>r.limits[LIMIT_MAX_BACKLOG] or limits_flow(r, me, other, row)
    ):
        pay(r, me, COST_SKB_FREE, AT_FREE)
        other.backlog_dropped += 1
        end_skb(r, row, LOST_CPU_BACKLOG, t)
        return
    packet.next = -1
    if other.input.tail >= 0:
        r.packets[other.input.tail].next = row
    else:
        other.input.head = row
    other.input.tail = row
    other.input_length += 1
    r.tails[target] += 1
    if slot >= 0:
        rfs_note_tail(&r.rfs, <u32>packet.rxq, slot, r.tails[target])
    if other.input_length > 1 or other.backlog_scheduled:
        return
    other.backlog_scheduled = 1
    if other == me:
        napi_append(r, &me.poll, <i32>(r.napi_count + target))
        if not me.inside:
            raise_rx(me)
    else:
        other.ipi_next = me.ipis
        me.ipis = <i32>target


cdef inline u8 drop_before_lookup(run_t *r, const skb_t *skb, i64 first) noexcept nogil:
    """Why an skb ends before its lookup, as in a steer; DROP_NONE when it does not."""
    cdef u8 direction = r.s.direction[first]
    if direction == DIR_FORWARDED:
        return DROP_CSUM if r.s.p.flags[first] & PF_IP_CSUM_BAD else DROP_NONE
    if direction != DIR_RECEIVED:
        if r.s.p.reason[first]:
            return DROP_NOT_DISSECTED
        return DROP_OTHERHOST if r.s.p.family[first] else DROP_UNHANDLED_PROTO
    return local_drop(&r.s, skb, first)


cdef inline const found_row_t *look_up(run_t *r, cpu_t *me, i32 row) noexcept nogil:
    """The socket of an skb, from the last answer where that still is one."""
    cdef found_row_t *known = &r.found[row]
    cdef found_t found
    if known.cpu >= 0 and (
        known.cpu == <i32>me.number
        # The table of 4-tuples asks for no CPU.
        or known.stage == STAGE_ESTABLISHED or known.stage == STAGE_HASH4
    ):
        return known
    found = lookup_packet(
        &r.s.lookup, r.s.p, row, r.s.blob, <i32>r.packets[row].nic + 1, me.number
    )
    known.cpu = <i32>me.number
    known.sock = found.sock
    known.scanned = found.scanned
    known.walked = found.walked
    known.stage = found.stage
    return known


cdef inline void read_chain(
    run_t *r, cpu_t *me, const run_sock_t *sock, u32 proto
) noexcept nogil:
    """A lookup that walks a chain reads the line of every socket in it."""
    cdef u64 bit = <u64>1 << (me.number & 63)
    cdef u64 *seen
    cdef u32 k
    cdef i32 member
    for k in range(sock.chain_len):
        member = r.chains[sock.chain_off + k]
        seen = &r.chain_seen[<u64>member * r.chain_words + (me.number >> 6)]
        if not seen[0] & bit:
            seen[0] |= bit
            pay_lines(r, me, r.socks[member].chain_touched, TOUCH_CHAIN, proto, AT_LOOKUP)


cdef inline void write_chain(run_t *r, cpu_t *me, i32 number, u32 proto) noexcept nogil:
    """A delivery writes the line of its socket: no other CPU has seen that."""
    cdef u64 *seen = &r.chain_seen[<u64>number * r.chain_words]
    cdef u32 k
    touch(r, me, &r.socks[number].chain_touched, TOUCH_CHAIN_DELIVER, proto, AT_LOOKUP)
    for k in range(r.chain_words):
        seen[k] = 0
    seen[me.number >> 6] = <u64>1 << (me.number & 63)


cdef inline void pay_lookup(
    run_t *r, cpu_t *me, const found_row_t *found, u32 proto
) noexcept nogil:
    charge(
        me, AT_LOOKUP, KIND_BASE,
        r.costs[COST_LOOKUP] + r.costs[COST_SCORE] * found.scanned
        + r.costs[COST_WALK] * found.walked,
    )
    if (
        r.limits[LIMIT_REFCNT_IN_LOOKUP_LINE] and found.sock >= 0
        and found.stage != STAGE_ESTABLISHED and found.stage != STAGE_HASH4
        and found.stage != STAGE_NONE
    ):
        read_chain(r, me, &r.socks[found.sock], proto)


cdef inline u32 drop_in_proto(run_t *r, cpu_t *me, u32 reason, i64 t) noexcept nogil:
    pay(r, me, COST_SKB_FREE, AT_FREE)
    end_skb(r, me.skb, reason, t)
    begin(r, me, t, STEP_PROTO, me.skb, me.skb_go, False)
    return GO_NOWHERE


cdef inline u32 proto_step(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """The network layer, up to the socket."""
    cdef packet_t *packet = &r.packets[me.skb]
    cdef skb_t *skb = &r.s.skbs[me.skb]
    cdef const found_row_t *found
    cdef u8 reason
    me.processed += 1
    if me.behind:
        pay(r, me, COST_BACKLOG, AT_RPS)
        if me.splice:
            touch(r, me, &me.backlog_touched, TOUCH_BACKLOG_SPLICE, packet.proto, AT_RPS)
        touch(r, me, &packet.touched, TOUCH_SKB_PROTO, packet.proto, AT_RPS)
    pay(r, me, COST_IP_RX, AT_IP)
    if packet.v6:
        pay(r, me, COST_IP6_RX, AT_IP)
    reason = drop_before_lookup(r, skb, me.skb)
    if reason:
        return drop_in_proto(r, me, reason, t)
    if r.s.direction[me.skb] == DIR_FORWARDED:
        pay(r, me, COST_FORWARD, AT_IP)
        r.totals[TOTAL_FORWARDED] += skb.segs
        forward_skb(r, me, packet, skb, me.skb)
        me.tx_go = me.skb_go
        begin(r, me, t, STEP_PROTO, me.skb, GO_FORWARD, False)
        return GO_NOWHERE
    found = look_up(r, me, me.skb)
    pay_lookup(r, me, found, packet.proto)
    if found.sock < 0:
        return drop_in_proto(r, me, DROP_NO_SOCKET, t)
    me.sock = found.sock
    me.hand = me.skb
    begin(r, me, t, STEP_PROTO, me.skb, GO_ENQUEUE, False)
    return GO_NOWHERE


cdef inline u32 next_up(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """The next skb that GRO gave: to a backlog, or up from here."""
    cdef i32 row = me.up.head
    cdef packet_t *packet
    cdef bint computed
    cdef i32 slot
    cdef i32 target
    if row < 0:
        return me.up_go
    packet = &r.packets[row]
    me.up.head = packet.next
    if me.up.head < 0:
        me.up.tail = -1
    target = choose_cpu(r, &r.s.skbs[row], <u32>packet.rxq, &computed, &slot)
    if computed:
        pay(r, me, COST_FLOW_HASH, AT_RPS)
    if target < 0:
        me.skb = row
        me.behind = me.splice = 0
        me.skb_go = GO_UP
        return proto_step(r, me, t)
    pay(r, me, COST_RPS, AT_RPS)
    to_backlog(r, me, packet, row, <u32>target, slot, t)
    begin(r, me, t, STEP_RPS, row, GO_UP, False)
    return GO_NOWHERE


cdef inline void append_to_socket(run_t *r, run_sock_t *sock, i32 row) noexcept nogil:
    """The skb is the newest of the socket's queue."""
    r.packets[row].next = -1
    if sock.queue.tail >= 0:
        r.packets[sock.queue.tail].next = row
    else:
        sock.queue.head = row
    sock.queue.tail = row
    sock.queued_bytes += <i64>r.s.skbs[row].len_bytes + SKB_TRUESIZE
    sock.enqueued += 1


cdef inline u32 enqueue_step(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """The transport, and the socket's queue."""
    cdef run_sock_t *sock = &r.socks[me.sock]
    cdef i32 row = me.skb
    cdef u32 proto = r.packets[row].proto
    me.hand = -1
    if sock.proto:
        pay(r, me, COST_LOCK, AT_SOCKET)
    pay(r, me, COST_UDP_RX if sock.proto else COST_TCP_RX, AT_TRANSPORT)
    touch(r, me, &sock.rx_touched, TOUCH_SOCK_RX_SOFTIRQ, proto, AT_SOCKET)
    touch(r, me, &sock.tx_touched, TOUCH_SOCK_TX_SOFTIRQ, proto, AT_TRANSPORT)
    if r.limits[LIMIT_REFCNT_IN_LOOKUP_LINE]:
        write_chain(r, me, me.sock, proto)
    if sock.queued_bytes > sock.rcvbuf_bytes:
        sock.dropped += 1
        pay(r, me, COST_SKB_FREE, AT_FREE)
        end_skb(r, row, LOST_SOCKET_RCVBUFF, t)
    else:
        append_to_socket(r, sock, row)
        if sock.state == SOCK_ESTABLISHED:
            r.s.socks[me.sock].rx_queue = (
                r.packets[row].rxq - <i32>r.s.nics[r.packets[row].nic].rxq_first
            )
            sock.hash = r.s.skbs[row].hash
        wake_reader(r, me, me.sock, t)
    begin(r, me, t, STEP_ENQUEUE, row, GO_ENQUEUE_END if sock.proto else me.skb_go, False)
    return GO_NOWHERE


cdef inline u32 enqueue_ask(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """UDP's receive queue has a lock."""
    cdef u32 go = GO_ENQUEUE_HELD
    if r.socks[me.sock].proto:
        go = lock_ask(r, me, &r.socks[me.sock].lock, t, go)
    return enqueue_step(r, me, t) if go == GO_ENQUEUE_HELD else go


cdef inline u32 enqueue_end(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """The receive queue's lock goes."""
    lock_release(r, &r.socks[me.sock].lock, t)
    return me.skb_go
