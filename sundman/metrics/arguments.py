"""Checks of what metrics are given: shapes, ranges, and that probabilities are probabilities."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Labels = NDArray[np.intp]

_TOLERANCE = 1e-4  # far above the rounding of a single-precision softmax, far below a mistake


def numbers(name: str, values: ArrayLike) -> Floats:
    """Real numbers, none of them NaN, in double precision."""
    array = np.asarray(values)
    real = np.issubdtype(array.dtype, np.number) and not np.iscomplexobj(array)
    # bfloat16 and its like are no NumPy numbers, but convert to them.
    if not real and array.dtype.kind != "V":
        raise TypeError(f"{name} must be real numbers, got dtype {array.dtype}")
    result = array.astype(np.float64)
    if bad := int(np.isnan(result).sum()):
        raise ValueError(f"{name} has {bad} NaN among its {result.size} values")
    return result


def finite(name: str, values: ArrayLike) -> Floats:
    """Real numbers, all of them finite, in double precision."""
    result = numbers(name, values)
    if bad := int(np.isinf(result).sum()):
        raise ValueError(f"{name} has {bad} infinite among its {result.size} values")
    return result


def probabilities(values: ArrayLike, name: str = "probabilities") -> Floats:
    """Finite, not negative, (point, class), each row summing to 1; taken as they are."""
    p = finite(name, values)
    if p.ndim != 2 or 0 in p.shape:
        raise ValueError(f"{name} must have the axes (point, class), got shape {p.shape}")
    if p.min() < 0:
        raise ValueError(f"{name} must not be negative, got {p.min():.6g}; are these logits?")
    total = p.sum(axis=1)
    worst = int(np.abs(total - 1).argmax())
    if abs(total[worst] - 1) > _TOLERANCE:
        raise ValueError(
            f"each row of {name} must sum to 1, but row {worst} sums to {total[worst]:.6g}"
        )
    return p


def labels(values: ArrayLike, shape: tuple[int, ...]) -> Labels:
    """Class numbers (point,), from class numbers or one-hot rows, for predictions of ``shape``."""
    points, classes = shape
    array = np.asarray(values)
    if array.ndim == 2:
        if array.shape != shape:
            raise ValueError(
                f"one-hot labels must have the shape {shape} of the probabilities, "
                f"got {array.shape}"
            )
        if not (((array == 0) | (array == 1)).all() and (array.sum(axis=1) == 1).all()):
            raise ValueError("one-hot labels must have a single 1 and otherwise 0 in each row")
        return array.argmax(axis=1)
    if array.shape != (points,):
        raise ValueError(
            f"labels must have shape ({points},), or {shape} if one-hot, to go with "
            f"probabilities of shape {shape}; got {array.shape}"
        )
    if not np.issubdtype(array.dtype, np.integer):
        raise TypeError(f"labels must be whole numbers, got dtype {array.dtype}")
    if array.min() < 0 or array.max() >= classes:
        raise ValueError(
            f"labels must be from 0 to {classes - 1}, for {classes} classes; got labels from "
            f"{array.min()} to {array.max()}"
        )
    return array.astype(np.intp)


def weights(weight: ArrayLike | None, draws: int) -> Floats:
    """Weights of the draws, divided by their sum; None stands for equal ones."""
    if weight is None:
        return np.full(draws, 1 / draws)
    w = finite("weight", weight)
    if w.shape != (draws,):
        raise ValueError(f"weight must have one number for each draw, ({draws},), got {w.shape}")
    if w.min() < 0 or not w.sum() > 0:
        raise ValueError("weight must not be negative, and not 0 for every draw")
    return w / w.sum()


def same_shape(**arrays: Floats) -> None:
    """All arrays must have one shape, and something in it."""
    shapes = {name: array.shape for name, array in arrays.items()}
    if len(set(shapes.values())) > 1 or 0 in next(iter(shapes.values())):
        listed = ", ".join(f"{name} {shape}" for name, shape in shapes.items())
        raise ValueError(f"expected arrays of one shape, not empty, got {listed}")
