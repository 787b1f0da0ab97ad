"""What a scenario's runs say: before beside after, printed and as JSON (docs/run-json.md)."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from emu.ask.answer import Answer
from emu.ask.scenarios import Pair
from emu.ask.tables import fit_line, print_published, print_variants
from emu.model.workloads import OpenLoop
from emu.result import compare_runs
from emu.result.estimate import Estimate
from emu.result.render import console, print_table
from emu.result.run import RunResult
from emu.units import format_duration_ps

SCHEMA = "emu.run"
VERSION = 1
CHANGES_SHOWN = 8
HEADINGS = {
    "throughput": "messages/s",
    "cpu": "CPU, % of all",
    "cpu_us_per_message": "CPU/message, us",
}


def print_scenario(answer: Answer, *, details: bool = False) -> None:
    """The tables of all cases; *details*: every counter of every side too."""
    out, scenario = console(), answer.scenario
    out.print(scenario.title, style="bold", markup=False)
    if scenario.text:
        out.print(scenario.text, markup=False)
    first = answer.pairs[0].before
    measured, cut = (format_duration_ps(ps) for ps in (first.duration_ps, first.warmup_ps))
    out.print(
        f"{first.machine}, {measured} after {cut} of warm-up, {seeds_of(first)}, "
        f"engine {first.engine}",
        markup=False,
    )
    labels = answer.published_labels()
    for label, fit in answer.fits.items():
        if label not in labels:
            out.print(f"{label}: {fit_line(fit)}", markup=False)
    for pair in answer.pairs:
        print_headline(out, pair)
        for note in notes(pair):
            out.print(note, markup=False)
        if pair.case.label in labels:
            print_published(out, answer, pair.case.label)
        if pair is answer.pairs[0] or details:
            print_changes(out, pair)
        if details:
            for name, result in (("before", pair.before), ("after", pair.after)):
                out.print(f"{pair.case.label}, {name}", style="bold", markup=False)
                result.summary().print(out)
    if len(answer.pairs) > 1:
        print_variants(out, answer)


def print_headline(out: Console, pair: Pair) -> None:
    """Rates, shares and latencies of a case."""
    if pair.case.text:
        out.print(" ".join(pair.case.text.split()), markup=False)
    table = RichTable(title=escape(pair.case.label), title_justify="left")
    table.add_column("")
    for heading in ("before", "after", "after / before"):
        table.add_column(heading, justify="right")
    old, new = pair.before.headline(), pair.after.headline()
    for name in old:
        scale = 100.0 if name == "cpu" else 1.0
        cells = (shown(old[name], scale), shown(new[name], scale), shown(pair.ratio(name)))
        table.add_row(HEADINGS.get(name, f"{name}, us"), *cells)
    out.print(table)


def notes(pair: Pair) -> list[str]:
    """What a reader of the numbers has to know."""
    out = []
    for name, side, result in (
        ("before", pair.case.before, pair.before),
        ("after", pair.case.after, pair.after),
    ):
        end_ps = result.warmup_ps + result.duration_ps
        if not isinstance(side.workload, OpenLoop):
            continue
        last_ps = int(side.workload.packets.arrival_ps.max())
        if last_ps < end_ps:
            last_ms, end_ms = last_ps / 10**9, end_ps / 10**9
            out.append(
                f"{name}: the last packet comes at {last_ms:.3f} ms, the measured time ends at "
                f"{end_ms:.3f} ms: rates and shares count the rest as idle (--duration)"
            )
    return out


def seeds_of(result: RunResult) -> str:
    """``seed 1``, or ``seeds 1 to 5``."""
    first, last = result.seeds[0], result.seeds[-1]
    return f"seed {first}" if first == last else f"seeds {first} to {last}"


def shown(estimate: Estimate, scale: float = 1.0) -> str:
    """Value and half of the interval: ``996,210 +- 310``."""
    if estimate.value is None:
        return "-"
    value, half = estimate.value * scale, estimate.half_width
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 10 else 3
    more = "" if half is None else f" +- {half * scale:,.{digits}f}"
    return f"{value:,.{digits}f}{more}"


def print_changes(out: Console, pair: Pair) -> None:
    """Where time and cycles went on both sides, and the largest changes."""
    sides = (pair.before, pair.after)
    print_table(out, "CPUs, percent of their time", compare_runs.times(*sides))
    print_table(out, "where the cycles went, for one message", compare_runs.stages(*sides))
    counts = compare_runs.counts(*sides)
    print_table(out, "counted, for one message", counts, most=len(counts))
    changes = compare_runs.changes(*sides).first(CHANGES_SHOWN)
    print_table(out, "largest changes, cycles for one message", changes)


def scenario_json(answer: Answer, *, given: Mapping[str, object]) -> dict[str, object]:
    """Everything that `print_scenario` shows; *given*: what the command was asked."""
    return {
        "schema": SCHEMA,
        "version": VERSION,
        **given,
        "title": answer.scenario.title,
        "text": answer.scenario.text,
        "cases": [case_json(answer, pair) for pair in answer.pairs],
        **answer.judged_json(),
    }


def case_json(answer: Answer, pair: Pair) -> dict[str, object]:
    """One case."""
    return {
        "label": pair.case.label,
        "text": pair.case.text,
        "fit_of": answer.fit_of(pair.case.label),
        "ratios": {name: pair.ratio(name).to_json() for name in pair.before.headline()},
        "changes": compare_runs.changes(pair.before, pair.after).rows(),
        "before": pair.before.to_json(),
        "after": pair.after.to_json(),
    }
