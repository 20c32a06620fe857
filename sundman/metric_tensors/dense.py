"""Dense metrics by Cholesky factors: G = L L^T and S = L^{-T}.

    Gamma = -G^{-1} sum_j (d_j G) G^{-1} e_j

by forward differentiation of G; the divergence of S goes through the factor.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.linalg import solve_triangular

from sundman import check
from sundman.metric_tensors.base import Metric, known, shapes_of
from sundman.noise import Stream


def dense(function: Callable[[Array], Array], *, name: str = "dense") -> Metric:
    """G a symmetric matrix, function of a position that is one array of one axis.

    S = L^{-T} from the Cholesky factor L of G; its divergences by forward differentiation.
    """
    check.function(function=function)

    def factor(position: Array) -> Array:
        G = function(position)
        return jnp.linalg.cholesky(G.astype(jnp.result_type(jnp.float32, G)))

    def root_times(position: Array, v: Array) -> Array:
        return solve_triangular(factor(position), v, trans=1, lower=True)

    def transpose_times(position: Array, v: Array) -> Array:
        return solve_triangular(factor(position), v, lower=True)

    def transposed_root(position: Array) -> Array:
        L = factor(position)
        return solve_triangular(L, jnp.eye(len(L), dtype=L.dtype), lower=True)

    def divergence(stream: Stream, position: Array) -> Array:
        del stream
        root = transposed_root(position)
        inverse = root.T @ root
        change = jax.jacfwd(function)(position).astype(inverse.dtype)  # d_j G_ab, axes (a, b, j)
        return -inverse @ jnp.einsum("abj,bj->a", change, inverse)

    def root_divergence(stream: Stream, position: Array) -> Array:
        del stream
        return jnp.einsum("ijj->i", jax.jacfwd(transposed_root)(position))

    def check_at(position: Array) -> None:
        if not hasattr(position, "ndim") or position.ndim != 1:
            found = jax.tree.map(jnp.shape, position)
            raise ValueError(f"the metric {name} needs a position of shape (d,), got {found}")
        shape = shapes_of(function, position).shape
        if shape != 2 * position.shape:
            raise ValueError(
                f"the metric {name} must be a matrix of shape {2 * position.shape}, got {shape}"
            )
        G = function(position)
        if not known(G):
            return
        matrix = np.asarray(G, np.float64)
        least = np.linalg.eigvalsh(matrix)[0] if np.isfinite(matrix).all() else np.nan
        if not least > 0:
            raise ValueError(
                f"the metric {name} must be positive definite at the first position: its least "
                f"eigenvalue is {least}"
            )
        if np.abs(matrix - matrix.T).max() > 1e-4 * np.abs(matrix).max():
            raise ValueError(f"the metric {name} must be symmetric, got {matrix}")

    return Metric(name, root_times, transpose_times, divergence, root_divergence, check_at)
