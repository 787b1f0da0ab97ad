"""GRO of one NAPI: packets in, skbs for the stack out (receive.md 5).

Not modelled: tunnels (IP in IP is never held), tags in the frame with the module 8021Q, UDP_GRO
sockets, fraglists, packets that are GSO already.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from emu import dtypes
from emu.dtypes import (
    GRO_BUCKET_HELD,
    GRO_BUCKETS,
    GRO_NORMAL_BATCH,
    NAPI_WEIGHT,
    GroResult,
    IpSummed,
)
from emu.model.inputs import gro_polls
from emu.model.packets import Packets
from emu.ref.gro_ip import UDP, Ipv4, Ipv6, read_network, same_network_flow
from emu.ref.gro_skb import GroConfig, Held, Incoming, Skb, incoming
from emu.ref.gro_tcp import Outcome, Tcp, read_tcp, receive_tcp, verify_checksum
from emu.ref.gro_udp import Udp, read_udp, receive_udp
from emu.ref.packet import PacketView
from emu.ref.record import SILENT, Recorder

GSO_TCPV4, GSO_TCPV6, GSO_UDP_L4, GSO_FIXEDID = 1 << 0, 1 << 4, 1 << 17, 1 << 30
JUMBO_BYTES = 8


class Gro:
    """The GRO state of one NAPI.

    Attributes:
        buckets: what is held, each bucket newest first.
        rx_list: skbs given to the stack, in order; the caller takes them out.
        entered: packets that have come in.
    """

    def __init__(self, config: GroConfig, rec: Recorder = SILENT) -> None:
        self.config, self.rec = config, rec
        self.buckets: list[list[Held]] = [[] for _ in range(GRO_BUCKETS)]
        self.rx_list: list[Skb] = []
        self.waiting: list[Skb] = []  # on rx_list, not yet delivered
        self.waiting_segments = 0
        self.entered = 0

    def receive(
        self, view: PacketView, index: int, hash_value: int, hash_type: int, jiffy: int
    ) -> tuple[GroResult, Skb]:
        """Take one packet in; answers what GRO did, and the skb that the packet is now in."""
        self.rec.about((index,))
        self.entered += 1
        packet = incoming(view, index, hash_value, hash_type, self.config.fresh_skb)
        network = None
        if self.rec.rule("R-5.2.1", self.config.enabled):
            network = read_network(packet, self.rec)
        transport = None if network is None else self._read_transport(packet)
        if network is None or transport is None:
            return self._normal(packet)
        return self._place(packet, network, transport, jiffy)

    def flush(self, old_only: bool, jiffy: int) -> None:
        """Put out what is held, buckets upwards, oldest first (GRO-47).

        *old_only* spares what was held in this jiffy.
        """
        for bucket in self.buckets:
            while bucket:
                oldest = bucket[-1]
                if self.rec.rule("GRO-47", old_only and oldest.age == jiffy, age=oldest.age):
                    break
                self._complete(bucket, oldest)

    def deliver(self) -> None:
        """What waits goes to the stack now: the end of a poll, or a full batch."""
        for skb in self.waiting:
            skb.after = self.entered
        self.waiting, self.waiting_segments = [], 0

    def _read_transport(self, packet: Incoming) -> Tcp | Udp | None:
        if packet.view.ip_proto[packet.index] == UDP:
            if not self.rec.rule("GRO-C1", verify_checksum(packet, self.rec)):
                return None
            return read_udp(packet, self.config, self.rec)
        if not verify_checksum(packet, self.rec):
            return None
        return read_tcp(packet, self.rec)

    def _place(
        self, packet: Incoming, network: Ipv4 | Ipv6, transport: Tcp | Udp, jiffy: int
    ) -> tuple[GroResult, Skb]:
        """Join, hold or send up a packet that GRO takes."""
        bucket = self.buckets[packet.skb.hash % GRO_BUCKETS]
        held = self._same_flow(bucket, packet, network, transport)
        outcome = self._decide(held, packet, network, transport)
        if held is not None and outcome.joined:
            held.skb.members.append(packet.index)
            held.skb.len_bytes += packet.payload_bytes
            held.payload_bytes += packet.payload_bytes
        if held is not None and outcome.completes:
            self._complete(bucket, held)
        if held is not None and outcome.joined:
            self.rec.note("gro", f"joins packet {held.skb.first}", segments=held.count)
            return GroResult.MERGED, held.skb
        if not outcome.hold:
            return self._normal(packet)
        if self.rec.rule("GRO-50", len(bucket) >= GRO_BUCKET_HELD):
            self._complete(bucket, bucket[-1])
        bucket.insert(0, self._hold(packet, network, transport, jiffy))
        self.rec.note(
            "gro", f"held in bucket {packet.skb.hash % GRO_BUCKETS}", hash=packet.skb.hash
        )
        return GroResult.HELD, packet.skb

    def _decide(
        self, held: Held | None, packet: Incoming, network: Ipv4 | Ipv6, transport: Tcp | Udp
    ) -> Outcome:
        if isinstance(transport, Tcp):
            return receive_tcp(held, packet, network, transport, self.config, self.rec)
        return receive_udp(held, packet, network, transport, self.config, self.rec)

    def _same_flow(
        self, bucket: list[Held], packet: Incoming, network: Ipv4 | Ipv6, transport: Tcp | Udp
    ) -> Held | None:
        """The newest held packet of the same flow (GRO-1, 2, 10, 15, 21)."""
        rec, mac = self.rec, self._mac(packet)
        for held in bucket:
            if not rec.rule("GRO-1", held.link == packet.link, held=held.skb.first):
                continue
            if not rec.rule("GRO-2", held.mac == mac):
                continue
            if not same_network_flow(held.network, network, rec):
                continue
            assert isinstance(held.transport, Tcp | Udp)
            if rec.rule("GRO-21", held.transport.ports == transport.ports):
                return held
        return None

    def _mac(self, packet: Incoming) -> tuple[int, ...]:
        low, high = cast("list[int]", packet.view.mac[packet.index])
        return low, high

    def _hold(
        self, packet: Incoming, network: Ipv4 | Ipv6, transport: Tcp | Udp, jiffy: int
    ) -> Held:
        packet.skb.gso_size = packet.payload_bytes
        return Held(
            skb=packet.skb,
            link=packet.link,
            network=network,
            transport=transport,
            mac=self._mac(packet),
            age=jiffy,
            payload_bytes=packet.payload_bytes,
        )

    def _complete(self, bucket: list[Held], held: Held) -> None:
        """Finish a held packet: it stays as it came, or becomes one GSO packet (receive.md 5.4)."""
        bucket.remove(held)
        skb = held.skb
        if self.rec.rule("GRO-49", held.count == 1):
            skb.gso_size = 0
        else:
            skb.ip_summed = IpSummed.PARTIAL
            skb.gso_type = self._gso_type(held)
            if isinstance(held.network, Ipv6) and self.rec.rule("GRO-A11", skb.len_bytes > 65575):
                skb.len_bytes += JUMBO_BYTES
        self._append(skb, held.count)

    def _gso_type(self, held: Held) -> int:
        if isinstance(held.transport, Udp):
            return GSO_UDP_L4
        if isinstance(held.network, Ipv6):
            return GSO_TCPV6
        return GSO_TCPV4 | (GSO_FIXEDID if self.rec.rule("GRO-C3", held.fixed_id) else 0)

    def _normal(self, packet: Incoming) -> tuple[GroResult, Skb]:
        self.rec.note("gro", "goes to the stack as it is", ip_summed=packet.skb.ip_summed)
        self._append(packet.skb, 1)
        return GroResult.NORMAL, packet.skb

    def _append(self, skb: Skb, segments: int) -> None:
        """Put an skb on the list; eight segments are a batch (GRO-A12)."""
        self.rx_list.append(skb)
        self.waiting.append(skb)
        self.waiting_segments += segments
        if self.rec.rule("GRO-A12", self.waiting_segments >= GRO_NORMAL_BATCH):
            self.deliver()


def config_of(row: np.void) -> GroConfig:
    """A ``dtypes.GRO_CFG`` record as an object."""
    sizes = int(row["max_size"]), int(row["ipv4_max_size"])
    names = ("enabled", "udp_forwarding", "fresh_skb", "fixed_id_needs_df")
    return GroConfig(*sizes, *(bool(row[name]) for name in names))


def skb_rows(skbs: list[Skb]) -> NDArray[np.void]:
    """The skbs as ``SKB[m]``."""
    rows = np.zeros(len(skbs), dtype=dtypes.SKB)
    for row, skb in zip(rows, skbs, strict=True):
        row["segs"] = len(skb.members)
        for name in dtypes.SKB.names or ():
            if name not in ("segs", "pad"):
                row[name] = getattr(skb, name)
    return rows


def gro_packets(
    packets: Packets,
    poll_counts: NDArray[np.int64],
    jiffies: NDArray[np.int64],
    cfg: np.void,
    hash: NDArray[np.uint32],
    hash_type: NDArray[np.uint8],
    hz: int = 250,
    rec: Recorder = SILENT,
) -> tuple[NDArray[np.void], NDArray[np.int64], NDArray[np.uint8]]:
    """Take every packet through the GRO of one NAPI, poll by poll.

    Args:
        packets: the table.
        poll_counts: int64[k], packets that each poll takes, in the table's order.
        jiffies: int64[k], the jiffies counter in each poll.
        cfg: one ``dtypes.GRO_CFG`` record.
        hash: uint32[n], raw hash on each skb.
        hash_type: uint8[n], `HashType`.
        hz: 1000 and more leave young packets held after a full poll of 64 (N-7).

    Returns:
        ``(skbs, skb_of, result)``: ``SKB[m]`` in delivery order, int64[n] row in it of each packet,
        and uint8[n] `GroResult`.

    Raises:
        ConfigError: an array of another length, or polls that do not take each packet once.
    """
    counts, times = np.asarray(poll_counts, dtype=np.int64), np.asarray(jiffies, dtype=np.int64)
    gro_polls(len(packets), counts, times, {"hash": hash, "hash_type": hash_type})
    view, gro = PacketView(packets), Gro(config_of(cfg), rec)
    hashes, types = np.asarray(hash).tolist(), np.asarray(hash_type).tolist()
    results: list[int] = []
    for count, jiffy in zip(counts.tolist(), times.tolist(), strict=True):
        for index in range(len(results), len(results) + count):
            results.append(gro.receive(view, index, hashes[index], types[index], jiffy)[0])
        gro.flush(rec.rule("N-7", count >= NAPI_WEIGHT and hz >= 1000), jiffy)
        gro.deliver()
    gro.flush(False, 0)
    gro.deliver()
    skb_of = np.zeros(len(packets), dtype=np.int64)
    for place, skb in enumerate(gro.rx_list):
        skb_of[skb.members] = place
    return skb_rows(gro.rx_list), skb_of, np.array(results, dtype=np.uint8)
