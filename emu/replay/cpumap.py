"""Recorded decisions of cpumap: updates of the map, kthreads, GRO in the kthread (CPUMAP-1..26)."""

from __future__ import annotations

import errno
import re

import numpy as np
from numpy.typing import NDArray

from emu.dtypes import CpumapDesign
from emu.model.packets import Packets
from emu.replay.gro import (
    coalesce,
    compare,
    compare_field,
    compare_skb,
    packets_of,
    settings_of,
    why_not,
)
from emu.replay.masks import of_part
from emu.replay.parts import Context, Part, Record, Result, skipped
from emu.result.skbs import Skbs

MAX_ENTRIES, MAX_QSIZE, POSSIBLE_CPUS = 16, 16384, 2
TO_ENTRY, BY_SOURCE, PASS, UNSET_PASS, UNSET_DROP, BEYOND_PASS = (0, 1), 100, 101, 102, 103, 104
SOURCE_OCTET, SHORTEST = 29, 30


def update_errno(command: str, entry: int, qsize: int, possible: int) -> int:
    """What a map update or delete answers (CPUMAP-1)."""
    if command == "D":
        return 0
    if entry >= MAX_ENTRIES:
        return errno.E2BIG
    if qsize > MAX_QSIZE:
        return errno.EOVERFLOW
    return 0 if entry < possible else errno.ENODEV


def replay_updates(record: Record, context: Context) -> Result:
    """Updates of a map of 16 entries on a machine with 2 CPUs."""
    out = Result()
    for command, answer in record["results"]:
        letter, entry, *qsize = command.split()
        possible = record.get("cpus", POSSIBLE_CPUS)
        code = update_errno(letter, int(entry), int(qsize[0]) if qsize else 0, possible)
        out.compare("update", errno.errorcode[code] if code else "OK", answer, command)
    return out


def replay_kthreads(record: Record, context: Context) -> Result:
    """Entry n has a kthread that is bound to CPU n (CPUMAP-2)."""
    out = Result()
    for name, cpus in record["affinity"].items():
        entry = re.match(r"cpumap/(\d+)/", name)
        out.compare("kthread", [int(entry[1])] if entry else None, cpus, name)
    return out


def replay_gro(record: Record, context: Context) -> Result:
    """The frames of a case behind a redirect: in the kthread's GRO, or passed to the NAPI's."""
    reason = why_not(record)
    if reason:
        return skipped(reason)
    rule = record["rule"]
    cfg = settings_of(record, context.kernel)
    if rule in TO_ENTRY or rule == BY_SOURCE:
        cfg["fresh_skb"], cfg["design"] = 1, CpumapDesign.MERGED_GRO
    if rule == BY_SOURCE:
        return replay_split(record, context, cfg)
    if rule == UNSET_DROP:
        return skipped("dropped: there is no output to compare")
    packets = packets_of(record)
    out = compare(record, context, packets, record["polls"], [0] * len(record["polls"]), cfg)
    if rule in TO_ENTRY:
        for skb in record["out"]:
            if "cpu" in skb:
                out.compare("cpu", rule, skb["cpu"], skb["f"])
    return out


def replay_split(record: Record, context: Context, cfg: NDArray[np.void]) -> Result:
    """Frames go to the entry that an octet of the source says; each CPU is compared by itself.

    What the program passes, too short to have that octet, is polled on the last CPU before its
    kthread runs.
    """
    out = Result(decisions=len(record["frames"]))
    packets = packets_of(record)
    frames = [packets.frame(row) for row in range(len(packets))]
    target = np.array([f[SOURCE_OCTET] & 1 if len(f) > SHORTEST else PASS for f in frames])
    packets = packets.replace(skb_hash=passed_hashes(record, target))
    plain = settings_of(record, context.kernel)
    for cpu in range(POSSIBLE_CPUS):
        said = []
        for group, settings in ((PASS, plain), (cpu, cfg)):
            rows = np.flatnonzero(target == group)
            if len(rows) and (group == cpu or cpu == POSSIBLE_CPUS - 1):
                said.append((group, group_skbs(record, context, packets, rows, settings)))
        wanted = [skb for skb in record["out"] if skb["cpu"] == cpu]
        skbs = [
            (group, answer, place, frame)
            for group, answer in said
            for place, frame in enumerate(answer.frames())
        ]
        compare_field(out, f"skbs on CPU {cpu}", len(skbs), len(wanted))
        for (group, answer, place, frame), skb in zip(skbs, wanted, strict=False):
            about = {name: value for name, value in skb.items() if name not in ("after", "f")}
            where = f"CPU {cpu}, skb of frame {skb['f']}"
            compare_skb(out, where, answer, place, frame, about, fresh=group != PASS)
    return out


def passed_hashes(record: Record, target: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Hashes of the frames that pass; the record has all hashes in the order of both CPUs' GRO."""
    out = np.zeros(len(target), dtype=np.uint32)
    marked = np.flatnonzero((target == PASS) & (np.array(record["marks"]) != 0))
    hashes = [entry[0] for entry in record["in"] if entry[0]]
    out[marked[: len(hashes)]] = hashes[: len(marked)]
    return out


def group_skbs(
    record: Record,
    context: Context,
    packets: Packets,
    rows: NDArray[np.int64],
    cfg: NDArray[np.void],
) -> Skbs:
    """GRO over some of the packets, poll by poll."""
    ends = np.cumsum(record["polls"])
    polls = np.diff([0, *np.searchsorted(rows, ends)]).tolist()
    return coalesce(record, context, packets.take(rows), polls, [0] * len(polls), cfg)


PARTS = (
    Part("cpumap/updates", of_part("updates"), replay_updates),
    Part("cpumap/kthreads", of_part("kthreads"), replay_kthreads),
    Part(
        "cpumap/gro",
        lambda record: record.get("part") == "gro" and "rule" in record,
        replay_gro,
        label=lambda record: f"cpumap/rule {record['rule']}",
    ),
)
