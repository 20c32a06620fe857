"""Checks of random numbers, each a pure function that gives z-scores or a p-value.

For a perfect generator a z-score is standard normal and a p-value uniform on (0, 1). Means
and variances are the exact ones of the law tested, never estimated from the draws. P-values
are two-sided: numbers that fit too well are as suspect as numbers that fit badly.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

Floats = NDArray[np.float64]
Words = NDArray[np.uint32]


def worst(scores: Floats) -> float:
    """The p-value of the largest |z| among independent z-scores."""
    scores = np.ravel(scores)
    single = 2.0 * stats.norm.sf(np.max(np.abs(scores)))
    return float(-np.expm1(scores.size * np.log1p(-min(single, 1.0 - 1e-16))))


def two_sided(lower: float, upper: float) -> float:
    """A two-sided p-value from the probabilities of the two sides."""
    return float(min(1.0, 2.0 * min(lower, upper)))


def chi_square(counts: NDArray[np.integer], expected: Floats) -> float:
    """P-value of Pearson's statistic, where the expected counts are known in advance."""
    statistic = float(np.sum((counts - expected) ** 2 / expected))
    freedom = counts.size - 1
    return two_sided(stats.chi2.cdf(statistic, freedom), stats.chi2.sf(statistic, freedom))


def normal_moments(order: int) -> tuple[float, ...]:
    """E z^k of a standard normal for k = 0 .. order: 0 if k is odd, else (k - 1)!!."""
    return tuple(0.0 if k % 2 else float(math.prod(range(1, k, 2))) for k in range(order + 1))


def moment_scores(draws: Floats, exact: Sequence[float]) -> Floats:
    """z-scores of the raw moments 1 .. K, given the exact moments 0 .. 2K.

    A moment without variance (the even ones of a two-point law) scores zero when it is
    exact to rounding and infinity otherwise.
    """
    scores, power = [], np.ones_like(draws)
    for k in range(1, (len(exact) - 1) // 2 + 1):
        power *= draws
        error = float(np.mean(power)) - exact[k]
        deviation = math.sqrt(max(exact[2 * k] - exact[k] ** 2, 0.0) / draws.size)
        if deviation > 0.0:
            scores.append(error / deviation)
        else:
            scores.append(0.0 if abs(error) < 1e-6 else math.inf)
    return np.array(scores)


def uniforms(normals: Floats) -> Floats:
    """The normals' distribution function, so uniform on (0, 1)."""
    return special.ndtr(normals)


def kolmogorov_smirnov(uniform: Floats) -> float:
    """P-value of the largest distance between the empirical and the uniform distribution."""
    ordered = np.sort(uniform)
    ranks = np.arange(ordered.size + 1) / ordered.size
    distance = max(np.max(ranks[1:] - ordered), np.max(ordered - ranks[:-1]))
    scaled = math.sqrt(ordered.size) * float(distance)
    return two_sided(stats.kstwobign.cdf(scaled), stats.kstwobign.sf(scaled))


def serial(uniform: Floats, cells: int) -> float:
    """P-value of the counts of points (rows) in a grid with ``cells`` cells along each axis."""
    points = uniform.reshape(len(uniform), -1)
    place = np.zeros(len(points), np.int64)
    for axis in range(points.shape[1]):
        column = np.minimum((points[:, axis] * cells).astype(np.int64), cells - 1)
        place = place * cells + column
    total = cells ** points.shape[1]
    return chi_square(np.bincount(place, minlength=total), np.full(total, len(points) / total))


def tail(normals: Floats, threshold: float) -> float:
    """P-value of the number of draws with |z| > threshold, a binomial count."""
    count = int(np.count_nonzero(np.abs(normals) > threshold))
    law = stats.binom(normals.size, 2.0 * stats.norm.sf(threshold))
    return two_sided(law.cdf(count), law.sf(count - 1))


def standard_squares(normals: Floats) -> Floats:
    """Squares of normals, brought to mean 0 and variance 1."""
    return (normals**2 - 1.0) / math.sqrt(2.0)


def product_score(first: Floats, second: Floats) -> float:
    """z-score of the correlation of two arrays, each of mean 0 and variance 1."""
    axes = list(range(first.ndim))
    total = np.einsum(first, axes, second, axes, [])
    return float(total / math.sqrt(first.size))


def lag_scores(draws: Floats, lags: Iterable[int], axis: int = -1) -> Floats:
    """z-scores of the autocorrelations along one axis at the given lags."""
    moved = np.moveaxis(draws, axis, 0)
    return np.array([product_score(moved[lag:], moved[: len(moved) - lag]) for lag in lags])


def cross_scores(first: Floats, second: Floats, lags: Iterable[int]) -> Floats:
    """z-scores of the correlations of first[i] with second[i + lag], either sign of lag."""
    pairs = ((first, second, lag) if lag >= 0 else (second, first, -lag) for lag in lags)
    return np.array([product_score(a[: a.size - lag], b[lag:]) for a, b, lag in pairs])


def diagonal_scores(draws: Floats, lags: Iterable[int]) -> Floats:
    """z-scores of draws[i, j] with draws[i + 1, j + lag] and with draws[i + 1, j - lag]."""
    now, later = draws[:-1], draws[1:]
    width = draws.shape[1]
    scores = []
    for lag in lags:
        scores.append(product_score(now[:, : width - lag], later[:, lag:]))
        scores.append(product_score(now[:, lag:], later[:, : width - lag]))
    return np.array(scores)


def sign_changes(normals: Floats) -> float:
    """z-score of the number of sign changes, so of runs of one sign."""
    changes = np.count_nonzero(np.diff(np.signbit(normals)))
    trials = normals.size - 1
    return float((changes - trials / 2) / math.sqrt(trials / 4))


def turning_points(draws: Floats) -> float:
    """z-score of the number of local extrema, so of runs up and down, of independent draws."""
    rising = np.diff(draws) > 0
    count, n = np.count_nonzero(np.diff(rising)), draws.size
    return float((count - 2 * (n - 2) / 3) / math.sqrt((16 * n - 29) / 90))


def gaps(uniform: Floats, width: float, longest: int = 40) -> float:
    """P-value of the gaps between visits to [0, width), which are geometric."""
    lengths = np.diff(np.flatnonzero(uniform < width)) - 1
    counts = np.bincount(np.minimum(lengths, longest), minlength=longest + 1)
    law = width * (1.0 - width) ** np.arange(longest + 1)
    law[longest] = (1.0 - width) ** longest
    return chi_square(counts, law * lengths.size)


def birthday_spacings(words: Words, birthdays: int = 4096) -> float:
    """P-value of the repeated spacings among ``birthdays`` days of a year of 2^32 days.

    Each group of words has a Poisson number of repeats with mean birthdays^3 / 2^34.
    """
    groups = words[: words.size // birthdays * birthdays].reshape(-1, birthdays)
    spacings = np.sort(np.diff(np.sort(groups, axis=1), axis=1), axis=1)
    repeats = int(np.count_nonzero(np.diff(spacings, axis=1) == 0))
    law = stats.poisson(len(groups) * birthdays**3 / 2**34)
    return two_sided(law.cdf(repeats), law.sf(repeats - 1))


def columns(pairs: Words) -> NDArray[np.uint64]:
    """The 64 bit columns of rows of two words, packed 64 rows to a word, zeros at the end.

    Row 0 holds the lowest bit of the first word of every pair, row 32 that of the second.
    """
    little = np.ascontiguousarray(pairs, dtype="<u4")
    bits = np.unpackbits(little.view(np.uint8), axis=1, bitorder="little")
    packed = np.packbits(np.ascontiguousarray(bits.T), axis=1)
    return np.pad(packed, ((0, 0), (0, -packed.shape[1] % 8))).view(np.uint64)


def bit_balance(pairs: Words) -> Floats:
    """z-scores of the number of ones in each of the 64 bits."""
    ones = np.bitwise_count(columns(pairs)).sum(axis=1, dtype=np.int64)
    return (2 * ones - len(pairs)) / math.sqrt(len(pairs))


def bit_products(first: Words, second: Words) -> Floats:
    """z-scores of the 64 x 64 correlations of the bits of two arrays of word pairs."""
    other = columns(second)
    unlike = [np.bitwise_count(bit ^ other).sum(axis=1, dtype=np.int64) for bit in columns(first)]
    return (len(first) - 2 * np.array(unlike)) / math.sqrt(len(first))


def bit_correlations(pairs: Words) -> Floats:
    """z-scores of the correlations of the 64 * 63 / 2 pairs of different bits."""
    return bit_products(pairs, pairs)[np.triu_indices(64, 1)]


def hamming_weight(pairs: Words) -> float:
    """P-value of the number of ones in each row of 64 bits, a binomial."""
    weights = np.bitwise_count(pairs).sum(axis=1, dtype=np.int64)
    counts = np.bincount(weights, minlength=65)
    expected = stats.binom.pmf(np.arange(65), 64, 0.5) * len(pairs)
    low, high = np.flatnonzero(expected >= 10)[[0, -1]]
    return chi_square(_pooled(counts, low, high), _pooled(expected, low, high))


def _pooled(values: NDArray, low: int, high: int) -> NDArray:
    """Values low .. high, with those beyond added to the outermost two."""
    pooled = values[low : high + 1].copy()
    pooled[0] += values[:low].sum()
    pooled[-1] += values[high + 1 :].sum()
    return pooled
