"""Samplers that move several copies of the position: the gradient of each, and the first of all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from sundman._types import PyTree
from sundman.gradients import GradientEstimator, RemembersGradients, Streamed
from sundman.noise import Purpose, Stream, fold
from sundman.value import static


class Replicated(GradientEstimator):
    """The gradient at every copy, with randomness of its own."""

    gradient: GradientEstimator
    number: int = static()

    def __call__(self, stream: Stream, position: PyTree, batch: Any = None) -> tuple[Array, PyTree]:
        """(U, G), both with a leading axis of copies."""

        def one(index: Array, at: PyTree) -> tuple[Array, PyTree]:
            return self.gradient(
                Stream(fold(stream.key, index, Purpose.REPLICA), stream.step), at, batch
            )

        return jax.vmap(one)(jnp.arange(self.number, dtype=jnp.uint32), position)


@dataclass(frozen=True)
class OfColdest:
    """A function of the first copy."""

    function: Callable[[PyTree], PyTree]

    def __call__(self, position: PyTree) -> PyTree:
        """``function`` of the first copy."""
        return self.function(coldest(position))


def coldest(tree: PyTree) -> PyTree:
    """The first copy."""
    return jax.tree.map(lambda leaf: leaf[0], tree)


def replicated(gradient: GradientEstimator, number: int) -> Replicated:
    """The gradient of ``number`` copies, if it can be made."""
    if isinstance(gradient, Streamed):
        raise ValueError(
            f"host batches cannot serve {number} replicas: each needs rows of its own; give the "
            "posterior its data in memory"
        )
    if isinstance(gradient, RemembersGradients):
        raise ValueError(
            f"{type(gradient).__name__} remembers gradients of one position and cannot serve "
            f"{number} replicas: use minibatches or a control variate"
        )
    return Replicated(gradient, number)


def copies(positions: PyTree, number: int) -> PyTree:
    """``number`` copies of every chain's position, along the second axis."""
    return jax.tree.map(lambda leaf: jnp.repeat(leaf[:, None], number, axis=1), positions)
