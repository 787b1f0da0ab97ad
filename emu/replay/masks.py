"""Recorded writes of masks and sizes: errno, and what is read back."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from emu.model.flow_sizes import write_rps_flow_cnt, write_sock_flow_entries
from emu.model.masks import (
    CpuSet,
    MaskError,
    parse_cpulist,
    parse_cpumask,
    write_rps_cpus,
    write_xps_cpus,
    write_xps_rxqs,
)
from emu.model.topology import Topology
from emu.replay.parts import Context, Part, Record, Result

SIZES = {"rps_flow_cnt": write_rps_flow_cnt, "rps_sock_flow_entries": write_sock_flow_entries}
# Queues of the recorders' devices: of the machine with 2 CPUs, of those with more.
FEW_QUEUES, MANY_QUEUES = 4, 16


def outcome(write: Callable[[], Any], old: Any) -> tuple[int, Any]:
    """Errno, and what the file holds afterwards."""
    try:
        return 0, write()
    except MaskError as error:
        return error.errno, old


def write_mask(
    file: str, text: bytes, old: CpuSet, topology: Topology, queues: int, isolated: CpuSet
) -> tuple[int, CpuSet]:
    """What a write to one of the three files does."""
    if file.startswith("rps_cpus"):
        return outcome(lambda: write_rps_cpus(text, topology, isolated, old), old)
    if file.startswith("xps_cpus"):
        return outcome(lambda: write_xps_cpus(text, topology, queues, old), old)
    return outcome(lambda: write_xps_rxqs(text, queues, old), old)


def replay_write(record: Record, context: Context) -> Result:
    """One write on a machine with 2 CPUs."""
    out = Result()
    attr, text = record["attr"], octets_of(record)
    if len(text) != record.get("len", len(text)):
        out.skip("the text was cut in the record")
        return out
    if attr in SIZES:
        old = context.shared.setdefault("sizes", {}).get(attr, 0)
        code, new = outcome(lambda: SIZES[attr](text, old), old)
        context.shared["sizes"][attr] = new
        out.compare(f"{attr} errno", code, record["errno"], text)
        out.compare(f"{attr} read back", new, int(record["after"]), text)
        return out
    topology = Topology(cpus=record.get("cpus", 2))
    queues = record.get("queues", 1 if attr.endswith("_single_queue") else FEW_QUEUES)
    bits = queues if attr.startswith("xps_rxqs") else topology.cpus
    readable = not attr.startswith("xps_cpus_single")
    old = parse_cpumask(record["before"].strip(), bits) if readable else CpuSet()
    code, new = write_mask(attr, text, old, topology, queues, CpuSet())
    out.compare(f"{attr} errno", code, record["errno"], text)
    if readable:
        out.compare(f"{attr} read back", new.mask(bits), record["after"].strip(), text)
    return out


def octets_of(record: Record) -> bytes:
    """What was written, as octets."""
    if record.get("bytes") is not None:
        return bytes.fromhex(record["bytes"])
    text: str = record["text"]
    return text[2:-1].encode("latin1").decode("unicode_escape").encode("latin1")


def replay_strings(record: Record, context: Context) -> Result:
    """Many texts, each written behind a mask of 5 (or a size of 64)."""
    out, file = Result(), record["file"]
    if file == "rps_default_mask":
        out.skip("the default mask of later devices is not modelled", len(record["rows"]))
        return out
    if file in SIZES:
        for text, code, after in record["rows"]:
            said, new = outcome(partial(SIZES[file], text, 64), 64)
            out.compare(f"{file} errno", said, code, text)
            out.compare(f"{file} read back", new, int(after), text)
        return out
    topology = Topology(cpus=record["n"])
    for text, code, after in record["rows"]:
        raw = text.encode("latin1")
        bits = bits_of_file(file, topology, record)
        refused = re.fullmatch(r"errno\d+", after)
        first = record["first_write_errno"]
        old = CpuSet() if first else parse_cpumask("5", bits)
        said, new = write_mask(file, raw, old, topology, queues_of_file(file, bits), CpuSet())
        out.compare(f"{file} errno", said, code, text)
        if not refused:
            out.compare(f"{file} read back", new.mask(bits), after, text)
    return out


def bits_of_file(file: str, topology: Topology, record: Record) -> int:
    """How wide a file's mask is: CPUs, or rx queues as wide as it was read back."""
    if not file.startswith("xps_rxqs"):
        return topology.cpus
    return 1 if file.endswith("_1queue") else 4 * max(len(after) for *_, after in record["rows"])


def queues_of_file(file: str, bits: int) -> int:
    return 1 if file.endswith("_1queue") else bits


def replay_isolated(record: Record, context: Context) -> Result:
    """Writes on a machine some of whose CPUs are isolated, each behind a mask of 3."""
    out, cpus = Result(), record["n"]
    topology = Topology(cpus=cpus)
    isolated = parse_cpulist(record["isolated"], cpus)
    before = parse_cpumask("3", cpus)
    for file, text, code, after in record["rows"]:
        said, new = write_mask(file, text.encode(), before, topology, MANY_QUEUES, isolated)
        out.compare(f"{file} errno", said, code, text)
        out.compare(f"{file} read back", new.mask(cpus), after, text)
    return out


def of_part(part: str) -> Callable[[Record], bool]:
    return lambda record: record.get("part") == part


def of_kind(*kinds: str) -> Callable[[Record], bool]:
    return lambda record: record.get("t") in kinds


PARTS = (
    Part("xps/write", lambda r: r.get("part") == "write" and "attr" in r, replay_write),
    Part("manycpu/strings", of_kind("strings"), replay_strings),
    Part("manycpu/isolcpus", of_kind("isolcpus"), replay_isolated),
)
