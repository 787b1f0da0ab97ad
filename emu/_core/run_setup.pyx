"""A run's state, made from its plan: NAPIs, queues, CPUs, threads, sockets, flows."""
from libc.stdlib cimport free

import numpy as np

from emu import run_dtypes

from emu._core.gro_state cimport skb_t
from emu._core.host_memory cimport HostMemory
from emu._core.ops cimport apply_op
from emu._core.rfs cimport rfs_free, rfs_init
from emu._core.run_codes cimport (
    CELLS,
    CONTEXTS,
    COSTS,
    KINDS,
    LATENCIES,
    LATENCY_IRQ_DELAY,
    LATENCY_IRQ_JITTER,
    LATENCY_SPREAD,
    LIMITS,
    LIMIT_FLOW_LIMIT_BITS,
    LOCKS,
    LOCK_BUSY,
    LOCK_ROOT,
    LOCK_SOCK,
    LOCK_TX,
    QDISC_LOCKLESS,
    QDISC_SINGLE,
    STAGES,
    STEPS,
    TOUCHES,
)
from emu._core.flow_limit cimport flow_limit_init, flow_limit_t
from emu._core.run_cost cimport DURATION_BITS, emu_high64, next_draw, stream_key
from emu._core.run_lock cimport list_clear, lock_init
from emu._core.run_queue cimport NEVER_PS, coming_push, race_free, race_init
from emu._core.run_records cimport run_nic_t, run_socket_t, run_thread_t, trace_t, workload_t
from emu._core.run_send cimport LEAST_BYTES, LINK_GAP
from emu._core.run_state cimport (
    coming_t,
    cpu_t,
    found_row_t,
    napi_t,
    packet_t,
    qdisc_t,
    run_sock_t,
    run_t,
    sent_t,
    thread_t,
    txq_t,
)
from emu._core.state cimport op_t
from emu._core.types cimport i32, i64, u8, u32, u64


cdef enum:
    STACK_LIST_ROWS = 128  # a NAPI's list for the stack: what it holds, a batch and what breaks it
    NAPI_STREAM = 1
    FLOW_STREAM = 2
    THREAD_STREAM = 3


def check_indexes(plan):
    """See that nothing in a RunPlan points outside it.

    Raises:
        ValueError: the array that does.
    """
    base = plan.base
    cpus, threads, sockets = base.ncpus, plan.threads, plan.sockets
    bounds = {
        "napi_cpu": (plan.napi_cpu, cpus),
        "txq_napi": (plan.txq_napi, len(plan.napi_cpu)),
        "txq_nic": (plan.txq_nic, len(base.nics)),
        "txq_qdisc": (plan.txq_qdisc, plan.qdiscs),
        "thread_cpus": (plan.thread_cpus, cpus),
        "threads": (threads["cpu"], cpus),
        "sock_threads": (plan.sock_threads, len(threads)),
        "chains": (plan.chains, len(sockets)),
        "nics": (plan.nics["qdisc"], len(run_dtypes.Qdisc)),
        "distance": (plan.distance, len(run_dtypes.DISTANCES)),
        "allowed": (ends(threads, "allow"), len(plan.thread_cpus) + 1),
        "readers": (ends(sockets, "thread"), len(plan.sock_threads) + 1),
        "members": (ends(sockets, "chain"), len(plan.chains) + 1),
    }
    for name, (array, bound) in bounds.items():
        if len(array) and not 0 <= int(array.min()) <= int(array.max()) < bound:
            raise ValueError(f"{name} points outside the plan")
    shapes = {
        "napi_cpu": len(plan.napi_cpu) >= len(base.rxq_irq_cpu),
        "txq_napi": len(plan.txq_napi) == len(base.txq_irq_cpu),
        "sockets": len(sockets) == len(base.sockets),
        "nics": len(plan.nics) == len(base.nics),
        "distance": plan.distance.shape == (cpus, cpus),
        "lines": plan.lines.shape == (TOUCHES, 2),
        "flow_limit": len(plan.flow_limit) == cpus and is_table_len(plan),
        "rows": len(base.packets) + int(plan.nics["tx_ring"].sum()) * len(plan.txq_nic) < 2**31,
    }
    for name, fits in shapes.items():
        if not fits:
            raise ValueError(f"{name}: another length than the plan's")


def is_table_len(plan):
    """Whether the table of flow limit has a length that a bucket's number is made for."""
    return 1 <= plan.limits[run_dtypes.Limit.FLOW_LIMIT_BITS] <= 16


def ends(rows, name):
    """Where each row's part of an array ends."""
    return rows[f"{name}_off"].astype(np.int64) + rows[f"{name}_len"]


cdef class RunSetup(HostMemory):
    """A run's state in C memory, taken once."""

    def __dealloc__(self):
        race_free(&self.r.cpu_race)
        race_free(&self.r.irq_race)
        race_free(&self.r.ipi_race)
        rfs_free(&self.r.rfs)
        free(self.r.samples)

    cdef int hold_run(self, object plan, object arrived, i64 trace_rows) except -1:
        """Take everything that a plan's run needs; nothing has run yet."""
        check_indexes(plan)
        self.run_plan = plan
        self.hold_plan(plan.base, arrived)
        self.hold_napis(STACK_LIST_ROWS, True)
        self.hold_devices()
        self.hold_sockets()
        self.s.skbs = <skb_t *>self.room(self.packets, sizeof(skb_t))
        self.apply_ops()
        self.r.s = self.s
        self.hold_numbers()
        self.hold_counters(trace_rows)
        self.hold_queues()
        self.hold_cpus()
        self.hold_reading()
        self.hold_packets()
        self.hold_flows()
        return 0

    cdef int apply_ops(self) except -1:
        """The masks that stand when the run begins."""
        plan = self.plan
        cdef const op_t *ops = <const op_t *>self.keep(plan.ops, "")
        cdef const u64 *masks = <const u64 *>self.keep(plan.xps_masks, "u8")
        cdef u32 words = plan.xps_masks.shape[1]
        cdef const i32 *node_of = <const i32 *>self.keep(plan.node_of, "i4")
        cdef Py_ssize_t k
        self.r.node_of = node_of
        for k in range(len(plan.ops)):
            if apply_op(&self.s, &ops[k], masks, words, node_of) == -1:
                raise MemoryError
        return 0

    cdef int hold_numbers(self) except -1:
        """Costs and limits, at hand in the state itself."""
        plan = self.run_plan
        cdef Py_ssize_t k
        cdef run_t *r = &self.r
        for k in range(COSTS):
            r.costs[k] = plan.costs[k]
        for k in range(TOUCHES):
            r.lines[2 * k] = plan.lines[k, 0]
            r.lines[2 * k + 1] = plan.lines[k, 1]
        for k in range(4):
            r.transfer[k] = plan.transfer[k]
            r.stream[k] = plan.stream[k]
        for k in range(LATENCIES):
            r.latencies[k] = plan.latencies[k]
        for k in range(LIMITS):
            r.limits[k] = plan.limits[k]
        r.workload = (<const workload_t *>self.keep(plan.workload, ""))[0]
        r.distance = self.keep(plan.distance, "u1")
        r.nics = <const run_nic_t *>self.keep(plan.nics, "")
        r.thread_cpus = <const i32 *>self.keep(plan.thread_cpus, "i4")
        r.chains = <const i32 *>self.keep(plan.chains, "i4")
        r.exp_table = <const i64 *>self.keep(plan.exp_table, "i8")
        r.ps_num = plan.ps_num
        r.ps_den = plan.ps_den
        # As many places as the factor has room for; too few, and duration divides.
        shift = 63
        while shift and (int(plan.ps_num) << shift) // int(plan.ps_den) >= 1 << 64:
            shift -= 1
        if shift >= DURATION_BITS:
            r.ps_shift = shift
            r.ps_factor = (int(plan.ps_num) << shift) // int(plan.ps_den)
        return 0

    cdef i64 *count(self, str name, tuple shape) except NULL:
        """A zeroed counter array that `counters` answers under that name."""
        self.counted[name] = np.zeros(shape, dtype=np.int64)
        return <i64 *>self.keep(self.counted[name], "i8")

    cdef int hold_counters(self, i64 trace_rows) except -1:
        """Counters, trace."""
        cdef run_t *r = &self.r
        self.counted = {}
        r.cpu_count = self.plan.ncpus
        r.busy = self.count("busy_ps", (r.cpu_count, CONTEXTS))
        r.cells = self.count("cost", (r.cpu_count, CONTEXTS, STAGES, KINDS))
        r.transfers = self.count("transfers", (r.cpu_count, 4))
        r.locks = self.count("locks", (LOCKS, 3))
        r.steps = self.count("steps", (STEPS,))
        self.trace_array = np.zeros(max(trace_rows, 0), dtype=run_dtypes.TRACE)
        r.trace = <trace_t *>self.keep(self.trace_array, "")
        r.trace_room = len(self.trace_array)
        return 0

    cdef int hold_queues(self) except -1:
        """NAPIs, tx queues, qdiscs, links."""
        plan = self.run_plan
        cdef run_t *r = &self.r
        cdef u32 nics = self.s.nic_count
        r.rxq_count = self.rx_queues
        r.napi_count = len(plan.napi_cpu)
        r.txq_count = len(plan.txq_napi)
        r.qdisc_count = plan.qdiscs
        r.napis = <napi_t *>self.room(r.napi_count + r.cpu_count, sizeof(napi_t))
        r.txqs = <txq_t *>self.room(r.txq_count, sizeof(txq_t))
        r.qdiscs = <qdisc_t *>self.room(r.qdisc_count, sizeof(qdisc_t))
        r.rx_free = <i64 *>self.room(nics, sizeof(i64))
        r.tx_free = <i64 *>self.room(nics, sizeof(i64))
        r.map_used = <i64 *>self.keep(np.full(nics * r.cpu_count, -1), "i8")
        r.heads = <u32 *>self.room(r.cpu_count, sizeof(u32))
        r.tails = <u32 *>self.room(r.cpu_count, sizeof(u32))
        self.set_napis()
        self.set_tx_queues()
        return 0

    cdef int set_napis(self) except -1:
        """Interrupt moderation, empty rings."""
        plan = self.run_plan
        cdef run_t *r = &self.r
        cdef const i32 *cpus = <const i32 *>self.keep(plan.napi_cpu, "i4")
        cdef const i64 *usecs = <const i64 *>self.keep(plan.napi_usecs_ps, "i8")
        cdef const i32 *frames = <const i32 *>self.keep(plan.napi_frames, "i4")
        cdef napi_t *napi
        cdef i64 span
        cdef u32 k
        for k in range(r.napi_count + r.cpu_count):
            napi = &r.napis[k]
            napi.head = napi.tail = napi.next = napi.first_txq = -1
            if k >= r.napi_count:
                continue
            span = max(r.latencies[LATENCY_IRQ_JITTER], usecs[k] // 8)
            napi.span = <u64>span
            napi.delay = r.latencies[LATENCY_IRQ_DELAY] + usecs[k]
            napi.key = stream_key(plan.seed & (2**64 - 1), <u64>NAPI_STREAM << 32 | k)
            napi.cpu = cpus[k]
            napi.frames = frames[k]
            if k < r.rxq_count:
                napi.nic = <i32>self.s.queue_nic[k]
                napi.rx_ring = r.nics[napi.nic].rx_ring
        return 0

    cdef int set_tx_queues(self) except -1:
        """Tx queues with their NAPIs and qdiscs: nobody has touched anything yet."""
        plan = self.run_plan
        cdef run_t *r = &self.r
        cdef const i32 *napi_of = <const i32 *>self.keep(plan.txq_napi, "i4")
        cdef const i32 *nic_of = <const i32 *>self.keep(plan.txq_nic, "i4")
        cdef const i32 *qdisc_of = <const i32 *>self.keep(plan.txq_qdisc, "i4")
        cdef txq_t *q
        cdef qdisc_t *qdisc
        cdef u32 k
        for k in range(r.qdisc_count):
            qdisc = &r.qdiscs[k]
            lock_init(&qdisc.root, LOCK_ROOT)
            lock_init(&qdisc.busy, LOCK_BUSY)
            list_clear(&qdisc.queue)
            qdisc.runner = qdisc.touched = qdisc.next = -1
        for k in reversed(range(r.txq_count)):
            q = &r.txqs[k]
            lock_init(&q.lock, LOCK_TX)
            list_clear(&q.sent)
            q.touched = q.ring_touched = q.dql_touched = -1
            q.nic = nic_of[k]
            q.napi = napi_of[k]
            q.qdisc = qdisc_of[k]
            q.ring = r.nics[q.nic].tx_ring
            q.bql_bytes = r.nics[q.nic].bql_bytes
            q.kind = r.nics[q.nic].qdisc
            q.of_napi = r.napis[q.napi].first_txq
            r.napis[q.napi].first_txq = <i32>k
            if q.qdisc >= 0:
                r.qdiscs[q.qdisc].lockless = q.kind == QDISC_LOCKLESS
                r.qdiscs[q.qdisc].single = q.kind == QDISC_SINGLE
        return 0

    cdef int hold_cpus(self) except -1:
        """CPUs that idle, and the queue of their next steps."""
        cdef run_t *r = &self.r
        cdef cpu_t *cpu
        cdef u32 k
        r.cpus = <cpu_t *>self.room(r.cpu_count, sizeof(cpu_t))
        if (
            race_init(&r.cpu_race, r.cpu_count) < 0
            or race_init(&r.irq_race, max(r.napi_count, 1)) < 0
            or race_init(&r.ipi_race, r.cpu_count) < 0
        ):
            raise MemoryError
        for k in range(r.cpu_count):
            cpu = &r.cpus[k]
            cpu.number = k
            cpu.cells = r.cells + k * CONTEXTS * CELLS
            cpu.current = cpu.ipis = cpu.hand = cpu.tx = cpu.user_tx = -1
            cpu.defer_touched = cpu.backlog_touched = cpu.message = -1
            list_clear(&cpu.run_queue)
            list_clear(&cpu.poll)
            list_clear(&cpu.taken)
            list_clear(&cpu.repoll)
            list_clear(&cpu.out)
            list_clear(&cpu.out_taken)
            list_clear(&cpu.input)
            list_clear(&cpu.process)
            list_clear(&cpu.up)
            list_clear(&cpu.list)
        return self.hold_flow_limits()

    cdef int hold_flow_limits(self) except -1:
        """What CPUs remember that limit flows."""
        cdef run_t *r = &self.r
        cdef u32 length = 1 << r.limits[LIMIT_FLOW_LIMIT_BITS]
        cdef flow_limit_t *limits
        cdef u8 *buckets
        cdef u32 k
        cpus = np.flatnonzero(self.run_plan.flow_limit).tolist()
        limits = <flow_limit_t *>self.room(len(cpus), sizeof(flow_limit_t))
        buckets = <u8 *>self.room(len(cpus) * <Py_ssize_t>length, 1)
        for k, cpu in enumerate(cpus):
            flow_limit_init(
                &limits[k], buckets + <u64>k * length, length, self.run_plan.base.rfs_low_bits
            )
            r.cpus[<u32>cpu].flow_limit = &limits[k]
        return 0

    cdef int hold_reading(self) except -1:
        """Sockets without packets, threads that sleep, RFS."""
        plan = self.run_plan
        cdef run_t *r = &self.r
        cdef const run_thread_t *threads = <const run_thread_t *>self.keep(plan.threads, "")
        cdef thread_t *thread
        cdef u32 k
        cdef const u32 *flow_entries = <const u32 *>self.keep(plan.rxq_flow_entries, "u4")
        r.thread_count = len(plan.threads)
        r.threads = <thread_t *>self.room(r.thread_count + r.cpu_count, sizeof(thread_t))
        for k in range(r.thread_count + r.cpu_count):
            thread = &r.threads[k]
            thread.next = thread.pool = -1
            thread.asleep = 1
            list_clear(&thread.ready)
            if k >= r.thread_count:
                continue
            thread.cpu = threads[k].cpu
            thread.allow_off = threads[k].allow_off
            thread.allow_len = threads[k].allow_len
            thread.event_loop = threads[k].event_loop
            thread.key = stream_key(plan.seed & (2**64 - 1), <u64>THREAD_STREAM << 32 | k)
        self.set_sockets()
        # All bits set: every CPU has seen the lines as they are, for nobody has written one.
        r.chain_words = (r.cpu_count + 63) // 64
        words = self.s.socket_count * r.chain_words
        r.chain_seen = <u64 *>self.keep(np.full(words, 2**64 - 1, dtype=np.uint64), "u8")
        if plan.sock_flow_entries and rfs_init(
            &r.rfs, plan.sock_flow_entries, flow_entries, r.rxq_count, r.cpu_count,
            plan.base.rfs_low_bits,
        ) < 0:
            raise MemoryError
        return 0

    cdef int set_sockets(self) except -1:
        """Who reads each socket."""
        plan = self.run_plan
        cdef run_t *r = &self.r
        cdef const run_socket_t *rows = <const run_socket_t *>self.keep(plan.sockets, "")
        cdef const i32 *readers = <const i32 *>self.keep(plan.sock_threads, "i4")
        cdef run_sock_t *sock
        cdef i32 number
        cdef u32 k
        cdef u32 i
        r.socks = <run_sock_t *>self.room(self.s.socket_count, sizeof(run_sock_t))
        for k in range(self.s.socket_count):
            sock = &r.socks[k]
            lock_init(&sock.lock, LOCK_SOCK)
            list_clear(&sock.queue)
            list_clear(&sock.sleepers)
            sock.thread = sock.ready_next = sock.rx_touched = sock.tx_touched = -1
            sock.wmem_touched = sock.chain_touched = -1
            sock.rcvbuf_bytes = rows[k].rcvbuf_bytes
            sock.chain_off = rows[k].chain_off
            sock.chain_len = rows[k].chain_len
            sock.proto = self.s.rows[k].proto != 6
            sock.state = self.s.rows[k].state
            if rows[k].thread_len == 1:
                sock.thread = readers[rows[k].thread_off]
                continue
            sock.pool = rows[k].thread_len > 1
            for i in range(rows[k].thread_len):
                number = readers[rows[k].thread_off + i]
                if r.threads[number].pool >= 0:
                    raise ValueError("a thread serves two pools")
                r.threads[number].pool = <i32>k
                if sock.sleepers.tail >= 0:
                    r.threads[sock.sleepers.tail].next = number
                else:
                    sock.sleepers.head = number
                sock.sleepers.tail = number
        return 0

    cdef int hold_packets(self) except -1:
        """Rows of the packets, lookups' answers, records of what is sent."""
        cdef run_t *r = &self.r
        cdef packet_t *packet
        cdef i64 i
        cdef i64 most
        r.rows = self.packets
        r.packets = <packet_t *>self.room(r.rows, sizeof(packet_t))
        r.found = <found_row_t *>self.room(r.rows, sizeof(found_row_t))
        for i in range(r.rows):
            packet = &r.packets[i]
            packet.started = packet.next = packet.follows = -1
            packet.rxq = self.s.rx_queue[i]
            packet.proto = self.s.p.ip_proto[i] != 6
            packet.v6 = self.s.p.family[i] == 6
            packet.nic = self.s.p.nic[i]
            packet.nic_gro = self.s.nic_gro[packet.nic].enabled
            packet.wire = max(self.s.p.wire_bytes[i], <u32>LEAST_BYTES) + LINK_GAP
            r.found[i].cpu = -1
        most = r.rows + 1
        for i in range(r.txq_count):
            most += min(r.txqs[i].ring, r.rows) if not r.workload.closed else r.txqs[i].ring
        r.sent = <sent_t *>self.room(most, sizeof(sent_t))
        for i in range(most):
            r.sent[i].next = <i32>(i + 1)
        r.sent[most - 1].next = -1
        return 0

    cdef int hold_flows(self) except -1:
        """First arrivals: a flow's within the spread, or the rows by time."""
        cdef run_t *r = &self.r
        cdef u64 *keys
        cdef u64 drawn
        cdef i64 i
        received = np.flatnonzero(np.asarray(<const i32[:max(r.rows, 1)]>r.s.rx_queue) >= 0)
        received = received[received < r.rows]
        r.next_arrival = NEVER_PS
        if not r.workload.closed:
            times = self.plan.packets.arrival_ps[received]
            order = received[np.argsort(times, kind="stable")]
            r.order = <const i64 *>self.keep(order, "i8")
            r.order_count = len(order)
            if r.order_count:
                r.next_arrival = r.s.p.arrival_ps[r.order[0]]
            return 0
        keys = <u64 *>self.room(r.rows, sizeof(u64))
        # Four more than flows: the heap's pop looks at four neighbours at a time.
        r.coming = <coming_t *>self.room(r.rows + 4, sizeof(coming_t))
        for i in range(r.rows + 4):
            r.coming[i].time_ps = NEVER_PS
        for i in range(r.rows):
            keys[i] = stream_key(self.run_plan.seed & (2**64 - 1), <u64>FLOW_STREAM << 32 | i)
            drawn = next_draw(keys[i], &r.packets[i].draws)
            if r.s.rx_queue[i] >= 0:
                coming_push(r, i, <i64>emu_high64(drawn, r.latencies[LATENCY_SPREAD] + 1))
        r.flow_keys = keys
        return 0
