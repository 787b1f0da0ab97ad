"""Recorded values of SO_INCOMING_CPU that the data path writes on sockets (SOCK-42)."""

from __future__ import annotations

from emu.replay.masks import of_kind
from emu.replay.parts import Context, Part, Record, Result


def replay_incoming_cpu(record: Record, context: Context) -> Result:
    """Each row: a fresh UDP socket, connected or not, and one packet in a softirq."""
    out = Result()
    lookup = context.module("lookup")
    for family, connected, _, before, softirq_cpu, after in record["rows"]:
        said = lookup.recorded_cpu(bool(connected), before, softirq_cpu)
        out.compare("getsockopt", said, after, family, connected, softirq_cpu)
    return out


PARTS = (Part("manycpu/incoming_cpu", of_kind("incoming_cpu"), replay_incoming_cpu),)
