"""What the reference says about its decisions while it takes them.

Every rule is asked through `Recorder.rule`, so that `explain` can print it and the tests can count
both outcomes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple


class Recorder:
    """Listens to nothing: the reference's default."""

    def about(self, packets: Iterable[int]) -> None:
        """Say whom the next rules and notes are about: the packets of the skb in hand."""

    def rule(self, name: str, holds: bool, **facts: object) -> bool:
        """Report whether rule *name* held, and the numbers it was judged by; answers *holds*."""
        return holds

    def note(self, stage: str, text: str, **facts: object) -> None:
        """Report what a stage decided, in one sentence, with the numbers."""


class Entry(NamedTuple):
    """One thing said: a rule with its outcome, or a stage's note."""

    kind: str  # "rule" or "note"
    name: str  # the rule's or the stage's
    said: bool | str  # the outcome, or the sentence
    facts: dict[str, object]


class Journal(Recorder):
    """Keeps what is said about one packet, in order; about every packet when none is named."""

    def __init__(self, packet: int | None = None) -> None:
        self.packet = packet
        self.entries: list[Entry] = []
        self._listening = packet is None

    def about(self, packets: Iterable[int]) -> None:
        if self.packet is not None:
            self._listening = self.packet in packets

    def rule(self, name: str, holds: bool, **facts: object) -> bool:
        if self._listening:
            self.entries.append(Entry("rule", name, bool(holds), facts))
        return holds

    def note(self, stage: str, text: str, **facts: object) -> None:
        if self._listening:
            self.entries.append(Entry("note", stage, text, facts))


SILENT = Recorder()


class Supposing(Recorder):
    """Answers some rules otherwise than they hold: what would be if the kernel had none of them.

    Attributes:
        asked: every rule that was asked, with the outcomes that it had by itself.
    """

    def __init__(self, assumed: Mapping[str, bool]) -> None:
        self.assumed = assumed
        self.asked: dict[str, set[bool]] = {}

    def rule(self, name: str, holds: bool, **facts: object) -> bool:
        self.asked.setdefault(name, set()).add(bool(holds))
        return self.assumed.get(name, holds)


@contextmanager
def heard_by(recorder: Recorder) -> Iterator[None]:
    """Within it, *recorder* answers what is asked where nobody listens: not for several threads."""
    SILENT.rule = recorder.rule  # type: ignore[method-assign]
    try:
        yield
    finally:
        del SILENT.rule
