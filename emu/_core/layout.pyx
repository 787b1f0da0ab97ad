"""What the C compiler makes of the structs that overlay emu/dtypes.py: read by tests/test_layout.py."""
import numpy as np

from emu._core.types cimport flow_key_t, packets_t, rss_t, socket_t


def struct_dtypes():
    """Derive each struct's dtype from the compiled struct itself: name to dtype, by its dtypes name."""
    cdef flow_key_t flow_key
    cdef rss_t rss
    cdef socket_t sock
    return {
        "FLOW_KEY": np.asarray(<flow_key_t[:1]> &flow_key).dtype,
        "RSS": np.asarray(<rss_t[:1]> &rss).dtype,
        "SOCKET": np.asarray(<socket_t[:1]> &sock).dtype,
    }


def packets_bytes():
    """Size of packets_t: one pointer a column."""
    return sizeof(packets_t), sizeof(void *)
