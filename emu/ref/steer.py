"""The steer, one thing after the other: ops, sent packets, polls (docs/steer.md)."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import Any

import numpy as np

from emu import dtypes
from emu.dtypes import NAPI_WEIGHT, Direction, Secret
from emu.model.plan import Array, Plan
from emu.model.polls import Polls
from emu.ref.deliver import placed_by_rss_key
from emu.ref.direction import Addresses
from emu.ref.gro import skb_rows
from emu.ref.ops import apply_op
from emu.ref.packet import PacketView
from emu.ref.poll import run_poll
from emu.ref.record import SILENT, Recorder
from emu.ref.rss import hash_packet, nic_of_row
from emu.ref.sent import send_packet
from emu.ref.setup import make_state
from emu.ref.state import Decision, HostState

OP, SENT, POLL = 0, 1, 2  # order at one instant


def arrive(plan: Plan, rec: Recorder = SILENT) -> dict[str, Array]:
    """Which way each packet goes, and the rx queue of those that come in.

    Returns:
        dict: direction uint8[n] (Direction), rx_hash uint32[n], rx_hash_type uint8[n]
        (HashType), rx_queue int32[n] (queue of the plan, -1 for sent packets), nic_queue int32[n]
        (the same within its NIC), irq_cpu int32[n] (CPU of its interrupt, -1 for sent packets).
    """
    view = PacketView(plan.packets)
    own = {
        words.tobytes()[: 4 if family == 4 else 16]
        for family, words in zip(plan.addr_family, plan.addr_words, strict=True)
    }
    addresses = Addresses(own, forwarding=bool(plan.forwarding))
    nics = [
        nic_of_row(
            row,
            plan.rss_keys[row["table_off"] // dtypes.TOEPLITZ_WORDS].tobytes(),
            plan.indirection,
        )
        for row in plan.rss
    ]
    rows: list[tuple[int, ...]] = []
    first_queue, irq_cpus = plan.nics["rxq_first"].tolist(), plan.rxq_irq_cpu.tolist()
    for index in range(len(view)):
        rec.about((index,))
        way = addresses.direction(
            view.family[index], view.reason[index], view.saddr_bytes[index], view.daddr_bytes[index]
        )
        rec.note("direction", way.name.lower())
        if way == Direction.SENT:
            rows.append((way, 0, 0, -1, -1, -1))
            continue
        nic = nics[view.nic[index]]
        hash_value, hash_type = hash_packet(nic, view, index, rec)
        queue = nic.queue(hash_value, hash_type)
        rec.note(
            "rss",
            f"rx queue {queue} of nic {view.nic[index]}",
            hash=f"{hash_value:#010x}",
            type=hash_type.name,
            table=len(nic.indirection),
        )
        place = first_queue[view.nic[index]] + queue
        rows.append((way, hash_value, hash_type, place, queue, irq_cpus[place]))
    columns = zip(*rows, strict=True) if rows else ((),) * 6
    direction, hashes, types, queues, nic_queues, cpus = columns
    return {
        "direction": np.array(direction, dtype=np.uint8),
        "rx_hash": np.array(hashes, dtype=np.uint32),
        "rx_hash_type": np.array(types, dtype=np.uint8),
        "rx_queue": np.array(queues, dtype=np.int32),
        "nic_queue": np.array(nic_queues, dtype=np.int32),
        "irq_cpu": np.array(cpus, dtype=np.int32),
    }


def run(
    plan: Plan,
    arrived: dict[str, Array],
    polls: Polls,
    rec: Recorder = SILENT,
) -> dict[str, Any]:
    """Take every decision behind the rx queue.

    Args:
        arrived: what `arrive` answered.
        polls: every received packet once.

    Returns:
        dict: gro uint8[n], skb int32[n], drop uint8[n], secrets uint8[n] per packet; skbs SKB[m]
        and decided SKB_DECISION[m] in delivery order; incoming_cpu int32[sockets], SO_INCOMING_CPU
        at the end; counts uint64[stages] in the order of STEER_STAGES.
    """
    host = make_state(plan, arrived, rec)
    host.counts["rss"] = int((arrived["rx_queue"] >= 0).sum())
    complete = completes(polls)
    for kind, index in schedule(plan, arrived, polls):
        if kind == OP:
            apply_op(host, plan.ops[index])
        elif kind == SENT:
            send_packet(host, index)
        else:
            run_poll(host, polls, index, complete[index])
    return results(host)


def schedule(plan: Plan, arrived: dict[str, Array], polls: Polls) -> Iterator[tuple[int, int]]:
    """(kind, index) of ops, sent packets and polls by time, at one instant in this order."""
    sent = np.flatnonzero(arrived["direction"] == Direction.SENT).tolist()
    arrival = plan.packets.arrival_ps
    ops = ((int(row["time_ps"]), OP, index) for index, row in enumerate(plan.ops))
    sends = sorted((int(arrival[packet]), SENT, packet) for packet in sent)
    polled = ((time, POLL, index) for index, time in enumerate(polls.time_ps.tolist()))
    for _, kind, index in heapq.merge(ops, sends, polled):
        yield kind, index


def completes(polls: Polls) -> list[bool]:
    """Whether the NAPI completes after each poll.

    It does not when the poll was full and the repoll follows at the same instant.
    """
    out = [True] * len(polls)
    following: dict[int, int] = {}  # queue -> time of its next poll
    for index in reversed(range(len(polls))):
        queue, time_ps = int(polls.queue[index]), int(polls.time_ps[index])
        if polls.count[index] >= NAPI_WEIGHT and following.get(queue) == time_ps:
            out[index] = False
        following[queue] = time_ps
    return out


def results(host: HostState) -> dict[str, Any]:
    """The state's lists as the arrays both engines answer with."""
    packets = len(host.view)
    skb_of = np.full(packets, -1, dtype=np.int32)
    drop = np.zeros(packets, dtype=np.uint8)
    secrets = np.zeros(packets, dtype=np.uint8)
    gro = np.full(packets, dtypes.GroResult.BYPASS, dtype=np.uint8)
    for packet, result in host.gro_result.items():
        gro[packet] = result
    for packet, reason in host.packet_drop.items():
        drop[packet] = reason
        if placed_by_rss_key(host, packet):
            secrets[packet] = Secret.RSS_KEY
    decided = np.zeros(len(host.delivered), dtype=dtypes.SKB_DECISION)
    for place, (skb, decision) in enumerate(host.delivered):
        fill_decision(decided[place], decision)
        skb_of[skb.members] = place
        drop[skb.members] = decision.drop
        secrets[skb.members] = decision.secrets
    return {
        "gro": gro,
        "skb": skb_of,
        "drop": drop,
        "secrets": secrets,
        "skbs": skb_rows([skb for skb, _ in host.delivered]),
        "decided": decided,
        "incoming_cpu": np.array(host.incoming_cpu, dtype=np.int32),
        "counts": np.array([host.counts[stage] for stage in dtypes.STEER_STAGES], dtype=np.uint64),
    }


def fill_decision(row: np.void, decision: Decision) -> None:
    """A decision into its SKB_DECISION row."""
    for name in dtypes.SKB_DECISION.names or ():
        if name != "pad":
            row[name] = getattr(decision, name)
