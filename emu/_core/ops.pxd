"""What happens between packets: masks written, sockets opened and closed, threads moved.

The kinds are those of emu/model/ops.py.
"""
from emu._core.lookup cimport lookup_open, lookup_set_incoming_cpu, lookup_set_mask
from emu._core.lookup_ops cimport lookup_close
from emu._core.rfs cimport rfs_forget
from emu._core.gro_sock cimport count_udp_gro
from emu._core.state cimport SOCK_CLOSED, SOCK_ESTABLISHED, op_t, steer_t
from emu._core.types cimport i32, u8, u32, u64
from emu._core.xps cimport xps_set
from emu._core.xps_map cimport xps_set_real_num_tx

cdef enum:
    # emu.model.ops.OpKind
    OP_XPS_CPUS = 0
    OP_XPS_RXQS = 1
    OP_RPS_CPUS = 2
    OP_INCOMING_CPU = 3
    OP_CPU_MASK = 4
    OP_OPEN = 5
    OP_CLOSE = 6
    OP_THREADS = 7
    OP_ONLINE = 8
    OP_TX_QUEUES = 9
    OP_ROUTE = 11


cdef inline void forget_flow(steer_t *s, u32 sock) noexcept nogil:
    """A socket closes: RFS forgets its flow where the kernel does (R-3.2.forget)."""
    cdef u32 hash = s.socks[sock].rx_hash
    if s.rfs_forgets and s.rfs.idents != NULL and hash != 0:
        rfs_forget(&s.rfs, hash)
        s.flow_secrets[hash & s.rfs.ident_mask] = 0
    s.socks[sock].rx_hash = 0


cdef inline int reopen(steer_t *s, u32 sock, u8 state) noexcept nogil:
    """bind, listen or connect; -1 when memory ran out."""
    cdef int failed
    if s.rows[sock].state != SOCK_CLOSED:
        count_udp_gro(s, sock, -1)
    failed = lookup_open(&s.lookup, sock, state)
    if s.rows[sock].state != SOCK_CLOSED:
        count_udp_gro(s, sock, 1)
    return failed


cdef inline void change_route(steer_t *s, u32 family) noexcept nogil:
    """Connected sockets of the family choose their tx queue anew (transmit.md 6.1)."""
    cdef u32 k
    for k in range(s.socket_count):
        if s.rows[k].family == family and s.rows[k].state == SOCK_ESTABLISHED:
            s.socks[k].tx_queue = -1
            s.socks[k].tx_secrets = 0


cdef inline int apply_op(
    steer_t *s, const op_t *op, const u64 *xps_masks, u32 xps_words, const i32 *node_of
) noexcept nogil:
    """Change the host's state; -1 when memory ran out."""
    cdef u32 target = <u32>op.target
    if op.kind == OP_XPS_CPUS or op.kind == OP_XPS_RXQS:
        return xps_set(
            &s.xps[target], <u8>op.kind, <u32>op.arg0,
            xps_masks + <u64>op.arg1 * xps_words, s.online, node_of,
        )
    if op.kind == OP_RPS_CPUS:
        s.rxq_rps[s.nics[target].rxq_first + <u32>op.arg0] = op.arg1
    elif op.kind == OP_INCOMING_CPU:
        lookup_set_incoming_cpu(&s.lookup, target, op.arg0)
        s.incoming_cpu[target] = op.arg0
    elif op.kind == OP_CPU_MASK:
        lookup_set_mask(&s.lookup, target, op.arg0)
    elif op.kind == OP_OPEN:
        s.socks[target].tx_queue = s.socks[target].rx_queue = -1
        s.socks[target].rx_hash = 0
        s.socks[target].tx_secrets = s.socks[target].rx_secrets = s.socks[target].worker_secrets = 0
        return reopen(s, target, <u8>op.arg0)
    elif op.kind == OP_CLOSE:
        forget_flow(s, target)
        if s.rows[target].state != SOCK_CLOSED:
            count_udp_gro(s, target, -1)
        lookup_close(&s.lookup, target)
    elif op.kind == OP_THREADS:
        s.socks[target].app_off = <u32>op.arg0
        s.socks[target].app_len = <u32>op.arg1
    elif op.kind == OP_ONLINE:
        s.online[target] = op.arg0 != 0  # maps stay: RPS asks it each time, XPS when masks come
    elif op.kind == OP_TX_QUEUES:
        xps_set_real_num_tx(&s.xps[target], <u32>op.arg0)
    elif op.kind == OP_ROUTE:
        change_route(s, target)
    return 0
