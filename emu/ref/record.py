"""What the reference says about its decisions while it takes them.

Every rule is asked through `Recorder.rule`, so that `explain` can print it and the tests can count
both outcomes.
"""

from __future__ import annotations

from collections.abc import Iterable
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
