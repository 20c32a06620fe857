"""The metric contract: a root S(theta) of the inverse of G, and two divergences.

    S S^T = G^{-1};    sum_j d_j (G^{-1})_ij  for SGRLD,    sum_j d_j S_ji  for SGRHMC

Without its divergence a metric that depends on the position samples the wrong law. A metric of
your own needs only its root; this one is G = (1 + strength |theta|^2) I:

    class Radial(Metric):
        strength: Number = 1.0
        is_diagonal = True

        def __post_init__(self):
            self._settle(strength=check.not_negative)

        def root_times(self, position, v):
            return v / jnp.sqrt(1.0 + self.strength * jnp.sum(position**2))

Both divergences are then by automatic differentiation, with one product for each coordinate.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import jax
import jax.numpy as jnp
from jax import Array
from jax.core import Tracer
from jax.flatten_util import ravel_pytree

from sundman._types import PyTree
from sundman.noise import Stream
from sundman.value import Value, public_name

Field = Callable[[PyTree], PyTree]


class Metric(Value):
    """A metric G by the root S of its inverse; a value.

    Attributes:
      name: what messages call it.
      is_diagonal: whether S is, so that every array may have a step of its own.
    """

    name: ClassVar[str] = "metric"
    is_diagonal: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: object) -> None:
        """Call a metric without a name of its own by its class."""
        cls.name = public_name(cls)
        super().__init_subclass__(**kwargs)

    def root_times(self, position: PyTree, v: PyTree) -> PyTree:
        """S v, at a position.

        Args:
          position: theta.
          v: a tree like the position.

        Returns:
          S(theta) v, a tree like the position.
        """
        raise NotImplementedError

    def transpose_times(self, position: PyTree, v: PyTree) -> PyTree:
        """S^T v; S v where nothing else is said, as for a symmetric S."""
        return self.root_times(position, v)

    def inverse_times(self, position: PyTree, v: PyTree) -> PyTree:
        """G^{-1} v."""
        return self.root_times(position, self.transpose_times(position, v))

    def divergence(self, stream: Stream, position: PyTree) -> PyTree:
        """sum_j d_j (G^{-1})_ij, or an unbiased estimate of it.

        Args:
          stream: the random numbers of this step, for an estimate.
          position: theta.

        Returns:
          A tree like the position.
        """
        del stream
        return _divergence(self.inverse_times, position)

    def root_divergence(self, stream: Stream, position: PyTree) -> PyTree:
        """sum_j d_j S_ji, or an unbiased estimate of it.

        Args:
          stream: the random numbers of this step, for an estimate.
          position: theta.

        Returns:
          A tree like the position.
        """
        del stream
        return _divergence(self.transpose_times, position)

    def check(self, position: PyTree) -> None:
        """Raise for positions it cannot serve, and where G is not positive definite."""


def _divergence(times: Callable[[PyTree, PyTree], PyTree], position: PyTree) -> PyTree:
    """sum_j d_j (A e_j)_i for ``times(position, v) = A v``: the change of A e_j along e_j."""
    flat, unravel = ravel_pytree(position)

    def change(e: Array) -> Array:
        def column(x: Array) -> Array:
            return ravel_pytree(times(unravel(x), unravel(e)))[0]

        return jax.jvp(column, (flat,), (e,))[1]

    return unravel(jnp.sum(jax.vmap(change)(jnp.eye(flat.size, dtype=flat.dtype)), axis=0))


def must_be_metric(metric: object) -> None:
    """Raise a TypeError unless ``metric`` is one."""
    if isinstance(metric, type) and issubclass(metric, Metric):
        raise TypeError(
            "metric must be one of sundman.contrib.metric_tensors, made with its settings: write "
            f"metric={metric.name}(...), got the class {metric.__name__}"
        )
    if not isinstance(metric, Metric):
        raise TypeError(
            f"metric must be one of sundman.contrib.metric_tensors, got metric={metric!r}"
        )


def one_step_for_all(metric: Metric, dt: PyTree) -> None:
    """Raise a ValueError if arrays have steps of their own but the metric couples them."""
    if not metric.is_diagonal and len(jax.tree.leaves(dt)) > 1:
        raise ValueError(
            f"the metric {metric.name} couples the arrays of the position, so they need one "
            "step: use a clock that is not blockwise"
        )


def is_known(tree: PyTree) -> bool:
    """Whether the values in a tree can be looked at, not being traced."""
    return not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))
