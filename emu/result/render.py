"""Tables on a terminal: at most 100 columns, long ones cut, rows of nothing left out."""

from __future__ import annotations

from collections.abc import Collection

from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from emu.result.table import Table

COLUMNS = 100
ROWS_SHOWN = 16
NAMES_NOT_COUNTS = frozenset(
    {"cpu", "node", "queue", "irq_cpu", "socket", "completion_cpu", "cpus", "idle"}
)


def console() -> Console:
    """Standard output, at most 100 columns wide."""
    width = Console().width
    return Console(width=min(width, COLUMNS) if width else COLUMNS, highlight=False)


def print_table(
    out: Console,
    title: str,
    table: Table,
    names: Collection[str] = NAMES_NOT_COUNTS,
    *,
    most: int = ROWS_SHOWN,
) -> None:
    """One table: without rows that count nothing; a long one is cut and says so.

    Args:
        out: where to.
        title: underscores become spaces.
        table: its columns in order.
        names: columns that name a row and count nothing.
        most: how many rows are shown.
    """
    rows = [row for row in table.rows() if any_count(row, names)]
    if not rows:
        return
    shown = RichTable(title=escape(title.replace("_", " ")), title_justify="left")
    for heading in rows[0]:
        words = heading.replace("_", " ")  # may go over two lines
        shown.add_column(words, justify="left" if isinstance(rows[0][heading], str) else "right")
    for row in rows[:most]:
        shown.add_row(*map(cell, row.values()))
    out.print(shown)
    if len(rows) > most:
        out.print(f"... and {len(rows) - most:,} more rows (--json has them all)")


def cell(value: object) -> str:
    """A count with its thousands, a fraction with as many digits as say something."""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}" if value else "0"
    return f"{value:,}" if isinstance(value, int) else escape(str(value))


def any_count(row: dict[str, object], names: Collection[str] = NAMES_NOT_COUNTS) -> bool:
    """Whether a row counts anything beside naming itself."""
    return any(
        isinstance(value, (int, float)) and value
        for name, value in row.items()
        if name not in names
    )
