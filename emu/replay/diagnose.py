"""Which rule decided: what would have to hold otherwise for a record to agree."""

from __future__ import annotations

import copy
from collections.abc import Mapping

import attrs

from emu.errors import EmuError
from emu.ref.record import Supposing, heard_by
from emu.replay.parts import Context, Part, Record, Result

MOST_DIFFERENCES = 3
MOST_NAMED = 8


@attrs.frozen
class Finding:
    """A record that differs.

    Attributes:
        where: file and line.
        name: what the record calls itself.
        engine: which engine differs.
        differences: the first of them, one line each.
        explained: why, in one line.
    """

    where: str
    name: str
    engine: str
    differences: tuple[str, ...]
    explained: str


def diagnose(
    part: Part,
    record: Record,
    context: Context,
    result: Result,
    where: str,
    assumed: Mapping[str, bool],
) -> Finding:
    """Look into a record that differs."""
    return Finding(
        where=where,
        name=str(record.get("id") or record.get("case") or record.get("t") or part.name),
        engine=context.engine,
        differences=tuple(str(one) for one in result.differences[:MOST_DIFFERENCES]),
        explained=explain(part, record, context, assumed),
    )


def explain(part: Part, record: Record, context: Context, assumed: Mapping[str, bool]) -> str:
    """The rules whose other outcome makes the reference agree with the record."""
    listener = Supposing(assumed if context.engine == "ref" else {})
    agrees = try_with(part, record, context, listener)
    if context.engine == "core" and agrees:
        return "the reference agrees with the record: the core is wrong"
    named = [
        f"{name} were not assumed to be {str(value).lower()}"
        for name, value in listener.assumed.items()
        if try_with(part, record, context, without(listener.assumed, name))
    ]
    named = named or [
        f"{name} {'held' if outcome else 'did not hold'}"
        for name, outcomes in listener.asked.items()
        for outcome in (True, False)
        if name not in listener.assumed and outcomes != {outcome}
        if try_with(part, record, context, Supposing({**listener.assumed, name: outcome}))
    ]
    if not named:
        return "no single rule's other outcome makes it agree"
    return f"would agree if {' or if '.join(named[:MOST_NAMED])}"


def without(assumed: Mapping[str, bool], name: str) -> Supposing:
    """All that is assumed but one rule."""
    return Supposing({rule: value for rule, value in assumed.items() if rule != name})


def try_with(part: Part, record: Record, context: Context, listener: Supposing) -> bool:
    """Whether the reference agrees when rules are answered so; a file's memory stays as it is."""
    again = Context("ref", context.kernel, memory_of(context))
    try:
        with heard_by(listener):
            return not part.replay(record, again).differences
    except (EmuError, LookupError, TypeError, ValueError, AssertionError):
        return False


def memory_of(context: Context) -> dict[str, object]:
    """A copy of what records told of each other; an engine's objects cannot all be copied."""
    try:
        return copy.deepcopy(context.shared) if context.engine == "ref" else {}
    except TypeError:
        return {}
