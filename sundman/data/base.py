"""What a data set is, and the shuffle by which one is split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]


class Split(NamedTuple):
    """Inputs ``x`` of shape (point, feature) and targets ``y`` of shape (point,)."""

    x: Floats
    y: NDArray[Any]


@dataclass(frozen=True, eq=False, repr=False)
class Dataset:
    """A data set in memory; ``x`` is float32, ``y`` int32 labels or float32 targets.

    The original inputs are ``x * x_scale + x_mean`` and the original targets
    ``y * y_scale + y_mean``; in their units an RMSE is ``y_scale`` times that of ``y``, and an NLL
    is larger by ``log(y_scale)``.

    Attributes:
      name: what it is called.
      train: the points to fit; empty in a set that is only there to be tested on.
      test: the points to be judged by.
      validation: the points to tune by, where some are set apart.
      classes: the number of classes, or None if the targets are real numbers.
      x_mean: what was subtracted from each feature.
      x_scale: what each feature was then divided by.
      y_mean: what was subtracted from the targets.
      y_scale: what the targets were then divided by.
    """

    name: str
    train: Split
    test: Split
    validation: Split | None = None
    classes: int | None = None
    x_mean: NDArray[np.float64] | float = 0.0
    x_scale: NDArray[np.float64] | float = 1.0
    y_mean: float = 0.0
    y_scale: float = 1.0

    def __repr__(self) -> str:
        """Sizes, not contents."""
        splits = {"train": self.train, "validation": self.validation, "test": self.test}
        sizes = ", ".join(f"{len(s.y)} {name}" for name, s in splits.items() if s is not None)
        kind = "regression" if self.classes is None else f"{self.classes} classes"
        return f"Dataset({self.name}: {sizes}; {self.test.x.shape[1]} features, {kind})"


def shuffled(n: int, seed: int) -> NDArray[np.intp]:
    """The numbers 0 to n - 1 in an order fixed by ``seed``, the same in every version of NumPy.

    NumPy keeps its bit generators' streams for good, but not what its methods make of them.
    """
    return np.argsort(np.random.PCG64(seed).random_raw(n), kind="stable")
