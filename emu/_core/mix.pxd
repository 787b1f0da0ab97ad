"""A mix of a flow's addresses and ports without a secret: the model's own choices draw from it."""
from emu._core.types cimport u16, u32, u64

cdef inline u64 finish64(u64 value) noexcept nogil:
    """The splitmix64 finaliser."""
    value = (value ^ (value >> 30)) * <u64>0xBF58476D1CE4E5B9
    value = (value ^ (value >> 27)) * <u64>0x94D049BB133111EB
    return value ^ (value >> 31)

cdef inline u64 flow_mix(const u32 *saddr, const u32 *daddr, u16 sport, u16 dport) noexcept nogil:
    """64 bits of (source, destination) address and port."""
    cdef u64 step = <u64>0x9E3779B97F4A7C15
    cdef u64 total = 0
    cdef u32 place
    for place in range(4):
        total += saddr[place] * ((2 * place + 1) * step)
        total += daddr[place] * ((2 * place + 9) * step)
    return finish64(total + ((<u64>sport << 16) | dport) * (17 * step))

cdef inline u32 txhash(u64 seed, u64 mix) noexcept nogil:
    """The random hash of a local socket (sk_txhash): drawn from its flow, never 0."""
    cdef u32 drawn = <u32>finish64(seed ^ mix)
    return drawn if drawn else 1
