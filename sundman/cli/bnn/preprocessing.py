"""From the columns of a table to the features of a network, learnt from the training rows.

A column of numbers is one feature, with its median where cells are empty. A column of names is one
0/1 feature for each of its common levels and one for all others together, with its most common
level where cells are empty. A column that has gaps in the training rows has a 0/1 feature more that
says where they are.

    feature = (value - mean) / scale

where mean and scale of a number are mean and standard deviation of the training rows. The scale of
a 0/1 feature is 1/2, so that one that is even has values -1 and 1, and a rare level is no outlier.

All of it is written as JSON with the run, and ``sundman predict`` reads it from there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from sundman._files import write_bytes
from sundman.cli.bnn.table import Table, levels, numbers
from sundman.cli.errors import UserError
from sundman.cli.output import PREPROCESSING

_FORMAT = 1
_BINARY_SCALE = 0.5


class Encoded(NamedTuple):
    """The features of one column, (row, feature), and in how many rows its level is not known."""

    values: NDArray[np.float64]
    unknown: int = 0


@dataclass(frozen=True)
class NumberColumn:
    """A column of numbers.

    Attributes:
      name: its name in the header.
      fill: the number in place of a gap.
      indicator: whether a feature says where the gaps are.
    """

    name: str
    fill: float
    indicator: bool

    def features(self) -> list[str]:
        """The names of its features."""
        return [self.name, *_indicator_name(self.name, self.indicator)]

    def binary(self) -> list[bool]:
        """Which of them are 0 or 1."""
        return [False, *([True] if self.indicator else [])]

    def encode(self, table: Table) -> Encoded:
        """Its features in a table that has the column; a cell that is no number is refused."""
        values, texts = numbers(table.columns[self.name], decimal_comma=table.decimal_comma)
        if len(texts) or np.isinf(values).any():
            row = int(texts[0]) if len(texts) else int(np.argmax(np.isinf(values)))
            raise UserError(
                f"column {self.name!r} of {table.path} is not a number in line "
                f"{table.lines[row]}: {table.columns[self.name][row]!r}; write a number there, or "
                "nothing"
            )
        gaps = np.isnan(values)
        filled = np.where(gaps, self.fill, values)
        return Encoded(np.stack([filled, *([gaps] if self.indicator else [])], axis=1))


@dataclass(frozen=True)
class CategoryColumn:
    """A column of names.

    Attributes:
      name: its name in the header.
      levels: those with a feature of their own; none if only the gaps say something.
      other: whether there is a feature for all other levels together.
      fill: the level in place of a gap and, if there is no such feature, of an unknown level.
      indicator: whether a feature says where the gaps are.
    """

    name: str
    levels: tuple[str, ...]
    other: bool
    fill: str
    indicator: bool

    def features(self) -> list[str]:
        """The names of its features."""
        names = [f"{self.name}={level}" for level in self.levels]
        names += [f"{self.name}: other"] if self.other else []
        return [*names, *_indicator_name(self.name, self.indicator)]

    def binary(self) -> list[bool]:
        """Which of them are 0 or 1: all."""
        return [True] * len(self.features())

    def encode(self, table: Table) -> Encoded:
        """Its features in a table that has the column."""
        names, codes = levels(table.columns[self.name])
        place = {level: i for i, level in enumerate(self.levels)}
        fill = place.get(self.fill, 0)
        rest = len(self.levels) if self.other else fill
        # The code -1 of a gap is the last one.
        feature_of = np.array([*(place.get(name, rest) for name in names), fill])
        is_unknown = np.array([*(name not in place for name in names), False])
        width = len(self.levels) + self.other
        values = np.zeros((len(codes), width + self.indicator))
        if width:
            values[np.arange(len(codes)), feature_of[codes]] = 1.0
        if self.indicator:
            values[:, -1] = codes < 0
        return Encoded(values, int(is_unknown[codes].sum()) if self.levels else 0)


Column: TypeAlias = NumberColumn | CategoryColumn


def _indicator_name(name: str, indicator: bool) -> list[str]:
    return [f"{name} is missing"] if indicator else []


@dataclass(frozen=True)
class TargetScale:
    """What the outputs of the network mean.

    Attributes:
      name: the target's column.
      classes: the names of the classes, in the order of the outputs; None is a regression.
      mean: of a regression's target.
      scale: what it was divided by then.
    """

    name: str
    classes: tuple[str, ...] | None
    mean: float = 0.0
    scale: float = 1.0


class Features(NamedTuple):
    """Standardised features (row, feature), and by column how many rows have an unknown level."""

    x: NDArray[np.float32]
    unknown: dict[str, int]


@dataclass(frozen=True)
class Preprocessing:
    """How the rows of a table become inputs of a network.

    Attributes:
      columns: the columns that are used.
      mean: what is subtracted from each feature.
      scale: what each feature is then divided by.
    """

    columns: tuple[Column, ...]
    mean: tuple[float, ...]
    scale: tuple[float, ...]

    @classmethod
    def standardised(
        cls, columns: Sequence[Column], table: Table, train: NDArray[np.intp]
    ) -> Preprocessing:
        """Columns with the mean and scale that their features have in the training rows."""
        mean: list[float] = []
        scale: list[float] = []
        for column in columns:
            values = column.encode(table).values[train]
            spread = np.where(column.binary(), _BINARY_SCALE, values.std(axis=0))
            mean += values.mean(axis=0).tolist()
            scale += np.where(spread > 0, spread, 1.0).tolist()
        return cls(tuple(columns), tuple(mean), tuple(scale))

    def features(self) -> list[str]:
        """The names of the features."""
        return [name for column in self.columns for name in column.features()]

    def apply(self, table: Table) -> Features:
        """The features of a table; a column that it lacks is named."""
        lacking = [column.name for column in self.columns if column.name not in table.columns]
        if lacking:
            raise UserError(
                f"{table.path} has no column {' and no column '.join(map(repr, lacking))}; the run "
                f"was trained with {'it' if len(lacking) == 1 else 'them'}, and a cell may be empty"
            )
        x = np.empty((len(table), len(self.mean)), np.float32)
        unknown: dict[str, int] = {}
        first = 0
        for column in self.columns:
            values, count = column.encode(table)
            part = slice(first, first + values.shape[1])
            x[:, part] = (values - self.mean[part]) / self.scale[part]
            unknown |= {column.name: count} if count else {}
            first = part.stop
        return Features(x, unknown)

    def write(self, directory: Path, target: TargetScale) -> None:
        """Write it, and what the outputs mean, beside the results."""
        content = {
            "format": _FORMAT,
            "target": asdict(target),
            "columns": [asdict(column) for column in self.columns],
            "features": self.features(),
            "mean": self.mean,
            "scale": self.scale,
        }
        text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
        write_bytes(directory / PREPROCESSING, text.encode())


class StoredPreprocessing(NamedTuple):
    """What :meth:`Preprocessing.write` wrote."""

    preprocessing: Preprocessing
    target: TargetScale


def read_preprocessing(directory: Path) -> StoredPreprocessing:
    """The preprocessing of a run, as ``sundman bnn --csv`` left it in its directory."""
    path = directory / PREPROCESSING
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != _FORMAT:
            raise UserError(
                f"{path} has format {content['format']!r} and this version of sundman reads "
                f"{_FORMAT}; use the version that made the run"
            )
        target = dict(content["target"])
        classes = target.pop("classes")
        return StoredPreprocessing(
            Preprocessing(
                tuple(_column(each) for each in content["columns"]),
                tuple(map(float, content["mean"])),
                tuple(map(float, content["scale"])),
            ),
            TargetScale(classes=None if classes is None else tuple(classes), **target),
        )
    except FileNotFoundError:
        raise UserError(
            f"{directory} has no {PREPROCESSING}; give the --output of a finished sundman bnn --csv"
        ) from None
    except (OSError, ValueError, KeyError, TypeError):
        raise UserError(f"{path} is damaged; run sundman bnn --csv again") from None


def _column(content: Mapping[str, object]) -> Column:
    match content:
        case {"name": str(name), "levels": list(kept), "other": bool(other), "fill": str(fill),
              "indicator": bool(indicator)}:  # fmt: skip
            return CategoryColumn(name, tuple(map(str, kept)), other, fill, indicator)
        case {"name": str(name), "fill": float(fill) | int(fill), "indicator": bool(indicator)}:
            return NumberColumn(name, float(fill), indicator)
    raise ValueError(f"{content!r} is no column")
