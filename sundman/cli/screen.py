"""Tables on the screen: those of a report, printed."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from sundman.report import Table

if TYPE_CHECKING:
    from rich.console import Console

_WIDTH = 120


def console() -> Console:
    """The console for results: as wide as the terminal, or 120 characters where there is none."""
    from rich.console import Console

    return Console(width=None if sys.stdout.isatty() else _WIDTH, highlight=False, soft_wrap=False)


def show(where: Console, table: Table) -> None:
    """Print a table."""
    from rich import box
    from rich import table as rich_table
    from rich.text import Text

    made = rich_table.Table(
        title=Text(table.title), title_justify="left", title_style="bold", box=box.SIMPLE_HEAD
    )
    for i, column in enumerate(table.columns):
        made.add_column(Text(column), justify="right" if i else "left", no_wrap=True)
    for row in table.rows:
        made.add_row(*(Text(cell) for cell in row))
    where.print(made)
    if table.caption:
        where.print(Text(table.caption))


def say(where: Console, text: str) -> None:
    """Print a line as it is, paths unbroken."""
    where.print(text, markup=False, soft_wrap=True)
