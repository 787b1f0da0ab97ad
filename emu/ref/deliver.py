"""An skb goes up: RPS, protocol, socket (docs/steer.md, steps 1 to 4)."""

from __future__ import annotations

from emu.dtypes import Direction, Drop, HashType, IpSummed, Secret, TxOf
from emu.ref import bits
from emu.ref.flow_hash import packet_hash
from emu.ref.gro_skb import Skb
from emu.ref.record import SILENT, Recorder
from emu.ref.reply import packet_flow, place_on_queue, reply
from emu.ref.state import Decision, HostState


def deliver(host: HostState, skb: Skb, napi_cpu: int, nic: int, rx_queue: int) -> None:
    """One skb from *napi_cpu* to its end.

    rx_queue: the queue within the NIC that it recorded, -1 none.
    """
    first = skb.first
    host.rec.about(skb.members)
    decision = Decision(direction=host.direction[first], napi_cpu=napi_cpu, cpu=napi_cpu)
    host.delivered.append((skb, decision))
    if placed_by_rss_key(host, first):
        decision.secrets |= Secret.RSS_KEY
    decision.cpu = processing_cpu(host, decision, skb, nic, max(rx_queue, 0))
    if decision.direction == Direction.FORWARDED:
        forward(host, decision, skb, nic, rx_queue)
    elif decision.direction == Direction.RECEIVED:
        receive(host, decision, skb, nic, rx_queue)
    else:
        decision.drop = drop_of_foreign(host, first)
        host.rec.note("protocol", f"ends here: {decision.drop.name}")


def hangs_on_rss_key(host: HostState, packet: int) -> bool:
    """Whether a secret RSS key stands behind the packet's hardware hash."""
    secret = host.nics[host.view.nic[packet]].key_secret
    return secret and host.rx_hash_type[packet] != HashType.NONE


def placed_by_rss_key(host: HostState, packet: int) -> bool:
    """Whether another RSS key could have brought the packet elsewhere.

    In front of a cpumap it could have filled a ring otherwise, which frames without a hash share.
    """
    nic = host.nics[host.view.nic[packet]]
    if len(nic.queues) == 1 or not nic.key_secret:
        return False
    return nic.cpumap is not None or host.rx_hash_type[packet] != HashType.NONE


def get_hash(host: HostState, skb: Skb) -> tuple[int, Secret]:
    """skb_get_hash: the skb's hash if it covers L4 or is the stack's own, else computed and kept.

    Also answers which secret the value hangs on.
    """
    if host.rec.rule("R-2.1", skb.hash_type == HashType.L4, hash_type=HashType(skb.hash_type).name):
        return skb.hash, hash_secret(host, skb)
    if skb.hash_type not in (HashType.SW, HashType.SW_L4):
        host.counts["flow_hash"] += 1
        skb.hash, covers_l4 = packet_hash(host.flow_hash_key, host.view, skb.first)
        skb.hash_type = HashType.SW_L4 if covers_l4 else HashType.SW
        host.rec.note("flow_hash", f"computed {skb.hash:#010x}", type=HashType(skb.hash_type).name)
    return skb.hash, hash_secret(host, skb)


def hash_secret(host: HostState, skb: Skb) -> Secret:
    """What the hash that an skb has hangs on."""
    if skb.hash_type in (HashType.SW, HashType.SW_L4):
        return Secret.FLOW_HASH
    ours = skb.hash_type != HashType.NONE and host.nics[host.view.nic[skb.first]].hw_hash
    return Secret.RSS_KEY if ours and hangs_on_rss_key(host, skb.first) else Secret(0)


def processing_cpu(host: HostState, decision: Decision, skb: Skb, nic: int, queue: int) -> int:
    """get_rps_cpu: with a map on the queue, the hash picks the CPU that processes the skb."""
    cpus, rfs = host.nics[nic].queues[queue].rps_cpus, host.rfs
    place = int(host.plan.nics[nic]["rxq_first"]) + queue
    if not rfs.asks_hash(place, cpus, host.rec):
        return decision.napi_cpu
    host.counts["rps"] += 1
    hash_value, secret = get_hash(host, skb)
    has_tables = bool(rfs.size and rfs.sizes[place])
    if len(cpus) > 1 or has_tables:
        decision.secrets |= secret
    if has_tables:
        decision.secrets |= host.table_secrets
    # Nothing waits in a backlog here: every CPU's head has passed every flow's tail.
    cpu, slot = rfs.choose(place, hash_value, cpus, host.online, [0] * rfs.ncpus, host.rec)
    chosen = cpu if cpu >= 0 else decision.napi_cpu
    if slot >= 0:
        decision.secrets |= host.flow_secrets.get(hash_value & rfs.size - 1, Secret(0))
        host.rec.note("rfs", f"CPU {chosen}, where its flow is read", hash=f"{hash_value:#010x}")
    else:
        said = f"CPU {chosen}, one of {len(cpus)}"
        host.rec.note("rps", said, hash=f"{hash_value:#010x}", cpus=cpus)
    return chosen


def forward(host: HostState, decision: Decision, skb: Skb, nic: int, rx_queue: int) -> None:
    """The tx queue of a forwarded skb, on the NIC it leaves by."""
    if host.view.flags[skb.first] & bits.IP_CSUM_BAD:
        decision.drop = Drop.CSUM
        return
    out = host.nics[nic].forward_nic
    prio = forwarded_priority(host.view.family[skb.first], host.view.tos[skb.first])
    host.counts["xps"] += 1

    def pick(hash_value: int, rec: Recorder) -> tuple[int, int, bool]:
        return host.nics[out].xps.pick(
            cached=-1,
            ooo_okay=False,
            can_store=False,
            sk_rx=-1,
            recorded_rx=rx_queue,
            cpu=decision.cpu,
            prio=prio,
            hash=hash_value,
            rec=rec,
        )

    hash_value = 0
    _, _, used_hash = pick(hash_value, SILENT)  # does the answer hang on the hash at all?
    if used_hash:
        hash_value, secret = get_hash(host, skb)
        decision.secrets |= secret
    queue, _, _ = pick(hash_value, host.rec)
    decision.tx_of = TxOf.FORWARD
    place_on_queue(host, decision, out, queue)
    host.rec.note("xps", f"forwarded by CPU {decision.cpu} through tx queue {queue}")


# skb->priority by the four TOS bits of a forwarded packet (rt_tos2priority).
PRIORITY_OF_TOS = (0, 0, 0, 0, 2, 2, 2, 2, 6, 6, 6, 6, 4, 4, 4, 4)


def forwarded_priority(family: int, tos: int) -> int:
    """skb->priority of a forwarded packet: IPv4's TOS says it, IPv6 has none."""
    return PRIORITY_OF_TOS[(tos & 0x1E) >> 1] if family == 4 else 0


def drop_of_foreign(host: HostState, packet: int) -> Drop:
    """Why a frame that is neither for the host nor forwarded ends."""
    if host.view.reason[packet]:
        return Drop.NOT_DISSECTED
    return Drop.OTHERHOST if host.view.family[packet] else Drop.UNHANDLED_PROTO


def drop_before_lookup(host: HostState, skb: Skb) -> Drop:
    """Why a received skb ends before the socket lookup; NONE when it does not."""
    view, first = host.view, skb.first
    flags = view.flags[first]
    if view.reason[first]:
        return Drop.NOT_DISSECTED
    if flags & bits.IP_CSUM_BAD:
        return Drop.CSUM
    if flags & bits.FRAGMENT:
        return Drop.FRAGMENT
    if view.ip_proto[first] not in (6, 17):
        return Drop.UNHANDLED_PROTO
    if flags & bits.L4_CSUM_BAD and skb.ip_summed == IpSummed.NONE:
        return Drop.CSUM
    return Drop.NONE


def receive(host: HostState, decision: Decision, skb: Skb, nic: int, rx_queue: int) -> None:
    """A packet for the host: its socket, and what follows."""
    decision.drop = drop_before_lookup(host, skb)
    if decision.drop:
        host.rec.note("protocol", f"ends here: {decision.drop.name}")
        return
    view, first = host.view, skb.first
    found = host.lookup.find(host.view.packets, first, nic + 1, decision.cpu)
    sock, secrets, scanned, walked, stage = found
    host.counts["lookup"] += 1
    host.counts["reuseport"] += walked > 0
    decision.secrets |= Secret(secrets)
    decision.stage, decision.scanned, decision.walked = stage, scanned, walked
    decision.socket = sock
    if host.rfs.size:
        host.table_secrets |= decision.secrets | hash_secret(host, skb)
    if sock < 0:
        decision.drop = Drop.NO_SOCKET
        host.rec.note("lookup", "no socket", scanned=scanned)
        return
    host.rec.note("lookup", f"socket {sock}", scanned=scanned, walked=walked)
    reply(host, decision, sock, packet_flow(view, first), nic, rx_queue, skb.hash)
