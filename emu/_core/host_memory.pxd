"""A host as C memory: what a steer and a run have in common."""
from emu._core.state cimport nic_t, steer_t
from emu._core.types cimport u8, u32
from emu._core.xps_map cimport xps_dev_t


cdef class HostMemory:
    cdef steer_t s
    cdef object plan
    cdef list kept
    cdef u32 rx_queues
    cdef Py_ssize_t packets

    cdef u8 *keep(self, object array, str dtype) except NULL
    cdef u8 *room(self, Py_ssize_t count, Py_ssize_t size) except NULL
    cdef int hold_plan(self, object plan, object arrived) except -1
    cdef int hold_napis(self, Py_ssize_t list_rows, bint own_lists) except -1
    cdef int hold_devices(self) except -1
    cdef void set_classes(self, xps_dev_t *device, const nic_t *nic)
    cdef int hold_sockets(self) except -1
