"""Tables that every command prints alike: published beside emulated, what was fitted, variants."""

from __future__ import annotations

from collections.abc import Iterable

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from emu.ask.answer import Answer
from emu.ask.fit import Fit
from emu.ask.scenarios import Pair
from emu.result.estimate import Estimate
from emu.result.render import COLUMNS
from emu.result.run import METRICS


def heading_table(out: Console, title: str, first: str, others: Iterable[str]) -> Table:
    """A table with text to the left and numbers to the right of it; narrow terminals wrap."""
    wide = out.width >= COLUMNS
    table = Table(
        title=escape(title),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    table.add_column(first, no_wrap=wide)
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=wide)
    return table


def print_published(out: Console, answer: Answer, label: str) -> None:
    """Published beside emulated, one label; the fitted figures are marked."""
    headings = ("published", "ratio", "emulated", "ratio", "error")
    table = heading_table(out, label, "", headings)
    table.add_column("verdict", ratio=1)
    for row in answer.rows_of(label):
        published = row.published
        mark = "*" if row.calibrated else ""
        table.add_row(
            f"{published.metric}, {published.unit}",
            f"{figure(published.before)} -> {figure(published.after)}",
            f"{row.published_ratio:.3f}",
            f"{figure(row.before)}{mark} -> {figure(row.after)}",
            ratio_text(row.ratio),
            percent(row.error),
            unbroken(row.verdict),
        )
    one = answer.derived_of(label)
    if one is not None:
        ratio, error = ratio_text(one.ratio), percent(one.error)
        published_ratio = f"{one.published:.3f}"
        table.add_row(
            "CPU per message", "", published_ratio, "", ratio, error, unbroken(one.verdict)
        )
    out.print(table)
    if label in answer.fits:
        out.print(f"* {fit_line(answer.fits[label])}", markup=False)
    elif answer.fits:
        out.print(f"fit: {answer.fit_of(label)!r}", markup=False)


def fit_line(fit: Fit) -> str:
    """What was fitted to what, and how well."""
    more = f"; {fit.note}" if fit.note else ""
    return (
        f"fitted to the published before: {fit.numbers()}; residual {fit.residual:.2%} after "
        f"{len(fit.trials)} trials{more}"
    )


def print_variants(out: Console, answer: Answer) -> None:
    """Cases of which nothing was published, and whose fit they took."""
    variants = answer.variants()
    if not variants:
        return
    title = "also, nothing published: messages per second; after / before"
    table = heading_table(out, title, "", ("before", "after", *METRICS))
    for pair in variants:
        rates = [
            f"{(side.throughput.value or 0) / 1e3:,.0f}K" for side in (pair.before, pair.after)
        ]
        table.add_row(escape(pair.case.label), *rates, *ratio_cells(pair))
    out.print(table)
    labels = {answer.fit_of(pair.case.label) for pair in variants}
    if None not in labels:
        whose = "that of the row it is named after" if len(labels) > 1 else repr(labels.pop())
        out.print(f"fit: {whose}", markup=False)


def ratio_cells(pair: Pair) -> list[str]:
    """The ratio of each metric."""
    values = [pair.ratio(metric).value for metric in METRICS]
    return ["-" if value is None else f"{value:.3f}" for value in values]


def figure(value: float | None) -> str:
    """A figure with as many digits as the texts have."""
    if value is None:
        return "-"
    if value >= 100_000:
        return f"{value / 1e3:,.0f}K"
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


def ratio_text(ratio: Estimate) -> str:
    """A ratio and half of its 95 % interval."""
    if ratio.value is None:
        return "-"
    half = ratio.half_width
    return f"{ratio.value:.3f}" + ("" if half is None else f" +-{half:.3f}")


def percent(share: float | None) -> str:
    """A relative error."""
    return "-" if share is None else f"{share:+.1%}"


def unbroken(verdict: str) -> str:
    """A verdict whose percent sign stays with its number."""
    return verdict.replace(" %", "%")
