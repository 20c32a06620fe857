"""Monte Carlo error of a time-weighted average.

For m = sum(w f) / sum(w) over correlated draws the error is that of the mean of

    y = w (f - m) / mean(w)

so Var(m) = sigma^2 / n with sigma^2 the sum of the autocovariances of y. They are averaged over
the chains, around the common mean, so that chains which disagree widen the error; the sum is cut
by Geyer's initial monotone sequence. Long chains are first averaged in batches, which leaves
that sum unchanged.
"""

from __future__ import annotations

import numpy as np

_MOST_BATCHES = 4096
_ELEMENTS = 8 * 2**20


def batches(draws: int) -> tuple[np.ndarray, int, int]:
    """The batch of each draw, the batch's length, and how many batches are whole."""
    length = -(-draws // _MOST_BATCHES)
    return np.arange(draws) // length, length, draws // length


def _autocovariance(y: np.ndarray) -> np.ndarray:
    """Autocovariance (lag, k) of y (chain, draw, k), averaged over the chains."""
    n = y.shape[1]
    size = 1 << (2 * n - 1).bit_length()
    power = np.abs(np.fft.rfft(y, size, axis=1)) ** 2
    return np.fft.irfft(power.mean(axis=0), size, axis=0)[:n] / n


def _initial_monotone_sum(autocovariance: np.ndarray) -> np.ndarray:
    """Geyer (1992): the sum over all lags, pairs kept while positive and non-increasing."""
    n = len(autocovariance) // 2 * 2
    if n == 0:
        return autocovariance[0]
    pairs = autocovariance[:n].reshape(n // 2, 2, -1).sum(axis=1)
    kept = np.maximum(np.minimum.accumulate(pairs), 0.0)
    return np.maximum(2 * kept.sum(axis=0) - autocovariance[0], autocovariance[0] / n)


def long_run_variance(sums: np.ndarray, weight: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """n Var(mean of y) over batches y = sums - weight mean, for each component.

    ``sums`` are those of w f over each batch, (chain, batch, k), ``weight`` those of w.
    """
    chains, n, components = sums.shape
    size = max(1, _ELEMENTS // (4 * chains * n))
    found = np.empty(components)
    for first in range(0, components, size):
        some = slice(first, first + size)
        y = sums[..., some] - weight[..., None] * mean[some]
        found[some] = _initial_monotone_sum(_autocovariance(y))
    return found
