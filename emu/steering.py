"""The doors that take a host: check, lower, pick the engine, wrap the answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np

from emu.dtypes import NAPI_WEIGHT, STEER_STAGES, PacketFlag
from emu.engines import stage
from emu.errors import ConfigError
from emu.intake import inner_packets
from emu.model.host import Host
from emu.model.lower import lower
from emu.model.ops import Op
from emu.model.packets import Packets
from emu.model.plan import Plan
from emu.model.polls import Polls, check_polls
from emu.result.decisions import Decisions
from emu.units import PS_PER_SECOND


def steer(
    host: Host,
    packets: Packets,
    *,
    ops: Sequence[Op] = (),
    polls: Polls | None = None,
    engine: str = "core",
) -> Decisions:
    """Take every decision of the packet path, without time (docs/steer.md).

    Args:
        host: the host; its ``secrets`` stand for the keys that nobody can read.
        packets: the table from `read_capture`, `from_frames` or `generate`.
        ops: what happens between packets.
        polls: the NAPI polls; made by the interrupt model when not given.
        engine: ``"core"`` or ``"ref"``; both give the same answer, bit for bit.

    Raises:
        ConfigError: no packets; a NIC, queue, socket or CPU that the host lacks; polls that do not
            fit the packets.
        CoreNotBuilt: the core is asked for and not built.
    """
    if not isinstance(host, Host) or not isinstance(packets, Packets):
        given = f"{type(host).__name__} and {type(packets).__name__}"
        raise ConfigError("steer", given, "a Host and Packets", "steer(host, packets)")
    if len(packets) == 0:
        raise ConfigError("packets", "an empty table", "at least one packet", "another capture")
    return decide(host, lowered(host, packets, ops, engine), polls, engine)


def lowered(host: Host, packets: Packets, ops: Sequence[Op], engine: str) -> Plan:
    """The plan of a steer."""
    return with_inner(lower(host, packets, ops), engine)


def with_inner(plan: Plan, engine: str) -> Plan:
    """The plan, with the packets that ride in others dissected too."""
    if not (plan.packets.flags & PacketFlag.TUNNEL).any():
        return plan
    inner, inner_of = inner_packets(plan.packets, engine)
    return attrs.evolve(plan, inner=inner, inner_of=inner_of)


def decide(host: Host, plan: Plan, polls: Polls | None, engine: str, **recorder: Any) -> Decisions:
    """Run a lowered plan through one engine."""
    steering = stage(engine, "steer")
    arrived = steering.arrive(plan, **recorder)
    queue = arrived["rx_queue"]
    if polls is None:
        polls = make_polls(plan, queue, engine)
    else:
        check_polls(polls, queue, queues=len(plan.rxq_irq_cpu))
    out = steering.run(plan, arrived, polls, **recorder)
    arrays = {
        "nic": plan.packets.nic,
        "direction": arrived["direction"],
        "rx_hash": arrived["rx_hash"],
        "rx_hash_type": arrived["rx_hash_type"],
        "rx_queue": arrived["nic_queue"],
        "irq_cpu": arrived["irq_cpu"],
        "gro": out["gro"],
        "skb": out["skb"],
        "drop": out["drop"],
        "secrets": out["secrets"],
    }
    counts = dict(zip(STEER_STAGES, out["counts"].tolist(), strict=True))
    return Decisions(
        host=host,
        arrays=arrays,
        skbs=out["skbs"],
        decided=out["decided"],
        counts=counts,
        polls=polls,
        incoming_cpu=out["incoming_cpu"],
    )


def make_polls(plan: Plan, queue: np.ndarray[Any, Any], engine: str) -> Polls:
    """The polls of the stated interrupt model."""
    jiffy_ps = PS_PER_SECOND // plan.hz
    order, poll_queue, first, count, time_ps = stage(engine, "napi").make_polls(
        queue,
        plan.packets.arrival_ps,
        plan.rxq_usecs_ps,
        plan.rxq_frames,
        weight=NAPI_WEIGHT,
        jiffy_ps=jiffy_ps,
    )
    return Polls(
        order=order,
        queue=poll_queue,
        first=first,
        count=count,
        time_ps=time_ps,
        jiffy=time_ps // jiffy_ps,
    )
