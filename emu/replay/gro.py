"""Recorded decisions of GRO: the frames of a case, how polls took them, the skbs that came out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emu.dtypes import PacketFlag
from emu.intake import from_frames, inner_packets
from emu.kernels import KernelProfile
from emu.model.lower import gro_cfg
from emu.model.nic import Gro
from emu.model.packets import Packets
from emu.replay.parts import Context, Part, Record, Result, skipped
from emu.replay.vnet import vnet_columns
from emu.result.skbs import Skbs

CHECKSUM_STATES = {
    "none": ("none", 0),
    "unnecessary": ("unnecessary", 0),
    "unnecessary1": ("unnecessary", 1),
}
# What the recorder of these configurations had open at the receiver.
UDP_GRO_CONFIGURATIONS, UDP_GRO_PORTS = ("udpsock", "udpsockfl"), (9000, 9001)
FIELDS = {
    "after": "after",
    "gso_size": "gso_size",
    "gso_type": "gso_type",
    "gso_segs": "gso_segs",
    "ip_summed": "ip_summed",
    "csum_level": "csum_level",
    "csum_start": "csum_start",
    "csum_off": "csum_off",
    "hash": "hash",
    "len": "len_bytes",
}
MERGED, MERGED_FREE = 0, 1
VIRTIO_KINDS = {1: 1 << 0, 4: 1 << 4, 5: 1 << 17}
MOST_TIMED_POLLS = 12


def packets_of(record: Record) -> Packets:
    """The record's frames as the receiver's driver hands them up."""
    ip_summed, csum_level = CHECKSUM_STATES[record["csum_in"]]
    frames = [bytes.fromhex(frame) for frame in record["frames"] if frame is not None]
    columns: dict[str, Any] = {"ip_summed": ip_summed, "csum_level": csum_level}
    if record.get("vnet"):
        columns = vnet_columns(record["vnet"], frames)
    hashes = [entry[0] for entry in record["in"]] if "in" in record else 0
    return from_frames(
        frames,
        # The recorder of the large configuration let the stack take the tag out beforehand.
        vlan_accel=record["vlan_accel"] or record["cfg"] == "bigtcp",
        skb_hash=hashes,
        hash_type="l4",
        **columns,
    )


def settings_of(record: Record, kernel: KernelProfile) -> NDArray[np.void]:
    """GRO_CFG[1] of the receiver."""
    sizes, features = record.get("sizes", {}), record["feat"]
    device = Gro(
        rx_udp_gro_forwarding=bool(features.get("fwd")),
        max_size=sizes.get("gro_max_size", 65536),
        ipv4_max_size=sizes.get("gro_ipv4_max_size", 65536),
    )
    cfg = gro_cfg(device, kernel)
    cfg["fraglist"] = features.get("flist", 0)
    cfg["flush_timeout_ns"] = features.get("timeout", 0)
    cfg["defer_hard_irqs"] = features.get("defer", 0)
    return cfg


def sockets_of(record: Record, packets: Packets, inner: Packets, inner_of: Any) -> Any:
    """What a lookup at the receiver answers per packet: a UDP_GRO socket, or none."""
    sock = np.zeros(len(packets), dtype=np.uint8)
    if record["cfg"] in UDP_GRO_CONFIGURATIONS:
        sock[np.isin(packets.dport, UDP_GRO_PORTS) & (packets.ip_proto == 17)] = 2
        inside = np.isin(inner.dport, UDP_GRO_PORTS) & (inner.ip_proto == 17)
        riding = inner_of >= 0
        sock[riding] = np.where(inside[inner_of[riding]], 2, 0)
    return sock


def jiffies_choices(record: Record) -> Iterator[list[int]]:
    """The jiffy of each poll; a timer's record does not tell, so every rise is possible.

    The likeliest comes first: a jiffy rose before a poll that puts out what an earlier one held.
    """
    polls = record["polls"]
    if not record["feat"].get("timeout"):
        yield [0] * len(polls)
        return
    yield likely_jiffies(record)
    if len(polls) <= MOST_TIMED_POLLS:
        for rises in product((0, 1), repeat=max(len(polls) - 1, 0)):
            yield np.cumsum([0, *rises]).tolist()


def likely_jiffies(record: Record) -> list[int]:
    """Jiffies that what was put out when lets one think of."""
    ends = np.cumsum(record["polls"]).tolist()
    jiffies = [0]
    for begin, end in pairwise(ends):
        older = any(skb["f"] < begin and skb.get("after") == end for skb in record["out"])
        jiffies.append(jiffies[-1] + older)
    return jiffies


def why_not(record: Record) -> str | None:
    """Why a record is not compared; None if it is."""
    if not record.get("complete", True):
        return "not complete"
    if not record.get("equal", True):
        return "the runs were not equal"
    return None


def replay_gro(record: Record, context: Context) -> Result:
    """One case through GRO."""
    reason = why_not(record)
    if reason:
        return skipped(reason)
    cfg = settings_of(record, context.kernel)
    best: Result | None = None
    for jiffies in jiffies_choices(record):
        result = compare(record, context, packets_of(record), record["polls"], jiffies, cfg)
        if not result.differences:
            return result
        best = best or result
    assert best is not None
    return best


def compare(
    record: Record,
    context: Context,
    packets: Packets,
    polls: Sequence[int],
    jiffies: Sequence[int],
    cfg: NDArray[np.void],
) -> Result:
    """Run the packets through one engine's GRO and hold the answer against the record."""
    answer = coalesce(record, context, packets, polls, jiffies, cfg)
    out = Result(decisions=len(packets))
    if "in" in record:
        compare_results(out, answer.result.tolist(), [entry[4] for entry in record["in"]])
    whole = "rule" not in record and all("segs" in skb for skb in record["out"])
    compare_skbs(out, answer, record["out"], fresh=bool(cfg["fresh_skb"][0]), whole=whole)
    return out


def coalesce(
    record: Record,
    context: Context,
    packets: Packets,
    polls: Sequence[int],
    jiffies: Sequence[int],
    cfg: NDArray[np.void],
) -> Skbs:
    """The engine's answer."""
    inner, inner_of = inner_packets(packets)
    skbs, skb_of, result = context.module("gro").gro_packets(
        packets,
        np.array(polls, dtype=np.int64),
        np.array(jiffies, dtype=np.int64),
        cfg[0],
        packets.skb_hash,
        packets.hash_type,
        sock=sockets_of(record, packets, inner, inner_of),
        inner=inner,
        inner_of=inner_of,
    )
    return Skbs(packets=packets, table=skbs, skb_of=skb_of, result=result)


def compare_results(out: Result, said: list[int], recorded: list[int]) -> None:
    """MERGED and MERGED_FREE differ in memory layout only."""
    for frame, (mine, theirs) in enumerate(zip(said, recorded, strict=True)):
        if mine != (MERGED if theirs == MERGED_FREE else theirs):
            out.compare(f"frame {frame}: result", mine, theirs)


def compare_skbs(
    out: Result, answer: Skbs, recorded: list[Record], *, fresh: bool, whole: bool
) -> None:
    """Which frames became which skbs, in which order, and what each says of itself.

    whole: the record has all frames of each skb, not the first alone.
    """
    members = answer.members()
    if whole:
        wanted = [[skb["f"], *skb["segs"]] for skb in recorded]
    elif all("f" in skb for skb in recorded):
        wanted, members = [[skb["f"]] for skb in recorded], [each[:1] for each in members]
    else:
        wanted, members = [[skb["len"]] for skb in recorded], lengths_of(answer)
    if members != wanted:
        out.compare("skbs", members, wanted)
        return
    frames, seglens = answer.frames(), answer.seglens()
    for place, skb in enumerate(recorded):
        where = f"skb of frame {skb['f']}" if "f" in skb else f"skb {place}"
        compare_skb(out, where, answer, place, frames[place], skb, fresh=fresh)
        if "seglens" in skb:
            compare_field(out, f"{where}: seglens", seglens[place], skb["seglens"])


def gso_kind(bits: int) -> int:
    """virtio's name of a GSO type, as a packet socket shows it."""
    return next((kind for kind, bit in VIRTIO_KINDS.items() if bits & bit), 0)


def lengths_of(answer: Skbs) -> list[list[int]]:
    """What a recorder that knows no frame has of the order: the skbs' lengths."""
    return [[int(length)] for length in answer.table["len_bytes"]]


def compare_skb(
    out: Result, where: str, answer: Skbs, place: int, frame: bytes, skb: Record, *, fresh: bool
) -> None:
    """All that the record has of one skb."""
    row = answer.table[place]
    for name, column in FIELDS.items():
        if name in skb:
            compare_field(out, f"{where}: {name}", int(row[column]), skb[name])
    if "gso_kind" in skb:
        compare_field(out, f"{where}: gso_kind", gso_kind(int(row["gso_type"])), skb["gso_kind"])
    if "vlan" in skb:
        first, columns = int(row["first"]), answer.packets.columns
        in_metadata = columns["flags"][first] & PacketFlag.VLAN_META and not fresh
        said = int(columns["vlan_tci"][first]) if in_metadata else -1
        compare_field(out, f"{where}: vlan", said, skb["vlan"])
    compare_octets(out, f"{where}: octets", frame, skb)


def compare_field(out: Result, where: str, said: object, recorded: object) -> None:
    if said != recorded:
        out.compare(where, said, recorded)


def compare_octets(out: Result, where: str, frame: bytes, skb: Record) -> None:
    """The record has the first octets, and of those the part that was not in pages."""
    recorded = bytes.fromhex(skb["hdr"]) if "hdr" in skb else bytes.fromhex(skb.get("octets", ""))
    if frame[: len(recorded)] != recorded:
        out.compare(where, frame[: len(recorded)].hex(), recorded.hex())


def is_gro(record: Record) -> bool:
    return "polls" in record and "cfg" in record and "part" not in record


PARTS = (Part("gro", is_gro, replay_gro, label=lambda record: f"gro/{record['cfg']}"),)
