"""What goes into a posterior and comes out of it: batches, positions, evaluations of U."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax import Array

from sundman import priors
from sundman._types import PyTree

Model: TypeAlias = Callable[[PyTree, PyTree], PyTree]
"""(params, x) -> outputs."""

BatchLike: TypeAlias = Sequence[PyTree]
"""(x, y), (x, y, mask) or a :class:`Batch`."""

LIKELIHOOD = "likelihood"


class Batch(NamedTuple):
    """Examples, and which of them count (``None``: all)."""

    x: PyTree
    y: PyTree
    mask: Array | None = None


class Position(NamedTuple):
    """Where a hierarchical model's chain is: the model's parameters and the hyper-parameters.

    Attributes:
      params: the model's parameters.
      hyper: the hyper-parameters by name: ``"prior/<path>"`` for the prior of each array that has
        some, and ``"likelihood"``.
    """

    params: PyTree
    hyper: dict[str, PyTree]


class Evaluation(NamedTuple):
    """U and its gradient at a position.

    Attributes:
      loss: the likelihood's part of U, cheap to have: a sign of whether U is finite.
      value: U.
      grads: G, at full-data scale; where the native kernels are used, leaves may be
        :class:`sundman.native.split_gradient.SplitGradient`, of which
        :func:`sundman.native.split_gradient.dense` makes arrays.
    """

    loss: Array
    value: Array
    grads: PyTree


def model_params(position: PyTree) -> PyTree:
    """The model's parameters in a position, with or without hyper-parameters."""
    return position.params if isinstance(position, Position) else position


def hyper_params(position: PyTree) -> dict[str, PyTree]:
    """The hyper-parameters in a position by name; empty if it has none."""
    return position.hyper if isinstance(position, Position) else {}


def prior_name(path: str) -> str:
    """The name of the hyper-parameters of the prior of one array."""
    return f"prior/{path}"


def likelihood_hyper(position: PyTree) -> PyTree:
    """The hyper-parameters of the likelihood in a position, or None."""
    return hyper_params(position).get(LIKELIHOOD)


def _features(x: PyTree) -> str:
    """The number of features of each row, or the shapes of rows that are no vectors."""
    shapes = [tuple(leaf.shape[1:]) for leaf in jax.tree.leaves(x)]
    if len(shapes) == 1 and len(shapes[0]) == 1:
        return f"{shapes[0][0]} features"
    return "rows of shape " + ", ".join(map(str, shapes))


@contextmanager
def applying(
    position: PyTree, x: PyTree, example: Callable[[], PyTree] = lambda: None
) -> Generator[None]:
    """Errors of a model that does not fit x say so, with the features on both sides.

    Args:
      position: with the parameters.
      x: the inputs.
      example: gives inputs the model is known to take, if there are any.

    Returns:
      A context in which the model may be applied.
    """
    try:
        yield
    except jax.errors.JAXTypeError:  # about tracing, in the model itself
        raise
    except (TypeError, ValueError) as error:
        known = example()
        if known is not None and _features(known) != _features(x):
            other = f"the model was checked with {_features(known)}"
        else:
            named = priors.paths(model_params(position))
            shapes = ", ".join(f"{path or 'the array'} {jnp.shape(leaf)}" for path, leaf in named)
            other = f"the parameters have the shapes {shapes}"
        raise ValueError(
            f"the model cannot be applied to x: x has {_features(x)}, {other} "
            f"(apply(params, x) raised {type(error).__name__})"
        ) from error
