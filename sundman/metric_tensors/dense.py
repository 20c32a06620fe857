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

from sundman.metric_tensors.base import Metric, is_known
from sundman.noise import Stream
from sundman.value import as_value, static


class Dense(Metric):
    """G a symmetric matrix, function of a position that is one array of one axis.

    Args:
      function: G, from the position to the matrix.
      name: what messages call it.
    """

    function: Callable[[Array], Array]
    name: str = static(default="dense", kw_only=True)  # type: ignore[misc]

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
