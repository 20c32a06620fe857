"""The weighted mean, with its Monte Carlo error and the bias that the length of the step leaves.

How far an average is off because the step is not short is seen in the work that the steps do.

Take a scheme that is made of parts which keep the volume of phase space, such as the kicks and
drifts of BAOAB, and of parts which leave exp(-H/T) as it is, such as its friction and noise. Add up
the changes dE of the energy H in the parts of the first kind: the work W (Sivak, Chodera, Crooks
2013, "Using nonequilibrium fluctuation theorems to understand and correct errors in equilibrium and
nonequilibrium simulations of discrete Langevin dynamics", call it the shadow work). Each part
leaves the measure exp(-H/T) as it is, if it multiplies by exp(-dE/T) what it moves. So over any
number of steps, from the exact law,

    E[f(x_n) exp(-(W_n - W_{n-K})/T)] = the exact average of f

and to first order, for K longer than the memory of f, the average of f over the chain is off by

    b = Cov(f(x_n), W_n - W_{n-K}) / T

It is an average over draws that are there anyway. K is a few autocorrelation times of f or of U,
the longer ones: with a shorter one some of b is missing, with a longer one its error grows, like
the root of K. On an adaptive clock the covariance is weighted like all averages, and b does not
know of the error of the weights, which for symmetric ones is of second order, too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax
import numpy as np

from sundman import _chunks, check
from sundman._types import DrawsArray
from sundman.estimate.moments import (
    Estimate,
    Function,
    Moments,
    moments,
    shaped,
    values_of,
    weights,
)

if TYPE_CHECKING:
    from sundman.draws import Draws

_MEMORIES = 6.0  # K, in units of the draws between two independent ones
_FEWEST = 8  # windows of length K in a chain
_FAR = 4.0  # work further out than so many of its usual spreads, and than 1, is cut off there


class _Window(NamedTuple):
    """The work over K draws, of those draws that have so many before them."""

    work: np.ndarray
    weight: np.ndarray


def follows_work(draws: Draws) -> bool:
    """Whether the work of the steps was recorded, and the draws are those of a chain in order."""
    return "work" in draws.stats and not draws.facts.resampled


def _window(draws: Draws, weight: np.ndarray, length: int) -> _Window:
    """W_n - W_{n-K} less its average; nothing counts where a chain was lost in between."""
    W = np.asarray(draws.stats["work"], np.float64)
    temperature = draws.facts.temperature
    work = (W[:, length:] - W[:, :-length]) / (1.0 if temperature is None else temperature)
    lost = np.cumsum(weight[:, 1:] <= 0, axis=1)
    lost = np.pad(lost, ((0, 0), (1, 0)))
    counts = (lost[:, length:] == lost[:, :-length]) & np.isfinite(work)
    counted = np.where(counts, weight[:, length:], 0.0)
    if not counted.sum() > 0:
        return _Window(np.zeros_like(work), counted)
    middle = np.median(work[counts])
    far = max(1.0, _FAR * 1.48 * float(np.median(np.abs(work[counts] - middle))))
    work = np.where(counts, np.clip(work - middle, -far, far), 0.0)
    return _Window(work - (counted * work).sum() / counted.sum(), counted)


def _between(known: Moments, weight: np.ndarray) -> np.ndarray:
    """The draws from one that is independent to the next."""
    with np.errstate(divide="ignore", invalid="ignore"):
        number = known.error**2 * np.count_nonzero(weight) / known.variance
    return np.where(np.isfinite(number), number, 1.0)


def _lengths(draws: Draws, known: Moments, weight: np.ndarray) -> np.ndarray:
    """K of every component, a power of two: so that few different ones are needed.

    Also what moves fast is off by where the chain comes from, so K is at least that of U.
    """
    between = _between(known, weight)
    if "potential" in draws.stats:
        of_U = moments(np.asarray(draws.stats["potential"]), weight)
        between = np.maximum(between, _between(of_U, weight))
    most = max(1, weight.shape[1] // _FEWEST)
    powers = np.ceil(np.log2(np.maximum(_MEMORIES * between, 1.0)))
    return np.minimum(2.0**powers, most).astype(int)


def step_bias_of(
    draws: Draws, leaf: DrawsArray, weight: np.ndarray, known: Moments
) -> tuple[np.ndarray, np.ndarray]:
    """b of every component of a leaf, and its standard error; ``known`` are its moments."""
    lengths = _lengths(draws, known, weight)
    windows = {K: _window(draws, weight, K) for K in np.unique(lengths).tolist()}
    value, error = np.full(leaf.shape[2:], np.nan), np.full(leaf.shape[2:], np.nan)
    size = max(1, _chunks.elements_per_pass(leaf) // weight.size)
    for where in _chunks.component_slices(leaf.shape[2:], size):
        values = np.asarray(leaf[(slice(None), slice(None), *where)], np.float64)
        values, own = values.reshape(*weight.shape, -1), lengths[where].ravel()
        pairs = np.full((2, own.size), np.nan)
        for K, window in windows.items():
            if (own == K).any() and window.weight.sum() > 0:
                pairs[:, own == K] = _covariance(values[:, K:, own == K], window)
        value[where], error[where] = (each.reshape(value[where].shape) for each in pairs)
    return value, error


def _covariance(f: np.ndarray, window: _Window) -> tuple[np.ndarray, np.ndarray]:
    """The covariance of f (chain, draw, k) with the work over the window, and its error."""
    weight = window.weight[..., None]
    f = np.where(weight > 0, f, 0.0)
    f = f - (weight * f).sum((0, 1)) / weight.sum()
    covariance = moments(f * window.work[..., None], window.weight)
    return covariance.mean, covariance.error


def step_bias(draws: Draws, f: Function | None = None) -> Estimate | None:
    """How far the average of f is off because the step is not short, with its standard error.

    The average less this value has the larger part of that bias taken out. To be believed where
    the error is well below the value, the energy error of a step is small, and f is not so slow
    that there are only a few independent draws of it.

        draws = sundman.sample(sundman.targets.star(), key=key, chains=64, steps=20_000)
        sundman.estimate.step_bias(draws, lambda x: x[0] ** 2)

    Args:
      draws: of a run with exact gradients whose sampler followed the work of its steps: one that
        tuned itself, or ``integrators.baoab(work=True)``.
      f: a function of what was kept; None is the kept value itself.

    Returns:
      The bias and its error; None if the work was not recorded.
    """
    check.draws(draws)
    if not follows_work(draws):
        return None
    weight = weights(draws)
    leaves, structure = jax.tree.flatten(values_of(draws, f))
    pairs = [step_bias_of(draws, leaf, weight, moments(leaf, weight)) for leaf in leaves]
    value, error = zip(*pairs, strict=True)
    return Estimate(*(structure.unflatten([shaped(each) for each in s]) for s in (value, error)))


def _scale(draws: Draws, leaf: DrawsArray, weight: np.ndarray, known: Moments) -> np.ndarray | None:
    """What the length of the step may add to each mean; None if nothing is known of it."""
    tuning = draws.tuning
    most = tuning.bias * np.sqrt(known.variance) if tuning is not None and tuning.bias > 0 else None
    if not follows_work(draws):
        return most
    value, error = step_bias_of(draws, leaf, weight, known)
    size = np.abs(value)
    if most is None:
        return size + error
    return np.fmin(size + error, np.fmax(most, size - 2.0 * error))  # below most, unless seen


def mean(draws: Draws, f: Function | None = None) -> Estimate:
    """sum(w f) / sum(w) over all draws, with its standard error and the scale of its bias."""
    weight = weights(draws)
    leaves, structure = jax.tree.flatten(values_of(draws, f))
    known = [moments(leaf, weight) for leaf in leaves]
    scales = [_scale(draws, leaf, weight, each) for leaf, each in zip(leaves, known, strict=True)]
    value, error = (
        structure.unflatten([shaped(getattr(each, name)) for each in known])
        for name in ("mean", "error")
    )
    told = [shaped(scale) for scale in scales if scale is not None]
    return Estimate(value, error, structure.unflatten(told) if told else None)
