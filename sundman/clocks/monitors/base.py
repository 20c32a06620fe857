"""What a monitor is, and the one made of a user's function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from sundman._types import PyTree
from sundman.clocks.base import time_dtype
from sundman.value import Value, static


class Monitor(Value):
    """What a clock watches, a value; ``memory`` is its own, carried from step to step."""

    def init(self, params: PyTree) -> PyTree:
        """The memory before the first step."""
        del params

    def measure(
        self, grads: PyTree, params: PyTree, memory: PyTree, step: Array
    ) -> tuple[Array, PyTree]:
        """q, zero or more, and the memory after this step.

        Args:
          grads: the gradient of U at ``params``.
          params: the position.
          memory: what the monitor remembers.
          step: the number of the step.

        Returns:
          q and the next memory.
        """
        raise NotImplementedError


def total(tree: PyTree, dtype: Any) -> Array:
    """The sum of all numbers."""
    sums = [jnp.sum(leaf.astype(dtype)) for leaf in jax.tree.leaves(tree)]
    return sum(sums[1:], sums[0])


def total_square(tree: PyTree, dtype: Any) -> Array:
    """The sum of all squares."""
    return total(jax.tree.map(lambda leaf: jnp.square(leaf.astype(dtype)), tree), dtype)


class Function(Monitor):
    """q = measure(grads, params), a scalar; less than zero counts as zero."""

    function: Callable[[PyTree, PyTree], Any] = static()

    def measure(self, grads: PyTree, params: PyTree, memory: None, step: Array):
        """The function's value, which must be a scalar."""
        del step
        q = jnp.asarray(self.function(grads, params))
        if q.shape != ():
            raise ValueError(f"a monitor must give one number, got shape {q.shape}")
        return jnp.maximum(q.astype(time_dtype(params)), 0.0), memory


def as_monitor(monitor: Any) -> Monitor:
    """A monitor as it is, a function (grads, params) -> q as a monitor."""
    if isinstance(monitor, Monitor):
        return monitor
    if callable(monitor) and not isinstance(monitor, type):
        return Function(monitor)
    raise TypeError(
        "monitor must be one of sundman.clocks.monitors or a function (grads, params) -> number, "
        f"got {monitor!r}"
    )


def check_callable(name: str, potential: Any) -> None:
    """Raise unless it can be a potential."""
    if not callable(potential):
        raise TypeError(f"monitors.{name} needs a potential U(params) -> scalar, got {potential!r}")
