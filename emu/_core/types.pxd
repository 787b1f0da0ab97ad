"""Number types, and the structs that overlay emu/dtypes.py.

tests/test_layout.py holds both to one order.
"""
from libc.stdint cimport int8_t, int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t

ctypedef int8_t i8
ctypedef int16_t i16
ctypedef int32_t i32
ctypedef int64_t i64
ctypedef uint8_t u8
ctypedef uint16_t u16
ctypedef uint32_t u32
ctypedef uint64_t u64

cdef struct packets_t:
    # One pointer per entry of dtypes.PACKET_COLUMNS, in its order; a packet has 4 entries of saddr
    # and daddr, 2 of mac.
    const i64 *arrival_ps
    const u32 *wire_bytes
    const u16 *nic
    const u8 *reason
    const u16 *flags
    const u8 *family
    const u8 *ip_proto
    const u16 *ethertype
    const u16 *vlan_tci
    const u16 *vlan_tpid
    const u32 *saddr
    const u32 *daddr
    const u16 *sport
    const u16 *dport
    const u32 *flow_label
    const i32 *flow_key
    const u64 *mac
    const u16 *l3_off
    const u16 *l4_off
    const u8 *ip_b0
    const u8 *tos
    const u8 *ttl
    const u16 *ip_frag
    const u16 *ip_id
    const u16 *ip_len
    const u32 *seq
    const u32 *ack
    const u32 *tcp_w12
    const u16 *udp_len
    const u32 *payload_bytes
    const i64 *opt_off
    const u8 *ip_summed
    const u8 *csum_level
    const u32 *skb_hash
    const u8 *hash_type
    const i64 *frame_off
    const u32 *cap_bytes
    const u32 *gso_type
    const u16 *gso_size
    const u16 *gso_segs
    const u16 *csum_start
    const u16 *csum_off

cdef struct flow_key_t:
    u8 block[72]
    u8 len
    u8 l4
    u8 pad[6]

cdef struct rss_t:
    u32 fields[8]
    u32 xfrm
    u32 table_off
    u32 indir_off
    u32 indir_len

cdef struct socket_t:
    u8 family
    u8 proto
    u8 state
    u8 v6only
    u8 reuseport
    u8 prog_kind
    u16 lport
    u16 fport
    u16 pad0
    i32 bound_dev
    u32 laddr[4]
    u32 faddr[4]
    i32 incoming_cpu
    i32 mask_off
    u32 uid
    i32 prog_value
    u32 app_off
    u32 app_len
    i32 psock_target
    i32 psock_cpu
    u8 has_psock
    u8 redirect_ingress
    u8 udp_gro
    u8 pad1
    u32 priority
    u8 pad2[32]

cdef enum:
    PF_HAS_PORTS = 1
    PF_FRAGMENT = 2
    PF_LATER_FRAGMENT = 4
    PF_IP_CSUM_BAD = 8
    PF_L4_CSUM_BAD = 16
    PF_UDP_CSUM_ZERO = 32
    PF_SNAP_CUT = 64
    PF_VLAN_META = 128
    PF_EXT_HEADERS = 256
    PF_EXT_BYPASS = 512
    PF_TUNNEL = 1024
    PF_MALFORMED_LEN = 2048
    PF_GSO = 4096

cdef inline u32 reciprocal_scale(u32 value, u32 n) noexcept nogil:
    """Map a 32-bit hash onto [0, n): the high half of the product, never a modulo (SOCK-5)."""
    return <u32>((<u64>value * n) >> 32)
