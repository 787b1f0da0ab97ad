"""A held packet is finished: it stays as it came, or becomes one GSO packet (receive.md 5.4)."""

from __future__ import annotations

from emu.dtypes import IpSummed
from emu.ref.gro_checksum import one_level_higher
from emu.ref.gro_ip import Ipv4, Ipv6
from emu.ref.gro_skb import GSO_TCPV4, GSO_TCPV6, GroConfig, Held
from emu.ref.gro_tcp import CWR, Tcp
from emu.ref.record import Recorder

GSO_TCP_ECN, GSO_TCP_FIXEDID_OLD = 1 << 2, 1 << 3
GSO_IPXIP4, GSO_IPXIP6 = 1 << 8, 1 << 9
GSO_UDP_L4, GSO_FRAGLIST, GSO_TCP_ACCECN = 1 << 17, 1 << 18, 1 << 19
GSO_TCP_FIXEDID, GSO_TCP_FIXEDID_INNER = 1 << 30, 1 << 31
TCP_CHECK, UDP_CHECK = 16, 6
JUMBO_BYTES, IPV6_BYTES, LARGEST_PAYLOAD = 8, 40, 0xFFFF


def finish(held: Held, config: GroConfig, rec: Recorder) -> None:
    """Write what the skb of several segments says of itself."""
    skb = held.skb
    if rec.rule("GRO-49", held.count == 1):
        skb.gso_size = 0
        return
    skb.gso_segs = held.count
    skb.gso_size = held.gso_size
    in_tunnel = len(held.networks) > 1
    # UDP asks whether it is in a tunnel before it makes a fraglist, TCP does not.
    plain_udp = held.is_flist and in_tunnel and not isinstance(held.transport, Tcp)
    as_fraglist = held.is_flist and not rec.rule("GRO-A9", plain_udp)
    skb.gso_type |= transport_bits(held, as_fraglist, config, rec)
    if in_tunnel:
        skb.gso_type |= GSO_IPXIP4 if isinstance(held.networks[0], Ipv4) else GSO_IPXIP6
    if rec.rule("GRO-A10", as_fraglist):
        skb.ip_summed, skb.csum_level = one_level_higher(skb.ip_summed, skb.csum_level)
    else:
        skb.ip_summed = IpSummed.PARTIAL
        skb.csum_start = held.l4_off
        skb.csum_off = TCP_CHECK if isinstance(held.transport, Tcp) else UDP_CHECK
    if isinstance(held.networks[0], Ipv6) and config.jumbo_header:
        tags = len(held.link.tags)
        payload = skb.len_bytes - tags - IPV6_BYTES
        if rec.rule("GRO-A11", payload > LARGEST_PAYLOAD, payload_len=payload):
            skb.len_bytes += JUMBO_BYTES
            skb.csum_start += JUMBO_BYTES


def transport_bits(held: Held, as_fraglist: bool, config: GroConfig, rec: Recorder) -> int:
    """SKB_GSO_* of the transport header."""
    if not isinstance(held.transport, Tcp):
        return GSO_UDP_L4 | (GSO_FRAGLIST if as_fraglist else 0)
    on_ipv4 = isinstance(held.networks[-1], Ipv4)
    bits = GSO_TCPV4 if on_ipv4 else GSO_TCPV6
    if as_fraglist:
        return bits | GSO_FRAGLIST
    if held.transport.flags & CWR:
        bits |= GSO_TCP_ECN if config.old_gso_bits else GSO_TCP_ACCECN
    if rec.rule("GRO-C3", on_ipv4 and any(held.fixed_ids)):
        if config.old_gso_bits:
            return bits | GSO_TCP_FIXEDID_OLD
        places = zip(held.fixed_ids, (GSO_TCP_FIXEDID, GSO_TCP_FIXEDID_INNER), strict=False)
        bits |= sum(bit for fixed, bit in places if fixed)
    return bits
