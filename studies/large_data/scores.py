"""How far draws are from the truth, and how far as many exact draws would be.

Coordinates are whitened by the true covariance, z = L^-1 (x - mean) with L L' = covariance, in
which exact draws have the identity. Its estimate from n exact draws has eigenvalues that scatter
about 1 by some 2 sqrt(d / n), so its range is held against the range of that many: n is the
effective number of draws of a square, the median over the directions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

SIMULATED = 200
BATCHES = 50


class Truth(NamedTuple):
    """Moments that are known.

    Attributes:
      mean: (d,).
      covariance: (d, d).
      mean_error: largest standard error of a mean, in sds.
      eigenvalue_error: of the whitened covariance, about: of the largest of its directions.
      how: how they were found.
    """

    mean: np.ndarray
    covariance: np.ndarray
    mean_error: float
    eigenvalue_error: float
    how: str


def effective_draws(x: np.ndarray) -> np.ndarray:
    """Effective draws of the means of each column, all chains together; axes (chain, draw, column).

    From the scatter of the means of 50 batches of each chain: correlations of chains with momentum
    oscillate, so that sums of correlations that stop where these turn negative do not hold.
    """
    chains, draws, size = x.shape
    number = max(2, min(BATCHES, draws // 4))
    length = draws // number
    batches = x[:, : length * number].reshape(chains * number, length, size).mean(axis=1)
    return x.reshape(-1, size).var(axis=0) / batches.var(axis=0, ddof=1) * len(batches)


def exact_range(size: int, draws: float, seed: int = 0) -> tuple[float, float]:
    """Where the eigenvalues of the covariance of so many exact draws lie, in 95% of the cases."""
    random = np.random.default_rng(seed)
    free = max(round(draws) - 1, 1)
    ends = np.zeros((SIMULATED, 2))
    for each in ends:
        if free < 50 * size:
            rows = random.normal(size=(free, size))
            scatter = rows.T @ rows
        else:  # Bartlett: the root of a Wishart matrix is triangular
            root = np.tril(random.normal(size=(size, size)), -1)
            root[np.diag_indices(size)] = np.sqrt(random.chisquare(free - np.arange(size)))
            scatter = root @ root.T
        each[:] = np.linalg.eigvalsh(scatter / free)[[0, -1]]
    return float(np.quantile(ends[:, 0], 0.025)), float(np.quantile(ends[:, 1], 0.975))


def score(x: np.ndarray, weight: np.ndarray, truth: Truth) -> dict[str, Any]:
    """Errors of the means, sds and eigenvalues of weighted draws, and what chance would make.

    Args:
      x: (chain, draw, coordinate).
      weight: (chain, draw).
      truth: to hold them to.

    Returns:
      Numbers by name; ``beyond`` is how far the eigenvalues lie outside of the range of equally
      many exact draws.
    """
    chains, draws, size = x.shape
    sd = np.sqrt(np.diag(truth.covariance))
    root = np.linalg.cholesky(truth.covariance / np.outer(sd, sd))
    unit = (x - truth.mean) / sd
    z = np.linalg.solve(root, unit.reshape(-1, size).T).T
    w = weight.reshape(-1) / weight.sum()
    mean = w @ unit.reshape(-1, size)
    centre = w @ z
    covariance = (z - centre).T @ ((z - centre) * w[:, None])
    unit_sd = np.sqrt(w @ np.square(unit.reshape(-1, size) - mean))
    z = z.reshape(chains, draws, size)
    ess = np.minimum(effective_draws(z), effective_draws(unit))
    squares = effective_draws(np.square(z - centre))
    low, high = np.linalg.eigvalsh(covariance)[[0, -1]]
    exact = exact_range(size, float(np.median(squares)))
    return {
        "mean_error": float(np.abs(mean).max()),
        "sd_error": float(np.abs(unit_sd - 1.0).max()),
        "eigenvalues": [float(low), float(high)],
        "exact_eigenvalues": list(exact),
        "beyond": float(max(exact[0] - low, high - exact[1], 0.0)),
        "ess": float(ess.min()),
        "ess_of_squares": float(np.median(squares)),
        "least_ess_of_squares": float(squares.min()),
        "exact_mean_error": float(_largest_normal(size) / np.sqrt(ess.min())),
    }


def _largest_normal(size: int) -> float:
    """The 97.5% quantile of the largest of so many standard normals, about."""
    random = np.random.default_rng(0)
    return float(np.quantile(np.abs(random.normal(size=(2_000, size))).max(axis=1), 0.975))
