"""The empirical Fisher information on the diagonal, from gradients of single examples.

    g_i = scale sum_n (d_i log p(row_n | theta))^2 + prior_precision

Its cost is a gradient for each row at every step, and its slopes cost more: see ``slope``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Protocol

import jax
import jax.numpy as jnp
from jax import Array

from sundman import check
from sundman._types import PyTree
from sundman.metric_tensors.matrices import DiagonalMetric
from sundman.value import Number, array, as_value, static


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
