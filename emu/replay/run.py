"""Replay recordings: every record through every engine, counted by part."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path

import attrs

from emu.errors import ConfigError, EmuError
from emu.kernels import KernelProfile, get_kernel
from emu.ref.record import Supposing, heard_by
from emu.replay.diagnose import Finding, diagnose
from emu.replay.parts import Context, Part, Record, Result
from emu.replay.records import read_records
from emu.replay.registry import part_of, says_nothing

ENGINES = ("core", "ref")
# What a broken record does to a part that trusts its fields.
BROKEN = (
    KeyError,
    IndexError,
    TypeError,
    ValueError,
    OverflowError,
    AttributeError,
    AssertionError,
)


@attrs.define
class Tally:
    """What became of the records of one part of one file.

    Attributes:
        read: records.
        compared: records that were compared, in part at least.
        decisions: decisions compared, in one engine.
        different: records that differ, by engine.
        skipped: reason -> records or decisions that were not compared.
        findings: the first differences.
    """

    file: str
    part: str
    read: int = 0
    compared: int = 0
    decisions: int = 0
    different: Counter[str] = attrs.field(factory=Counter)
    skipped: Counter[str] = attrs.field(factory=Counter)
    findings: list[Finding] = attrs.field(factory=list)


@attrs.define
class Report:
    """All tallies, in the order of the files."""

    engines: tuple[str, ...]
    tallies: list[Tally] = attrs.field(factory=list)

    @property
    def differs(self) -> bool:
        """Whether any record differs in any engine."""
        return any(sum(tally.different.values()) for tally in self.tallies)


def replay_files(
    paths: Sequence[str | Path],
    *,
    engines: Sequence[str] = ENGINES,
    kernel: str | KernelProfile = "6.18",
    assumed: Mapping[str, bool] | None = None,
    only: str = "",
    most_findings: int = 5,
    begin: Callable[[str], None] = lambda name: None,
) -> Report:
    """Replay the recordings in files.

    Args:
        paths: files of JSON lines.
        engines: ``"core"``, ``"ref"``.
        kernel: whose rules hold, where the records do not say it.
        assumed: rules that the reference shall answer so, whatever holds: rules switched off.
        only: parts whose names begin so.
        most_findings: differences that are looked into, per file and part.
        begin: told of each file.

    Raises:
        ConfigError: a file or a record is broken.
    """
    report = Report(tuple(engines))
    for path in paths:
        begin(Path(path).name)
        report.tallies += replay_records(
            read_records(path),
            str(path),
            engines=engines,
            kernel=kernel,
            assumed=assumed or {},
            only=only,
            most_findings=most_findings,
        )
    return report


def replay_records(
    records: Iterable[tuple[int, Record]],
    name: str,
    *,
    engines: Sequence[str] = ENGINES,
    kernel: str | KernelProfile = "6.18",
    assumed: Mapping[str, bool] | None = None,
    only: str = "",
    most_findings: int = 5,
) -> list[Tally]:
    """Replay one recording; the records of a file may tell of each other."""
    tallies: dict[str, Tally] = {}
    contexts = {engine: Context(engine, get_kernel(kernel)) for engine in engines}
    for number, record in records:
        if says_nothing(record):
            continue
        where = f"{name}:{number}"
        part = part_of(record)
        if part is None:
            kinds = sorted(record)[:6]
            raise ConfigError(where, f"a record of fields {', '.join(kinds)}", "a kind of record "
                              "that docs/replay.md describes")  # fmt: skip
        label = label_of(part, record, where)
        if not label.startswith(only):
            continue
        tally = tallies.setdefault(label, Tally(name, label))
        results = {
            engine: replay_one(part, record, context, where, assumed or {})
            for engine, context in contexts.items()
        }
        count(tally, results)
        for engine, result in results.items():
            if result.differences and len(tally.findings) < most_findings:
                tally.findings.append(
                    diagnose(part, record, contexts[engine], result, where, assumed or {})
                )
    return list(tallies.values())


def label_of(part: Part, record: Record, where: str) -> str:
    try:
        return part.label_of(record)
    except BROKEN as error:
        raise broken(where, error) from None


def replay_one(
    part: Part, record: Record, context: Context, where: str, assumed: Mapping[str, bool]
) -> Result:
    """One record through one engine; rules are assumed of the reference alone."""
    supposing = context.engine == "ref" and assumed
    try:
        with heard_by(Supposing(assumed)) if supposing else nullcontext():
            return part.replay(record, context)
    except EmuError as error:
        raise ConfigError(where, str(error)[:200], "a record as docs/replay.md has it") from None
    except BROKEN as error:
        raise broken(where, error) from None


def broken(where: str, error: Exception) -> ConfigError:
    """A record whose fields are not what they should be."""
    said = f"{type(error).__name__}: {error}".splitlines()[0][:120]
    return ConfigError(where, f"a broken record ({said})", "a record as docs/replay.md has it")


def count(tally: Tally, results: Mapping[str, Result]) -> None:
    """Add one record's results; what was skipped is the same in each engine."""
    tally.read += 1
    first = next(iter(results.values()))
    tally.compared += first.decisions > 0
    tally.decisions += first.decisions
    tally.skipped += first.skipped
    for engine, result in results.items():
        tally.different[engine] += bool(result.differences)
