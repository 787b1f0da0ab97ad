"""The structs that overlay the records of emu/run_dtypes.py."""
from emu._core.types cimport i32, i64, u8, u16, u32

cdef struct run_nic_t:
    # run_dtypes.RUN_NIC
    u32 rx_ring
    u32 tx_ring
    u32 qdisc
    u32 bql_bytes
    i64 ps_per_byte
    i32 map_node
    i32 pad

cdef struct run_thread_t:
    # run_dtypes.RUN_THREAD
    i32 cpu
    u32 allow_off
    u32 allow_len
    u8 event_loop
    u8 pad[3]

cdef struct run_socket_t:
    # run_dtypes.RUN_SOCKET
    u32 thread_off
    u32 thread_len
    u32 chain_off
    u32 chain_len
    i64 rcvbuf_bytes

cdef struct workload_t:
    # run_dtypes.WORKLOAD
    u8 closed
    u8 work_exponential
    u16 pad
    i32 response_bytes
    i64 work

cdef struct trace_t:
    # run_dtypes.TRACE
    i64 time_ps
    i64 cost
    i64 arg
    i32 source
    i32 cpu
    u8 step
    u8 ctx
    u8 pad[6]
