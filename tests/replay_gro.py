"""Recorded GRO decisions of a live kernel, replayed: a record in, the differences out.

A record holds the frames of one case, how the kernel's polls took them, and every skb that went to
the stack.
"""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from emu import dtypes
from emu.dtypes import PacketFlag
from emu.intake import from_frames
from emu.model.packets import Packets
from emu.result.skbs import Skbs

CONFIGURATIONS = ("base", "fwd", "maxsmall", "bigtcp")
CHECKSUM_STATES = {
    "none": ("none", 0),
    "unnecessary": ("unnecessary", 0),
    "unnecessary1": ("unnecessary", 1),
}
IP_IN_IP = (4, 41)
Record = dict[str, Any]


def read_records(path: Path) -> Iterator[Record]:
    with gzip.open(path, "rt") as lines:
        for line in lines:
            yield json.loads(line)


def packets_of(record: Record) -> Packets:
    """The record's frames as the receiver's driver hands them up."""
    ip_summed, csum_level = CHECKSUM_STATES[record["csum_in"]]
    return from_frames(
        [bytes.fromhex(frame) for frame in record["frames"]],
        # The recorder of the large configuration let the stack take the tag out beforehand.
        vlan_accel=record["vlan_accel"] or record["cfg"] == "bigtcp",
        ip_summed=ip_summed,
        csum_level=csum_level,
        skb_hash=[entry[0] for entry in record["in"]],
        hash_type="l4",
    )


def out_of_scope(record: Record) -> str | None:
    """Why a record is not compared; None if it is."""
    if record["cfg"] not in CONFIGURATIONS:
        return f"configuration {record['cfg']}"
    if not record["complete"] or not record["equal"]:
        return "incomplete"
    if None in record["frames"] or sum(record["polls"]) != len(record["frames"]):
        return "pause"
    packets = packets_of(record)
    tunnels = (packets.flags & PacketFlag.TUNNEL != 0) & np.isin(packets.ip_proto, IP_IN_IP)
    return "IP in IP" if tunnels.any() else None


def settings_of(record: Record) -> np.void:
    row = np.zeros(1, dtype=dtypes.GRO_CFG)
    row["max_size"] = record["sizes"]["gro_max_size"]
    row["ipv4_max_size"] = record["sizes"]["gro_ipv4_max_size"]
    row["enabled"] = 1
    row["udp_forwarding"] = record["feat"]["fwd"]
    return row[0]


def decide(module: Any, record: Record) -> tuple[Packets, Any, Any, Any]:
    """Run the record through one engine's GRO."""
    packets = packets_of(record)
    answer = module.gro_packets(
        packets,
        np.array(record["polls"], dtype=np.int64),
        np.zeros(len(record["polls"]), dtype=np.int64),
        settings_of(record),
        packets.skb_hash,
        packets.hash_type,
    )
    return packets, *answer


def differences(module: Any, record: Record) -> list[str]:
    """Everything in which the engine's answer is not the kernel's; empty when all is equal."""
    packets, skbs, skb_of, result = decide(module, record)
    wanted_result = [0 if entry[4] == 1 else entry[4] for entry in record["in"]]
    found = []
    if result.tolist() != wanted_result:
        found.append(f"results {result.tolist()} for {wanted_result}")
    members: list[list[int]] = [[] for _ in skbs]
    for packet, place in enumerate(skb_of.tolist()):
        members[place].append(packet)
    wanted_members = [[out["f"], *out["segs"]] for out in record["out"]]
    if members != wanted_members:
        return [*found, f"skbs {members} for {wanted_members}"]
    frames = Skbs(packets=packets, table=skbs, skb_of=skb_of, result=result).frames()
    for skb, frame, out in zip(skbs, frames, record["out"], strict=True):
        wanted = {
            name: out[name]
            for name in ("after", "gso_size", "gso_type", "ip_summed", "csum_level", "hash")
        }
        wanted |= {"len_bytes": out["len"], "segs": out["gso_segs"] or 1}
        for name, value in wanted.items():
            if int(skb[name]) != value:
                found.append(f"skb of packet {out['f']}: {name} {int(skb[name])} for {value}")
        # The record has the first 128 octets, and of those the part that was not in pages.
        if frame[: len(out["hdr"]) // 2].hex() != out["hdr"]:
            found.append(f"skb of packet {out['f']}: {frame[:128].hex()} for {out['hdr']}")
    return found


def replay(modules: dict[str, Any], records: Iterator[Record]) -> dict[str, Counter[str]]:
    """Counts: read, in scope, differing per engine, and why the others are out of scope."""
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    for record in records:
        counts["read"] += 1
        reason = out_of_scope(record)
        if reason:
            reasons[reason] += 1
            continue
        counts["in scope"] += 1
        for name, module in modules.items():
            found = differences(module, record)
            counts[f"{name} differ"] += bool(found)
            if found and counts[f"{name} differ"] <= 5:
                print(name, record["id"], found[:4])
    return {"counts": counts, "out of scope": reasons}
