"""Diagonal metrics, G = diag(g(theta)): any positive function, or the empirical Fisher information.

    (G^{-1})_ii = 1 / g_i       with divergence  -(d_i g_i) / g_i^2
    S_ii        = g_i^{-1/2}    with divergence  -(d_i g_i) / (2 g_i^{3/2})

The divergences are made of the slopes d_i g_i alone, so an unbiased estimate of these serves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman import check
from sundman.curvature import jacobian_diagonal, probed_jacobian_diagonal
from sundman.metric_tensors.base import Field, Metric, PyTree, known, shapes_of
from sundman.noise import Stream
from sundman.posterior import Posterior

SLOPES = ("exact", "elementwise", "probed")


def diagonal(
    function: Field, *, slope: str | Field = "exact", probes: int = 1, name: str = "diagonal"
) -> Metric:
    """G = diag(g(theta)) for a function from the position to a tree of its shape, all positive.

    Args:
      function: g.
      slope: the derivatives d g_i / d theta_i that the divergences are made of. ``"exact"`` takes
        as many products as there are coordinates; ``"elementwise"`` one product, and is right if
        g_i depends on theta_i alone; ``"probed"`` takes ``probes`` products with random signs and
        is unbiased; or a function from the position to them.
      probes: how many, with ``slope="probed"``.
      name: what the settings of a sampler call it.
    """
    check.function(function=function)
    if not callable(slope):
        check.choice("slope", slope, SLOPES)
    check.count("probes", probes, least=1)

    def positive(position: PyTree) -> PyTree:
        return jax.tree.map(lambda g: jnp.where(g > 0, g, jnp.nan), function(position))

    def root_times(position: PyTree, v: PyTree) -> PyTree:
        return jax.tree.map(lambda g, part: part / jnp.sqrt(g), positive(position), v)

    def slopes(stream: Stream, position: PyTree) -> PyTree:
        if callable(slope):
            return slope(position)
        if slope == "exact":
            return jacobian_diagonal(function, position)
        if slope == "probed":
            return probed_jacobian_diagonal(function, stream, position, probes)
        return jax.jvp(function, (position,), (jax.tree.map(jnp.ones_like, position),))[1]

    def divergence(stream: Stream, position: PyTree) -> PyTree:
        found = slopes(stream, position)
        return jax.tree.map(lambda g, dg: -dg / jnp.square(g), positive(position), found)

    def root_divergence(stream: Stream, position: PyTree) -> PyTree:
        found = slopes(stream, position)
        return jax.tree.map(lambda g, dg: -0.5 * dg / (g * jnp.sqrt(g)), positive(position), found)

    def check_at(position: PyTree) -> None:
        shapes = [
            jax.tree.map(jnp.shape, tree) for tree in (position, shapes_of(function, position))
        ]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"the metric {name} must have the shape of the position: the position has "
                f"{shapes[0]}, the metric {shapes[1]}"
            )
        g = function(position)
        for path, leaf in jax.tree_util.tree_leaves_with_path(g) if known(g) else []:
            if not (np.asarray(leaf) > 0).all():
                where = jax.tree_util.keystr(path)
                raise ValueError(
                    f"the metric {name} must be positive at the first position: its least "
                    f"element{f' in {where}' if where else ''} is {np.min(np.asarray(leaf))}"
                )

    return Metric(name, root_times, root_times, divergence, root_divergence, check_at, True)


def fisher(
    log_likelihood: Callable[[PyTree, Any], Array],
    rows: PyTree,
    *,
    prior_precision: float,
    scale: float = 1.0,
    slope: str | Field = "exact",
    probes: int = 1,
) -> Metric:
    """The empirical Fisher diagonal, g_i = scale sum_n (d_i log p(row_n | theta))^2 + precision.

    Args:
      log_likelihood: ``(position, row) -> log p``, for one row.
      rows: arrays with one row per example; they become constants of the compiled step.
      prior_precision: lambda > 0, which keeps g positive.
      scale: N over the number of rows, if these are some of N.
      slope: as for :func:`diagonal`.
      probes: as for :func:`diagonal`.
    """
    check.function(log_likelihood=log_likelihood)
    check.positive(prior_precision=prior_precision, scale=scale)
    rows = jax.tree.map(jnp.asarray, rows)

    def information(position: PyTree) -> PyTree:
        each = jax.vmap(jax.grad(log_likelihood), (None, 0))(position, rows)
        return jax.tree.map(
            lambda grad: scale * jnp.sum(jnp.square(grad), axis=0) + prior_precision, each
        )

    name = f"fisher(prior_precision={prior_precision:g}, scale={scale:g})"
    return diagonal(information, slope=slope, probes=probes, name=name)


def posterior_fisher(
    posterior: Posterior,
    *,
    prior_precision: float,
    rows: int | None = None,
    slope: str | Field = "exact",
    probes: int = 1,
) -> Metric:
    """The empirical Fisher diagonal of a posterior on its first ``rows`` rows, scaled to all N."""
    if posterior.data is None:
        raise ValueError("this posterior streams its data: use fisher with rows of your own")
    if rows is not None:
        check.count("rows", rows, least=1)
    used = posterior.size if rows is None else min(rows, posterior.size)
    x, y = jax.tree.map(lambda leaf: leaf[:used], (posterior.data.x, posterior.data.y))

    def log_likelihood(position: PyTree, row: Any) -> Array:
        x, y = jax.tree.map(lambda leaf: leaf[None], row)
        return posterior.pointwise(position, x, y)[0]

    return fisher(
        log_likelihood,
        (x, y),
        prior_precision=prior_precision,
        scale=posterior.size / used,
        slope=slope,
        probes=probes,
    )
