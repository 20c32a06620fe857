"""What commands show: tables and lines on the console, and the parts all their reports have."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from rich import box
from rich import table as rich_table
from rich.console import Console
from rich.text import Text

import sundman
from sundman import citations
from sundman.report import Section, Table, of_run
from sundman.targets import Target

_WIDTH = 120


def console() -> Console:
    """The console for results: as wide as the terminal, or 120 characters where there is none."""
    return Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False, soft_wrap=False)


def print_table(out: Console, table: Table) -> None:
    """Print a table of a report."""
    shown = rich_table.Table(
        title=Text(table.title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD
    )
    for i, column in enumerate(table.columns):
        shown.add_column(Text(column), justify="right" if i else "left", no_wrap=True)
    for row in table.rows:
        shown.add_row(*(Text(cell) for cell in row))
    out.print(shown)
    if table.caption:
        out.print(Text(table.caption))


def print_line(out: Console, text: str) -> None:
    """Print a line as it is, paths unbroken."""
    out.print(text, markup=False, soft_wrap=True)


def report_facts(seed: int, seconds: float) -> dict[str, object]:
    """Version, date, seed and wall time."""
    return {
        "sundman": sundman.__version__,
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "seed": seed,
        "seconds of sampling": round(seconds, 2),
    }


def report_citations(samplers: Iterable[str]) -> Sequence[str]:
    """The BibTeX entries of all samplers, each once."""
    entries = (entry for sampler in samplers for entry in citations.entries(sampler))
    return tuple(dict.fromkeys(entries))


def run_sections(runs: Mapping[str, sundman.Draws], target: Target | None = None) -> list[Section]:
    """The sections of each run's own report, under its name."""
    return [
        replace(section, title=f"{name}: {section.title}")
        for name, draws in runs.items()
        for section in of_run(draws, target=target, command="").sections
    ]
