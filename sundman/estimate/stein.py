"""Kernel Stein discrepancy: how far weighted draws are from a law known by its score alone.

    KSD^2 = sum_ij w_i w_j k0(x_i, x_j) / (sum w)^2,   k0 = Stein kernel of (1 + |x-y|^2/l^2)^-1/2

with the score s = -grad U / T. Gorham, Mackey (2017), "Measuring sample quality with kernels";
the inverse multiquadric kernel detects non-convergence, tails included.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.flatten_util import ravel_pytree

from sundman import _chunks, check
from sundman.draws import Draws
from sundman.gradients import Potential


def _stein_kernel(x: Array, sx: Array, y: Array, sy: Array, scale: float) -> Array:
    d = (x - y) / scale
    base = 1.0 + jnp.dot(d, d)
    k = base**-0.5
    slope = -(base**-1.5) / scale  # dk/dx = slope * d, dk/dy = -slope * d
    trace = (x.size * base**-1.5 - 3.0 * jnp.dot(d, d) * base**-2.5) / scale**2
    return k * jnp.dot(sx, sy) + slope * jnp.dot(d, sy) - slope * jnp.dot(d, sx) + trace


def kernel_stein_discrepancy(
    draws: Draws,
    potential: Potential,
    *,
    temperature: float = 1.0,
    scale: float = 1.0,
    most: int = 2000,
    seed: int = 0,
) -> float:
    """KSD of the draws from exp(-U/T), on at most ``most`` of them picked at random."""
    return with_reference(
        draws, potential, temperature=temperature, scale=scale, most=most, seed=seed
    )[0]


def with_reference(
    draws: Draws,
    potential: Potential,
    *,
    temperature: float = 1.0,
    scale: float = 1.0,
    most: int = 2000,
    seed: int = 0,
) -> tuple[float, float]:
    """The KSD, and about what it would be for as many independent draws of these weights.

    For them only the terms i = j remain on average: sum_i w_i^2 k0(x_i, x_i) / (sum w)^2.
    """
    check.positive(temperature=temperature, scale=scale)
    weight = np.asarray(draws.weight, np.float64).ravel()
    rows = np.flatnonzero(weight > 0)
    if len(rows) > most:
        rows = np.random.default_rng(seed).choice(rows, most, replace=False)
    positions = jax.tree.map(lambda leaf: jnp.asarray(_chunks.gather(leaf, rows)), draws.position)
    share = jnp.asarray(weight[rows] / weight[rows].sum())

    @jax.jit
    def squared() -> tuple[Array, Array]:
        x = jax.vmap(lambda p: ravel_pytree(p)[0])(positions)
        score = jax.vmap(lambda p: -ravel_pytree(jax.grad(potential)(p))[0] / temperature)
        s = score(positions)

        def row(item: tuple[Array, Array, Array]) -> Array:
            kernel = jax.vmap(lambda y, sy: _stein_kernel(item[0], item[1], y, sy, scale))
            return item[2] * jnp.dot(share, kernel(x, s))

        diagonal = jnp.sum(s * s, axis=1) + x.shape[1] / scale**2
        return jnp.sum(lax.map(row, (x, s, share))), jnp.sum(share**2 * diagonal)

    found, reference = squared()
    return float(jnp.sqrt(jnp.maximum(found, 0.0))), float(jnp.sqrt(reference))
