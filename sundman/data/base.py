"""What a data set is, how it is found by its name, and examples as checked arrays.

A set has named splits; it is registered under a name, which ``sundman bnn`` and :func:`named`
know. What a person gives as x and y is made arrays by :func:`as_examples`, with errors that name
the one that is wrong.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sundman import check
from sundman._registry import Registry
from sundman._types import PyTree

Floats = NDArray[np.float32]


class Split(NamedTuple):
    """Inputs ``x`` of shape (point, feature) and targets ``y`` of shape (point,)."""

    x: Floats
    y: NDArray[np.int32] | Floats


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


OPTIONS = ("split", "directory", "download")


class Registered(NamedTuple):
    """A data set that is known by its name.

    Attributes:
      load: the function that loads it.
      note: what to know of it, a sentence for the report; ``{split}`` becomes the split.
      folder: the folder of its files, if it has files.
    """

    load: Callable[..., Dataset]
    note: str = ""
    folder: str | None = None


REGISTRY = Registry[Registered]("data set")


def register(
    name: str, load: Callable[..., Dataset], *, note: str = "", folder: str | None = None
) -> None:
    """Let a data set be found by its name: by :func:`named` and by ``sundman bnn``.

    Args:
      name: its name, in lower case with hyphens; slashes make families, ``uci/yacht``.
      load: gives the :class:`Dataset`. Of ``split`` (a number), ``directory`` (where to look for
        files first, or None) and ``download`` (whether to), it is given those it has arguments for.
      note: a sentence for the report; ``{split}`` becomes the split.
      folder: the folder of its files below ``directory``, which is named if they are not found.
    """
    if not callable(load):
        raise TypeError(f"load must be a function that gives a Dataset, got load={load!r}")
    REGISTRY.add(name, Registered(load, note, folder), maker=load)


def registered(name: str) -> Registered:
    """How the data set of that name is loaded, and what to know of it."""
    return REGISTRY[name]


def names() -> tuple[str, ...]:
    """The names :func:`named` knows."""
    return REGISTRY.names()


def named(name: str, **options: object) -> Dataset:
    """The data set of that name, hyphens or underscores.

    Args:
      name: its name.
      options: ``split``, ``directory`` and ``download``; those its function has no argument for
        are left out.

    Returns:
      The data set.
    """
    for option in options:
        check.choice("option", option, OPTIONS)
    load = registered(name).load
    takes = inspect.signature(load).parameters
    data = load(**{key: value for key, value in options.items() if key in takes})
    if not isinstance(data, Dataset):
        raise TypeError(f"the data set {name} must be a sundman.data.Dataset, got {data!r}")
    return data


def _is_nested_list(node: object) -> bool:
    """A list of plain numbers, or of such lists; a list of arrays is a pytree of inputs."""
    if not isinstance(node, (list, tuple)) or not node:
        return False
    leaves = jax.tree.leaves(node, is_leaf=lambda leaf: leaf is None)
    return not any(hasattr(leaf, "shape") for leaf in leaves) and not _has_mapping(node)


def _has_mapping(node: object) -> bool:
    if isinstance(node, (list, tuple)):
        return any(map(_has_mapping, node))
    return isinstance(node, dict)


def as_arrays(name: str, tree: PyTree) -> PyTree:
    """``tree`` with arrays of numbers as its leaves; a nested list of numbers becomes one array.

    Args:
      name: what errors call it, "x" or "y".
      tree: an array, a nested list, or a pytree of them.

    Returns:
      The same with NumPy arrays; JAX arrays stay as they are.
    """

    def convert(leaf: PyTree) -> Array | np.ndarray:
        if isinstance(leaf, Array):
            return leaf
        try:
            array = np.asarray(leaf)
        except ValueError:
            raise ValueError(
                f"{name} is a nested list whose rows have different lengths: give an array"
            ) from None
        if not jnp.issubdtype(array.dtype, np.number) and array.dtype != np.bool_:
            raise TypeError(
                f"{name} has dtype {array.dtype}, but the model needs numbers: encode texts and "
                "categories as numbers first"
            )
        return array

    return jax.tree.map(convert, tree, is_leaf=_is_nested_list)


def as_examples(x: PyTree, y: PyTree) -> tuple[PyTree, PyTree]:
    """x and y as arrays with one row per example, all of them finite."""
    x, y = as_arrays("x", x), as_arrays("y", y)
    if all(map(check.known, jax.tree.leaves((x, y)))):
        check.examples(x, y)
    return x, y


def as_inputs(x: PyTree) -> PyTree:
    """x as arrays, all of them finite."""
    x = as_arrays("x", x)
    for leaf in filter(check.known, jax.tree.leaves(x)):
        check.finite_rows("x", leaf)
    return x
