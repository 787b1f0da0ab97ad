"""Tables of the timed experiments: what emu.ask.tables has, other shapes, sensitivity."""

from __future__ import annotations

from rich.console import Console

from emu.ask.fit import Fit
from emu.ask.sensitivity import METRICS as MOVED_METRICS
from emu.ask.sensitivity import Moved, Sensitivity
from emu.ask.tables import heading_table, print_published, print_variants, ratio_cells
from emu.bench.timed import Timed
from emu.result.run import METRICS

SENSITIVE_SHOWN = 20


def print_timed(out: Console, timed: Timed) -> None:
    """Everything of one experiment."""
    answer = timed.answer
    scenario, setting = answer.scenario, answer.setting
    out.print(scenario.title, style="bold", markup=False)
    out.print(
        f"{scenario.text}; {answer.pairs[0].before.machine}, {setting.seeds} seeds of "
        f"{setting.duration}",
        markup=False,
    )
    for label in answer.published_labels():
        print_published(out, answer, label)
    print_variants(out, answer)
    for pair in answer.variants():
        if pair.case.text:
            out.print(f"{pair.case.label}: {' '.join(pair.case.text.split())}", markup=False)
    for label in answer.fits:
        print_shapes(out, timed, label)


def print_shapes(out: Console, timed: Timed, label: str) -> None:
    """How far the ratios move over what the text does not publish."""
    shapes = [shape for shape in timed.shapes if shape.label == label]
    if not shapes:
        return
    table = heading_table(
        out,
        f"{label}: after / before, other shapes, each fitted anew",
        "",
        (*METRICS, "factor", "pause"),
    )
    published = {
        row.published.metric: f"{row.published_ratio:.3f}" for row in timed.answer.rows_of(label)
    }
    table.add_row("published", *(published.get(metric, "") for metric in METRICS), "", "")
    pair = next(pair for pair in timed.answer.pairs if pair.case.label == label)
    table.add_row("as in the file", *ratio_cells(pair), *fit_cells(timed.answer.fits[label]))
    for shape in shapes:
        table.add_row(shape.name, *ratio_cells(shape.pair), *fit_cells(shape.fit))
    out.print(table)
    if any(not shape.fit.converged for shape in shapes):
        out.print("! the published before could not be reached")


def print_sensitivity(out: Console, name: str, answer: Sensitivity) -> None:
    """Ratios by the rows that move them most."""
    change = f"{answer.change:.0%}"
    headings = [f"{short} {sign}{change}" for short in ("rate", "CPU") for sign in ("-", "+")]
    out.print(
        f"{name}, {answer.label}: after / before with one cost changed, fitted anew; rate: "
        "messages per second, CPU: CPU time of one message"
    )
    table = heading_table(out, "", "cost", ("value", "solid", *headings))
    table.columns[0].no_wrap = True  # its words have no blanks to break at
    table.columns[0].min_width = max(len(row.name) for row in answer.rows[:SENSITIVE_SHOWN])
    base = [moved_cell(answer.base[metric]) for metric in MOVED_METRICS for _ in range(2)]
    table.add_row("as it is", "", "", *base)
    for row in answer.rows[:SENSITIVE_SHOWN]:
        value = f"{row.value} {row.unit}"
        table.add_row(row.name, value, row.solid, *moved_cells(row))
    out.print(table)
    rest = answer.rows[SENSITIVE_SHOWN:]
    if rest:
        out.print(f"... and {len(rest)} more that move no ratio by more than {rest[0].effect:.4f}")


def moved_cells(row: Moved) -> list[str]:
    """Ratios with the row less and more, metric by metric."""
    return [
        moved_cell(value)
        for metric in MOVED_METRICS
        for value in (row.low[metric], row.high[metric])
    ]


def moved_cell(value: float | None) -> str:
    """A ratio; none where no fit was found, or nothing came through to be measured."""
    return "none" if value is None else f"{value:.3f}"


def fit_cells(fit: Fit) -> list[str]:
    """Factor and mean pause; marked when the fit was not reached."""
    pause = (fit.turnaround_ps + fit.turnaround_mean_ps) / 1e6
    return [f"{fit.software_factor:.2f}{'' if fit.converged else '!'}", f"{pause:.1f}us"]
