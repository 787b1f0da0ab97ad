"""Recorded decisions of live kernels, replayed from samples; and that the comparison has teeth."""

from __future__ import annotations

import copy
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from emu.errors import ConfigError
from emu.replay.records import read_records
from emu.replay.registry import PARTS, part_of
from emu.replay.report import report_json
from emu.replay.run import ENGINES, Tally, replay_files, replay_records
from tests.rules_drawn import implemented_rules

DATA = Path(__file__).parent.parent / "data"
SAMPLES = sorted(path.name for path in DATA.glob("*.jsonl.gz"))
# What is not compared, with the reason; anything else is a surprise.
NOT_COMPARED = (
    "not complete",
    "system calls and their errors are not modelled",
    "the default mask of later devices is not modelled",
    "no map, no hash: where it came in is not in the record",
    "no packets: migration, or what setsockopt answers",
    "the text was cut in the record",
    "sent while masks were written, in an order that was not recorded",
)


def tallies_of(records: list[dict[str, Any]], **options: Any) -> dict[str, Tally]:
    tallies = replay_records(enumerate(records, 1), "drawn", **options)
    return {tally.part: tally for tally in tallies}


def records_of(sample: str) -> list[dict[str, Any]]:
    return [dict(record) for _, record in read_records(DATA / sample)]


@pytest.mark.parametrize("sample", SAMPLES)
def test_live_kernels_decided_the_same(sample):
    report = replay_files([DATA / sample], engines=ENGINES)

    assert [f for tally in report.tallies for f in tally.findings] == []
    assert not report.differs
    assert sum(tally.decisions for tally in report.tallies) > 100
    reasons = {reason for tally in report.tallies for reason in tally.skipped}
    assert reasons <= set(NOT_COMPARED)


def test_every_part_has_a_sample():
    seen = {
        part.name
        for sample in SAMPLES
        for _, record in read_records(DATA / sample)
        if (part := part_of(record))
    }

    assert {part.name for part in PARTS} - seen == set()


def changed(value: Any) -> Any:
    """The same field, said otherwise."""
    if isinstance(value, str):
        return ("f" if value[:1] != "f" else "0") + value[1:]
    return value + 1


GRO_FIELDS = (
    "after", "len", "gso_size", "gso_segs", "gso_type", "hash", "ip_summed", "csum_level",
    "csum_start", "csum_off", "vlan", "hdr",
)  # fmt: skip


@pytest.mark.parametrize("field", GRO_FIELDS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_field_of_an_skb_that_was_altered_is_found(field, engine):
    record = copy.deepcopy(records_of("gro-more-sample.jsonl.gz")[0])
    record["out"][0][field] = changed(record["out"][0][field])
    [tally] = tallies_of([record], engines=[engine]).values()

    assert tally.different[engine] == 1
    assert any("octets" if field == "hdr" else field in d for d in tally.findings[0].differences)


ALTERED = [
    ("rps-sample.jsonl.gz", "rps", ["cpu"]),
    ("xps-sample.jsonl.gz", "xps/map", ["packets", 0, "queue"]),
    ("xps-sample.jsonl.gz", "xps/forward", ["queue"]),
    ("writes-sample.jsonl.gz", "xps/write", ["errno"]),
    ("reuseport-sample.jsonl.gz", "reuseport/ops", ["packets", 0, "winner"]),
    ("reuseport-sample.jsonl.gz", "reuseport/sizes", ["winners", "3"]),
    ("cpumap-sample.jsonl.gz", "cpumap/gro", ["out", 0, "len"]),
    ("cpumap-sample.jsonl.gz", "cpumap/updates", ["results", 0, 1]),
    ("manycpu-sample.jsonl.gz", "manycpu/rps_tun", ["rows", 0, 5]),
    ("manycpu-sample.jsonl.gz", "manycpu/xps_mqprio", ["rows", 0, 4]),
    ("manycpu-sample.jsonl.gz", "manycpu/isolcpus", ["rows", 0, 2]),
    ("manycpu-sample.jsonl.gz", "manycpu/strings", ["rows", 3, 1]),
    ("manycpu-sample.jsonl.gz", "manycpu/incoming_cpu", ["rows", 0, 5]),
    ("manycpu-sample.jsonl.gz", "manycpu/rfs_syscalls", ["rows", 0, 6]),
    ("hashkeys.jsonl.gz", "hashkeys", ["l4_hash", 0]),
]


@pytest.mark.parametrize(("sample", "part", "path"), ALTERED, ids=[row[1] for row in ALTERED])
def test_an_altered_decision_is_found(sample, part, path):
    """One field of the first record of the part that has it."""
    record = next(r for r in records_of(sample) if name_of_part(r) == part and holds(r, path))
    *way, last = path
    target: Any = record
    for step in way:
        target = target[step]
    target[last] = 1 - target[last] if target[last] in (0, 1) else changed(target[last])
    [tally] = tallies_of([record]).values()

    assert tally.different == {"core": 1, "ref": 1}


def name_of_part(record: dict[str, Any]) -> str:
    part = part_of(record)
    return part.name if part else ""


def holds(record: Any, path: list[Any]) -> bool:
    try:
        for step in path:
            record = record[step]
    except (LookupError, TypeError):
        return False
    return record is not None


# A rule, the answer that switches it off, and a sample that hangs on it.
SWITCHED_OFF = [
    ("GRO-26", True, "gro-sample.jsonl.gz"),
    ("GRO-22", False, "gro-sample.jsonl.gz"),
    ("N-8.timer", False, "gro-more-sample.jsonl.gz"),
    ("R-3.3.7", False, "rps-sample.jsonl.gz"),
    ("R-3.3.4", False, "rfs-sample.jsonl.gz"),
    ("XPS-14", False, "xps-sample.jsonl.gz"),
    ("SOCK-42", False, "manycpu-sample.jsonl.gz"),
]


@pytest.mark.parametrize(
    ("rule", "answer", "sample"), SWITCHED_OFF, ids=[r[0] for r in SWITCHED_OFF]
)
def test_a_rule_switched_off_is_found_and_named(rule, answer, sample):
    report = replay_files([DATA / sample], engines=["ref"], assumed={rule: answer}, most_findings=1)
    findings = [finding for tally in report.tallies for finding in tally.findings]

    assert report.differs
    assert any(f"{rule} were not assumed" in finding.explained for finding in findings)


def test_fields_that_were_not_recorded_are_not_compared():
    record = copy.deepcopy(records_of("gro-sample.jsonl.gz")[0])
    del record["in"]
    for skb in record["out"]:
        del skb["hash"], skb["after"], skb["ip_summed"]
    [tally] = tallies_of([record]).values()

    assert tally.compared == 1
    assert not tally.different["core"]


def test_names_of_rules_are_those_that_the_reference_asks():
    from emu.rules import rule_names

    assert set(implemented_rules()) - set(rule_names()) == set()


BAD = [
    (b"\x1f\x8b\x08\x00broken", "docs/replay.md"),
    (b"{", "docs/replay.md"),
    (b"[1]\n", "list"),
    (b"[" * 100_000, "docs/replay.md"),
    (b'{"unknown": 1}\n', "unknown"),
    (b'{"part": "map"}\n', "broken record"),
    (b'{"part": "map", "case": 1, "num_tx": 10000000, "ops": []}\n', "xps"),
    (b'{"qm_in": 1, "masks": 3}\n', "broken record"),
    (b'{"polls": [1], "cfg": "base"}\n', "broken record"),
    (b'{"polls": [-1], "cfg": "base", "frames": ["zz"], "vlan_accel": false, "csum_in": "none", '
     b'"feat": {}, "out": []}\n', "broken record"),
    (b'{"polls": [7], "cfg": "base", "frames": ["00"], "vlan_accel": false, "csum_in": "none", '
     b'"feat": {}, "out": []}\n', "poll_counts"),
]  # fmt: skip


@pytest.mark.parametrize(("octets", "says"), BAD, ids=range(len(BAD)))
def test_a_broken_recording_is_one_line(tmp_path, octets, says):
    path = tmp_path / "recording.jsonl"
    path.write_bytes(octets)

    with pytest.raises(ConfigError) as caught:
        replay_files([path])

    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_plain_and_packed_files_read_alike(tmp_path):
    record = records_of("rps-sample.jsonl.gz")[0]
    plain, packed = tmp_path / "a.jsonl", tmp_path / "b.jsonl.gz"
    plain.write_text(json.dumps(record) + "\n\n")
    with gzip.open(packed, "wt") as file:
        file.write(json.dumps(record))

    assert list(read_records(plain)) == list(read_records(packed)) == [(1, record)]


def test_the_report_is_json():
    report = replay_files([DATA / "rps-sample.jsonl.gz"])
    told = json.loads(json.dumps(report_json(report)))

    assert told["schema"] == "emu.replay"
    assert told["differs"] is False
    assert told["parts"][0]["different"] == {"core": 0, "ref": 0}
