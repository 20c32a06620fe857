"""Data for a network: a known set by name, or one's own arrays or CSV file.

What is decided here (classification or regression, the split, the standardising) is told in
``decisions``, one sentence each.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sundman import data as datasets
from sundman.cli.errors import UserError, as_user_error, nearest, unknown
from sundman.cli.settings import CommandSettings
from sundman.data.base import Dataset, Split, shuffled
from sundman.data.files import cache_directory
from sundman.data.sets import mean_and_scale

_TASKS = ("classification", "regression")
_SURELY_CLASSES = 20  # as many different whole numbers are surely classes


@dataclass(frozen=True)
class DataSettings(CommandSettings):
    """Which data: a name, two arrays or a table, in the names of the options."""

    name: str | None = None
    x: str | None = None
    y: str | None = None
    csv: str | None = None
    target: str | None = None
    task: str | None = None
    test_fraction: float = 0.2
    split: int = 0
    data: str | None = None
    download: bool = False


class LoadedData(NamedTuple):
    """A data set and what was decided about it."""

    data: Dataset
    decisions: list[str]


def load(settings: DataSettings) -> LoadedData:
    """The data that the settings ask for."""
    sources = {
        "the name of a data set": settings.name or None,
        "--x": settings.x,
        "--csv": settings.csv,
    }
    chosen = [source for source, value in sources.items() if value is not None]
    if len(chosen) > 1:
        raise UserError(f"data are given twice, by {' and '.join(chosen)}; give one of them")
    if settings.name:
        return _named(settings.name, settings)
    if settings.csv is not None:
        return _own_data(*_read_csv(Path(settings.csv), settings.target), settings)
    if settings.x is not None:
        return _own_data(*_read_arrays(settings.x, settings.y), settings)
    raise UserError(
        f"no data are given; name one of {', '.join(datasets.names())}, or give --x and --y, "
        "or --csv and --target"
    )


def _named(asked: str, settings: DataSettings) -> LoadedData:
    name = str(asked).lower().replace("_", "-")
    name = {"uci/wine": "uci/wine-quality-red"}.get(name, name)
    if name not in datasets.names():
        raise unknown("data set", str(asked), datasets.names())
    known = datasets.registered(name)
    split, download = settings.split, bool(settings.download)
    try:
        with as_user_error():
            data = datasets.named(name, split=split, directory=settings.data, download=download)
    except UserError as error:
        if not isinstance(error.__cause__, FileNotFoundError) or known.folder is None:
            raise
        wrong = "could not be downloaded" if download else "were not found"
        other = "" if download else ", or add --download"
        raise UserError(
            f"the files of {name} {wrong}; put them into DIR/{known.folder} and give --data DIR "
            f"(or SUNDMAN_DATA_DIR, or {cache_directory()}){other}"
        ) from error
    rows = f"{len(data.train.y)} rows to train on, {len(data.test.y)} held out for testing."
    return LoadedData(data, [rows, *([known.note.format(split=split)] if known.note else [])])


def _own_data(x: np.ndarray, y: np.ndarray, settings: DataSettings) -> LoadedData:
    """One's own rows: split at random, features standardised by the training rows."""
    fraction = settings.test_fraction
    if not isinstance(fraction, float) or not 0 < fraction < 1:
        raise UserError(f"test_fraction must be between 0 and 1, got {fraction!r}; use 0.2, say")
    task, why = _task(y, settings.task)
    order = shuffled(len(y), int(settings.split))
    tested, trained = np.split(order, [max(1, round(fraction * len(y)))])
    if len(trained) < 2:
        raise UserError(f"{len(y)} rows leave {len(trained)} to train on; give more rows")
    x_mean, x_scale = mean_and_scale(x[trained])
    x = ((x - x_mean) / x_scale).astype(np.float32)
    classes, y_mean, y_scale = None, 0.0, 1.0
    if task == "classification":
        names, y = np.unique(y, return_inverse=True)
        y, classes = y.astype(np.int32), len(names)
        shown = ", ".join(str(name) for name in names[:10]) + (", ..." if classes > 10 else "")
        what = f"{classes} classes: {shown}"
        if classes < 2:
            raise UserError(f"the target has one class only ({shown}); there is nothing to learn")
    else:
        y = y.astype(np.float64)
        mean, sd = mean_and_scale(y[trained])
        y = ((y - mean) / sd).astype(np.float32)
        y_mean, y_scale = float(mean), float(sd)
        what = "the target standardised"
    decisions = [
        f"{task.capitalize()}, {why}; {what}.",
        f"{len(trained)} rows to train on, {len(tested)} held out for testing, at random.",
        f"{x.shape[1]} features, standardised by the training rows.",
    ]
    data = Dataset(
        "own data",
        train=Split(x[trained], y[trained]),
        test=Split(x[tested], y[tested]),
        classes=classes,
        x_mean=x_mean,
        x_scale=x_scale,
        y_mean=y_mean,
        y_scale=y_scale,
    )
    return LoadedData(data, decisions)


def _task(y: np.ndarray, asked: str | None) -> tuple[str, str]:
    """Classification or regression, and why."""
    if asked is not None:
        if asked not in _TASKS:
            raise unknown("task", str(asked), _TASKS)
        if asked == "regression" and y.dtype.kind in "US":
            raise UserError("the target is text; use --task classification")
        return asked, "as asked"
    if y.dtype.kind == "f":
        return "regression", "because the targets are not whole numbers"
    classes = len(np.unique(y))
    if y.dtype.kind in "US":
        return "classification", "because the targets are text"
    if classes > max(_SURELY_CLASSES, len(y) // 10):
        raise UserError(
            f"the target has {classes} different whole numbers; say --task classification or "
            "--task regression"
        )
    return "classification", "because the targets are whole numbers"


def _read_arrays(path_x: str, path_y: str | None) -> tuple[np.ndarray, np.ndarray]:
    """The features (row, column) and the targets (row,) of two .npy files."""
    if path_y is None:
        raise UserError("--x is given without --y; give the targets, too, as --y y.npy")
    x, y = _load_array(Path(path_x), "--x"), _load_array(Path(path_y), "--y")
    if x.ndim == 0 or y.ndim == 0 or len(x) != len(y):
        raise UserError(
            f"x has shape {x.shape} and y {y.shape}; they need as many rows, one per example"
        )
    if x.dtype.kind not in "biuf":
        raise UserError(f"x has dtype {x.dtype}; it must hold numbers")
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or y.dtype.kind not in "biufUS":
        raise UserError(
            f"y has shape {y.shape} and dtype {y.dtype}; it needs one number or name per row"
        )
    x = x.reshape(len(x), -1).astype(np.float64)
    _check_finite(x, "x")
    if y.dtype.kind == "f":
        _check_finite(y, "y")
    return x, y


def _load_array(path: Path, flag: str) -> np.ndarray:
    try:
        return np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise UserError(f"there is no file {path}; give {flag} a .npy file") from None
    except (OSError, ValueError, EOFError):
        raise UserError(f"{path} is not a NumPy file; write it with numpy.save") from None


def _check_finite(values: np.ndarray, name: str) -> None:
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if bad.any():
        raise UserError(
            f"{name} has {int(bad.sum())} rows with NaN or infinite values, the first is row "
            f"{int(np.argmax(bad))}; remove or fill them"
        )


def _read_csv(path: Path, target: str | None) -> tuple[np.ndarray, np.ndarray]:
    """The features and the targets of a CSV file with a header; ``target`` names its column."""
    header, rows = _rows(path)
    if target is None:
        raise UserError(f"--csv needs --target; name one of its columns: {', '.join(header)}")
    if target not in header:
        raise UserError(f"{path} has no column {target!r}; {nearest(target, header)}")
    target_column = header.index(target)
    features = [i for i in range(len(header)) if i != target_column]
    if not features:
        raise UserError(f"{path} has the target column alone; it needs features, too")
    columns = [_numbers(path, header[i], [row[i] for row in rows]) for i in features]
    cells = [row[target_column].strip() for row in rows]
    return np.stack(columns, axis=1), _targets(path, target, cells)


def _rows(path: Path) -> tuple[list[str], list[list[str]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = [row for row in csv.reader(file) if row]
    except FileNotFoundError:
        raise UserError(f"there is no file {path}; give --csv a CSV file") from None
    except (OSError, UnicodeDecodeError, csv.Error):
        raise UserError(f"{path} cannot be read as CSV; it must be text, in UTF-8") from None
    if len(lines) < 2:
        raise UserError(f"{path} has no rows; it needs a header and a row per example")
    header = [name.strip() for name in lines[0]]
    for number, row in enumerate(lines[1:], start=2):
        if len(row) != len(header):
            raise UserError(
                f"{path} has {len(row)} cells in line {number} and {len(header)} in its header; "
                "mend it there"
            )
    return header, lines[1:]


def _numbers(path: Path, column: str, cells: list[str]) -> np.ndarray:
    for number, cell in enumerate(cells, start=2):
        value = _number(cell)
        if value is None or not np.isfinite(value):
            raise UserError(
                f"column {column!r} of {path} is not a number in line {number}: {cell!r}; remove "
                "the column, or write it as numbers"
            )
    return np.array([float(cell) for cell in cells])


def _number(cell: str) -> float | None:
    try:
        return float(cell)
    except ValueError:
        return None


def _targets(path: Path, column: str, cells: list[str]) -> np.ndarray:
    """Whole numbers, else real numbers, else names."""
    if "" in cells:
        line = cells.index("") + 2
        raise UserError(f"column {column!r} of {path} is empty in line {line}; fill or remove it")
    try:
        return np.array([int(cell) for cell in cells])
    except ValueError:
        pass
    if all(_number(cell) is not None for cell in cells):
        return _numbers(path, column, cells)
    return np.array(cells)
