"""What is predicted from one's own data: classes or numbers, and which rows are held out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sundman.cli.bnn.columns import date_columns, shown, stray_texts
from sundman.cli.bnn.preprocessing import TargetScale
from sundman.cli.bnn.table import Table, levels, numbers
from sundman.cli.errors import UserError, unknown
from sundman.data.base import shuffled
from sundman.data.sets import mean_and_scale

_TASKS = ("classification", "regression")
_SURELY_CLASSES = 20  # as many different whole numbers are surely classes
_TEST_FRACTION, _MOST_TEST_ROWS = 0.2, 20_000  # by default
_LEAST_OF_CLASS = 2  # rows of a class to train on, and to test on


class SplitRows(NamedTuple):
    """The rows to train on and those held out, counted from 0."""

    train: NDArray[np.intp]
    test: NDArray[np.intp]


class TargetCells(NamedTuple):
    """The targets that a table has.

    Attributes:
      values: whole numbers, real numbers or names.
      rows: the rows of the table they are in.
    """

    values: np.ndarray
    rows: NDArray[np.intp]


class OwnTarget(NamedTuple):
    """Targets as a network learns them.

    Attributes:
      y: labels or standardised numbers.
      scale: what they mean.
      split: which of them are held out.
      decisions: what was decided, a sentence each.
    """

    y: NDArray[np.int32] | NDArray[np.float32]
    scale: TargetScale
    split: SplitRows
    decisions: list[str]


def read_target(table: Table, name: str) -> TargetCells:
    """The targets of a table: whole numbers, else real numbers, else names."""
    cells = table.columns[name]
    values, texts = numbers(cells, decimal_comma=table.decimal_comma)
    if len(texts):
        if dates := date_columns(table, [name]):
            raise UserError(
                f"the target {name!r} of {table.path} holds dates ({dates[name]}); write them as "
                "numbers, such as days since a day"
            )
        cell_levels = levels(cells)
        if (wrong := stray_texts(table, name, cell_levels, texts)) is not None:
            raise UserError(f"{wrong}; write a number or nothing there")
        rows = np.flatnonzero(cell_levels.codes >= 0)
        return TargetCells(np.array(cell_levels.names)[cell_levels.codes[rows]], rows)
    if np.isinf(values).any():
        line = table.lines[int(np.argmax(np.isinf(values)))]
        raise UserError(
            f"the target {name!r} of {table.path} is infinite in line {line}; write a number there"
        )
    rows = np.flatnonzero(~np.isnan(values))
    if len(rows) == 0:
        raise UserError(f"the target {name!r} of {table.path} is empty; name another --target")
    values = values[rows]
    whole = (values == np.round(values)).all() and np.abs(values).max() < 2**53
    return TargetCells(values.astype(np.int64) if whole else values, rows)


def settle_target(
    name: str, values: np.ndarray, *, task: str | None, fraction: float | None, seed: int
) -> OwnTarget:
    """Decide between classification and regression, and hold rows out.

    Args:
      name: what the target is called.
      values: a target for each row.
      task: what was asked for; None leaves it to the values.
      fraction: the share of rows to hold out; None is a fifth, up to 20,000 rows.
      seed: of the split.

    Returns:
      The targets and the split.
    """
    if fraction is None:
        fraction = min(_TEST_FRACTION, _MOST_TEST_ROWS / max(1, len(values)))
    if not isinstance(fraction, float) or not 0 < fraction < 1:
        raise UserError(f"test_fraction must be between 0 and 1, got {fraction!r}; use 0.2, say")
    chosen, why = _task(values, task)
    if chosen == "classification":
        return _classes(name, values, fraction, seed, why)
    split = _split(np.zeros(len(values), np.int64), fraction, seed, least=1)
    numbers_ = values.astype(np.float64)
    mean, scale = mean_and_scale(numbers_[split.train])
    y = ((numbers_ - mean) / scale).astype(np.float32)
    decisions = [f"Regression, {why}; the target standardised.", _rows_of(split, "at random")]
    return OwnTarget(y, TargetScale(name, None, float(mean), float(scale)), split, decisions)


def _classes(name: str, values: np.ndarray, fraction: float, seed: int, why: str) -> OwnTarget:
    """Classes, each of them with its share of the test rows."""
    distinct, labels, counts = np.unique(values, return_inverse=True, return_counts=True)
    classes = tuple(str(each) for each in distinct)
    if len(classes) < 2:
        raise UserError(
            f"the target has one class only ({shown(classes)}); there is nothing to learn"
        )
    rare = counts < 2 * _LEAST_OF_CLASS
    if len(classes) > _SURELY_CLASSES and 2 * rare.sum() > len(classes):
        raise UserError(
            f"the target has {len(classes)} different values in {len(values)} rows, most of them "
            f"in fewer than {2 * _LEAST_OF_CLASS}; name another --target, or use fewer classes"
        )
    split = _split(labels, fraction, seed, least=_LEAST_OF_CLASS)
    what = f"{len(classes)} classes: {shown(classes)}"
    decisions = [
        f"Classification, {why}; {what}.",
        _rows_of(split, "at random in each class"),
    ]
    if rare.any():
        names = [f"{classes[i]} ({counts[i]})" for i in np.flatnonzero(rare)]
        decisions.append(
            f"Only trained on, not tested, because they have fewer than {2 * _LEAST_OF_CLASS} "
            f"rows: {shown(names)}."
        )
    return OwnTarget(labels.astype(np.int32), TargetScale(name, classes), split, decisions)


def _rows_of(split: SplitRows, how: str) -> str:
    return f"{len(split.train)} rows to train on, {len(split.test)} held out for testing, {how}."


def _split(labels: NDArray[np.int64], fraction: float, seed: int, *, least: int) -> SplitRows:
    """Hold out a share of the rows of each label.

    At least ``least`` rows of a label are held out and as many trained on, or none is held out.
    """
    order = shuffled(len(labels), seed)
    # Rows by label, and in each label in the order of the shuffle.
    by_label = order[np.argsort(labels[order], kind="stable")]
    counts = np.bincount(labels)
    held_out = np.clip(np.round(fraction * counts).astype(np.int64), least, None)
    held_out = np.minimum(held_out, counts - least)
    held_out = np.where(counts < 2 * least, 0, held_out)
    place = np.arange(len(labels)) - np.repeat(np.cumsum(counts) - counts, counts)
    is_test = np.zeros(len(labels), bool)
    is_test[by_label] = place < np.repeat(held_out, counts)
    split = SplitRows(order[~is_test[order]], order[is_test[order]])
    if len(split.train) < 2 or len(split.test) == 0:
        raise UserError(
            f"{len(labels)} rows leave {len(split.train)} to train on and {len(split.test)} to "
            "test on; give more rows"
        )
    return split


def _task(values: np.ndarray, asked: str | None) -> tuple[str, str]:
    """Classification or regression, and why."""
    is_text = values.dtype.kind in "US"
    if asked is not None:
        if asked not in _TASKS:
            raise unknown("task", str(asked), _TASKS)
        if asked == "regression" and is_text:
            raise UserError("the target is text; use --task classification")
        return asked, "as asked"
    if values.dtype.kind == "f":
        return "regression", "because the targets are not whole numbers"
    if is_text:
        return "classification", "because the targets are text"
    different = len(np.unique(values))
    if different > _SURELY_CLASSES:
        raise UserError(
            f"the target has {different} different whole numbers; say --task regression if they "
            "are amounts, or --task classification if they are codes of classes"
        )
    return "classification", f"because the targets are {different} different whole numbers"
