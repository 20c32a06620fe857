"""Predictions as tables: those of a run's test rows, and ``sundman predict`` for new rows.

A regression predicts a mean, a standard deviation and a 90% interval in the target's own units, a
classification the most probable class and the probability of each. The predictive of several seeds
is that of all their draws together, each seed with the same weight.
"""

from __future__ import annotations

import csv
import dataclasses
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, TextIO, TypeAlias

import jax
import numpy as np
import typer

import sundman
from sundman import models
from sundman._files import write_bytes
from sundman.cli import options
from sundman.cli.bnn.data import LoadedData
from sundman.cli.bnn.plan import network_likelihood
from sundman.cli.bnn.preprocessing import TargetScale, read_preprocessing
from sundman.cli.bnn.table import read_table
from sundman.cli.errors import UserError, as_user_error
from sundman.cli.output import PREDICTIONS, RESULTS, SPLIT, make_writable, runs_in

Predictive: TypeAlias = np.ndarray | sundman.NormalMixture
"""Class probabilities (row, class), or a mixture of normals in the target's own units."""

_LEVEL = 0.9
_VALUES_PER_CHUNK = 4_000_000  # rows times draws


def pooled(predictives: Sequence[Predictive]) -> Predictive:
    """The predictive of several runs together, each with the same weight."""
    mixtures = [each for each in predictives if isinstance(each, sundman.NormalMixture)]
    if not mixtures:
        return np.mean([each for each in predictives if isinstance(each, np.ndarray)], axis=0)
    return sundman.NormalMixture(
        np.concatenate([each.mean for each in mixtures]),
        np.concatenate([each.sd for each in mixtures]),
        np.concatenate([each.weight / each.weight.sum() for each in mixtures]) / len(mixtures),
    )


def prediction_columns(
    predictive: Predictive, classes: Sequence[str] | None
) -> dict[str, np.ndarray]:
    """What is predicted for each row, by the name of the column in a file.

    Args:
      predictive: class probabilities or a mixture.
      classes: the names of the classes; None numbers them.

    Returns:
      mean, sd, lower_90 and upper_90; or class and the probability p_NAME of each.
    """
    if isinstance(predictive, sundman.NormalMixture):
        lower, upper = predictive.interval(_LEVEL)
        return {
            "mean": predictive.centre,
            "sd": predictive.spread,
            "lower_90": lower,
            "upper_90": upper,
        }
    names = classes or [str(i) for i in range(predictive.shape[1])]
    return {
        "class": np.array(names)[predictive.argmax(axis=1)],
        **{f"p_{name}": predictive[:, i] for i, name in enumerate(names)},
    }


def write_data_files(path: Path, loaded: LoadedData) -> None:
    """Beside the results of one's own data: which rows were held out, and how columns are read."""
    if loaded.split is not None:
        rows = {"train": loaded.split.train.tolist(), "test": loaded.split.test.tolist()}
        write_bytes(path / SPLIT, json.dumps(rows).encode())
    if loaded.preprocessing is not None and loaded.target is not None:
        loaded.preprocessing.write(path, loaded.target)


def write_test_predictions(path: Path, loaded: LoadedData, predictive: Predictive) -> None:
    """The predictions for the test rows, with their targets, beside the results."""
    data = loaded.data
    rows = np.arange(len(data.test.y)) if loaded.split is None else loaded.split.test
    classes = None if loaded.target is None else loaded.target.classes
    if data.classes is None:
        target = data.test.y.astype(np.float64) * data.y_scale + data.y_mean
    else:
        target = np.array(classes or range(data.classes))[data.test.y.astype(np.intp)]
    columns = {"row": rows, "target": target, **prediction_columns(predictive, classes)}
    with (path / PREDICTIONS).open("w", newline="", encoding="utf-8") as file:
        _write_csv(file, iter([columns]))


def _write_csv(file: TextIO, parts: Iterator[Mapping[str, np.ndarray]]) -> None:
    """Columns as CSV, with a header; rows in parts that follow each other."""
    writer, header = csv.writer(file, lineterminator="\n"), None
    for columns in parts:
        if header is None:
            header = list(columns)
            writer.writerow(header)
        cells = [
            [f"{value:.7g}" for value in column] if column.dtype.kind == "f" else column.tolist()
            for column in columns.values()
        ]
        writer.writerows(zip(*cells, strict=True))


def predict(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="What --output of sundman bnn --csv was.", show_default=False
        ),
    ],
    table: Annotated[
        Path,
        typer.Argument(
            metavar="TABLE", help="A CSV file with the columns of the run's.", show_default=False
        ),
    ],
    output: Annotated[
        Path | None,
        options.output("--output", "-o", text="The file. [default: printed]"),
    ] = None,
    force: options.Force = False,
    no_cache: options.NoCache = False,
) -> None:
    """Predict the rows of a new table by a network that was sampled with sundman bnn --csv.

    The columns are treated as those of the run were; its target is not needed. For each row a
    regression has mean, sd and the 90% interval, a classification the probability of each class.

    For example:

    sundman predict runs/bnn-own-data new.csv --output predictions.csv
    """
    options.use_compilation_cache(not no_cache)
    if not run.exists():
        raise UserError(f"there is nothing at {run}; give the directory of a run")
    preprocessing, target = read_preprocessing(run)
    if not (run / RESULTS).is_file():
        raise UserError(f"{run} is not finished; go on with: sundman resume {run}")
    x, unknown = preprocessing.apply(read_table(table, "sundman predict"))
    draws = _draws_of(run)
    if output is not None:
        output = output.expanduser()
        make_writable(output, force)
    for name, count in unknown.items():
        rows = "1 row has a level" if count == 1 else f"{count} rows have a level"
        print(f"sundman: note: {rows} of {name!r} that has no feature", file=sys.stderr)
    parts = _predicted_parts(draws, x, target)
    if output is None:
        _write_csv(sys.stdout, parts)
        return
    with output.open("w", newline="", encoding="utf-8") as file:
        _write_csv(file, parts)


def _draws_of(run: Path) -> list[sundman.Draws]:
    """The draws of each seed that has some, in memory."""
    with as_user_error():
        stored = [sundman.Draws.open(path) for path in runs_in(run).values()]
    if not all(draws.has_position for draws in stored):
        raise UserError(
            f"{run} has no weights to predict with, because they were too large to be kept; sample "
            "it again with a smaller --width or a larger --thin"
        )
    return [
        dataclasses.replace(draws, values=jax.tree.map(np.asarray, draws.values))
        for draws in stored
        if (np.asarray(draws.weight) > 0).any()
    ]


def _predicted_parts(
    draws: Sequence[sundman.Draws], x: np.ndarray, target: TargetScale
) -> Iterator[dict[str, np.ndarray]]:
    """The predictions for some rows at a time, as many as fit into memory."""
    classes = target.classes
    likelihood = network_likelihood(None if classes is None else len(classes))
    size = max(1, _VALUES_PER_CHUNK // sum(np.asarray(each.weight).size for each in draws))
    for first in range(0, len(x), size):
        part = x[first : first + size]
        predictive = pooled(
            [
                in_units(
                    sundman.predict(each, models.mlp_apply, part, likelihood=likelihood), target
                )
                for each in draws
            ]
        )
        rows = np.arange(first, first + len(part))
        yield {"row": rows, **prediction_columns(predictive, classes)}


def in_units(predictive: Predictive, target: TargetScale) -> Predictive:
    """What the network predicts in the target's own units; probabilities as they are."""
    if not isinstance(predictive, sundman.NormalMixture):
        return np.asarray(predictive)
    mean, sd = (
        np.asarray(each, np.float64).reshape(*each.shape[:2])
        for each in (predictive.mean, predictive.sd)
    )
    weight = np.asarray(predictive.weight, np.float64)
    return sundman.NormalMixture(mean * target.scale + target.mean, sd * target.scale, weight)
