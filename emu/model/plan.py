"""The plan: a host and its input lowered to flat arrays, the only thing an engine sees."""

from __future__ import annotations

from typing import Any

import attrs
from numpy.typing import NDArray

from emu.model.packets import Packets

Array = NDArray[Any]


@attrs.frozen(kw_only=True, eq=False)
class Plan:
    """Everything a steer decides from. Immutable; emu/io/plans.py keeps it in a file.

    Attributes:
        hz: jiffies per second of the modelled kernel.
        forwarding: 1 when packets to other hosts are forwarded.
        online: ``uint8[ncpus]``.
        node_of: ``int32[ncpus]``, NUMA node of each CPU.
        nics: ``NIC[k]``.
        rss: ``RSS[k]``; ``table_off`` is the key's row times ``TOEPLITZ_WORDS``.
        rss_keys: ``uint8[r, 52]``, the distinct keys.
        indirection: ``uint32[i]``, the indirection tables behind each other.
        rxq_irq_cpu: ``int32[rxqs]``, CPU of each rx queue's interrupt.
        rxq_usecs_ps: ``int64[rxqs]``; rxq_frames: ``int32[rxqs]``: interrupt moderation.
        rxq_rps: ``int32[rxqs]``, row of rps maps; -1 none.
        rps_off, rps_len: ``uint32[m]``, the maps' place in ``rps_cpus``.
        rps_cpus: ``uint16[...]``, CPUs of the maps, ascending, online ones only (receive.md 3.1).
        txq_irq_cpu: ``int32[txqs]``, CPU on which each tx queue's completion runs.
        xps_masks: ``uint64[x, words]``, masks that are written.
        cpumap_cpu: ``int32[e]``; cpumap_qsize: ``uint32[e]``: cpumap entries.
        sockets: ``SOCKET[s]`` in the order they were opened.
        masks: ``uint64[...]``, the sockets' CPU masks, ``mask_words`` words each.
        app_cpus: ``int32[...]``, CPUs of application threads.
        lookup_cfg: ``LOOKUP_CFG[1]``, how the kernel looks sockets up, and its secrets.
        addr_family: ``uint8[a]``; addr_words: ``uint32[a, 4]``: the host's addresses; none = every
            packet is for it.
        flow_hash_key: ``uint64[2]``, the SipHash secret; txhash_seed: secret behind sockets' random
            hashes.
        packets: as the driver hands them up.
        ops: ``OP[o]`` in order of time.
        inner: packets that ride in IP in IP, each behind an Ethernet header of the model's own;
            inner_of: ``int32[n]``, the row of it that packet i carries, -1 none.
        nic_gro: ``GRO_CFG[k]``, GRO of each NIC's own NAPIs; kthread_gro: ``GRO_CFG[k]``, of its
            cpumap's kthreads.
        rxq_flow_entries: ``uint32[rxqs]``, rps_flow_cnt rounded up; sock_flow_entries: size of the
            global table of RFS, a power of two; 0 none.
        rfs_low_bits: kernel switch (R-3.1); rfs_forgets: a socket that closes empties its entry.
    """

    hz: int
    forwarding: int
    mask_words: int
    txhash_seed: int
    sock_flow_entries: int
    rfs_low_bits: int
    rfs_forgets: int
    online: Array
    node_of: Array
    nics: Array
    nic_gro: Array
    kthread_gro: Array
    rss: Array
    rss_keys: Array
    indirection: Array
    rxq_irq_cpu: Array
    rxq_usecs_ps: Array
    rxq_frames: Array
    rxq_rps: Array
    rxq_flow_entries: Array
    rps_off: Array
    rps_len: Array
    rps_cpus: Array
    txq_irq_cpu: Array
    xps_masks: Array
    cpumap_cpu: Array
    cpumap_qsize: Array
    sockets: Array
    masks: Array
    app_cpus: Array
    lookup_cfg: Array
    addr_family: Array
    addr_words: Array
    flow_hash_key: Array
    packets: Packets
    inner: Packets
    inner_of: Array
    ops: Array

    @property
    def ncpus(self) -> int:
        """CPUs of the host, offline ones included."""
        return len(self.online)
