"""What GRO asks of the host's sockets: UDP_GRO, and connections that rule a fraglist out."""
from emu._core.gro_state cimport HAS_SOCKET, HAS_UDP_GRO, PROTO_TCP, PROTO_UDP, gro_cfg_t
from emu._core.lookup cimport lookup_tuple
from emu._core.lookup_table cimport found_t
from emu._core.state cimport SOCK_CLOSED, SOCK_ESTABLISHED, steer_t
from emu._core.types cimport PF_HAS_PORTS, i32, i64, packets_t, u8, u32


cdef inline void count_udp_gro(steer_t *s, u32 sock, i32 change) noexcept nogil:
    """A socket with UDP_GRO opens or closes: the keys that make GRO ask (GRO-37)."""
    if s.rows[sock].udp_gro:
        s.udp_gro_open += change
        if s.rows[sock].family == 6:
            s.udp_gro_open6 += change


cdef inline u8 gro_sock(steer_t *s, const gro_cfg_t *cfg, i64 i, u32 nic, u32 cpu) noexcept nogil:
    """What a lookup by GRO answers for packet i; what rides in a tunnel is nobody's."""
    cdef const packets_t *p = s.p
    cdef u8 proto = p.ip_proto[i]
    cdef found_t found
    if proto == PROTO_TCP:
        if not cfg.fraglist:
            return 0
    elif proto != PROTO_UDP or (s.udp_gro_open6 if p.family[i] == 6 else s.udp_gro_open) == 0:
        return 0
    if not p.flags[i] & PF_HAS_PORTS:
        return 0
    found = lookup_tuple(
        &s.lookup, proto, p.family[i], p.saddr + 4 * i, p.daddr + 4 * i, p.sport[i], p.dport[i],
        <i32>nic + 1, cpu,
    )
    if found.sock < 0:
        return 0
    if proto == PROTO_TCP:
        return HAS_SOCKET if s.rows[found.sock].state == SOCK_ESTABLISHED else 0
    return HAS_UDP_GRO if s.rows[found.sock].udp_gro else HAS_SOCKET
