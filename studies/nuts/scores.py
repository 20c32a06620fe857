"""How good weighted chains are, against a reference: effective draws and bias of the worst mean.

Chains are independent, so the spread of their means is the error of the mean over all of them. An
effective sample size from 16 of them is known to a third only, so it is also taken from the spread
of the means of ten batches of each chain about the mean of all; the variance is the reference's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

BATCHES = 10
ASTRAY = 5.0  # sds from the reference: a chain with a mean beyond is nowhere near


class Moments(NamedTuple):
    """Means and sds of every coordinate with their errors, and the effective draws of its mean."""

    mean: np.ndarray
    mean_error: np.ndarray
    sd: np.ndarray
    sd_error: np.ndarray


def _batch_means(x: np.ndarray, weight: np.ndarray, batches: int) -> np.ndarray:
    """Weighted means over so many batches of each chain, axes (chain * batch, coordinate)."""
    chains, draws, d = x.shape
    length = draws // batches
    x = x[:, : length * batches].reshape(chains * batches, length, d)
    weight = weight[:, : length * batches].reshape(chains * batches, length)
    return np.einsum("cnd,cn->cd", x, weight) / weight.sum(1)[:, None]


def moments(x: np.ndarray, weight: np.ndarray, batches: int = 1) -> Moments:
    """Moments of weighted draws (chain, draw, coordinate); errors from the spread of batch means.

    Chains that have a batch without any weight are left out.
    """
    length = weight.shape[1] // batches
    ends = weight[:, : length * batches].reshape(len(weight), batches, length).sum(2)
    alive = ends.min(1) > 0
    x, weight = np.asarray(x[alive], np.float64), np.asarray(weight[alive], np.float64)
    mean = np.einsum("cnd,cn->d", x, weight) / weight.sum()
    square = np.square(x - mean)
    sd = np.sqrt(np.einsum("cnd,cn->d", square, weight) / weight.sum())

    def error(values: np.ndarray) -> np.ndarray:
        means = _batch_means(values, weight, batches)
        return means.std(0, ddof=1) / np.sqrt(len(means))

    return Moments(mean, error(x), sd, error(square) / (2.0 * sd))


def _worst(names: Sequence[str], bias: np.ndarray, error: np.ndarray) -> dict[str, Any]:
    """The coordinate furthest off; and how many are off by 3% and two errors."""
    at = int(np.argmax(np.abs(np.nan_to_num(bias, nan=np.inf))))
    return {
        "of": names[at],
        "bias": float(bias[at]),
        "error": float(error[at]),
        "beyond": int(np.sum(np.abs(bias) > 0.03 + 2.0 * error)),
    }


def score(
    x: np.ndarray,
    weight: np.ndarray,
    gradients: int,
    seconds: Mapping[str, float],
    truth: Moments,
    names: Sequence[str],
) -> dict[str, Any]:
    """What a run is worth.

    Args:
      x: draws, axes (chain, draw, coordinate).
      weight: of the draws, axes (chain, draw).
      gradients: of all chains, without warm-up.
      seconds: times by name, in which effective draws are counted.
      truth: the reference.
      names: of the coordinates.

    Returns:
      Effective draws of the worst mean, per 1,000 gradients and per second, and the bias of the
      worst mean (in sds) and of the worst sd (relative), each with its error; and how many chains
      have a mean that is nowhere near.
    """
    by_chain = moments(x, weight)
    by_batch = moments(x, weight, BATCHES)
    ess = np.square(truth.sd / by_batch.mean_error)
    ess_chains = np.square(truth.sd / by_chain.mean_error)
    least = int(np.argmin(ess))

    def together(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.hypot(a, b) / truth.sd

    each = np.einsum("cnd,cn->cd", x, weight) / np.maximum(weight.sum(1), 1e-300)[:, None]
    far = np.abs((each - truth.mean) / truth.sd).max(1)
    means = (by_chain.mean - truth.mean) / truth.sd
    sds = by_chain.sd / truth.sd - 1.0
    return {
        "astray": int(np.sum(~(far < ASTRAY))),
        "least": names[least],
        "ess": float(ess[least]),
        "ess_of_chain_means": float(ess_chains.min()),
        "ess_per_1000": 1000.0 * float(ess[least]) / gradients,
        "median_ess_per_1000": 1000.0 * float(np.median(ess)) / gradients,
        **{f"ess_per_{name}": float(ess[least]) / spent for name, spent in seconds.items()},
        "mean": _worst(names, means, together(by_chain.mean_error, truth.mean_error)),
        "sd": _worst(names, sds, together(by_chain.sd_error, truth.sd_error)),
    }
