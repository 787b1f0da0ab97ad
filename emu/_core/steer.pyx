"""The steer loop: a plan in, decisions out. What it means stands in docs/steer.md."""
from libc.stdlib cimport calloc, free, malloc

import numpy as np

from emu import dtypes

from emu._core.deliver cimport new_decision
from emu._core.direction cimport DIR_SENT, direction_of
from emu._core.gro cimport gro_cfg_t, gro_init, gro_t
from emu._core.lookup cimport lookup_cfg_t, lookup_free, lookup_init
from emu._core.ops cimport apply_op
from emu._core.poll cimport flush_everything, run_poll
from emu._core.rss cimport rss_hash, rss_queue
from emu._core.sent cimport send_packet
from emu._core.state cimport (
    COUNT_RSS,
    GRO_BYPASS,
    NO_CPUMAP,
    nic_t,
    op_t,
    skb_decision_t,
    skb_t,
    steer_t,
)
from emu._core.types cimport (
    flow_key_t,
    i32,
    i64,
    packets_t,
    rss_t,
    socket_t,
    u8,
    u16,
    u32,
    u64,
)


def arrive(plan):
    """Which way each packet goes, and the rx queue of those that come in.

    Returns:
        dict: direction uint8[n] (Direction), rx_hash uint32[n], rx_hash_type uint8[n] (HashType), rx_queue int32[n] (queue of the
        plan, -1 for sent packets).
    """
    from emu._core.rss import toeplitz_tables

    packets = plan.packets
    cdef Py_ssize_t n = len(packets)
    cdef const u64[::1] addresses = packets.addresses
    cdef const packets_t *p = <const packets_t *> &addresses[0]
    tables_of_keys = [toeplitz_tables(key.tobytes()) for key in plan.rss_keys]
    cdef const u32[::1] tables = np.concatenate(tables_of_keys)
    cdef const u8[::1] rss_bytes = plan.rss.view(np.uint8).reshape(-1)
    cdef const rss_t *rss = <const rss_t *> &rss_bytes[0]
    cdef const u8[::1] nic_bytes = plan.nics.view(np.uint8).reshape(-1)
    cdef const nic_t *nics = <const nic_t *> &nic_bytes[0]
    cdef const u32[::1] indirection = plan.indirection
    cdef Py_ssize_t own = len(plan.addr_family)
    cdef const u8[::1] family = plan.addr_family if own else np.zeros(1, dtype=np.uint8)
    cdef const u32[:, ::1] words = plan.addr_words if own else np.zeros((1, 4), dtype=np.uint32)
    cdef bint forwarding = plan.forwarding
    direction_array = np.empty(n, dtype=np.uint8)
    hash_array = np.zeros(n, dtype=np.uint32)
    type_array = np.zeros(n, dtype=np.uint8)
    queue_array = np.full(n, -1, dtype=np.int32)
    cdef u8[::1] direction = direction_array
    cdef u32[::1] hash = hash_array
    cdef u8[::1] hash_type = type_array
    cdef i32[::1] queue = queue_array
    cdef Py_ssize_t i
    cdef u32 nic
    with nogil:
        for i in range(n):
            direction[i] = direction_of(p, i, &family[0], &words[0, 0], own, forwarding)
            if direction[i] == DIR_SENT:
                continue
            nic = p.nic[i]
            hash[i] = rss_hash(&rss[nic], &tables[0], p, i, &hash_type[i])
            queue[i] = <i32>nics[nic].rxq_first + rss_queue(&rss[nic], &indirection[0], hash[i], hash_type[i])
    return {
        "direction": direction_array,
        "rx_hash": hash_array,
        "rx_hash_type": type_array,
        "rx_queue": queue_array,
    }
