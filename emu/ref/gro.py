"""GRO of one NAPI, or of a cpumap's kthread: packets in, skbs for the stack out (receive.md 5).

Not modelled: slow-path state (GRO-3: no table holds it), TLS, PSP and page pools (GRO-28), the
handlers of GRE, VXLAN and ESP.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from emu import dtypes
from emu.dtypes import (
    GRO_BUCKET_HELD,
    GRO_BUCKETS,
    GRO_NORMAL_BATCH,
    NAPI_WEIGHT,
    CpumapDesign,
    GroResult,
)
from emu.model.inputs import gro_polls
from emu.model.packets import Packets
from emu.ref.cpumap import FLUSH_NONE, FLUSH_OLD, KTHREAD_BATCH, step_flush
from emu.ref.gro_checksum import verify_checksum
from emu.ref.gro_finish import finish
from emu.ref.gro_ip import TUNNELS, UDP, Ipv4, Ipv6, read_network, same_network_flow
from emu.ref.gro_skb import (
    GSO_DODGY,
    GSO_TCPV4,
    GSO_TCPV6,
    GroConfig,
    Held,
    Incoming,
    Skb,
    incoming,
)
from emu.ref.gro_tcp import Outcome, Tcp, read_tcp, receive_tcp
from emu.ref.gro_udp import Udp, read_udp, receive_udp
from emu.ref.packet import PacketView
from emu.ref.record import SILENT, Recorder

NO_CPUMAP = 255
HZ_OF_YOUNG_PACKETS = 1000  # from here on a full poll spares what was held in this jiffy (N-7)
Networks = tuple[Ipv4 | Ipv6, ...]


class Carried(NamedTuple):
    """The packet that rides in IP in IP: a row of a table of such."""

    view: PacketView
    row: int


class Gro:
    """The GRO state of one NAPI.

    Attributes:
        buckets: what is held, each bucket newest first.
        rx_list: skbs given to the stack, in order; the caller takes them out.
        entered: packets that have come in.
        defer_count: completions that still keep the interrupt masked (N-8).
    """

    def __init__(self, config: GroConfig, rec: Recorder = SILENT) -> None:
        self.config, self.rec = config, rec
        self.buckets: list[list[Held]] = [[] for _ in range(GRO_BUCKETS)]
        self.rx_list: list[Skb] = []
        self.waiting: list[Skb] = []  # on rx_list, not yet delivered
        self.waiting_segments = 0
        self.entered = 0
        self.defer_count = 0

    def receive(
        self,
        view: PacketView,
        index: int,
        hash_value: int,
        hash_type: int,
        jiffy: int,
        sock: int = 0,
        carried: Carried | None = None,
    ) -> tuple[GroResult, Skb]:
        """Take one packet in; answers what GRO did, and the skb that the packet is now in."""
        self.rec.about((index,))
        self.entered += 1
        packet = incoming(view, index, hash_value, hash_type, self.config.fresh_skb)
        packet.sock = sock
        networks: Networks = ()
        if self.rec.rule("R-5.2.1", self.config.enabled):
            networks = self._read_networks(packet, carried)
        transport = self._read_transport(packet) if networks else None
        if transport is None:
            return self._normal(packet)
        return self._place(packet, networks, transport, jiffy)

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

    def end_poll(self, work: int, jiffy: int, hz: int, complete: bool = True) -> None:
        """What napi_poll does behind the driver's work (N-7, N-8).

        Args:
            work: frames that the poll took.
            complete: a full poll completes too: the driver found no more. Less than a full poll
                always completes.
        """
        full = self.rec.rule("N-7", work >= NAPI_WEIGHT)
        if full:
            self.flush(hz >= HZ_OF_YOUNG_PACKETS, jiffy)
            self.deliver()
        if self.rec.rule("N-8", not full or complete):
            self.flush(self._keeps_young(work), jiffy)
            self.deliver()

    def _keeps_young(self, work: int) -> bool:
        """Whether a timer is started, which will come for what is held (napi_complete_done)."""
        timeout = 0
        if work > 0:
            if any(self.buckets):
                timeout = self.config.flush_timeout_ns
            self.defer_count = self.config.defer_hard_irqs
        if self.rec.rule("N-8.deferred", self.defer_count > 0, left=self.defer_count):
            self.defer_count -= 1
            timeout = self.config.flush_timeout_ns
        return self.rec.rule("N-8.timer", timeout != 0, timeout_ns=timeout)

    def _read_networks(self, packet: Incoming, carried: Carried | None) -> Networks:
        """The network headers, outermost first; none when the packet goes by what is held."""
        if self.rec.rule("R-5.2.4", packet.gso, gso_type=packet.skb.gso_type):
            is_tcp = bool(packet.skb.gso_type & (GSO_TCPV4 | GSO_TCPV6))
            packet.soft = not is_tcp or bool(packet.skb.gso_type & GSO_DODGY)
        outer = read_network(packet, self.config, self.rec)
        if outer is None or outer.protocol not in TUNNELS:
            return () if outer is None else (outer,)
        if carried is None:  # its octets were not kept
            return ()
        packet.enter(*carried)
        inner = read_network(packet, self.config, self.rec)
        if inner is None or self.rec.rule("GRO-14", inner.protocol in TUNNELS):
            return ()
        return (outer, inner)

    def _read_transport(self, packet: Incoming) -> Tcp | Udp | None:
        if packet.view.ip_proto[packet.index] == UDP:
            if not self.rec.rule("GRO-C1", verify_checksum(packet, self.rec)):
                return None
            return read_udp(packet, self.config, self.rec)
        if not verify_checksum(packet, self.rec):
            return None
        tcp = read_tcp(packet, self.rec)
        if tcp is not None:
            packet.skb.tcp_flags = tcp.flags
        return tcp

    def _place(
        self, packet: Incoming, networks: Networks, transport: Tcp | Udp, jiffy: int
    ) -> tuple[GroResult, Skb]:
        """Join, hold or send up a packet that GRO takes."""
        bucket = self.buckets[packet.skb.hash % GRO_BUCKETS]
        held = self._same_flow(bucket, packet, networks, transport)
        outcome = self._decide(held, packet, networks, transport)
        if held is not None and outcome.joined:
            held.skb.members.append(packet.skb.first)
            held.skb.len_bytes += packet.payload_bytes
            held.payload_bytes += packet.payload_bytes
            held.count += packet.segments
        if held is not None and outcome.completes:
            self._complete(bucket, held)
        if held is not None and outcome.joined:
            self.rec.note("gro", f"joins packet {held.skb.first}", segments=held.count)
            return GroResult.MERGED, held.skb
        if not outcome.hold:
            return self._normal(packet)
        if self.rec.rule("GRO-50", len(bucket) >= GRO_BUCKET_HELD):
            self._complete(bucket, bucket[-1])
        bucket.insert(0, hold(packet, networks, transport, jiffy))
        self.rec.note(
            "gro", f"held in bucket {packet.skb.hash % GRO_BUCKETS}", hash=packet.skb.hash
        )
        return GroResult.HELD, packet.skb

    def _decide(
        self, held: Held | None, packet: Incoming, networks: Networks, transport: Tcp | Udp
    ) -> Outcome:
        if isinstance(transport, Tcp):
            return receive_tcp(held, packet, networks, transport, self.config, self.rec)
        return receive_udp(held, packet, networks, transport, self.config, self.rec)

    def _same_flow(
        self, bucket: list[Held], packet: Incoming, networks: Networks, transport: Tcp | Udp
    ) -> Held | None:
        """The newest held packet of the same flow (GRO-1, 2, 10, 15, 21)."""
        rec = self.rec
        for held in bucket:
            if not rec.rule("GRO-1", held.link == packet.link, held=held.skb.first):
                continue
            if not rec.rule("GRO-2", held.mac == packet.mac):
                continue
            if len(held.networks) != len(networks):
                continue
            pairs = zip(held.networks, networks, strict=True)
            if not all(same_network_flow(first, header, rec) for first, header in pairs):
                continue
            assert isinstance(held.transport, Tcp | Udp)
            if rec.rule("GRO-21", held.transport.ports == transport.ports):
                return held
        return None

    def _complete(self, bucket: list[Held], held: Held) -> None:
        """Finish a held packet and give it to the stack."""
        bucket.remove(held)
        finish(held, self.config, self.rec)
        self._append(held.skb, held.count)

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


def hold(packet: Incoming, networks: Networks, transport: Tcp | Udp, jiffy: int) -> Held:
    """The packet as the first of what may join it."""
    gso_size = packet.skb.gso_size if packet.gso else packet.payload_bytes
    return Held(
        skb=packet.skb,
        link=packet.link,
        networks=networks,
        transport=transport,
        mac=packet.mac,
        age=jiffy,
        l4_off=packet.l4_off,
        payload_bytes=packet.payload_bytes,
        gso_size=gso_size,
        count=packet.segments,
        is_flist=packet.is_flist,
        fixed_ids=[False] * len(networks),
    )


def config_of(row: np.void) -> GroConfig:
    """A ``dtypes.GRO_CFG`` record as an object."""
    numbers = ("max_size", "ipv4_max_size", "flush_timeout_ns", "defer_hard_irqs", "design")
    said: dict[str, Any] = {
        name: int(row[name]) if name in numbers else bool(row[name])
        for name in dtypes.GRO_CFG.names or ()
        if name != "pad"
    }
    return GroConfig(**said)


def skb_rows(skbs: list[Skb]) -> NDArray[np.void]:
    """The skbs as ``SKB[m]``."""
    rows = np.zeros(len(skbs), dtype=dtypes.SKB)
    for row, skb in zip(rows, skbs, strict=True):
        row["segs"] = len(skb.members)
        for name in dtypes.SKB.names or ():
            if name not in ("segs", "pad"):
                row[name] = getattr(skb, name)
    return rows


class Arrivals:
    """What comes in, packet by packet: the arrays of `gro_packets` as lists."""

    def __init__(
        self,
        packets: Packets,
        hashes: NDArray[np.uint32],
        types: NDArray[np.uint8],
        sock: NDArray[np.uint8] | None,
        inner: Packets | None,
        inner_of: NDArray[np.integer[Any]] | None,
    ) -> None:
        count = len(packets)
        self.view = PacketView(packets)
        self.hashes, self.types = np.asarray(hashes).tolist(), np.asarray(types).tolist()
        self.sock = [0] * count if sock is None else np.asarray(sock).tolist()
        self.inner_of = [-1] * count if inner_of is None else np.asarray(inner_of).tolist()
        self.inner_view = None if inner is None else PacketView(inner)
        self.results: list[int] = []

    def enter(self, gro: Gro, count: int, jiffy: int) -> None:
        """The next *count* packets come in."""
        for index in range(len(self.results), len(self.results) + count):
            row = self.inner_of[index]
            riding = self.inner_view is not None and row >= 0
            carried = Carried(self.inner_view, row) if riding and self.inner_view else None
            result, _ = gro.receive(
                self.view,
                index,
                self.hashes[index],
                self.types[index],
                jiffy,
                self.sock[index],
                carried,
            )
            self.results.append(result)


def wake_kthread(gro: Gro, arrivals: Arrivals, count: int, jiffy: int, hz: int) -> None:
    """A cpumap's kthread finds *count* frames in its ring: steps of 8 until it is empty."""
    design = CpumapDesign(gro.config.design)
    since_flush, left = 0, count
    while left:
        step = min(left, KTHREAD_BATCH)
        arrivals.enter(gro, step, jiffy)
        left -= step
        since_flush += step
        flush = step_flush(design, since_flush, left == 0, hz, gro.rec)
        if flush != FLUSH_NONE:
            gro.flush(flush == FLUSH_OLD, jiffy)
            if design == CpumapDesign.NAPI and left == 0 and since_flush >= NAPI_WEIGHT:
                # The full poll is followed by one that finds nothing and completes.
                gro.deliver()
                gro.flush(False, jiffy)
            since_flush = 0
        if flush != FLUSH_NONE or design == CpumapDesign.PLAIN:
            gro.deliver()


def gro_packets(
    packets: Packets,
    poll_counts: NDArray[np.int64],
    jiffies: NDArray[np.int64],
    cfg: np.void,
    hash: NDArray[np.uint32],
    hash_type: NDArray[np.uint8],
    hz: int = 250,
    sock: NDArray[np.uint8] | None = None,
    inner: Packets | None = None,
    inner_of: NDArray[np.integer[Any]] | None = None,
    rec: Recorder = SILENT,
) -> tuple[NDArray[np.void], NDArray[np.int64], NDArray[np.uint8]]:
    """Take every packet through the GRO of one NAPI, poll by poll.

    Args:
        packets: the table.
        poll_counts: int64[k], packets that each poll takes, in the table's order. Of a cpumap's
            kthread: frames in its ring when it wakes.
        jiffies: int64[k], the jiffies counter in each poll.
        cfg: one ``dtypes.GRO_CFG`` record.
        hash: uint32[n], raw hash on each skb.
        hash_type: uint8[n], `HashType`.
        hz: 1000 and more leave young packets held after a full poll of 64 (N-7).
        sock: uint8[n], what a socket lookup here answers: 0 none, or nobody asks; of UDP 1 a
            socket, 2 one with UDP_GRO; of TCP 1 an established one. None: all 0.
        inner: packets that ride in IP in IP (`emu.intake.inner_packets`); None: such go by.
        inner_of: int32[n], the row of it that each packet carries, -1 none.

    Returns:
        ``(skbs, skb_of, result)``: ``SKB[m]`` in delivery order, int64[n] row in it of each packet,
        and uint8[n] `GroResult`.

    Raises:
        ConfigError: an array of another length, or polls that do not take each packet once.
    """
    counts, times = np.asarray(poll_counts, dtype=np.int64), np.asarray(jiffies, dtype=np.int64)
    columns: dict[str, NDArray[Any]] = {"hash": hash, "hash_type": hash_type}
    gro_polls(len(packets), counts, times, columns, sock, inner, inner_of)
    arrivals = Arrivals(packets, hash, hash_type, sock, inner, inner_of)
    gro = Gro(config_of(cfg), rec)
    for count, jiffy in zip(counts.tolist(), times.tolist(), strict=True):
        if gro.config.design != NO_CPUMAP:
            wake_kthread(gro, arrivals, count, jiffy, hz)
            continue
        arrivals.enter(gro, count, jiffy)
        gro.end_poll(count, jiffy, hz, complete=False)
    gro.flush(False, 0)
    gro.deliver()
    skb_of = np.zeros(len(packets), dtype=np.int64)
    for place, skb in enumerate(gro.rx_list):
        skb_of[skb.members] = place
    return skb_rows(gro.rx_list), skb_of, np.array(arrivals.results, dtype=np.uint8)
