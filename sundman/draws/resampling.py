"""Equal-weight draws by systematic resampling.

With u uniform on [0, 1) and W the running sum of the weights, divided by its last value,

    draw i of n is the first one with W > (u + i) / n

so a draw of share w comes floor(n w) or ceil(n w) times, n w on average. Draws keep their order.
Kitagawa (1996). Repeated draws carry no new information: for averages, the weights are better.
"""

from __future__ import annotations

import warnings

import jax
import numpy as np
from jax import Array

from sundman import check
from sundman.draws.trust import DivergenceWarning


def systematic(weight: np.ndarray, u: float, n: int) -> np.ndarray:
    """The indices of n draws, in rising order."""
    running = np.cumsum(weight.astype(np.float64))
    picked = np.searchsorted(running, (u + np.arange(n)) / n * running[-1], side="right")
    return np.minimum(picked, np.flatnonzero(weight > 0)[-1])


def pooled_rows(
    weight: np.ndarray, lost: np.ndarray, key: Array, n: int
) -> tuple[np.ndarray, None]:
    """The numbers of n draws of all chains together, as one chain, each in its order.

    Args:
      weight: axes (chain, draw).
      lost: not looked at: what was lost has weight 0.
      key: a JAX random key.
      n: how many.

    Returns:
      The numbers, axes (1, n), counted chain after chain; and no chains of their own.
    """
    del lost
    check.count("n", n, least=1)
    if not weight.sum() > 0:
        raise ValueError("every weight is 0: all chains diverged, there is nothing to resample")
    return systematic(weight.ravel(), float(jax.random.uniform(key)), n)[None], None


def rows_per_chain(
    weight: np.ndarray, lost: np.ndarray, key: Array, n: int
) -> tuple[np.ndarray, np.ndarray]:
    """The numbers of n draws of each chain that did not diverge; every chain counts the same.

    Args:
      weight: axes (chain, draw).
      lost: for each chain, whether it diverged and did not go on.
      key: a JAX random key.
      n: how many of each chain.

    Returns:
      The numbers, axes (chain, n), counted chain after chain; and which chains these are.
    """
    check.count("n", n, least=1)
    chains, draws = weight.shape
    good = np.flatnonzero(~lost & (weight.sum(axis=1) > 0))
    if len(good) == 0:
        raise ValueError("all chains diverged, there is none to resample")
    if len(good) < chains:
        gone = sorted(set(range(chains)) - set(good.tolist()))
        warnings.warn(
            f"chains {gone} diverged and are left out of the resampled draws",
            DivergenceWarning,
            stacklevel=4,
        )
    u = np.asarray(jax.random.uniform(key, (chains,)), np.float64)
    rows = [chain * draws + systematic(weight[chain], u[chain], n) for chain in good]
    return np.stack(rows), good
