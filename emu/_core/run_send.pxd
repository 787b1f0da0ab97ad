"""What is sent: an answer from its socket, or a forwarded skb, and the tx queue it takes."""
from emu._core.deliver cimport forwarded_priority, get_hash
from emu._core.gro_state cimport skb_t
from emu._core.reply cimport flow_t, socket_queue
from emu._core.rfs cimport rfs_record
from emu._core.run_codes cimport (
    AT_COPY,
    AT_SEND,
    AT_XPS,
    COST_FLOW_HASH,
    COST_IP6_TX,
    COST_MAP_MISS_LOCAL,
    COST_MAP_MISS_REMOTE,
    COST_SEND_BYTE,
    COST_TCP_SEND,
    COST_UDP_SEND,
    CTX_USER,
    KIND_LINES,
    LATENCY_MAP_RESIDENCY,
    LIMIT_WMEM_OOO,
    STEP_SEND,
    TOTAL_SENT,
    TOUCH_SOCK_TX_SEND,
    TOUCH_WMEM_SEND,
)
from emu._core.run_cost cimport begin, charge, pay, pay_bytes, set_ctx, touch
from emu._core.run_go cimport GO_NOWHERE, GO_SENT
from emu._core.run_state cimport cpu_t, packet_t, run_sock_t, run_t, sent_t
from emu._core.run_txq cimport new_sent
from emu._core.state cimport COUNT_FLOW_HASH, SOCK_ESTABLISHED, SOCK_LISTEN
from emu._core.types cimport i32, i64, packets_t, u8, u32, u64
from emu._core.xps cimport pick_tx

cdef enum:
    LEAST_BYTES = 60
    LINK_GAP = 24          # preamble, checksum, gap
    LINK_BYTES = 14
    V4_BYTES = 20
    V6_BYTES = 40
    TCP_BYTES = 32         # with the time stamps' option
    UDP_BYTES = 8


cdef inline sent_t *start_sent(
    run_t *r, cpu_t *me, i32 row, i32 sock, u32 proto, i32 txq, u32 size
) noexcept nogil:
    """An skb to be sent by this CPU: the packet at hand of the transmit that follows."""
    cdef i32 at = new_sent(r)
    cdef sent_t *skb = &r.sent[at]
    skb.row = row
    skb.sock = sock
    skb.proto = proto
    skb.txq = txq
    skb.bytes = size if size > LEAST_BYTES else LEAST_BYTES
    skb.touched = <i32>me.number
    me.tx = at
    r.totals[TOTAL_SENT] += 1
    return skb


cdef inline void forward_skb(
    run_t *r, cpu_t *me, const packet_t *packet, skb_t *skb, i32 row
) noexcept nogil:
    """A forwarded skb's tx queue, on the NIC it leaves by (XPS-36), and its bytes."""
    cdef u32 nic = packet.nic
    cdef u32 out = <u32>r.s.nics[nic].forward_nic
    cdef i32 rxq = packet.rxq - <i32>r.s.nics[nic].rxq_first
    cdef i32 cached = -1
    cdef u8 used_hash = 0
    cdef u8 secret = 0
    cdef u64 hashes = r.s.counts[COUNT_FLOW_HASH]
    cdef u32 size = 0
    cdef u32 wire
    cdef i32 at = row
    cdef u32 prio = forwarded_priority(r.s.p.family[skb.first], r.s.p.tos[skb.first])
    cdef i32 queue = pick_tx(
        &r.s.xps[out], &cached, 0, 0, -1, rxq, <i32>me.number, prio, 0, &used_hash
    )
    if used_hash:
        cached = -1
        queue = pick_tx(
            &r.s.xps[out], &cached, 0, 0, -1, rxq, <i32>me.number, prio,
            get_hash(&r.s, skb, &secret), &used_hash,
        )
        if r.s.counts[COUNT_FLOW_HASH] != hashes:
            pay(r, me, COST_FLOW_HASH, AT_XPS)
    while at >= 0:
        wire = r.s.p.wire_bytes[at]
        size += wire if wire > LEAST_BYTES else LEAST_BYTES
        at = r.packets[at].follows
    start_sent(
        r, me, row, -1, packet.proto, <i32>(r.s.nics[out].txq_first + <u32>queue), size
    ).touched = packet.touched


cdef inline void record_flow(run_t *r, const cpu_t *me, const run_sock_t *sock) noexcept nogil:
    """RFS: the flow's packets shall come where it is read and sent from."""
    if sock.state == SOCK_ESTABLISHED and r.rfs.idents != NULL:
        rfs_record(&r.rfs, sock.hash, me.number)


cdef inline void pay_maps(run_t *r, cpu_t *me, u32 nic, i64 t) noexcept nogil:
    """XPS maps that this CPU has not used for long have left its cache."""
    cdef i64 *used = &r.map_used[me.number * r.s.nic_count + nic]
    cdef i32 node = r.nics[nic].map_node
    cdef bint remote = node >= 0 and node != r.node_of[me.number]
    if not r.s.xps[nic].cpus.present:
        return
    if used[0] < 0 or t - used[0] > r.latencies[LATENCY_MAP_RESIDENCY]:
        charge(
            me, AT_XPS, KIND_LINES,
            r.costs[COST_MAP_MISS_REMOTE if remote else COST_MAP_MISS_LOCAL],
        )
    used[0] = t


cdef inline i32 choose_txq(run_t *r, cpu_t *me, u32 nic) noexcept nogil:
    """The tx queue of the plan that the answer takes, as in a steer."""
    cdef run_sock_t *sock = &r.socks[me.message_sock]
    cdef const packets_t *p = r.s.p
    cdef i64 row = me.message
    cdef i32 sk_rx = -1
    cdef u8 used_hash = 0
    cdef u8 ooo_okay = sock.proto == 0 and (
        sock.sent == 0 or not r.limits[LIMIT_WMEM_OOO]
    )
    cdef i32 queue
    cdef flow_t flow
    if sock.state == SOCK_ESTABLISHED:
        sk_rx = r.s.socks[me.message_sock].rx_queue
    elif sock.state == SOCK_LISTEN:
        sk_rx = r.packets[row].rxq - <i32>r.s.nics[nic].rxq_first
    flow.laddr = p.daddr + 4 * row
    flow.faddr = p.saddr + 4 * row
    flow.lport = p.dport[row]
    flow.fport = p.sport[row]
    flow.family = p.family[row]
    queue = socket_queue(
        &r.s, <u32>me.message_sock, &flow, <i32>nic, <i32>me.number, sk_rx, ooo_okay, &used_hash
    )
    if used_hash and sock.proto and sock.state != SOCK_ESTABLISHED:
        pay(r, me, COST_FLOW_HASH, AT_XPS)
    return <i32>r.s.nics[nic].txq_first + queue


cdef inline u32 send_step(run_t *r, cpu_t *me, i64 t) noexcept nogil:
    """sendmsg, down to dev_queue_xmit."""
    cdef run_sock_t *sock = &r.socks[me.message_sock]
    cdef const packet_t *packet = &r.packets[me.message]
    cdef u32 nic = packet.nic
    cdef u32 proto = packet.proto
    cdef u32 size = <u32>r.workload.response_bytes
    cdef i32 txq
    set_ctx(r, me, t, CTX_USER)
    pay(r, me, COST_UDP_SEND if sock.proto else COST_TCP_SEND, AT_SEND)
    if packet.v6:
        pay(r, me, COST_IP6_TX, AT_SEND)
    pay_bytes(r, me, COST_SEND_BYTE, AT_COPY, size)
    touch(r, me, &sock.tx_touched, TOUCH_SOCK_TX_SEND, proto, AT_SEND)
    touch(r, me, &sock.wmem_touched, TOUCH_WMEM_SEND, proto, AT_SEND)
    record_flow(r, me, sock)
    txq = choose_txq(r, me, nic)
    pay_maps(r, me, nic, t)
    size += LINK_BYTES + (V6_BYTES if packet.v6 else V4_BYTES)
    size += UDP_BYTES if sock.proto else TCP_BYTES
    start_sent(r, me, me.message, me.message_sock, proto, txq, size)
    # Softirqs that come before the transmit have packets of their own.
    me.user_tx = me.tx
    me.tx = -1
    sock.sent += 1
    begin(r, me, t, STEP_SEND, me.message, GO_SENT, True)
    return GO_NOWHERE
