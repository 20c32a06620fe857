"""Examples as arrays: what a person gives as x and y, checked, with errors that name it."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from sundman import check
from sundman._types import PyTree


def _is_nested_list(node: Any) -> bool:
    """A list of plain numbers, or of such lists; a list of arrays is a pytree of inputs."""
    if not isinstance(node, (list, tuple)) or not node:
        return False
    leaves = jax.tree.leaves(node, is_leaf=lambda leaf: leaf is None)
    return not any(hasattr(leaf, "shape") for leaf in leaves) and not _has_mapping(node)


def _has_mapping(node: Any) -> bool:
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

    def convert(leaf: Any) -> Any:
        if isinstance(leaf, jax.Array):
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
        if jnp.issubdtype(leaf.dtype, jnp.inexact) and not np.isfinite(leaf).all():
            row = int(np.argwhere(~np.isfinite(leaf))[0][0]) if leaf.ndim else 0
            raise ValueError(f"x has a value that is not finite, first in row {row}")
    return x
