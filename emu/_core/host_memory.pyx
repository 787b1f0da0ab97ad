"""A host as C memory: the plan's arrays as pointers, GRO, XPS and the sockets of its lookup."""
from libc.stdlib cimport calloc, free

import numpy as np

from emu._core.gro_state cimport gro_cfg_t, gro_init, gro_t
from emu._core.lookup cimport lookup_free, lookup_init
from emu._core.lookup_table cimport lookup_cfg_t
from emu._core.sockmap cimport psock_init, psock_t
from emu._core.state cimport nic_t, sock_state_t
from emu._core.types cimport flow_key_t, i32, packets_t, socket_t, u8, u16, u32, u64
from emu._core.xps cimport xps_dev_t, xps_free, xps_init
from emu._core.xps_map cimport xps_set_num_tc, xps_set_tc_queue


cdef enum:
    LINE_BYTES = 64


cdef class HostMemory:
    """C memory that goes with the object, and references that keep arrays alive.

    A base class: it takes no arguments and does nothing by itself.
    """

    def __cinit__(self, *arguments, **named):
        self.kept = []

    def __dealloc__(self):
        cdef u32 k
        lookup_free(&self.s.lookup)
        if self.s.xps != NULL:
            for k in range(self.s.nic_count):
                xps_free(&self.s.xps[k])
        free(self.s.napis)

    cdef u8 *keep(self, object array, str dtype) except NULL:
        """Address of an array's first byte; an empty one gets a zero element to point at."""
        array = np.ascontiguousarray(array, dtype=dtype) if dtype else np.ascontiguousarray(array)
        if array.size == 0:
            array = np.zeros(1, dtype=array.dtype)
        self.kept.append(array)
        cdef const u8[::1] view = array.reshape(-1).view(np.uint8)
        return <u8 *>&view[0]

    cdef u8 *room(self, Py_ssize_t count, Py_ssize_t size) except NULL:
        """Zeroed memory that lives as long as the object, from the start of a cache line on."""
        cdef u8 *start = self.keep(np.zeros(max(count, 1) * size + LINE_BYTES, dtype=np.uint8), "")
        return start + (-<size_t>start) % LINE_BYTES

    cdef int hold_plan(self, object plan, object arrived) except -1:
        """Point at the plan's arrays and at what `arrive` answered."""
        self.plan = plan
        self.packets = len(plan.packets)
        self.s.p = <const packets_t *>self.keep(plan.packets.addresses, "u8")
        self.s.blob = self.keep(plan.packets.blob, "u1")
        self.s.inner = <const packets_t *>self.keep(plan.inner.addresses, "u8")
        self.s.inner_blob = self.keep(plan.inner.blob, "u1")
        self.s.inner_of = <const i32 *>self.keep(plan.inner_of, "i4")
        self.s.flow_keys = <const flow_key_t *>self.keep(plan.packets.flow_keys, "")
        self.s.flow_hash_key = <const u64 *>self.keep(plan.flow_hash_key, "u8")
        self.s.nics = <const nic_t *>self.keep(plan.nics, "")
        self.s.rxq_irq_cpu = <const i32 *>self.keep(plan.rxq_irq_cpu, "i4")
        self.s.rxq_rps = <i32 *>self.keep(np.array(plan.rxq_rps, dtype=np.int32), "i4")
        self.s.rps_off = <const u32 *>self.keep(plan.rps_off, "u4")
        self.s.rps_len = <const u32 *>self.keep(plan.rps_len, "u4")
        self.s.rps_cpus = <const u16 *>self.keep(plan.rps_cpus, "u2")
        self.s.txq_irq_cpu = <const i32 *>self.keep(plan.txq_irq_cpu, "i4")
        self.s.online = <u8 *>self.keep(np.array(plan.online, dtype=np.uint8), "u1")
        self.s.app_cpus = <const i32 *>self.keep(plan.app_cpus, "i4")
        queue_nic = np.repeat(np.arange(len(plan.nics)), plan.nics["rxq_count"])
        self.s.queue_nic = <const u32 *>self.keep(queue_nic, "u4")
        self.s.direction = self.keep(arrived["direction"], "u1")
        self.s.rx_hash = <const u32 *>self.keep(arrived["rx_hash"], "u4")
        self.s.rx_hash_type = self.keep(arrived["rx_hash_type"], "u1")
        self.s.rx_queue = <const i32 *>self.keep(arrived["rx_queue"], "i4")
        self.s.txhash_seed = plan.txhash_seed
        self.s.socket_count = len(plan.sockets)
        self.s.hz = plan.hz
        self.rx_queues = len(plan.rxq_irq_cpu)
        return 0

    cdef int hold_napis(self, Py_ssize_t list_rows, bint own_lists) except -1:
        """GRO of every rx queue, with a list of so many rows for the stack: its own, or one for
        all when only one poll runs at a time.
        """
        cdef u32 k
        cdef Py_ssize_t lists = self.rx_queues if own_lists else 1
        self.s.rx_list = <u32 *>self.room(lists * list_rows, sizeof(u32))
        self.s.napis = <gro_t *>calloc(max(self.rx_queues, 1), sizeof(gro_t))
        if self.s.napis == NULL:
            raise MemoryError
        for k in range(self.rx_queues):
            gro_init(&self.s.napis[k], self.s.rx_list + (k * list_rows if own_lists else 0))
        return 0

    cdef int hold_devices(self) except -1:
        """GRO settings and XPS of every NIC."""
        cdef u32 k
        cdef u32 n = len(self.plan.nics)
        cdef const nic_t *nic
        self.s.nic_gro = <const gro_cfg_t *>self.keep(self.plan.nic_gro, "")
        self.s.kthread_gro = <const gro_cfg_t *>self.keep(self.plan.kthread_gro, "")
        self.s.xps = <xps_dev_t *>self.room(n, sizeof(xps_dev_t))
        self.s.nic_count = n
        for k in range(n):
            nic = &self.s.nics[k]
            if xps_init(&self.s.xps[k], nic.txq_count, nic.rxq_count, self.plan.ncpus) < 0:
                raise MemoryError
            if nic.num_tc:
                self.set_classes(&self.s.xps[k], nic)
        return 0

    cdef void set_classes(self, xps_dev_t *device, const nic_t *nic):
        """Traffic classes of the tx side (mqprio), before any mask is written."""
        cdef u32 k
        xps_set_num_tc(device, <i32>nic.num_tc)
        for k in range(nic.num_tc):
            xps_set_tc_queue(device, k, nic.tc_count[k], nic.tc_offset[k])
        for k in range(16):
            device.prio_tc_map[k] = nic.prio_tc[k]

    cdef int hold_sockets(self) except -1:
        """Lookup tables, what sockets remember, psocks."""
        cdef u32 k
        cdef u32 n = self.s.socket_count
        cdef const u64 *masks = <const u64 *>self.keep(self.plan.masks, "u8")
        cdef const lookup_cfg_t *cfg = <const lookup_cfg_t *>self.keep(self.plan.lookup_cfg, "")
        cdef const socket_t *rows = <const socket_t *>self.keep(self.plan.sockets, "")
        self.s.socks = <sock_state_t *>self.room(n, sizeof(sock_state_t))
        self.s.psocks = <psock_t *>self.room(n, sizeof(psock_t))
        self.s.scheduled = <u32 *>self.room(n, sizeof(u32))
        for k in range(n):
            self.s.socks[k].tx_queue = self.s.socks[k].rx_queue = -1
            self.s.socks[k].app_off = rows[k].app_off
            self.s.socks[k].app_len = rows[k].app_len
            psock_init(&self.s.psocks[k], rows[k].psock_cpu)
        if lookup_init(&self.s.lookup, rows, n, masks, self.plan.mask_words, cfg) < 0:
            raise MemoryError
        self.s.rows = self.s.lookup.socks
        return 0
