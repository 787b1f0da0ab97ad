"""One cache line per socket: what scoring and group picking read of it."""
from emu._core.types cimport i32, u8, u16, u32, u64

cdef enum:
    SK_INET = 1        # family AF_INET
    SK_V4 = 2          # IPv4 packets can see it (SOCK-69)
    SK_INET6 = 4
    SK_ANY = 8         # bound to any address
    SK_REUSEPORT = 16
    SK_CONNECTED = 32  # state ESTABLISHED
    SK_IN_FLOWS = 64   # it stands in a table of 4-tuples
    SK_OPEN = 128      # it stands in the chains

cdef enum:
    # First of a chain's two links in sk_t.link.
    BY_PORT = 0
    BY_ADDRESS = 2

cdef struct sk_t:
    i32 link[4]       # next, previous by port; next, previous by address; -1 none
    u32 local4        # local address as IPv4 packets see it; 0 any
    u32 foreign4      # the same of the peer; 0 unless connected
    i32 bound_dev
    i32 incoming_cpu
    i32 mask_off      # first word of its CPU mask; -1 none
    i32 group         # -1 none
    u32 index         # its place in the group
    u32 slot          # in the chains by address
    u32 flow_hash     # with SK_IN_FLOWS
    u16 lport
    u16 fport         # 0 unless connected
    u8 flags          # SK_*
    u8 pad[7]


cdef inline bint mask_has(const u64 *masks, u32 mask_words, i32 mask_off, u32 cpu) noexcept nogil:
    """Whether a CPU is in a mask."""
    cdef u32 word = cpu >> 6
    return word < mask_words and (masks[mask_off + <i32>word] >> (cpu & 63)) & 1
