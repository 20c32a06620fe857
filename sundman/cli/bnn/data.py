"""Data for a network: a known set by name, or one's own arrays or CSV file.

What is decided here (classification or regression, the split, the standardising) is told in
``decisions``, one sentence each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sundman import data as datasets
from sundman.cli.bnn.columns import asked_columns, choose_columns, column_names, shown
from sundman.cli.bnn.preprocessing import Preprocessing, TargetScale
from sundman.cli.bnn.table import read_table
from sundman.cli.bnn.target import OwnTarget, SplitRows, read_target, settle_target
from sundman.cli.errors import UserError, as_user_error, nearest, unknown
from sundman.cli.settings import CommandSettings
from sundman.data.base import Dataset, Split
from sundman.data.files import cache_directory
from sundman.data.sets import mean_and_scale


@dataclass(frozen=True)
class DataSettings(CommandSettings):
    """Which data: a name, two arrays or a table, in the names of the options."""

    name: str | None = None
    x: str | None = None
    y: str | None = None
    csv: str | None = None
    target: str | None = None
    task: str | None = None
    columns: Sequence[str] | None = None
    drop: Sequence[str] | None = None
    test_fraction: float | None = None
    split: int = 0
    data: str | None = None
    download: bool = False


class LoadedData(NamedTuple):
    """A data set and what was decided about it.

    Attributes:
      data: the data set.
      decisions: what was decided, a sentence each.
      target: of one's own data, what the targets mean.
      split: of one's own data, which of its rows are in the data set.
      preprocessing: of a table, how it became features.
    """

    data: Dataset
    decisions: list[str]
    target: TargetScale | None = None
    split: SplitRows | None = None
    preprocessing: Preprocessing | None = None


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
        return _own_table(settings)
    if settings.x is not None:
        return _own_arrays(settings)
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


def _own_arrays(settings: DataSettings) -> LoadedData:
    """One's own arrays: split at random, features standardised by the training rows."""
    if settings.columns or settings.drop:
        raise UserError("--columns and --drop name columns of a table; give one as --csv")
    x, values = _read_arrays(str(settings.x), settings.y)
    target = _settle(settings, "y", values)
    mean, scale = mean_and_scale(x[target.split.train])
    x = ((x - mean) / scale).astype(np.float32)
    said = f"{x.shape[1]} features, standardised by the training rows."
    data = dataclasses.replace(_dataset(x, target), x_mean=mean, x_scale=scale)
    return LoadedData(data, [*target.decisions, said], target.scale, target.split)


def _own_table(settings: DataSettings) -> LoadedData:
    """One's own table: columns chosen and made features, what they need by the training rows."""
    table = read_table(Path(str(settings.csv)))
    header, name = list(table.columns), settings.target
    if name is None:
        raise UserError(f"--csv needs --target; name one of its columns: {', '.join(header)}")
    if name not in header:
        raise UserError(f"{table.path} has no column {name!r}; {nearest(name, header)}")
    asked, drop = (column_names(names, header) for names in (settings.columns, settings.drop))
    candidates = asked_columns(table, name, asked, drop)
    values, rows = read_target(table, name)
    target = _settle(settings, name, values)
    split = SplitRows(rows[target.split.train], rows[target.split.test])
    chosen = choose_columns(table, candidates, split.train, asked)
    preprocessing = Preprocessing.standardised(chosen.columns, table, split.train)
    data = dataclasses.replace(
        _dataset(preprocessing.apply(table).x[rows], target),
        x_mean=np.array(preprocessing.mean),
        x_scale=np.array(preprocessing.scale),
    )
    left_out = [column for column in header if column != name and column not in candidates]
    decisions = [
        *target.decisions,
        *(
            [f"{_rows(len(table) - len(rows))} no target: left out."]
            if len(rows) < len(table)
            else []
        ),
        *([f"Left out, as asked: {shown([repr(each) for each in left_out])}."] if left_out else []),
        *chosen.decisions,
        f"{data.train.x.shape[1]} features of {len(chosen.columns)} columns, standardised by the "
        "training rows.",
    ]
    return LoadedData(data, decisions, target.scale, split, preprocessing)


def _rows(count: int) -> str:
    return "1 row has" if count == 1 else f"{count} rows have"


def _settle(settings: DataSettings, name: str, values: np.ndarray) -> OwnTarget:
    return settle_target(
        name,
        values,
        task=settings.task,
        fraction=settings.test_fraction,
        seed=int(settings.split),
    )


def _dataset(x: NDArray[np.float32], target: OwnTarget) -> Dataset:
    """Features and targets as a data set, in the rows of the split."""
    (train, test), y, scale = target.split, target.y, target.scale
    return Dataset(
        "own data",
        train=Split(x[train], y[train]),
        test=Split(x[test], y[test]),
        classes=None if scale.classes is None else len(scale.classes),
        y_mean=scale.mean,
        y_scale=scale.scale,
    )


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
