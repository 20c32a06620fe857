"""Monitors: the number q that the Sundman clock watches, in the place of ||G||^2.

    g_n = q_n^(s/2) / Omega + delta,    q_n = monitor(G_n, theta_n, its memory, n) >= 0

    whitened     |L' G|^2 in the coordinates of :func:`sundman.integrators.whitened`
    a function   (grads, params) -> q

and those of ``sundman.contrib.monitors``.

Any of them keeps the target. With one scalar dt for all coordinates a step is that of the same
diffusion over another time: d E[f(theta)] = E[psi L f] dtau for every f of the position alone,
however zeta came about, memory and random probes included. In the stationary state that is zero,
so the law weighted by psi, and by dt, is the one that L leaves alone. What a monitor changes is
where steps are short, hence the size of the O(dtau) bias. One condition is left, that of ``lag``:
psi must not be correlated with the noise in the same step's gradient.

A monitor is a value with ``init`` and ``measure``: a subclass of :class:`Monitor`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from sundman._types import PyTree
from sundman.clocks.base import time_dtype
from sundman.scaling import Scale
from sundman.value import Value, static

__all__ = [
    "Monitor",
    "function",
    "whitened",
]


class Monitor(Value):
    """What a clock watches, a value; ``memory`` is its own, carried from step to step.

    Attributes:
      power_of_rows: q grows like N to this power with the rows of the data: 2 for a squared
        gradient of U, 1 for U itself. It turns the ``omega`` of the mean loss into that of U.
    """

    room = "clocks.monitors"
    power_of_rows: ClassVar[float] = 2.0

    def init(self, params: PyTree) -> PyTree:
        """The memory before the first step.

        Args:
          params: the first position.

        Returns:
          A pytree of arrays; None if there is nothing to remember.
        """
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


class Function(Monitor):
    """q = measure(grads, params), a scalar; less than zero counts as zero."""

    function: Callable[[PyTree, PyTree], ArrayLike] = static()

    def measure(
        self, grads: PyTree, params: PyTree, memory: None, step: Array
    ) -> tuple[Array, None]:
        """The function's value, which must be a scalar."""
        del step
        q = jnp.asarray(self.function(grads, params))
        if q.shape != ():
            raise ValueError(f"a monitor must give one number, got shape {q.shape}")
        return jnp.maximum(q.astype(time_dtype(params)), 0.0), memory


class Whitened(Monitor):
    """q = |L' G|^2, the squared gradient in the coordinates of a scale."""

    scale: Scale

    def init(self, params: PyTree) -> None:
        """Nothing; raises if the scale is not for such positions."""
        self.scale.check_fits(params)

    def measure(
        self, grads: PyTree, params: PyTree, memory: None, step: Array
    ) -> tuple[Array, None]:
        """|L' G|^2."""
        del step
        dtype = time_dtype(params)
        inside = self.scale.inward(grads)
        return total(jax.tree.map(lambda g: jnp.square(g.astype(dtype)), inside), dtype), memory


whitened = Whitened


function = Function


def as_monitor(monitor: Monitor | Callable[[PyTree, PyTree], ArrayLike]) -> Monitor:
    """A monitor as it is, a function (grads, params) -> q as a monitor."""
    if isinstance(monitor, Monitor):
        return monitor
    if callable(monitor) and not isinstance(monitor, type):
        return Function(monitor)
    raise TypeError(
        "monitor must be one of sundman.clocks.monitors or a function (grads, params) -> number, "
        f"got {monitor!r}"
    )


def total(tree: PyTree, dtype: DTypeLike) -> Array:
    """The sum of all numbers."""
    sums: list[Array] = [jnp.sum(leaf.astype(dtype)) for leaf in jax.tree.leaves(tree)]
    return sum(sums[1:], sums[0])
