"""A run's state, and how it is made from a plan."""
from emu._core.host_memory cimport HostMemory
from emu._core.run_state cimport run_t
from emu._core.types cimport i64


cdef class RunSetup(HostMemory):
    cdef run_t r
    cdef object run_plan
    cdef dict counted      # counter arrays, by the names that a run answers them under
    cdef object trace_array

    cdef int hold_run(self, object plan, object arrived, i64 trace_rows) except -1
    cdef int apply_ops(self) except -1
    cdef int hold_numbers(self) except -1
    cdef i64 *count(self, str name, tuple shape) except NULL
    cdef int hold_counters(self, i64 trace_rows) except -1
    cdef int hold_queues(self) except -1
    cdef int set_napis(self) except -1
    cdef int set_tx_queues(self) except -1
    cdef int hold_cpus(self) except -1
    cdef int hold_flow_limits(self) except -1
    cdef int hold_reading(self) except -1
    cdef int set_sockets(self) except -1
    cdef int hold_packets(self) except -1
    cdef int hold_flows(self) except -1
