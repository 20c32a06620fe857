"""A table of text: a CSV file with a header, read cell by cell, its delimiter found by itself.

What a cell means is settled later, column by column: :func:`numbers` and :func:`levels` read the
cells of a column as numbers or as names.
"""

from __future__ import annotations

import csv
import itertools
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np
from numpy.typing import NDArray

from sundman.cli.errors import UserError

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs"}
_MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "?", "-"))  # in lower case
_LINES_FOR_DELIMITER = 20
_MONTH = "(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*[.]?"
_DAY = "(mon|tue|wed|thu|fri|sat|sun)[a-z]*[.]?,?[ ]"
_DATE = re.compile(
    rf"""
    ( {_DAY} )?
    ( \d{{4}} [-/.] \d{{1,2}} [-/.] \d{{1,2}}          # 2024-05-31
    | \d{{1,2}} [-/.] \d{{1,2}} [-/.] \d{{2}}(\d\d)?    # 31.5.2024
    | \d{{1,2}} [- ] {_MONTH} [- ] \d{{2}}(\d\d)?      # 31 May 2024
    | {_MONTH} [ ] \d{{1,2}},? [ ] \d{{4}}             # May 31, 2024
    | (19|20)\d\d [-/] (0[1-9]|1[0-2])               # 2024-05
    | (0[1-9]|1[0-2]) [-/] (19|20)\d\d               # 05/2024
    | {_MONTH} [- ]? (19|20)\d\d                     # May 2024
    ) ( [T ] \d{{1,2}} : .* | [+-] \d\d:?\d\d | Z )?
    | \d{{1,2}} : \d{{2}} ( : \d{{2}} )? (\.\d+)? ( [ ]? [ap][.]?m[.]? )?  # 12:30, 12:30 PM
    """,
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True)
class Table:
    """The cells of a CSV file.

    Attributes:
      path: the file.
      delimiter: what is between its cells.
      columns: the cells of each column by its name, as they are in the file.
      lines: the line of the file in which each row ends, for errors.
    """

    path: Path
    delimiter: str
    columns: dict[str, Sequence[str]]
    lines: NDArray[np.int64]

    @property
    def decimal_comma(self) -> bool:
        """Whether numbers may be written as 3,5: where the comma is not the delimiter."""
        return self.delimiter == ";"

    def __len__(self) -> int:
        """The number of rows."""
        return len(self.lines)


def read_table(path: Path, flag: str = "--csv") -> Table:
    """Read a CSV file with a header.

    Args:
      path: the file; commas, semicolons or tabs are between its cells.
      flag: the option or argument that named it, for errors.

    Returns:
      Its cells by column.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            head = list(itertools.islice(file, _LINES_FOR_DELIMITER))
            delimiter = _delimiter(head)
            file.seek(0)
            return _read_rows(path, file, delimiter)
    except FileNotFoundError:
        raise UserError(f"there is no file {path}; give {flag} a CSV file") from None
    except (OSError, UnicodeDecodeError, csv.Error):
        raise UserError(f"{path} cannot be read as CSV; it must be text, in UTF-8") from None


def _delimiter(head: list[str]) -> str:
    """The delimiter that makes the most columns, and the same number of them in every line."""

    def fit(delimiter: str) -> tuple[bool, int]:
        widths = [len(row) for row in csv.reader(head, delimiter=delimiter) if row]
        # The last row may go on after the lines that were read.
        whole = widths[:-1] if len(widths) > 2 else widths
        return widths[:1] > [1] and len(set(whole)) == 1, widths[0] if widths else 0

    return max(DELIMITERS, key=fit)  # commas, if all fit equally


def _read_rows(path: Path, file: TextIO, delimiter: str) -> Table:
    reader = csv.reader(file, delimiter=delimiter)
    header = _header(path, next(filter(None, reader), []))
    rows: list[list[str]] = []
    lines: list[int] = []
    for row in reader:
        if len(row) == len(header):
            rows.append(row)
            lines.append(reader.line_num)
        elif row:  # blank lines are no rows
            raise UserError(
                f"{path} has {len(row)} cells in line {reader.line_num} and {len(header)} in its "
                "header; mend it there"
            )
    if not rows:
        raise UserError(f"{path} has no rows; it needs a header and a row per example")
    columns: dict[str, Sequence[str]] = dict(zip(header, zip(*rows, strict=True), strict=True))
    return Table(path, delimiter, columns, np.array(lines))


def _header(path: Path, cells: list[str]) -> list[str]:
    """The names of the columns; one without a name is called by its place."""
    names = [cell.strip() or f"column {place}" for place, cell in enumerate(cells, start=1)]
    twice = [name for name, count in Counter(names).items() if count > 1]
    if twice:
        raise UserError(f"{path} has the column {twice[0]!r} twice; rename one of them")
    if names and all(_number(name) is not None for name in names):
        raise UserError(
            f"{path} has numbers only in its first line; it needs a header, the names of its "
            "columns"
        )
    return names


class Levels(NamedTuple):
    """The cells of a column as names.

    Attributes:
      names: the different ones, in the order of their first row.
      codes: the place of each row's name among them; -1 where the cell is empty or says so.
    """

    names: list[str]
    codes: NDArray[np.int64]

    def counts(self, rows: NDArray[np.intp] | slice = slice(None)) -> NDArray[np.int64]:
        """How many of the rows have each name."""
        codes = self.codes[rows]
        return np.bincount(codes[codes >= 0], minlength=len(self.names))


def levels(cells: Sequence[str]) -> Levels:
    """The cells of a column as names; blanks around them do not count."""
    spelled: dict[str, int] = {}
    codes = np.fromiter((spelled.setdefault(c, len(spelled)) for c in cells), np.int64, len(cells))
    names: dict[str, int] = {}
    code_of = np.empty(len(spelled), np.int64)
    for cell, code in spelled.items():
        name = cell.strip()
        code_of[code] = -1 if name.lower() in _MISSING else names.setdefault(name, len(names))
    return Levels(list(names), code_of[codes])


class Numbers(NamedTuple):
    """The cells of a column as numbers.

    Attributes:
      values: the numbers; NaN where the cell is empty or says so, or is no number.
      texts: the rows whose cells are no numbers.
    """

    values: NDArray[np.float64]
    texts: NDArray[np.intp]


_NO_ROWS = np.empty(0, np.intp)


def numbers(cells: Sequence[str], *, decimal_comma: bool = False) -> Numbers:
    """The cells of a column as numbers.

    Args:
      cells: the cells.
      decimal_comma: whether 3,5 is a number, too.
    """
    try:  # most columns have nothing else
        return Numbers(np.fromiter(map(float, cells), np.float64, len(cells)), _NO_ROWS)
    except ValueError:
        names, codes = levels(cells)
    parsed = [_number(name, decimal_comma=decimal_comma) for name in names]
    value_of = np.array([np.nan if value is None else value for value in parsed] + [np.nan])
    is_text = np.array([value is None for value in parsed] + [False])
    return Numbers(value_of[codes], np.flatnonzero(is_text[codes]))  # the code -1 is the last one


def _number(cell: str, *, decimal_comma: bool = False) -> float | None:
    try:
        return float(cell)
    except ValueError:
        pass
    if decimal_comma and cell.count(",") == 1:
        return _number(cell.replace(",", "."))
    return None


def looks_like_date(name: str) -> bool:
    """Whether a cell is a date or a time of day."""
    return _DATE.fullmatch(name) is not None
