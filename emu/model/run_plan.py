"""The plan of a run: a steer's plan, and what time adds to it."""

from __future__ import annotations

import attrs

from emu.model.plan import Array, Plan


@attrs.frozen(kw_only=True, eq=False)
class RunPlan:
    """Everything a timing engine sees (docs/run.md). Immutable.

    Attributes:
        base: the host and its packets. Its ops are the initial XPS masks, all at time 0. Closed
            loop: row f of its packets is the request of flow f.
        seed: of every draw of the run.
        ps_num, ps_den: a step of cost u takes ``ceil(u * ps_num / ps_den)`` picoseconds.
        costs: ``int64[len(Cost)]``, 1/1024 cycle.
        transfer: ``int64[4]`` by distance, 1/1024 cycle: one line that another CPU wrote last.
        stream: ``int64[4]``: one line of a row of them that the prefetcher sees coming.
        lines: ``int32[len(Touch), 2]``, lines of TCP and of UDP.
        distance: ``uint8[ncpus, ncpus]``, place in DISTANCES.
        latencies: ``int64[len(Latency)]``, picoseconds.
        limits: ``int64[len(Limit)]``.
        nics: ``RUN_NIC[k]``, beside ``base.nics``.
        napi_cpu: ``int32[napis]``: NAPI i belongs to rx queue i; behind them those that only have
            tx queues.
        napi_usecs_ps: ``int64[napis]``; napi_frames: ``int32[napis]``: interrupt moderation.
        txq_napi: ``int32[txqs]``, the NAPI that completes the queue.
        txq_nic: ``int32[txqs]``.
        txq_qdisc: ``int32[txqs]``, its qdisc, 0..qdiscs-1; a qdisc belongs to one NIC.
        qdiscs: how many there are.
        threads: ``RUN_THREAD[t]``; thread_cpus: ``int32[...]``.
        sockets: ``RUN_SOCKET[s]``, beside ``base.sockets``; sock_threads: ``int32[...]``.
        chains: ``int32[...]``, rows of sockets.
        workload: ``WORKLOAD[1]``.
        exp_table: ``int64[EXP_POINTS + 1]``, see `emu.model.exponential`.
        sock_flow_entries: RFS: size of the global table, a power of two; 0 none.
        rxq_flow_entries: ``uint32[rxqs]``: RFS: size of the queue's table; 0 none.
        flow_limit: ``uint8[ncpus]``: whether the CPU limits flows (net.core.flow_limit_cpu_bitmap).
    """

    base: Plan
    seed: int
    ps_num: int
    ps_den: int
    qdiscs: int
    sock_flow_entries: int
    costs: Array
    transfer: Array
    stream: Array
    lines: Array
    distance: Array
    latencies: Array
    limits: Array
    nics: Array
    napi_cpu: Array
    napi_usecs_ps: Array
    napi_frames: Array
    txq_napi: Array
    txq_nic: Array
    txq_qdisc: Array
    threads: Array
    thread_cpus: Array
    sockets: Array
    sock_threads: Array
    chains: Array
    workload: Array
    exp_table: Array
    rxq_flow_entries: Array
    flow_limit: Array
