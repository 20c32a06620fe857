"""Have the draws reached the law? Split R-hat, and the kernel Stein discrepancy.

Split R-hat asks whether the chains, and the halves of each, agree:

    R = sqrt((W + B) / W)

with W the mean of the weighted variances within the half chains and B the variance of their
weighted means. Gelman, Rubin (1992); Vehtari et al. (2021) for the splitting.

The kernel Stein discrepancy tells how far weighted draws are from a law known by its score alone:

    KSD^2 = sum_ij w_i w_j k0(x_i, x_j) / (sum w)^2,   k0 = Stein kernel of (1 + |x-y|^2/l^2)^-1/2

with the score s = -grad U / T. Gorham, Mackey (2017), "Measuring sample quality with kernels";
the inverse multiquadric kernel detects non-convergence, tails included.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.flatten_util import ravel_pytree

from sundman import _chunks, check
from sundman._types import DrawsArray, PyTree
from sundman.estimate.moments import Function, shaped, stretch_sums, values_of
from sundman.gradients import Potential

if TYPE_CHECKING:
    from sundman.draws import Draws


def split_rhat(draws: Draws, f: Function | None = None) -> PyTree:
    """Split R-hat of each component of f; near 1 when the chains sample one law."""
    check.draws(draws)
    half = len(draws) // 2
    if half < 2:
        raise ValueError(f"split R-hat needs 4 draws or more per chain, got {len(draws)}")
    weight = np.asarray(draws.weight, np.float64)
    middle = len(draws) % 2  # of an odd number of draws, the middle one is in neither half
    stretch = np.repeat([0, 1, 1 + middle], [half, middle, half])
    return jax.tree.map(
        lambda leaf: _split_rhat_of_leaf(leaf, weight, stretch), values_of(draws, f)
    )


def _split_rhat_of_leaf(
    leaf: DrawsArray, weight: np.ndarray, stretch: np.ndarray
) -> float | np.ndarray:
    ratio = np.empty(leaf.shape[2:])
    for where, sums in stretch_sums(leaf, weight, stretch, squares=True):
        total, first, second = (
            np.concatenate([part[:, 0], part[:, -1]])
            for part in (sums.weight, sums.first, sums.second)
        )
        alive = total > 0
        total = total[alive, None]
        means = first[alive] / total
        within = np.maximum(second[alive] / total - means**2, 0.0).mean(axis=0)
        between = means.var(axis=0, ddof=1) if len(means) > 1 else np.full(means.shape[1], np.nan)
        with np.errstate(divide="ignore", invalid="ignore"):
            rhat = np.sqrt((within + between) / within)
        ratio[where] = rhat.reshape(ratio[where].shape)
    return shaped(ratio)


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
    """KSD of the draws from exp(-U/T), on at most ``most`` of them picked at random.

    Args:
      draws: that kept their positions.
      potential: U, whose gradient gives the score.
      temperature: T.
      scale: l, the length scale of the kernel.
      most: how many draws to use; the cost grows with its square.
      seed: of the draws that are picked.

    Returns:
      The discrepancy, 0 or more.
    """
    check.draws(draws)
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

    Args:
      draws: that kept their positions.
      potential: U, whose gradient gives the score.
      temperature: T.
      scale: l, the length scale of the kernel.
      most: how many draws to use; the cost grows with its square.
      seed: of the draws that are picked.

    Returns:
      The discrepancy, and its usual value for independent draws.
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

    ksd2, reference2 = squared()
    return float(jnp.sqrt(jnp.maximum(ksd2, 0.0))), float(jnp.sqrt(reference2))
