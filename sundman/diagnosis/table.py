"""The table of a diagnosis: rows with plain verdicts."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Literal, NamedTuple

import numpy as np

from sundman._optional import needs_extra

if TYPE_CHECKING:
    from rich.console import Console

Verdict = Literal["good", "look", "bad", ""]

_COLOURS: dict[Verdict, str] = {"good": "green", "look": "yellow", "bad": "bold red", "": ""}
_BARS = "▁▂▃▄▅▆▇█"


class Row(NamedTuple):
    """One line: a number, its Monte Carlo error if it has one, a verdict and why.

    Attributes:
      name: what was looked at.
      value: the number found; None if it is not known.
      error: its standard error; None if it has none.
      verdict: ``"good"``, ``"look"`` (look into it), ``"bad"``, or empty for plain facts.
      note: why, and what to do about it.
    """

    name: str
    value: float | None
    error: float | None = None
    verdict: Verdict = ""
    note: str = ""

    @property
    def text(self) -> str:
        """The value, with its error."""
        if self.error is not None and np.isfinite(self.error):
            return f"{self.value:.4g} ± {self.error:.1g}"
        if isinstance(self.value, int | np.integer):
            return f"{self.value:,}"
        if isinstance(self.value, float | np.floating):
            return f"{self.value:,.0f}" if 1e4 <= abs(self.value) < 1e9 else f"{self.value:.4g}"
        return "" if self.value is None else str(self.value)


@dataclass(frozen=True)
class Diagnosis:
    """The rows of a diagnosis, to iterate over or to look up by name; ``str`` is the table."""

    rows: tuple[Row, ...]

    @property
    def ok(self) -> bool:
        """Whether no verdict is bad."""
        return all(row.verdict != "bad" for row in self.rows)

    def __iter__(self) -> Iterator[Row]:
        """The rows, in the order of the table."""
        return iter(self.rows)

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.rows)

    def __contains__(self, name: object) -> bool:
        """Whether there is a row of this name."""
        return any(row.name == name for row in self.rows)

    def __getitem__(self, name: str) -> Row:
        """The row of this name."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"no row {name!r}: there are {[row.name for row in self.rows]}")

    def __str__(self) -> str:
        """The table as plain text, 100 characters wide."""
        out = io.StringIO()
        self.show(file=out, width=100)
        return out.getvalue().rstrip("\n")

    def show(
        self,
        *,
        file: IO[str] | None = None,
        console: Console | None = None,
        width: int | None = None,
    ) -> None:
        """Print the table with rich.

        Args:
          file: where to print it; standard output by default.
          console: a rich console to print it on, instead of a file.
          width: characters of a line; by default those of the terminal.
        """
        with needs_extra("report", "printing a diagnosis (show=False does not)"):
            from rich import box
            from rich.console import Console
            from rich.table import Table
            from rich.text import Text

        if console is None:
            console = Console(file=file, width=width)
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
        for column in ("", "value", "verdict", ""):
            table.add_column(column, overflow="fold", no_wrap=len(table.columns) < 3)
        for row in self.rows:
            cells = (row.name, row.text, row.verdict, row.note)
            styles = ("", "", _COLOURS[row.verdict], "")
            table.add_row(*(Text(c, s) for c, s in zip(cells, styles, strict=True)))
        console.print(table)


def graded(size: float, *, look: float, bad: float) -> Verdict:
    """The verdict on a number that should be small: good up to ``look``, bad above ``bad``."""
    if not size <= bad:
        return "bad"
    return "look" if size > look else "good"


def sparkline(heights: np.ndarray, low: float = 0.0) -> str:
    """A row of bars, the largest one full; ``low`` is the height of an empty one."""
    top = np.nanmax(heights) - low
    if not top > 0:
        return _BARS[0] * len(heights)
    levels = np.nan_to_num((np.asarray(heights) - low) / top * (len(_BARS) - 1))
    return "".join(_BARS[round(level)] for level in levels)
