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


def _batched(y: np.ndarray) -> tuple[np.ndarray, int]:
    """Batch means along axis 1, at most ``_MOST_BATCHES`` a chain, and the batch's length."""
    length = -(-y.shape[1] // _MOST_BATCHES)
    if length == 1:
        return y, 1
    usable = y.shape[1] // length * length
    return y[:, :usable].reshape(len(y), -1, length).mean(axis=2), length


def _autocovariance(y: np.ndarray) -> np.ndarray:
    """Autocovariance at every lag, averaged over the chains (axis 0)."""
    n = y.shape[1]
    size = 1 << (2 * n - 1).bit_length()
    power = np.abs(np.fft.rfft(y, size, axis=1)) ** 2
    return np.fft.irfft(power.mean(axis=0), size)[:n] / n


def _initial_monotone_sum(autocovariance: np.ndarray) -> float:
    """Geyer (1992): the sum over all lags, pairs kept while positive and non-increasing."""
    n = len(autocovariance) // 2 * 2
    if n == 0:
        return float(autocovariance[0])
    pairs = autocovariance[:n].reshape(-1, 2).sum(axis=1)
    stop = np.flatnonzero(pairs <= 0)
    kept = np.minimum.accumulate(pairs[: stop[0] if len(stop) else len(pairs)])
    return max(float(2 * kept.sum() - autocovariance[0]), float(autocovariance[0]) / n)


def standard_error(values: np.ndarray, weight: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """Standard error of the weighted mean of ``values`` (chain, draw, k)."""
    weight = weight.astype(np.float64)
    relative = weight / weight.mean()
    errors = np.empty(values.shape[2])
    for k in range(values.shape[2]):
        y = relative * np.where(weight > 0, values[..., k] - mean[k], 0.0)
        batches, length = _batched(y)
        variance = _initial_monotone_sum(_autocovariance(batches)) * length
        errors[k] = np.sqrt(variance / weight.size)
    return errors
