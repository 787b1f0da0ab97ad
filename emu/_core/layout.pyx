"""What the C compiler makes of the structs that overlay records, for tests/test_layout.py."""
import numpy as np

from emu._core.gro_state cimport gro_cfg_t, skb_t
from emu._core.lookup_table cimport lookup_cfg_t
from emu._core.run_records cimport run_nic_t, run_socket_t, run_thread_t, trace_t, workload_t
from emu._core.state cimport nic_t, op_t, skb_decision_t
from emu._core.types cimport flow_key_t, packets_t, rss_t, socket_t


def struct_dtypes():
    """Each struct's dtype, from the compiled struct itself, by its name in dtypes or run_dtypes."""
    cdef flow_key_t flow_key
    cdef gro_cfg_t gro_cfg
    cdef lookup_cfg_t lookup_cfg
    cdef nic_t nic
    cdef op_t op
    cdef rss_t rss
    cdef skb_t skb
    cdef skb_decision_t decision
    cdef socket_t sock
    cdef run_nic_t run_nic
    cdef run_socket_t run_socket
    cdef run_thread_t run_thread
    cdef trace_t trace
    cdef workload_t workload
    return {
        "FLOW_KEY": np.asarray(<flow_key_t[:1]> &flow_key).dtype,
        "GRO_CFG": np.asarray(<gro_cfg_t[:1]> &gro_cfg).dtype,
        "LOOKUP_CFG": np.asarray(<lookup_cfg_t[:1]> &lookup_cfg).dtype,
        "NIC": np.asarray(<nic_t[:1]> &nic).dtype,
        "OP": np.asarray(<op_t[:1]> &op).dtype,
        "RSS": np.asarray(<rss_t[:1]> &rss).dtype,
        "RUN_NIC": np.asarray(<run_nic_t[:1]> &run_nic).dtype,
        "RUN_SOCKET": np.asarray(<run_socket_t[:1]> &run_socket).dtype,
        "RUN_THREAD": np.asarray(<run_thread_t[:1]> &run_thread).dtype,
        "SKB": np.asarray(<skb_t[:1]> &skb).dtype,
        "SKB_DECISION": np.asarray(<skb_decision_t[:1]> &decision).dtype,
        "SOCKET": np.asarray(<socket_t[:1]> &sock).dtype,
        "TRACE": np.asarray(<trace_t[:1]> &trace).dtype,
        "WORKLOAD": np.asarray(<workload_t[:1]> &workload).dtype,
    }


def packets_bytes():
    """Size of packets_t, and of one of its pointers."""
    return sizeof(packets_t), sizeof(void *)
