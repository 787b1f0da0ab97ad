"""What a replay found: a table per file and part, the first differences, and JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from emu.replay.run import Report


def print_report(report: Report, console: Console) -> None:
    """The table, what was not compared and why, then the differences."""
    table = Table(box=None, pad_edge=False)
    table.add_column("file and part", overflow="fold")
    for name in ("records", "compared", "decisions", *(f"differ\n{e}" for e in report.engines)):
        table.add_column(name, justify="right")
    file = ""
    for tally in report.tallies:
        if tally.file != file:
            file = tally.file
            table.add_row(Text(Path(file).name, style="bold"))
        table.add_row(
            Text(f"  {tally.part}"),
            f"{tally.read:,}",
            f"{tally.compared:,}",
            f"{tally.decisions:,}",
            *(f"{tally.different[engine]:,}" for engine in report.engines),
        )
    console.print(table)
    for tally in report.tallies:
        for reason, count in sorted(tally.skipped.items()):
            console.print(f"{tally.part}: {count:,} not compared: {reason}", markup=False)
    for tally in report.tallies:
        for finding in tally.findings:
            console.print(f"\n{finding.where} {finding.name} ({finding.engine})", markup=False)
            for difference in finding.differences:
                console.print(f"  {difference}", markup=False)
            console.print(f"  {finding.explained}", markup=False)
    console.print(summary(report), markup=False)


def summary(report: Report) -> str:
    """One line."""
    records = sum(tally.compared for tally in report.tallies)
    decisions = sum(tally.decisions for tally in report.tallies)
    different = {
        engine: sum(tally.different[engine] for tally in report.tallies)
        for engine in report.engines
    }
    said = ", ".join(f"{count:,} differ in {engine}" for engine, count in different.items())
    return f"\n{records:,} records compared, {decisions:,} decisions: {said}"


def report_json(report: Report) -> dict[str, Any]:
    """The report as JSON (docs/replay.md)."""
    return {
        "schema": "emu.replay",
        "version": 1,
        "engines": list(report.engines),
        "differs": report.differs,
        "parts": [
            {
                "file": tally.file,
                "part": tally.part,
                "read": tally.read,
                "compared": tally.compared,
                "decisions": tally.decisions,
                "different": {engine: tally.different[engine] for engine in report.engines},
                "not_compared": dict(sorted(tally.skipped.items())),
                "differences": [
                    {
                        "where": finding.where,
                        "record": finding.name,
                        "engine": finding.engine,
                        "differences": list(finding.differences),
                        "explained": finding.explained,
                    }
                    for finding in tally.findings
                ],
            }
            for tally in report.tallies
        ],
    }
