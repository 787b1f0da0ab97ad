"""The steer loop: a plan in, decisions out. What it means stands in docs/steer.md."""
from libc.stdlib cimport calloc, free
from libc.string cimport memset

import numpy as np

from emu import dtypes
from emu._core.rss import toeplitz_tables

from emu._core.cpumap cimport cpumap_free, cpumap_init
from emu._core.direction cimport DIR_SENT, direction_of
from emu._core.gro_held cimport NAPI_WEIGHT
from emu._core.gro_state cimport gro_init, gro_t, skb_t
from emu._core.host_memory cimport HostMemory
from emu._core.ops cimport apply_op
from emu._core.poll cimport run_poll
from emu._core.rfs cimport rfs_free, rfs_init
from emu._core.rss cimport rss_hash, rss_queue
from emu._core.sent cimport send_packet
from emu._core.state cimport COUNT_RSS, GRO_BYPASS, nic_t, op_t, skb_decision_t
from emu._core.types cimport i32, i64, packets_t, rss_t, u8, u32, u64


def arrive(plan):
    """Which way each packet goes, and the rx queue of those that come in.

    Returns:
        dict: direction uint8[n] (Direction), rx_hash uint32[n], rx_hash_type uint8[n]
        (HashType), rx_queue int32[n] (queue of the plan, -1 for sent packets), nic_queue int32[n]
        (the same within its NIC), irq_cpu int32[n] (CPU of its interrupt, -1 for sent packets).
    """
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
    nic_queue_array = np.full(n, -1, dtype=np.int32)
    cpu_array = np.full(n, -1, dtype=np.int32)
    cdef const i32[::1] cpu_of_queue = plan.rxq_irq_cpu
    cdef i32[::1] nic_queue = nic_queue_array
    cdef i32[::1] irq_cpu = cpu_array
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
            nic_queue[i] = <i32>rss_queue(&rss[nic], &indirection[0], hash[i], hash_type[i])
            queue[i] = <i32>nics[nic].rxq_first + nic_queue[i]
            irq_cpu[i] = cpu_of_queue[queue[i]]
    return {
        "direction": direction_array,
        "rx_hash": hash_array,
        "rx_hash_type": type_array,
        "rx_queue": queue_array,
        "nic_queue": nic_queue_array,
        "irq_cpu": cpu_array,
    }


cdef class Steering(HostMemory):
    """A steer's state: C memory that goes with it, and references that keep arrays alive."""

    cdef object skb_array
    cdef object decided_array
    cdef object incoming_cpu
    cdef dict columns
    cdef u32 entries

    def __dealloc__(self):
        cpumap_free(&self.s.cpumap)
        rfs_free(&self.s.rfs)
        free(self.s.kthreads)

    def __init__(self, plan, arrived, Py_ssize_t most_taken):
        """Allocate for a plan; most_taken: packets of the largest poll."""
        self.hold_plan(plan, arrived)
        self.entries = len(plan.cpumap_cpu)
        self.allocate_results(self.packets)
        self.allocate_pool(most_taken)
        # A poll gives the stack at most what it took and what was held before.
        self.hold_napis(most_taken + 64 + 8, False)
        self.hold_devices()
        self.allocate_cpumap(most_taken)
        self.hold_sockets()
        self.allocate_rfs()

    cdef int allocate_rfs(self) except -1:
        """RFS's tables, and what sockets say of SO_INCOMING_CPU."""
        cdef const u32 *entries = <const u32 *>self.keep(self.plan.rxq_flow_entries, "u4")
        if rfs_init(
            &self.s.rfs, self.plan.sock_flow_entries, entries, self.rx_queues, self.plan.ncpus,
            self.plan.rfs_low_bits,
        ) < 0:
            raise MemoryError
        self.s.flow_secrets = self.room(self.plan.sock_flow_entries, 1)
        self.s.heads = <u32 *>self.room(self.plan.ncpus, sizeof(u32))
        sockets = self.plan.sockets[
            (self.plan.sockets["udp_gro"] != 0) & (self.plan.sockets["state"] != 0)
        ]
        self.s.udp_gro_open = len(sockets)
        self.s.udp_gro_open6 = int((sockets["family"] == 6).sum())
        self.s.rfs_forgets = self.plan.rfs_forgets
        self.incoming_cpu = np.array(self.plan.sockets["incoming_cpu"], dtype=np.int32)
        self.s.incoming_cpu = <i32 *>self.keep(self.incoming_cpu, "")
        return 0

    cdef int allocate_results(self, Py_ssize_t n) except -1:
        """Rows for every packet; what is never written is never paged in."""
        self.skb_array = np.empty(max(n, 1) * sizeof(skb_t), dtype=np.uint8)
        self.s.out_skbs = <skb_t *>self.keep(self.skb_array, "")
        self.decided_array = np.empty(max(n, 1) * sizeof(skb_decision_t), dtype=np.uint8)
        self.s.decided = <skb_decision_t *>self.keep(self.decided_array, "")
        self.columns = {
            "gro": np.full(n, GRO_BYPASS, dtype=np.uint8),
            "skb": np.full(n, -1, dtype=np.int32),
            "drop": np.zeros(n, dtype=np.uint8),
            "secrets": np.zeros(n, dtype=np.uint8),
        }
        self.s.gro_result = self.keep(self.columns["gro"], "")
        self.s.skb_of = <i32 *>self.keep(self.columns["skb"], "")
        self.s.packet_drop = self.keep(self.columns["drop"], "")
        self.s.packet_secrets = self.keep(self.columns["secrets"], "")
        return 0

    cdef int allocate_pool(self, Py_ssize_t most_taken) except -1:
        """Rows for all skbs on their way at once: what every NAPI holds, and one poll's."""
        cdef Py_ssize_t rows = 64 * (<Py_ssize_t>self.rx_queues + self.entries) + most_taken + 1
        self.s.skbs = <skb_t *>self.room(rows, sizeof(skb_t))
        self.s.spare = <u32 *>self.room(rows, sizeof(u32))
        self.s.last_packet = <i32 *>self.room(rows, sizeof(i32))
        return 0

    cdef int allocate_cpumap(self, Py_ssize_t most_taken) except -1:
        """cpumap entries, and GRO of their kthreads."""
        cdef u32 k
        cdef const i32 *cpus = <const i32 *>self.keep(self.plan.cpumap_cpu, "i4")
        cdef const u32 *sizes = <const u32 *>self.keep(self.plan.cpumap_qsize, "u4")
        self.s.kthreads = <gro_t *>calloc(max(self.entries, 1), sizeof(gro_t))
        if self.s.kthreads == NULL:
            raise MemoryError
        for k in range(self.entries):
            gro_init(&self.s.kthreads[k], self.s.rx_list)
        if cpumap_init(&self.s.cpumap, cpus, sizes, self.entries, <u32>most_taken) < 0:
            raise MemoryError
        return 0

    def results(self):
        """What `run` answers."""
        cdef u32 m = self.s.delivered
        cdef u32 k
        counts = [self.s.counts[k] for k in range(len(dtypes.STEER_STAGES))]
        return {
            **self.columns,
            "skbs": self.skb_array[: m * sizeof(skb_t)].view(dtypes.SKB),
            "decided": self.decided_array[: m * sizeof(skb_decision_t)].view(dtypes.SKB_DECISION),
            "incoming_cpu": self.incoming_cpu,
            "counts": np.array(counts, dtype=np.uint64),
        }

    cdef u8 *completes(
        self, const i32 *queue, const i32 *count, const i64 *time_ps, Py_ssize_t n
    ) except NULL:
        """Per poll 1 when the NAPI completes after it.

        It does not when the poll was full and the repoll follows at the same instant.
        """
        cdef u8 *out = self.room(n, 1)
        cdef i64 *following = <i64 *>self.room(self.rx_queues, sizeof(i64))
        cdef Py_ssize_t k
        memset(following, 0xFF, self.rx_queues * sizeof(i64))
        for k in range(n - 1, -1, -1):
            out[k] = count[k] < NAPI_WEIGHT or following[queue[k]] != time_ps[k]
            following[queue[k]] = time_ps[k]
        return out

    def go(self, polls):
        """Ops, sent packets and polls in order of time; at one instant in this order."""
        direction = np.asarray(<const u8[:self.packets]> self.s.direction)
        sent_rows = np.flatnonzero(direction == DIR_SENT)
        sent_rows = sent_rows[np.argsort(self.plan.packets.arrival_ps[sent_rows], kind="stable")]
        cdef const i64 *order = <const i64 *>self.keep(polls.order, "i8")
        cdef const i32 *queue = <const i32 *>self.keep(polls.queue, "i4")
        cdef const i64 *first = <const i64 *>self.keep(polls.first, "i8")
        cdef const i32 *count = <const i32 *>self.keep(polls.count, "i4")
        cdef const i64 *time_ps = <const i64 *>self.keep(polls.time_ps, "i8")
        cdef const i64 *jiffy = <const i64 *>self.keep(polls.jiffy, "i8")
        cdef u8 *done = self.completes(queue, count, time_ps, len(polls))
        cdef const i64 *sent = <const i64 *>self.keep(sent_rows, "i8")
        cdef const op_t *ops = <const op_t *>self.keep(self.plan.ops, "")
        cdef const u64 *xps_masks = <const u64 *>self.keep(self.plan.xps_masks, "u8")
        cdef u32 xps_words = self.plan.xps_masks.shape[1]
        cdef const i32 *node_of = <const i32 *>self.keep(self.plan.node_of, "i4")
        cdef Py_ssize_t op_count = len(self.plan.ops)
        cdef Py_ssize_t sent_count = len(sent_rows)
        cdef Py_ssize_t poll_count = len(polls)
        cdef Py_ssize_t op = 0
        cdef Py_ssize_t send = 0
        cdef Py_ssize_t poll = 0
        cdef i64 never = <i64>0x7FFFFFFFFFFFFFFF
        cdef i64 next_op
        cdef i64 next_send
        cdef i64 next_poll
        cdef int failed = 0
        with nogil:
            while op < op_count or send < sent_count or poll < poll_count:
                next_op = ops[op].time_ps if op < op_count else never
                next_send = self.s.p.arrival_ps[sent[send]] if send < sent_count else never
                next_poll = time_ps[poll] if poll < poll_count else never
                if op < op_count and next_op <= next_send and next_op <= next_poll:
                    failed = apply_op(&self.s, &ops[op], xps_masks, xps_words, node_of)
                    if failed == -1:
                        break
                    op += 1
                elif send < sent_count and next_send <= next_poll:
                    send_packet(&self.s, sent[send])
                    send += 1
                else:
                    run_poll(
                        &self.s, <u32>queue[poll], order + first[poll], <u32>count[poll],
                        done[poll], jiffy[poll],
                    )
                    poll += 1
        if failed == -1:
            raise MemoryError
        rx_queue = np.asarray(<const i32[:self.packets]> self.s.rx_queue)
        self.s.counts[COUNT_RSS] = int((rx_queue >= 0).sum())


def run(plan, arrived, polls):
    """Take every decision behind the rx queue.

    Args:
        arrived: what `arrive` answered.
        polls: every received packet once.

    Returns:
        dict: gro uint8[n], skb int32[n], drop uint8[n], secrets uint8[n] per packet; skbs SKB[m]
        and decided SKB_DECISION[m] in delivery order; incoming_cpu int32[sockets], SO_INCOMING_CPU
        at the end; counts uint64[stages] in the order of STEER_STAGES.
    """
    most = int(polls.count.max()) if len(polls) else 0
    steering = Steering(plan, arrived, most)
    steering.go(polls)
    return steering.results()
