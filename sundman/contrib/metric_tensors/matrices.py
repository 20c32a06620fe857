"""Metrics that are matrices: diagonal, dense by Cholesky factors, and the diagonal of the Fisher's.

A diagonal metric is G = diag(g(theta)) for any positive function g:

    (G^{-1})_ii = 1 / g_i       with divergence  -(d_i g_i) / g_i^2
    S_ii        = g_i^{-1/2}    with divergence  -(d_i g_i) / (2 g_i^{3/2})

The divergences are made of the slopes d_i g_i alone, so an unbiased estimate of these serves.

The empirical Fisher information on the diagonal comes from gradients of single examples:

    g_i = scale sum_n (d_i log p(row_n | theta))^2 + prior_precision

Its cost is a gradient for each row at every step, and its slopes cost more: see ``slope``.

A dense metric is G = L L^T, and S = L^{-T}:

    Gamma = -G^{-1} sum_j (d_j G) G^{-1} e_j

by forward differentiation of G; the divergence of S goes through the factor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Protocol

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import solve_triangular

from sundman import check
from sundman._types import PyTree
from sundman.contrib.curvature import jacobian_diagonal, probed_jacobian_diagonal
from sundman.contrib.metric_tensors.base import Field, Metric, is_known
from sundman.noise import Stream
from sundman.value import Number, array, as_value, static

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
    name: str = static(default="diagonal", kw_only=True)  # type: ignore[misc]  # others have it on the class

    def __post_init__(self) -> None:
        self._set(function=as_value(function=self.function))
        super().__post_init__()

    def g(self, position: PyTree) -> PyTree:
        """The function's value."""
        return self.function(position)


class Dense(Metric):
    """G a symmetric matrix, function of a position that is one array of one axis.

    Args:
      function: G, from the position to the matrix.
      name: what messages call it.
    """

    function: Callable[[Array], Array]
    name: str = static(default="dense", kw_only=True)  # type: ignore[misc]  # others have it on the class

    def __post_init__(self) -> None:
        self._set(function=as_value(function=self.function))

    def _factor(self, position: Array) -> Array:
        """L."""
        G = self.function(position)
        return jnp.linalg.cholesky(G.astype(jnp.result_type(jnp.float32, G)))

    def _transposed_root(self, position: Array) -> Array:
        """S^T = L^{-1}."""
        L = self._factor(position)
        return solve_triangular(L, jnp.eye(len(L), dtype=L.dtype), lower=True)

    def root_times(self, position: Array, v: Array) -> Array:
        """L^{-T} v."""
        return solve_triangular(self._factor(position), v, trans=1, lower=True)

    def transpose_times(self, position: Array, v: Array) -> Array:
        """L^{-1} v."""
        return solve_triangular(self._factor(position), v, lower=True)

    def divergence(self, stream: Stream, position: Array) -> Array:
        """Gamma."""
        del stream
        root = self._transposed_root(position)
        inverse = root.T @ root
        change = jax.jacfwd(self.function)(position).astype(inverse.dtype)  # d_j G_ab: (a, b, j)
        return -inverse @ jnp.einsum("abj,bj->a", change, inverse)

    def root_divergence(self, stream: Stream, position: Array) -> Array:
        """sum_j d_j S_ji."""
        del stream
        return jnp.einsum("ijj->i", jax.jacfwd(self._transposed_root)(position))

    def check(self, position: Array) -> None:
        """Raise unless G is a symmetric positive definite matrix of the position's size."""
        if not hasattr(position, "ndim") or position.ndim != 1:
            shapes = jax.tree.map(jnp.shape, position)
            raise ValueError(f"the metric {self.name} needs a position of shape (d,), got {shapes}")
        shape = jax.eval_shape(self.function, position).shape
        if shape != 2 * position.shape:
            raise ValueError(
                f"the metric {self.name} must be a matrix of shape {2 * position.shape}, "
                f"got {shape}"
            )
        G = self.function(position)
        if not is_known(G):
            return
        matrix = np.asarray(G, np.float64)
        least = np.linalg.eigvalsh(matrix)[0] if np.isfinite(matrix).all() else np.nan
        if not least > 0:
            raise ValueError(
                f"the metric {self.name} must be positive definite at the first position: its "
                f"least eigenvalue is {least}"
            )
        if np.abs(matrix - matrix.T).max() > 1e-4 * np.abs(matrix).max():
            raise ValueError(f"the metric {self.name} must be symmetric, got {matrix}")


class PosteriorWithRows(Protocol):
    """What is needed of a :class:`sundman.Posterior`."""

    @property
    def data(self) -> PyTree:
        """The rows, with fields x and y."""
        ...

    @property
    def host(self) -> object | None:
        """The batches that are streamed, or None if the data are in memory."""
        ...

    @property
    def size(self) -> int:
        """N, the number of rows."""
        ...

    def log_likelihood_of_rows(self, position: PyTree, x: PyTree, y: PyTree) -> Array:
        """log p of each row."""
        ...


class Fisher(DiagonalMetric):
    """The empirical Fisher diagonal of a log likelihood on rows of data.

    Args:
      log_likelihood: ``(position, row) -> log p``, for one row.
      rows: arrays with one row per example.
      prior_precision: lambda > 0, which keeps g positive.
      scale: N over the number of rows, if these are some of N.
      slope: as for :func:`diagonal`.
      probes: as for :func:`diagonal`.
    """

    log_likelihood: Callable[[PyTree, PyTree], Array]
    rows: PyTree = array()
    prior_precision: Number = field(kw_only=True)
    scale: Number = field(default=1.0, kw_only=True)

    def __post_init__(self) -> None:
        self._set(
            log_likelihood=as_value(log_likelihood=self.log_likelihood),
            rows=jax.tree.map(jnp.asarray, self.rows),
        )
        self._settle(prior_precision=check.positive, scale=check.positive)
        super().__post_init__()

    def g(self, position: PyTree) -> PyTree:
        """The sum of squared gradients, scaled, and the precision."""
        return _information(
            self.log_likelihood, position, self.rows, self.scale, self.prior_precision
        )


class PosteriorFisher(DiagonalMetric):
    """The empirical Fisher diagonal of a posterior on its first ``rows`` rows, scaled to all N.

    Args:
      posterior: the model with its data.
      prior_precision: lambda > 0, which keeps g positive.
      rows: how many, all unless it is given.
      slope: as for :func:`diagonal`.
      probes: as for :func:`diagonal`.
    """

    posterior: PosteriorWithRows
    prior_precision: Number = field(kw_only=True)
    rows: int | None = static(default=None, kw_only=True)

    def __post_init__(self) -> None:
        if self.posterior.host is not None:
            raise ValueError("this posterior streams its data: use fisher with rows of your own")
        self._settle(prior_precision=check.positive)
        if self.rows is not None:
            check.count("rows", self.rows, least=1)
            self._set(rows=min(int(self.rows), self.posterior.size))
        super().__post_init__()

    def g(self, position: PyTree) -> PyTree:
        """The sum of squared gradients, scaled to all rows, and the precision."""
        posterior = self.posterior
        used = posterior.size if self.rows is None else self.rows
        rows = jax.tree.map(lambda leaf: leaf[:used], (posterior.data.x, posterior.data.y))

        def log_likelihood(position: PyTree, row: PyTree) -> Array:
            x, y = jax.tree.map(lambda leaf: leaf[None], row)
            return posterior.log_likelihood_of_rows(position, x, y)[0]

        scale = posterior.size / used
        return _information(log_likelihood, position, rows, scale, self.prior_precision)


def _information(
    log_likelihood: Callable[[PyTree, PyTree], Array],
    position: PyTree,
    rows: PyTree,
    scale: Number,
    prior_precision: Number,
) -> PyTree:
    """g, as at the top of this module."""
    gradients = jax.vmap(jax.grad(log_likelihood), (None, 0))(position, rows)
    return jax.tree.map(
        lambda grad: scale * jnp.sum(jnp.square(grad), axis=0) + prior_precision, gradients
    )
