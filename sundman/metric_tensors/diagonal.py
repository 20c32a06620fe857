"""Diagonal metrics, G = diag(g(theta)), for any positive function g.

    (G^{-1})_ii = 1 / g_i       with divergence  -(d_i g_i) / g_i^2
    S_ii        = g_i^{-1/2}    with divergence  -(d_i g_i) / (2 g_i^{3/2})

The divergences are made of the slopes d_i g_i alone, so an unbiased estimate of these serves.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from sundman import check
from sundman._types import PyTree
from sundman.curvature import jacobian_diagonal, probed_jacobian_diagonal
from sundman.metric_tensors.base import Field, Metric, is_known
from sundman.noise import Stream
from sundman.value import as_value, static

SLOPES = ("exact", "elementwise", "probed")


class DiagonalMetric(Metric):
    """The base of diagonal metrics: a subclass has ``g``.

    Args:
      slope: the derivatives d g_i / d theta_i that the divergences are made of. ``"exact"`` takes
        as many products as there are coordinates; ``"elementwise"`` one product, and is right if
        g_i depends on theta_i alone; ``"probed"`` takes ``probes`` products with random signs and
        is unbiased; or a function from the position to them.
      probes: how many, with ``slope="probed"``.
    """

    slope: str | Field = static(default="exact", kw_only=True)
    probes: int = static(default=1, kw_only=True)
    is_diagonal = True

    def __post_init__(self) -> None:
        if not callable(self.slope):
            check.choice("slope", self.slope, SLOPES)
        check.count("probes", self.probes, least=1)
        self._set(probes=int(self.probes))

    def g(self, position: PyTree) -> PyTree:
        """The diagonal of G, a tree like the position, all positive."""
        raise NotImplementedError

    def root_times(self, position: PyTree, v: PyTree) -> PyTree:
        """v / sqrt(g)."""
        return jax.tree.map(lambda g, part: part / jnp.sqrt(g), self._positive(position), v)

    def divergence(self, stream: Stream, position: PyTree) -> PyTree:
        """-(d_i g_i) / g_i^2."""
        g, slopes = self._positive(position), self._slopes(stream, position)
        return jax.tree.map(lambda g, dg: -dg / jnp.square(g), g, slopes)

    def root_divergence(self, stream: Stream, position: PyTree) -> PyTree:
        """-(d_i g_i) / (2 g_i^{3/2})."""
        g, slopes = self._positive(position), self._slopes(stream, position)
        return jax.tree.map(lambda g, dg: -0.5 * dg / (g * jnp.sqrt(g)), g, slopes)

    def _positive(self, position: PyTree) -> PyTree:
        """g, with NaN where it is not positive: the run then records a divergence."""
        return jax.tree.map(lambda g: jnp.where(g > 0, g, jnp.nan), self.g(position))

    def _slopes(self, stream: Stream, position: PyTree) -> PyTree:
        """d g_i / d theta_i."""
        if callable(self.slope):
            return self.slope(position)
        if self.slope == "exact":
            return jacobian_diagonal(self.g, position)
        if self.slope == "probed":
            return probed_jacobian_diagonal(self.g, stream, position, self.probes)
        return jax.jvp(self.g, (position,), (jax.tree.map(jnp.ones_like, position),))[1]

    def check(self, position: PyTree) -> None:
        """Raise unless g has the shape of the position and is positive there."""
        shape = jax.tree.map(jnp.shape, position)
        shape_of_g = jax.tree.map(jnp.shape, jax.eval_shape(self.g, position))
        if shape != shape_of_g:
            raise ValueError(
                f"the metric {self.name} must have the shape of the position: the position has "
                f"{shape}, the metric {shape_of_g}"
            )
        g = self.g(position)
        for path, leaf in jax.tree_util.tree_leaves_with_path(g) if is_known(g) else []:
            if not (np.asarray(leaf) > 0).all():
                where = jax.tree_util.keystr(path)
                raise ValueError(
                    f"the metric {self.name} must be positive at the first position: its least "
                    f"element{f' in {where}' if where else ''} is {np.min(np.asarray(leaf))}"
                )


class Diagonal(DiagonalMetric):
    """G = diag(g(theta)) for a function from the position to a tree of its shape, all positive.

    Args:
      function: g.
      slope: where d g_i / d theta_i is from: ``"exact"``, ``"elementwise"`` (one product, right
        if g_i depends on theta_i alone), ``"probed"``, or a function from the position to them.
      probes: how many, with ``slope="probed"``.
      name: what messages call it.
    """

    function: Field
    name: str = static(default="diagonal", kw_only=True)  # type: ignore[misc]

    def __post_init__(self) -> None:
        self._set(function=as_value(function=self.function))
        super().__post_init__()

    def g(self, position: PyTree) -> PyTree:
        """The function's value."""
        return self.function(position)
