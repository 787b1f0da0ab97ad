"""A captured packet that the host sent: whose it is, and its tx queue (docs/steer.md)."""
from emu._core.deliver cimport finish_skb, free_row, new_decision, take_row
from emu._core.gro_finish cimport network_len
from emu._core.gro_state cimport skb_t
from emu._core.lookup cimport lookup_tuple
from emu._core.lookup_table cimport found_t
from emu._core.reply cimport flow_t, record_flow, send_from, thread_cpu
from emu._core.state cimport (
    COUNT_LOOKUP,
    DROP_NOT_DISSECTED,
    DROP_NO_SOCKET,
    DROP_UNHANDLED_PROTO,
    GRO_BYPASS,
    SECRET_THREAD,
    SOCK_ESTABLISHED,
    TX_SENT,
    skb_decision_t,
    steer_t,
)
from emu._core.types cimport PF_HAS_PORTS, i32, i64, packets_t, u8, u32


cdef inline u32 new_sent_skb(steer_t *s, i64 i) noexcept nogil:
    """A row for the packet: one skb of its own, as the table describes it."""
    cdef u32 row = free_row(s)
    cdef skb_t *skb = &s.skbs[row]
    take_row(s, row)
    skb.first = i
    skb.segs = 1
    skb.len_bytes = network_len(s.p, i)
    skb.gso_size = skb.gso_type = skb.gso_segs = skb.hash = 0
    skb.csum_start = skb.csum_off = 0
    skb.hash_type = skb.csum_level = 0
    skb.ip_summed = s.p.ip_summed[i]
    skb.tcp_flags = <u8>(s.p.tcp_w12[i] >> 16)
    skb.after = 0
    s.skb_of[i] = -1
    s.last_packet[row] = <i32>i
    s.gro_result[i] = GRO_BYPASS
    return row


cdef inline void decide_sent(steer_t *s, skb_decision_t *d, i64 i) noexcept nogil:
    """Whose the packet is, and the queue it takes."""
    cdef const packets_t *p = s.p
    cdef i32 nic = p.nic[i]
    cdef i32 irq_cpu = s.rxq_irq_cpu[s.nics[nic].rxq_first]
    cdef found_t found
    cdef flow_t flow
    cdef i32 sk_rx = -1
    cdef u8 rx_secrets = 0
    if p.reason[i]:
        d.drop = DROP_NOT_DISSECTED
        return
    if not (p.flags[i] & PF_HAS_PORTS) or (p.ip_proto[i] != 6 and p.ip_proto[i] != 17):
        d.drop = DROP_UNHANDLED_PROTO
        return
    flow.laddr = p.saddr + 4 * i
    flow.faddr = p.daddr + 4 * i
    flow.lport = p.sport[i]
    flow.fport = p.dport[i]
    flow.family = p.family[i]
    s.counts[COUNT_LOOKUP] += 1
    found = lookup_tuple(
        &s.lookup, p.ip_proto[i], flow.family, flow.faddr, flow.laddr, flow.fport, flow.lport,
        nic + 1, <u32>irq_cpu,
    )
    d.secrets |= <u8>found.secrets
    d.stage = found.stage
    d.socket = found.sock
    if found.sock < 0:
        d.drop = DROP_NO_SOCKET
        return
    d.app_cpu = thread_cpu(s, <u32>found.sock, &flow, &d.secrets)
    if s.rows[found.sock].state == SOCK_ESTABLISHED:
        sk_rx = s.socks[found.sock].rx_queue
        rx_secrets = s.socks[found.sock].rx_secrets
        record_flow(s, d, s.socks[found.sock].rx_hash)
    d.tx_of = TX_SENT
    send_from(
        s, d, <u32>found.sock, &flow, nic, d.app_cpu, d.secrets & SECRET_THREAD, sk_rx, rx_secrets
    )


cdef inline void send_packet(steer_t *s, i64 i) noexcept nogil:
    """Decide for one sent packet."""
    cdef u32 row = new_sent_skb(s, i)
    cdef skb_decision_t *d = new_decision(s, row, -1)
    decide_sent(s, d, i)
    finish_skb(s, row, d)
