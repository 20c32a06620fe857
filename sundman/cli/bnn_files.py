"""One's own data from files: two arrays of NumPy, or a CSV file with a header."""

from __future__ import annotations

import csv as csv_file
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sundman.cli.errors import UserError, nearest

Array = NDArray[Any]


def arrays(path_x: Path, path_y: Any) -> tuple[Array, Array]:
    """The features (row, column) and the targets (row,) of two .npy files."""
    if path_y is None:
        raise UserError("--x is given without --y; give the targets, too, as --y y.npy")
    x, y = _array(path_x, "--x"), _array(Path(path_y), "--y")
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
    _finite(x, "x")
    if y.dtype.kind == "f":
        _finite(y, "y")
    return x, y


def _array(path: Path, flag: str) -> Array:
    try:
        return np.load(path, allow_pickle=False)
    except FileNotFoundError:
        raise UserError(f"there is no file {path}; give {flag} a .npy file") from None
    except (OSError, ValueError, EOFError):
        raise UserError(f"{path} is not a NumPy file; write it with numpy.save") from None


def _finite(values: Array, name: str) -> None:
    bad = ~np.isfinite(values.reshape(len(values), -1)).all(axis=1)
    if bad.any():
        raise UserError(
            f"{name} has {int(bad.sum())} rows with NaN or infinite values, the first is row "
            f"{int(np.argmax(bad))}; remove or fill them"
        )


def csv(path: Path, target: str | None) -> tuple[Array, Array]:
    """The features and the targets of a CSV file with a header; ``target`` names its column."""
    header, rows = _rows(path)
    if target is None:
        raise UserError(f"--csv needs --target; name one of its columns: {', '.join(header)}")
    if target not in header:
        raise UserError(f"{path} has no column {target!r}; {nearest(target, header)}")
    at = header.index(target)
    features = [i for i in range(len(header)) if i != at]
    if not features:
        raise UserError(f"{path} has the target column alone; it needs features, too")
    columns = [_numbers(path, header[i], [row[i] for row in rows]) for i in features]
    return np.stack(columns, axis=1), _targets(path, target, [row[at].strip() for row in rows])


def _rows(path: Path) -> tuple[list[str], list[list[str]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            lines = [row for row in csv_file.reader(file) if row]
    except FileNotFoundError:
        raise UserError(f"there is no file {path}; give --csv a CSV file") from None
    except (OSError, UnicodeDecodeError, csv_file.Error):
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


def _numbers(path: Path, column: str, cells: list[str]) -> Array:
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


def _targets(path: Path, column: str, cells: list[str]) -> Array:
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
