"""The timing engine: a run's plan in, steps, counters and latencies out (docs/run.md)."""
import numpy as np

from emu._core.run_codes cimport CTX_IRQ, DROPS, TOTALS, TOTAL_INSIDE, TOTAL_TX_INSIDE
from emu._core.run_counters cimport packets_inside, sent_inside
from emu._core.run_irq cimport arrive_step, ipi_step, irq_step
from emu._core.run_next cimport cpu_step
from emu._core.run_queue cimport NEVER_PS, race_leads, race_settle
from emu._core.run_setup cimport RunSetup
from emu._core.run_state cimport cpu_t, run_t
from emu._core.types cimport i64, u32


cdef enum:
    PROBE = 63             # mask: one step in 64 asks whether its CPU is still the earliest


cdef inline bint leads_all(const run_t *r, u32 c, i64 until) noexcept nogil:
    """Whether a CPU's next step is the run's next, though the queue does not know it yet."""
    cdef i64 t = r.cpu_race.times[c]
    return (
        t < until and t <= r.irq_race.best and t <= r.ipi_race.best and t <= r.next_arrival
        and race_leads(&r.cpu_race, c) and not r.failed
    )


cdef void take_steps(run_t *r, i64 until, i64 run_ahead) noexcept nogil:
    """The loop: the earliest source's step; at one instant CPUs, interrupts, IPIs, flows."""
    cdef i64 t
    cdef i64 device
    cdef i64 ahead
    cdef bint lucky = True
    cdef u32 c
    while not r.failed:
        t = r.cpu_race.best
        device = r.irq_race.best if r.irq_race.best < r.ipi_race.best else r.ipi_race.best
        if r.next_arrival < device:
            device = r.next_arrival
        if t <= device:
            if t >= until:
                return
            c = r.cpu_race.winner[1]
            # Among busy CPUs the same one is hardly ever first again: asking costs more than the
            # queue. So ask as long as it is, and else now and then.
            ahead = run_ahead if lucky or (r.taken & PROBE) == 0 else 0
            while True:
                cpu_step(r, &r.cpus[c], r.cpu_race.times[c])
                if ahead == 0:
                    break
                ahead -= 1
                lucky = leads_all(r, c, until)
                if not lucky:
                    break
            race_settle(&r.cpu_race, c)
        elif device >= until:
            return
        elif r.irq_race.best == device:
            irq_step(r, r.irq_race.winner[1], device)
        elif r.ipi_race.best == device:
            ipi_step(r, r.ipi_race.winner[1], device)
        else:
            arrive_step(r, device)


cdef class Run(RunSetup):
    """A run: its state, taken once, and the loop over its steps."""

    cdef i64 until
    cdef i64 run_ahead

    def __init__(self, plan, arrived, *, i64 run_ahead=-1, i64 trace_rows=0):
        """Take all memory for a plan; nothing has run yet.

        Args:
            plan: a RunPlan.
            arrived: what `emu._core.steer.arrive` answered for its base.
            run_ahead: how many further steps a CPU takes while it is the earliest anyway, without
                going through the queue of steps; -1 no limit. It changes no result.
            trace_rows: rows of TRACE that are kept, the first ones.

        Raises:
            MemoryError: there is not enough.
            ValueError: something in the plan points outside it.
        """
        self.run_ahead = run_ahead if run_ahead >= 0 else NEVER_PS
        self.hold_run(plan, arrived, trace_rows)

    def advance(self, i64 until_ps):
        """Take every step that begins before a time; answers how many they were.

        Raises:
            MemoryError: there is no room for more latencies.
        """
        cdef i64 before = self.r.taken
        self.until = max(self.until, until_ps)
        with nogil:
            take_steps(&self.r, until_ps, self.run_ahead)
        if self.r.failed:
            raise MemoryError
        return self.r.taken - before

    def counters(self):
        """Everything since the start, accounted up to the last until_ps (docs/run.md).

        Returns:
            dict: busy_ps int64[CPUs, contexts], cost int64[CPUs, contexts, stages, kinds] in
            1/1024 cycle, transfers int64[CPUs, 4], softnet int64[CPUs, 5], sched int64[CPUs, 3],
            napi int64[NAPIs, 3], rxq int64[rx queues, 2], txq int64[tx queues, 4], qdisc
            int64[qdiscs, 4], locks int64[locks, 3], sockets int64[sockets, 3], drops
            int64[DROPS], totals int64[totals], steps int64[steps].
        """
        cdef run_t *r = &self.r
        answer = {name: array.copy() for name, array in self.counted.items()}
        answer["busy_ps"] = self.count_time()
        answer["drops"] = np.array(<i64[:DROPS]>r.drops)
        totals = np.array(<i64[:TOTALS]>r.totals)
        totals[TOTAL_INSIDE] = packets_inside(r)
        totals[TOTAL_TX_INSIDE] = sent_inside(r)
        answer["totals"] = totals
        answer.update(self.count_cpus())
        answer.update(self.count_queues())
        return answer

    cdef object count_time(self):
        """Time per context up to until; an interrupt that reaches beyond it is cut."""
        cdef run_t *r = &self.r
        cdef cpu_t *cpu
        cdef i64 beyond
        cdef u32 k
        answer = self.counted["busy_ps"].copy()
        cdef i64[:, ::1] busy = answer
        for k in range(r.cpu_count):
            cpu = &r.cpus[k]
            beyond = max(cpu.irq_until - self.until, 0)
            beyond = min(beyond, cpu.irq_ps)
            busy[k, cpu.ctx] += self.until - cpu.since - (cpu.irq_ps - beyond)
            busy[k, CTX_IRQ] += cpu.irq_ps - beyond
        return answer

    cdef object count_cpus(self):
        """softnet and sched of each CPU."""
        cdef run_t *r = &self.r
        cdef cpu_t *cpu
        cdef u32 k
        softnet = np.zeros((r.cpu_count, 5), dtype=np.int64)
        sched = np.zeros((r.cpu_count, 3), dtype=np.int64)
        for k in range(r.cpu_count):
            cpu = &r.cpus[k]
            softnet[k] = (
                cpu.processed, cpu.backlog_dropped, cpu.squeezed, cpu.received_rps, cpu.flow_limited
            )
            sched[k] = (cpu.ipis_sent, cpu.wakes, cpu.switches)
        return {"softnet": softnet, "sched": sched}

    cdef object count_queues(self):
        """NAPIs, rings, qdiscs, sockets."""
        cdef run_t *r = &self.r
        cdef u32 k
        napi = np.zeros((r.napi_count, 3), dtype=np.int64)
        rxq = np.zeros((r.rxq_count, 2), dtype=np.int64)
        txq = np.zeros((r.txq_count, 4), dtype=np.int64)
        qdisc = np.zeros((r.qdisc_count, 4), dtype=np.int64)
        sockets = np.zeros((r.s.socket_count, 3), dtype=np.int64)
        for k in range(r.napi_count):
            napi[k] = (r.napis[k].interrupts, r.napis[k].polls, r.napis[k].full_polls)
        for k in range(r.rxq_count):
            rxq[k] = (r.napis[k].polled, r.napis[k].lost)
        for k in range(r.txq_count):
            txq[k] = (
                r.txqs[k].packets, r.txqs[k].all_bytes, r.txqs[k].doorbells, r.txqs[k].stops
            )
        for k in range(r.qdisc_count):
            qdisc[k] = (
                r.qdiscs[k].enqueued, r.qdiscs[k].bypassed, r.qdiscs[k].requeued,
                r.qdiscs[k].dropped,
            )
        for k in range(r.s.socket_count):
            sockets[k] = (r.socks[k].enqueued, r.socks[k].dropped, r.socks[k].read)
        return {"napi": napi, "rxq": rxq, "txq": txq, "qdisc": qdisc, "sockets": sockets}

    def take_samples(self):
        """Latencies in ps that were recorded since the last call, int64, in their order."""
        cdef Py_ssize_t count = self.r.sample_count
        self.r.sample_count = 0
        if count == 0:
            return np.zeros(0, dtype=np.int64)
        return np.array(<i64[:count]>self.r.samples)

    def trace(self):
        """TRACE rows of the first steps, as many as were asked for."""
        return self.trace_array[: self.r.trace_count].copy()
