"""How large a packet that GRO makes may become (GRO-35, GRO-C4)."""

from __future__ import annotations

from emu.ref.gro_ip import Ipv6
from emu.ref.gro_skb import IPPROTO_TCP, GroConfig, Held, Incoming
from emu.ref.record import Recorder

LEGACY_MAX_SIZE = 65536


def fits(held: Held, packet: Incoming, config: GroConfig, rec: Recorder) -> bool:
    """Whether the whole stays below the device's limit (GRO-35).

    A tag in the frame makes it no IPv6 packet to the device: IPv4's limit holds (GRO-7).
    """
    outer = held.networks[0]
    is_ipv6 = isinstance(outer, Ipv6) and not held.link.tags
    limit = config.max_size if is_ipv6 else config.ipv4_max_size
    total = held.skb.len_bytes + packet.payload_bytes
    is_tcp = packet.view.ip_proto[packet.index] == IPPROTO_TCP
    too_long = total >= limit or (total >= LEGACY_MAX_SIZE and not is_tcp)
    return not rec.rule("GRO-35", too_long, total=total, limit=limit)


def fits_fraglist(held: Held, packet: Incoming, rec: Recorder) -> bool:
    """Whether a fraglist stays below 64 KiB, the headers of the joined packet counted (GRO-C4)."""
    total = held.skb.len_bytes + packet.skb.len_bytes
    return not rec.rule("GRO-C4", total >= LEGACY_MAX_SIZE, total=total)
