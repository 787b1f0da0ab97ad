"""The library author's door: every decision of the packet path on its own, over arrays.

Each function asks one stage for many packets at once, in the compiled core or, with
``engine="ref"``, in the plain reference; both answer bit for bit alike. Arguments may be anything
array-like; what is no whole number, out of range or of another length is a `ConfigError` of one
line, raised before anything runs. ``[n]`` in a docstring is one entry per packet, and where it
says *or one for all* a single number does as well.

Addresses are ``uint32`` words that hold the network bytes as they lie in memory (the columns
``saddr`` and ``daddr`` of a packet table); `address_words` makes them from text. Ports, lengths,
CPUs and queues are plain numbers.
"""

from emu.coalesce import gro
from emu.intake import dissect
from emu.stages.hashes import (
    FlowHashes,
    address_words,
    ehash_v4,
    ehash_v6,
    flow_hash,
    jhash,
    siphash,
    toeplitz,
    toeplitz_v4,
    toeplitz_v6,
)
from emu.stages.receive import RssHashes, cpumap_targets, flow_limit, make_polls, rps_cpu, rss
from emu.stages.sockets import Lookups, lookup, psock_cpus, reuseport
from emu.stages.transmit import PickedQueues, XpsQueues, pick_tx, xps_device, xps_queue

__all__ = [
    "FlowHashes",
    "Lookups",
    "PickedQueues",
    "RssHashes",
    "XpsQueues",
    "address_words",
    "cpumap_targets",
    "dissect",
    "ehash_v4",
    "ehash_v6",
    "flow_hash",
    "flow_limit",
    "gro",
    "jhash",
    "lookup",
    "make_polls",
    "pick_tx",
    "psock_cpus",
    "reuseport",
    "rps_cpu",
    "rss",
    "siphash",
    "toeplitz",
    "toeplitz_v4",
    "toeplitz_v6",
    "xps_device",
    "xps_queue",
]
