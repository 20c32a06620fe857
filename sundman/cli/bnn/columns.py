"""What each column of a table is good for: a number, names, or nothing; and why, in sentences.

Whether a column holds numbers, names or dates is seen in all rows; gaps, levels and constants in
the training rows alone.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sundman.cli.bnn.preprocessing import CategoryColumn, Column, NumberColumn
from sundman.cli.bnn.table import DELIMITERS, Levels, Table, levels, looks_like_date, numbers
from sundman.cli.errors import UserError, nearest

_MOST_LEVELS = 20  # with a feature each
_FEWEST_ROWS = 5  # a level in fewer training rows has no feature of its own
_SHARE_OF_SLIPS = 0.1  # a share of cells that is a mistake rather than a kind
_ID_NAME = re.compile(r"(^|[^a-z])(id|idx|index|key|uuid|nr|row ?number)$", re.IGNORECASE)
_ID_IN_CAPITALS = re.compile(r"[a-z]I[Dd]$")
_SHOWN = 10  # names in a sentence


class ChosenColumns(NamedTuple):
    """The columns to use, and what was decided about all of them, a sentence each."""

    columns: list[Column]
    decisions: list[str]


@dataclass
class _Decisions:
    """What was decided, by kind of decision."""

    constant: list[str] = field(default_factory=list)
    empty: list[str] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    categories: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)

    def sentences(self) -> list[str]:
        """A sentence for each kind that occurred."""
        leads = {
            "Left out, the same in all training rows": self.constant,
            "Left out, empty in all training rows": self.empty,
            "Left out, a name or number of the row (--columns keeps a number)": self.ids,
            "Names made 0/1 features": self.categories,
            "Gaps filled, with a feature that says where": self.gaps,
        }
        return [f"{lead}: {shown(items)}." for lead, items in leads.items() if items]


def shown(items: Sequence[str]) -> str:
    """The items as a list, the first of them if they are many."""
    more = f" and {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return ", ".join(items[:_SHOWN]) + more


def asked_columns(
    table: Table, target: str, columns: Collection[str], drop: Collection[str]
) -> list[str]:
    """The columns that may be features, by ``--columns`` and ``--drop``, in the file's order."""
    header = list(table.columns)
    for flag, names in (("--columns", columns), ("--drop", drop)):
        for name in names:
            if name not in header:
                raise UserError(f"{table.path} has no column {name!r} ({flag}); "
                                f"{nearest(name, header)}")  # fmt: skip
    if target in drop:
        raise UserError(f"--drop has the target {target!r}; leave it out there")
    both = [name for name in columns if name in drop]
    if both:
        raise UserError(f"{both[0]!r} is in --columns and in --drop; take it out of one of them")
    names = [name for name in (columns or header) if name != target and name not in drop]
    if not names:
        raise UserError(f"{table.path} has the target column alone; it needs features, too")
    return [name for name in header if name in names]


def choose_columns(
    table: Table, names: Sequence[str], train: NDArray[np.intp], always_used: Collection[str] = ()
) -> ChosenColumns:
    """Decide on each column.

    Args:
      table: the table.
      names: the columns that may be features.
      train: the training rows.
      always_used: columns that were asked for by name, used though they number the rows.

    Returns:
      The columns that are features, and the decisions.
    """
    parsed = {
        name: numbers(table.columns[name], decimal_comma=table.decimal_comma) for name in names
    }
    _refuse_dates(table, [name for name, column in parsed.items() if len(column.texts)])
    decided = _Decisions()
    chosen: list[Column] = []
    for name, (values, texts) in parsed.items():
        if len(texts) == 0 and name not in always_used and _numbers_the_rows(name, values):
            decided.ids.append(repr(name))
            continue
        if len(texts) == 0:
            column = _number_column(name, values[train], decided)
        else:
            column_levels = levels(table.columns[name])
            if (wrong := stray_texts(table, name, column_levels, texts)) is not None:
                raise UserError(
                    f"{wrong}; write a number or nothing there, or leave the column out with "
                    f"--drop {name}"
                )
            column = _category_column(name, column_levels, train, decided)
        if column is not None:
            chosen.append(column)
    sentences = decided.sentences()
    if not chosen:
        raise UserError(f"{table.path} has no column left to learn from; {' '.join(sentences)}")
    if table.delimiter != ",":
        sentences = [f"Cells are separated by {DELIMITERS[table.delimiter]}.", *sentences]
    return ChosenColumns(chosen, sentences)


def date_columns(table: Table, names: Sequence[str]) -> dict[str, str]:
    """Those of the columns that hold dates or times, with one of them each."""
    dates: dict[str, str] = {}
    for name in names:
        column_levels = levels(table.columns[name])
        like = np.array([looks_like_date(each) for each in column_levels.names], bool)
        counts = column_levels.counts()
        if like.any() and counts[like].sum() >= (1 - _SHARE_OF_SLIPS) * counts.sum():
            dates[name] = column_levels.names[int(np.argmax(like))]
    return dates


def _refuse_dates(table: Table, names: Sequence[str]) -> None:
    """Dates are refused, all columns of them in one sentence."""
    dates = date_columns(table, names)
    if dates:
        which = "column" if len(dates) == 1 else "columns"
        listed = ", ".join(f"{name!r} ({example})" for name, example in dates.items())
        raise UserError(
            f"{table.path} has dates in {which} {listed}; write them as numbers, such as days "
            f"since a day, or leave them out with --drop {','.join(dates)}"
        )


def stray_texts(
    table: Table, name: str, column_levels: Levels, texts: NDArray[np.intp]
) -> str | None:
    """What is wrong with a column of numbers that has a few words; None if it has many.

    They are gaps that are spelled in a way of their own, or mistakes.
    """
    if len(texts) > _SHARE_OF_SLIPS * (column_levels.codes >= 0).sum():
        return None
    row = int(texts[0])
    return (
        f"column {name!r} of {table.path} has numbers and, in {len(texts)} rows, text, the first "
        f"in line {table.lines[row]}: {table.columns[name][row]!r}"
    )


def _numbers_the_rows(name: str, values: NDArray[np.float64]) -> bool:
    """Whether whole numbers, no two the same, count the rows from 0 or 1 or are called an id."""
    if not np.isfinite(values).all() or (values != np.round(values)).any():
        return False
    if len(np.unique(values)) < len(values):
        return False
    counts_rows = values.min() in (0, 1) and values.max() - values.min() == len(values) - 1
    return counts_rows or bool(_ID_NAME.search(name) or _ID_IN_CAPITALS.search(name))


def _number_column(name: str, values: NDArray[np.float64], decided: _Decisions) -> Column | None:
    """The column of these training values; None if they say nothing."""
    known = values[~np.isnan(values)]
    gaps = len(values) - len(known)
    if len(known) == 0:
        decided.empty.append(repr(name))
        return None
    median = float(np.median(known))
    if (known == known[0]).all():
        if gaps == 0:
            decided.constant.append(f"{name!r} ({median:g})")
            return None
        decided.gaps.append(f"{name!r} ({_rows(gaps)}; all others are {median:g})")
        return CategoryColumn(name, (), other=False, fill="", indicator=True)
    if gaps:
        decided.gaps.append(f"{name!r} by its median {median:g} ({_rows(gaps)})")
    return NumberColumn(name, median, indicator=gaps > 0)


def _category_column(
    name: str, column_levels: Levels, train: NDArray[np.intp], decided: _Decisions
) -> Column | None:
    """The column of names in these training rows; None if they say nothing."""
    counts = column_levels.counts(train)
    present, filled = int((counts > 0).sum()), int(counts.sum())
    gaps = len(train) - filled
    by_count = np.argsort(-counts, kind="stable")
    common = [int(code) for code in by_count[:_MOST_LEVELS] if counts[code] >= _FEWEST_ROWS]
    if filled == 0:
        decided.empty.append(repr(name))
        return None
    if present == 1 and gaps == 0:
        decided.constant.append(f"{name!r} ({column_levels.names[int(by_count[0])]})")
        return None
    if present == 1:
        decided.gaps.append(
            f"{name!r} ({_rows(gaps)}; all others are {column_levels.names[int(by_count[0])]})"
        )
        return CategoryColumn(name, (), other=False, fill="", indicator=True)
    once = int((counts == 1).sum())
    if not common or (present > _MOST_LEVELS and 2 * once > filled):
        decided.ids.append(f"{name!r} ({present} different ones in {filled} training rows)")
        return None
    own_levels = tuple(column_levels.names[code] for code in common)
    how = f"{len(own_levels)} levels" if len(own_levels) == present else (
        f"{len(own_levels)} of {present} levels, the others as one"
    )  # fmt: skip
    decided.categories.append(f"{name!r} ({how})")
    if gaps:
        decided.gaps.append(f"{name!r} by its most common level {own_levels[0]} ({_rows(gaps)})")
    return CategoryColumn(
        name, own_levels, other=len(own_levels) < present, fill=own_levels[0], indicator=gaps > 0
    )


def _rows(count: int) -> str:
    return f"{count} gap" if count == 1 else f"{count} gaps"


def column_names(asked: Sequence[str] | None, header: Sequence[str]) -> list[str]:
    """Names of columns as they were asked for, several in a text with commas between them."""
    texts = [asked] if isinstance(asked, str) else asked or []
    if not isinstance(texts, list) or not all(isinstance(text, str) for text in texts):
        raise UserError(f'columns are named by a list, got {asked!r}; write it as ["a", "b"]')
    return [
        name.strip()
        for text in texts
        for name in ([text] if text in header else text.split(","))
        if name.strip()
    ]
