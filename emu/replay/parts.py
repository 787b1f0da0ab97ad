"""What a part of the replay is: it knows its records, and compares one of them with an engine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from emu.engines import stage
from emu.kernels import KernelProfile

Record = Mapping[str, Any]


@attrs.frozen
class Difference:
    """One thing in which an engine is not the kernel: where in the record, both answers."""

    where: str
    said: str
    recorded: str

    def __str__(self) -> str:
        return f"{self.where}: {self.said}, recorded {self.recorded}"


@attrs.define
class Result:
    """What came of one record.

    Attributes:
        decisions: how many were compared.
        skipped: why the record, or something in it, was not compared; with how many decisions.
        differences: where the engine is not the kernel.
    """

    decisions: int = 0
    skipped: Counter[str] = attrs.field(factory=Counter)
    differences: list[Difference] = attrs.field(factory=list)

    def compare(self, where: str, said: object, recorded: object, *about: object) -> None:
        """One decision; *about*: what it was taken on."""
        self.decisions += 1
        if said != recorded:
            place = f"{where} ({', '.join(shown(one, 40) for one in about)})" if about else where
            self.differences.append(Difference(place, shown(said), shown(recorded)))

    def skip(self, reason: str, count: int = 1) -> None:
        """Decisions that are not compared."""
        self.skipped[reason] += count


@attrs.define
class Context:
    """What a part is asked with.

    Attributes:
        engine: ``"core"`` or ``"ref"``.
        kernel: whose rules hold.
        shared: lives as long as the file: what one record tells of the others.
    """

    engine: str
    kernel: KernelProfile
    shared: dict[str, Any] = attrs.field(factory=dict)

    def module(self, name: str) -> Any:
        """A stage's module of the engine."""
        return stage(self.engine, name)


@attrs.frozen
class Part:
    """One kind of record.

    Attributes:
        name: such as ``"reuseport/ops"``; `label` may say more of a record.
        matches: whether a record is of this part.
        replay: compare one record with an engine.
        label: the name under which a record is counted, if it says more.
    """

    name: str
    matches: Callable[[Record], bool]
    replay: Callable[[Record, Context], Result]
    label: Callable[[Record], str] | None = None

    def label_of(self, record: Record) -> str:
        return self.name if self.label is None else self.label(record)


def skipped(reason: str) -> Result:
    """A record that is not compared."""
    return Result(skipped=Counter({reason: 1}))


def shown(value: object, most: int = 96) -> str:
    """A value in one short line."""
    text = repr(value)
    return text if len(text) <= most else f"{text[: most - 3]}..."
