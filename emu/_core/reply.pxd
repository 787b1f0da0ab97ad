"""Behind the socket: its thread, its psock's worker, the tx queue (docs/steer.md, steps 5 to 7)."""
from emu._core.flow_hash cimport flow_hash_tuple
from emu._core.mix cimport flow_mix, txhash
from emu._core.rfs cimport rfs_record
from emu._core.sockmap cimport psock_schedule
from emu._core.state cimport (
    COUNT_FLOW_HASH,
    COUNT_SOCKMAP,
    COUNT_XPS,
    SECRET_FLOW_HASH,
    SECRET_RSS_KEY,
    SECRET_THREAD,
    SECRET_TXHASH,
    SOCK_ESTABLISHED,
    SOCK_LISTEN,
    TX_REDIRECT,
    TX_REPLY,
    sock_state_t,
    skb_decision_t,
    steer_t,
)
from emu._core.types cimport i32, packets_t, reciprocal_scale, socket_t, u8, u16, u32, u64
from emu._core.xps cimport pick_tx
from emu._core.xps_map cimport xps_dev_t


cdef struct flow_t:
    # A flow as its local end sees it.
    const u32 *laddr
    const u32 *faddr
    u16 lport
    u16 fport
    u8 family


cdef inline u64 mix_of(const flow_t *flow) noexcept nogil:
    """64 bits of the foreign, then the local end."""
    return flow_mix(flow.faddr, flow.laddr, flow.fport, flow.lport)


cdef inline i32 thread_cpu(
    steer_t *s, u32 sock, const flow_t *flow, u8 *secrets
) noexcept nogil:
    """CPU of the application thread that takes the flow; -1 for a socket without threads."""
    cdef sock_state_t *state = &s.socks[sock]
    if state.app_len == 0:
        return -1
    if state.app_len == 1:
        return s.app_cpus[state.app_off]
    secrets[0] |= SECRET_THREAD
    return s.app_cpus[state.app_off + reciprocal_scale(<u32>(mix_of(flow) >> 32), state.app_len)]


cdef inline u8 choice_secrets(
    const xps_dev_t *dev, u8 cpu_secrets, i32 sk_rx, u8 rx_secrets
) noexcept nogil:
    """What the device's XPS answer hangs on besides a hash."""
    cdef u8 out = 0
    if dev.real_num_tx_queues == 1:
        return 0
    if sk_rx >= 0 and dev.rxqs.present:
        out |= rx_secrets
    if dev.cpus.present:
        out |= cpu_secrets
    return out


cdef inline i32 socket_queue(
    steer_t *s, u32 sock, const flow_t *flow, i32 nic, i32 cpu, i32 sk_rx, u8 ooo_okay,
    u8 *used_hash,
) noexcept nogil:
    """The tx queue, within the NIC, of what a socket sends from a CPU (netdev_pick_tx).

    ooo_okay: nothing of the socket is under way, so TCP may move. used_hash becomes 1 when a hash
    could have changed the answer: a random one of TCP and of connected UDP, else the flow's.
    """
    cdef const socket_t *row = &s.rows[sock]
    cdef sock_state_t *state = &s.socks[sock]
    cdef bint established = row.state == SOCK_ESTABLISHED
    cdef i32 before = -1
    cdef i32 cached = -1
    cdef i32 queue
    cdef u32 hash
    if row.proto == 17 and not established:
        queue = pick_tx(&s.xps[nic], &cached, 0, 0, sk_rx, -1, cpu, row.priority, 0, used_hash)
        if not used_hash[0]:
            return queue
        cached = -1
        s.counts[COUNT_FLOW_HASH] += 1
        hash = flow_hash_tuple(
            s.flow_hash_key, flow.family, 17, flow.laddr, flow.faddr, flow.lport, flow.fport, 0
        )
        return pick_tx(
            &s.xps[nic], &cached, 0, 0, sk_rx, -1, cpu, row.priority, hash, used_hash
        )
    if established:
        before = state.tx_queue
    cached = before
    queue = pick_tx(
        &s.xps[nic], &cached, ooo_okay, established, sk_rx, -1, cpu, row.priority, 0, used_hash
    )
    if used_hash[0]:
        cached = before
        hash = txhash(s.txhash_seed, mix_of(flow))
        queue = pick_tx(
            &s.xps[nic], &cached, ooo_okay, established, sk_rx, -1, cpu, row.priority, hash,
            used_hash,
        )
    if established:
        state.tx_queue = cached
    return queue


cdef inline void send_from(
    steer_t *s, skb_decision_t *d, u32 sock, const flow_t *flow, i32 nic, i32 cpu, u8 cpu_secrets,
    i32 sk_rx, u8 rx_secrets,
) noexcept nogil:
    """Choose the tx queue of what a socket sends through a NIC from a CPU.

    cpu_secrets, rx_secrets: what the CPU and the socket's rx queue hang on.
    """
    cdef const socket_t *row = &s.rows[sock]
    cdef sock_state_t *state = &s.socks[sock]
    cdef u8 used_hash = 0
    cdef i32 before = state.tx_queue
    cdef u8 secrets
    # UDP that is connected keeps its queue (transmit.md 6.4).
    cdef bint keeps = row.proto == 17 and row.state == SOCK_ESTABLISHED
    if cpu < 0:
        return
    s.counts[COUNT_XPS] += 1
    # Request and response leave nothing in flight: TCP is ooo_okay each time (XPS-33).
    d.tx_queue = socket_queue(s, sock, flow, nic, cpu, sk_rx, row.proto == 6, &used_hash)
    secrets = choice_secrets(&s.xps[nic], cpu_secrets, sk_rx, rx_secrets)
    if used_hash:
        secrets |= SECRET_TXHASH if row.proto == 6 or keeps else SECRET_FLOW_HASH
    if keeps and s.xps[nic].real_num_tx_queues > 1:
        # Whether the queue that was there is kept, and which, hangs on what it hung on then.
        if before >= 0:
            secrets = state.tx_secrets | (
                secrets if <u32>before >= s.xps[nic].real_num_tx_queues else 0
            )
        state.tx_secrets = secrets
    d.secrets |= secrets
    d.tx_nic = nic
    d.completion_cpu = s.txq_irq_cpu[s.nics[nic].txq_first + <u32>d.tx_queue]


cdef inline void socket_flow(const socket_t *row, flow_t *flow) noexcept nogil:
    """The flow of a connected socket's own packets."""
    flow.laddr = <const u32 *>row.laddr
    flow.faddr = <const u32 *>row.faddr
    flow.lport = row.lport
    flow.fport = row.fport
    flow.family = row.family


cdef inline void schedule_psock(steer_t *s, skb_decision_t *d, u32 target) noexcept nogil:
    """Schedule the target psock's worker: on which CPU it will run (SOCKMAP-6, 10..13, 24)."""
    cdef sock_state_t *state = &s.socks[target]
    s.counts[COUNT_SOCKMAP] += 1
    if not s.psocks[target].pending:
        s.scheduled[s.scheduled_count] = target
        s.scheduled_count += 1
        # Who schedules a worker without a named CPU decides where it runs for all that follow.
        state.worker_secrets = 0 if s.psocks[target].target_cpu >= 0 else d.secrets
    d.backlog_cpu = psock_schedule(&s.psocks[target], d.cpu)
    d.secrets |= state.worker_secrets


cdef inline void record_flow(steer_t *s, const skb_decision_t *d, u32 hash) noexcept nogil:
    """The application reads or sends on its thread's CPU: RFS keeps it (R-3.2)."""
    if s.rfs.idents == NULL or hash == 0 or d.app_cpu < 0:
        return
    rfs_record(&s.rfs, hash, <u32>d.app_cpu)
    s.flow_secrets[hash & s.rfs.ident_mask] = d.secrets


cdef inline void reply(
    steer_t *s, skb_decision_t *d, u32 sock, const flow_t *flow, i32 nic, i32 rxq, u32 rx_hash
) noexcept nogil:
    """The skb is in its socket's queue: who reads it, and which tx queue the answer takes.

    rxq: rx queue within the NIC that the skb recorded, -1 none. rx_hash: the skb's, 0 none.
    """
    cdef const socket_t *row = &s.rows[sock]
    cdef sock_state_t *state = &s.socks[sock]
    cdef i32 sk_rx = -1
    cdef u8 rx_secrets = 0
    cdef u32 target
    cdef flow_t own
    if row.state == SOCK_ESTABLISHED:
        s.incoming_cpu[sock] = d.cpu
        state.rx_hash = rx_hash
        if rxq >= 0:
            state.rx_queue = rxq
            state.rx_secrets = d.secrets & SECRET_RSS_KEY
        sk_rx = state.rx_queue
        rx_secrets = state.rx_secrets
    elif row.state == SOCK_LISTEN:
        sk_rx = rxq
        rx_secrets = d.secrets & SECRET_RSS_KEY
    if row.has_psock and row.psock_target >= 0:
        target = <u32>row.psock_target
        schedule_psock(s, d, target)
        socket_flow(&s.rows[target], &own)
        if row.redirect_ingress:
            d.app_cpu = thread_cpu(s, target, &own, &d.secrets)
        else:
            d.tx_of = TX_REDIRECT
            state = &s.socks[target]
            send_from(
                s, d, target, &own, nic, d.backlog_cpu, state.worker_secrets, state.rx_queue,
                state.rx_secrets,
            )
        return
    d.app_cpu = thread_cpu(s, sock, flow, &d.secrets)
    if d.app_cpu >= 0:
        if row.state == SOCK_ESTABLISHED or row.state == SOCK_LISTEN:
            record_flow(s, d, rx_hash)
        d.tx_of = TX_REPLY
        send_from(
            s, d, sock, flow, nic, d.app_cpu, d.secrets & SECRET_THREAD, sk_rx, rx_secrets
        )
