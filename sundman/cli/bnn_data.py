"""Data for a network: a known set by name, or one's own arrays or CSV file.

What is decided here (classification or regression, the split, the standardising) is told in
``decisions``, one sentence each.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sundman import data as datasets
from sundman.cli import bnn_files
from sundman.cli.errors import UserError, at_the_door, unknown
from sundman.data.base import Dataset, Split, shuffled
from sundman.data.files import cache_directory
from sundman.data.tables import mean_and_scale

TASKS = ("classification", "regression")
_FEW = 20  # as many different whole numbers are surely classes


class Loaded(NamedTuple):
    """A data set and what was decided about it."""

    data: Dataset
    decisions: list[str]


def load(asked: Mapping[str, Any]) -> Loaded:
    """The data that the settings ask for."""
    own = [key for key in ("x", "csv") if asked[key] is not None]
    given = [*(["the name of a data set"] if asked["name"] else []), *(f"--{key}" for key in own)]
    if len(given) > 1:
        raise UserError(f"data are given twice, by {' and '.join(given)}; give one of them")
    if not given:
        raise UserError(
            f"no data are given; name one of {', '.join(datasets.names())}, or give --x and --y, "
            "or --csv and --target"
        )
    if asked["name"]:
        return _named(asked)
    if asked["csv"] is not None:
        x, y = bnn_files.csv(Path(asked["csv"]), asked["target"])
    else:
        x, y = bnn_files.arrays(Path(asked["x"]), asked["y"])
    return _own(x, y, asked)


def _named(asked: Mapping[str, Any]) -> Loaded:
    name = str(asked["name"]).lower().replace("_", "-")
    name = {"uci/wine": "uci/wine-quality-red"}.get(name, name)
    if name not in datasets.names():
        raise unknown("data set", str(asked["name"]), datasets.names())
    known = datasets.registered(name)
    split, download = asked["split"], bool(asked["download"])
    try:
        with at_the_door():
            data = datasets.named(name, split=split, directory=asked["data"], download=download)
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
    return Loaded(data, [rows, *([known.note.format(split=split)] if known.note else [])])


def _own(x: NDArray[Any], y: NDArray[Any], asked: Mapping[str, Any]) -> Loaded:
    """One's own rows: split at random, features standardised by the training rows."""
    fraction = asked["test_fraction"]
    if not isinstance(fraction, float) or not 0 < fraction < 1:
        raise UserError(f"test_fraction must be between 0 and 1, got {fraction!r}; use 0.2, say")
    task, why = _task(y, asked["task"])
    order = shuffled(len(y), int(asked["split"]))
    tested, trained = np.split(order, [max(1, round(fraction * len(y)))])
    if len(trained) < 2:
        raise UserError(f"{len(y)} rows leave {len(trained)} to train on; give more rows")
    x_mean, x_scale = mean_and_scale(x[trained])
    x = ((x - x_mean) / x_scale).astype(np.float32)
    scale: dict[str, Any] = {"x_mean": x_mean, "x_scale": x_scale}
    if task == "classification":
        names, y = np.unique(y, return_inverse=True)
        y, scale["classes"] = y.astype(np.int32), len(names)
        shown = ", ".join(str(name) for name in names[:10]) + (", ..." if len(names) > 10 else "")
        what = f"{len(names)} classes: {shown}"
        if len(names) < 2:
            raise UserError(f"the target has one class only ({shown}); there is nothing to learn")
    else:
        y = y.astype(np.float64)
        mean, sd = mean_and_scale(y[trained])
        scale |= {"y_mean": float(mean), "y_scale": float(sd)}
        y = ((y - mean) / sd).astype(np.float32)
        what = "the target standardised"
    train, test = (Split(x[rows], y[rows]) for rows in (trained, tested))
    decisions = [
        f"{task.capitalize()}, {why}; {what}.",
        f"{len(trained)} rows to train on, {len(tested)} held out for testing, at random.",
        f"{x.shape[1]} features, standardised by the training rows.",
    ]
    return Loaded(Dataset("own data", train, test, **scale), decisions)


def _task(y: NDArray[Any], asked: str | None) -> tuple[str, str]:
    if asked is not None:
        if asked not in TASKS:
            raise unknown("task", str(asked), TASKS)
        if asked == "regression" and y.dtype.kind in "US":
            raise UserError("the target is text; use --task classification")
        return asked, "as asked"
    if y.dtype.kind == "f":
        return "regression", "because the targets are not whole numbers"
    classes = len(np.unique(y))
    if y.dtype.kind in "US":
        return "classification", "because the targets are text"
    if classes > max(_FEW, len(y) // 10):
        raise UserError(
            f"the target has {classes} different whole numbers; say --task classification or "
            "--task regression"
        )
    return "classification", "because the targets are whole numbers"
