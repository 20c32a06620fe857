"""The metric contract: a root S(theta) of the inverse of G, and two divergences.

    S S^T = G^{-1};    sum_j d_j (G^{-1})_ij  for SGRLD,    sum_j d_j S_ji  for SGRHMC

Without its divergence a metric that depends on the position samples the wrong law.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
from jax.core import Tracer

from sundman.curvature import Curvature

PyTree = Any
Field = Callable[[PyTree], PyTree]


@dataclass(frozen=True)
class Metric:
    """A metric G by the root S of its inverse.

    Attributes:
      name: what it is, with its settings.
      root_times: ``(position, v) -> S v``.
      transpose_times: ``(position, v) -> S^T v``.
      divergence: ``(stream, position) -> sum_j d_j (G^{-1})_ij``.
      root_divergence: ``(stream, position) -> sum_j d_j S_ji``.
      check: raises for positions it cannot serve, and where G is not positive definite.
      is_diagonal: whether S is, so that every array may have a step of its own.
    """

    name: str
    root_times: Callable[[PyTree, PyTree], PyTree]
    transpose_times: Callable[[PyTree, PyTree], PyTree]
    divergence: Curvature
    root_divergence: Curvature
    check: Callable[[PyTree], None]
    is_diagonal: bool = False

    def inverse_times(self, position: PyTree, v: PyTree) -> PyTree:
        """G^{-1} v."""
        return self.root_times(position, self.transpose_times(position, v))


def must_be_metric(metric: Any) -> None:
    """Raise a TypeError unless ``metric`` is one."""
    if not isinstance(metric, Metric):
        raise TypeError(f"metric must be one of sundman.metric_tensors, got metric={metric!r}")


def one_step_for_all(metric: Metric, dt: PyTree) -> None:
    """Raise a ValueError if arrays have steps of their own but the metric couples them."""
    if not metric.is_diagonal and len(jax.tree.leaves(dt)) > 1:
        raise ValueError(
            f"the metric {metric.name} couples the arrays of the position, so they need one "
            "step: use a clock that is not blockwise"
        )


def known(tree: PyTree) -> bool:
    """Whether the values in a tree can be looked at, not being traced."""
    return not any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(tree))


def shapes_of(function: Callable[[Any], Any], position: PyTree) -> PyTree:
    """The shapes and dtypes of what a function makes of a position, without computing it."""
    return jax.eval_shape(function, position)
