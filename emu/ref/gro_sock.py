"""What GRO asks of the host's sockets: UDP_GRO, and connections that rule a fraglist out."""

from __future__ import annotations

import numpy as np

from emu.dtypes import SockState
from emu.ref import bits
from emu.ref.gro_skb import IPPROTO_TCP, IPPROTO_UDP, GroConfig
from emu.ref.state import HostState

NOBODY, SOMEBODY, UDP_GRO = 0, 1, 2
AF_INET6 = 6


def gro_sock(host: HostState, config: GroConfig, packet: int, nic: int, cpu: int) -> int:
    """What a lookup by GRO answers for a packet (docs of `gro_packets`).

    It sees the packet's own header; what rides in a tunnel is nobody's.
    """
    view = host.view
    proto = view.ip_proto[packet]
    asks = (proto == IPPROTO_TCP and config.fraglist) or (
        proto == IPPROTO_UDP and udp_gro_key(host.lookup.sockets, view.family[packet])
    )
    if not asks or not view.flags[packet] & bits.HAS_PORTS:
        return NOBODY
    sock, *_ = host.lookup.find_tuple(
        proto,
        view.family[packet],
        view.saddr_bytes[packet],
        view.daddr_bytes[packet],
        view.sport[packet],
        view.dport[packet],
        nic + 1,
        cpu,
    )
    if sock < 0:
        return NOBODY
    row = host.lookup.sockets[sock]
    if proto == IPPROTO_TCP:
        return SOMEBODY if row["state"] == SockState.ESTABLISHED else NOBODY
    return UDP_GRO if row["udp_gro"] else SOMEBODY


def udp_gro_key(sockets: np.ndarray[tuple[int], np.dtype[np.void]], family: int) -> bool:
    """Whether GRO asks for UDP sockets at all (GRO-37).

    An open socket with UDP_GRO makes it ask for IPv4 packets, one of IPv6 for both.
    """
    open_ones = sockets[(sockets["udp_gro"] != 0) & (sockets["state"] != SockState.CLOSED)]
    if family == AF_INET6:
        open_ones = open_ones[open_ones["family"] == AF_INET6]
    return len(open_ones) > 0
