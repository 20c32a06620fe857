"""Weighted averages over draws, with their Monte Carlo error: mean, covariance, sample size.

Kept values are read in blocks, so they may be larger than memory; errors of very many components
take several passes over a disk. A function's values are kept whole. Where the values, or what the
function returns, are a pytree, so is the result.

For a leaf f (chain, draw, ...) and a shift a, near the values so that nothing cancels, every
moment, error and R-hat is made of

    S_j = sum of w (f - a)^j over the draws of one stretch of one chain,   j = 0, 1, 2.

For m = sum(w f) / sum(w) over correlated draws the error is that of the mean of

    y = w (f - m) / mean(w)

so Var(m) = sigma^2 / n with sigma^2 the sum of the autocovariances of y. They are averaged over
the chains, around the common mean, so that chains which disagree widen the error; the sum is cut
by Geyer's initial monotone sequence. Long chains are first averaged in batches, which leaves
that sum unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Self

import jax
import jax.numpy as jnp
import numpy as np

from sundman import _chunks, check
from sundman._types import DrawsArray, PyTree

if TYPE_CHECKING:
    from sundman.draws import Draws

_MOST_BATCHES = 4096
_ELEMENTS = 8 * 2**20
Function = Callable[[PyTree], PyTree]


class Sums(NamedTuple):
    """Sums of some components: shift (k,), weight (chain, stretch), others with k last.

    ``second`` may have a single stretch, of all draws.
    """

    shift: np.ndarray
    weight: np.ndarray
    first: np.ndarray
    second: np.ndarray


def stretch_sums(
    leaf: DrawsArray, weight: np.ndarray, stretch: np.ndarray, *, squares: bool
) -> Iterator[tuple[tuple[slice, ...], Sums]]:
    """The sums for some components at a time: where these are, and their sums.

    ``stretch`` numbers the stretch of each draw, rising from 0. Draws of weight 0 count for
    nothing, finite or not. ``squares`` asks for S_2 of each stretch, instead of all draws.

    Args:
      leaf: the values f.
      weight: of the draws, (chain, draw).
      stretch: the number of the stretch of each draw.
      squares: whether S_2 is wanted for each stretch.

    Returns:
      Slices of the components, and the sums for these.
    """
    weight = weight.astype(np.float64)
    chains, draws = weight.shape
    count = int(stretch[-1]) + 1
    c, d = np.unravel_index(np.argmax(weight > 0), weight.shape)
    for where in _chunks.component_slices(
        leaf.shape[2:], max(1, _chunks.elements_per_pass(leaf) // (chains * count))
    ):
        k = math.prod(part.stop - part.start for part in where)
        shift = np.asarray(leaf[(slice(c, c + 1), slice(d, d + 1), *where)], np.float64).reshape(k)
        total = np.zeros((chains, count))
        first = np.zeros((chains, count, k))
        second = np.zeros((chains, count if squares else 1, k))
        for part in _chunks.draw_slices(draws, max(1, _chunks.IN_MEMORY // (chains * k))):
            w, number = weight[:, part], stretch[part]
            starts = np.flatnonzero(np.diff(number, prepend=-1))
            values = np.asarray(leaf[(slice(None), part, *where)], np.float64)
            centred = np.where(w[..., None] > 0, values.reshape(*w.shape, k) - shift, 0.0)
            moment = w[..., None] * centred
            total[:, number[starts]] += np.add.reduceat(w, starts, axis=1)
            first[:, number[starts]] += np.add.reduceat(moment, starts, axis=1)
            moment *= centred
            if squares:
                second[:, number[starts]] += np.add.reduceat(moment, starts, axis=1)
            else:
                second[:, 0] += moment.sum(axis=1)
        yield where, Sums(shift, total, first, second)


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
    monotone = np.maximum(np.minimum.accumulate(pairs), 0.0)
    return np.maximum(2 * monotone.sum(axis=0) - autocovariance[0], autocovariance[0] / n)


def long_run_variance(sums: np.ndarray, weight: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """n Var(mean of y) over batches y = sums - weight mean, for each component.

    ``sums`` are those of w f over each batch, (chain, batch, k), ``weight`` those of w.

    Args:
      sums: of w f over each batch.
      weight: the sums of w over each batch, (chain, batch).
      mean: m of each component, (k,).

    Returns:
      One variance for each component.
    """
    chains, n, components = sums.shape
    size = max(1, _ELEMENTS // (4 * chains * n))
    variances = np.empty(components)
    for first in range(0, components, size):
        some = slice(first, first + size)
        y = sums[..., some] - weight[..., None] * mean[some]
        variances[some] = _initial_monotone_sum(_autocovariance(y))
    return variances


class _Pair(NamedTuple):
    value: PyTree
    error: PyTree


class Estimate(_Pair):
    """A value with its Monte Carlo standard error; arrays where the function returns one.

    It is the pair of both: ``value, error = draws.mean()``.

    Attributes:
      value: the weighted mean.
      error: its standard error.
      bias: the scale of what the length of the step may add to it, of a sampler that tuned itself;
        None if it is not known.
    """

    bias: PyTree | None

    def __new__(cls, value: PyTree, error: PyTree, bias: PyTree | None = None) -> Self:
        """The pair, and the bias beside it."""
        self = super().__new__(cls, value, error)
        self.bias = bias
        return self

    def __str__(self) -> str:
        """The value and its error, side by side, and the bias if it is known."""
        text = f"{self.value} ± {self.error}"
        return text if self.bias is None else f"{text} (bias within {self.bias})"


@partial(jax.jit, static_argnums=0)
def _apply(f: Function, values: PyTree) -> PyTree:
    """f at every draw; compiled once for a function and a shape."""
    return jax.vmap(f)(values)


def evaluate_blocks(draws: Draws, f: Function | None = None) -> Iterator[tuple[slice, PyTree]]:
    """f at some consecutive draws of all chains at a time, (chain, draw, ...), in order."""
    if f is None:
        yield from draws.blocks()
        return
    for part, values in draws.blocks():
        chains = [
            jax.tree.map(
                np.asarray, _apply(f, jax.tree.map(lambda leaf, i=i: jnp.asarray(leaf[i]), values))
            )
            for i in range(draws.chains)
        ]
        yield part, jax.tree.map(lambda *leaves: np.stack(leaves), *chains)


def evaluate(draws: Draws, f: Function | None = None) -> PyTree:
    """f at every draw, (chain, draw, ...); ``None`` is the kept value itself. All in memory."""
    check.draws(draws)
    if f is None:
        return jax.tree.map(np.asarray, draws.values)
    blocks = [values for _, values in evaluate_blocks(draws, f)]
    if len(blocks) == 1:
        return blocks[0]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *blocks)


def flat_blocks(draws: Draws, f: Function | None = None) -> Iterator[tuple[slice, np.ndarray]]:
    """As :func:`evaluate_blocks`, with all components on one last axis."""
    for part, values in evaluate_blocks(draws, f):
        leaves = [leaf.reshape(*leaf.shape[:2], -1) for leaf in jax.tree.leaves(values)]
        yield part, leaves[0] if len(leaves) == 1 else np.concatenate(leaves, axis=2)


def weights(draws: Draws) -> np.ndarray:
    """The weights in double precision, if there are any."""
    check.draws(draws)
    weight = np.asarray(draws.weight, np.float64)
    if not weight.sum() > 0:
        raise ValueError("every weight is 0: all chains diverged, there is nothing to average")
    return weight


def values_of(draws: Draws, f: Function | None) -> PyTree:
    """What to average: the kept values, not read yet, or f of them."""
    return draws.values if f is None else evaluate(draws, f)


def shaped(values: np.ndarray) -> float | np.ndarray:
    """A float for a single number, else the array."""
    return float(values) if values.shape == () else values


class Moments(NamedTuple):
    """The weighted mean of each component of a leaf, its standard error, and the variance."""

    mean: np.ndarray
    error: np.ndarray
    variance: np.ndarray


def moments(leaf: DrawsArray, weight: np.ndarray, *, error: bool = True) -> Moments:
    """The moments of one leaf over all draws; without ``error`` that one is not a number.

    Args:
      leaf: the values of one leaf.
      weight: of the draws, (chain, draw).
      error: whether to estimate the standard error, which takes longer.

    Returns:
      Mean, error and variance of each component.
    """
    result = Moments(*(np.full(leaf.shape[2:], np.nan) for _ in Moments._fields))
    batch, length, whole = batches(weight.shape[1])
    stretch = batch if error else np.zeros_like(batch)
    for where, sums in stretch_sums(leaf, weight, stretch, squares=False):
        shape = result.mean[where].shape
        first, second = (part.sum(axis=(0, 1)) / weight.sum() for part in (sums.first, sums.second))
        result.mean[where] = (sums.shift + first).reshape(shape)
        result.variance[where] = np.maximum(second - first**2, 0.0).reshape(shape)
        if error and np.count_nonzero(weight) > 1:  # of one draw nobody knows the error
            sigma2 = long_run_variance(sums.first[:, :whole], sums.weight[:, :whole], first)
            sigma2 /= length * weight.mean() ** 2
            result.error[where] = np.sqrt(sigma2 / weight.size).reshape(shape)
    return result


def variance(draws: Draws, f: Function | None = None) -> PyTree:
    """Weighted variance of each component of f over all draws."""
    weight = weights(draws)
    return jax.tree.map(
        lambda leaf: moments(leaf, weight, error=False).variance, values_of(draws, f)
    )


def covariance(draws: Draws, f: Function | None = None) -> np.ndarray:
    """Weighted covariance matrix of f, flattened to a vector, over all draws."""
    weight = weights(draws)
    leaves = jax.tree.leaves(values_of(draws, f))
    centre = np.concatenate([moments(leaf, weight, error=False).mean.ravel() for leaf in leaves])
    total = np.zeros((len(centre), len(centre)))
    for part, block in flat_blocks(draws, f):
        w = weight[:, part]
        centred = np.where(w[..., None] > 0, block - centre, 0.0).reshape(w.size, -1)
        total += centred.T @ (w.reshape(-1, 1) * centred)
    return total / weight.sum()


def ess(draws: Draws, f: Function | None = None) -> PyTree:
    """Effective sample size: Var(f) / error^2, the independent draws that would do as well."""
    weight = weights(draws)

    def size(leaf: DrawsArray) -> float | np.ndarray:
        _, error, spread = moments(leaf, weight)
        with np.errstate(divide="ignore", invalid="ignore"):
            return shaped(np.where(spread > 0, spread / error**2, np.nan))

    return jax.tree.map(size, values_of(draws, f))
