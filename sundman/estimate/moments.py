"""Weighted averages over draws: mean, covariance, effective sample size.

Kept values are read in blocks, so they may be larger than memory; errors of very many components
take several passes over a disk. A function's values are kept whole. Where the values, or what the
function returns, are a pytree, so is the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from sundman._types import PyTree
from sundman.draws import Draws
from sundman.estimate.error import batches, long_run_variance
from sundman.estimate.sums import stretch_sums

Function = Callable[[PyTree], Any]


class Estimate(NamedTuple):
    """A value with its Monte Carlo standard error; arrays where the function returns one."""

    value: Any
    error: Any

    def __str__(self) -> str:
        """The value and its error, side by side."""
        return f"{self.value} ± {self.error}"


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


def evaluate(draws: Draws, f: Function | None = None) -> Any:
    """f at every draw, (chain, draw, ...); ``None`` is the kept value itself. All in memory."""
    if f is None:
        return jax.tree.map(np.asarray, draws.values)
    found = [values for _, values in evaluate_blocks(draws, f)]
    if len(found) == 1:
        return found[0]
    return jax.tree.map(lambda *leaves: np.concatenate(leaves, axis=1), *found)


def flat_blocks(draws: Draws, f: Function | None = None) -> Iterator[tuple[slice, np.ndarray]]:
    """As :func:`evaluate_blocks`, with all components on one last axis."""
    for part, values in evaluate_blocks(draws, f):
        leaves = [leaf.reshape(*leaf.shape[:2], -1) for leaf in jax.tree.leaves(values)]
        yield part, leaves[0] if len(leaves) == 1 else np.concatenate(leaves, axis=2)


def weights(draws: Draws) -> np.ndarray:
    """The weights in double precision, if there are any."""
    weight = np.asarray(draws.weight, np.float64)
    if not weight.sum() > 0:
        raise ValueError("every weight is 0: all chains diverged, there is nothing to average")
    return weight


def kept(draws: Draws, f: Function | None) -> PyTree:
    """What to average: the kept values, not read yet, or f of them."""
    return draws.values if f is None else evaluate(draws, f)


def shaped(values: np.ndarray) -> Any:
    """A float for a single number, else the array."""
    return float(values) if values.shape == () else values


class Moments(NamedTuple):
    """The weighted mean of each component of a leaf, its standard error, and the variance."""

    mean: np.ndarray
    error: np.ndarray
    variance: np.ndarray


def moments(leaf: Any, weight: np.ndarray, *, error: bool = True) -> Moments:
    """The moments of one leaf over all draws; without ``error`` that one is not a number."""
    found = Moments(*(np.full(leaf.shape[2:], np.nan) for _ in Moments._fields))
    batch, length, whole = batches(weight.shape[1])
    stretch = batch if error else np.zeros_like(batch)
    for where, sums in stretch_sums(leaf, weight, stretch, squares=False):
        shape = found.mean[where].shape
        first, second = (part.sum(axis=(0, 1)) / weight.sum() for part in (sums.first, sums.second))
        found.mean[where] = (sums.shift + first).reshape(shape)
        found.variance[where] = np.maximum(second - first**2, 0.0).reshape(shape)
        if error and np.count_nonzero(weight) > 1:  # of one draw nobody knows the error
            sigma2 = long_run_variance(sums.first[:, :whole], sums.weight[:, :whole], first)
            sigma2 /= length * weight.mean() ** 2
            found.error[where] = np.sqrt(sigma2 / weight.size).reshape(shape)
    return found


def mean(draws: Draws, f: Function | None = None) -> Estimate:
    """sum(w f) / sum(w) over all draws, with its standard error."""
    weight = weights(draws)
    leaves, structure = jax.tree.flatten(kept(draws, f))
    found = [moments(leaf, weight) for leaf in leaves]
    value, error = [shaped(each.mean) for each in found], [shaped(each.error) for each in found]
    return Estimate(structure.unflatten(value), structure.unflatten(error))


def variance(draws: Draws, f: Function | None = None) -> Any:
    """Weighted variance of each component of f over all draws."""
    weight = weights(draws)
    return jax.tree.map(lambda leaf: moments(leaf, weight, error=False).variance, kept(draws, f))


def covariance(draws: Draws, f: Function | None = None) -> np.ndarray:
    """Weighted covariance matrix of f, flattened to a vector, over all draws."""
    weight = weights(draws)
    leaves = jax.tree.leaves(kept(draws, f))
    centre = np.concatenate([moments(leaf, weight, error=False).mean.ravel() for leaf in leaves])
    total = np.zeros((len(centre), len(centre)))
    for part, block in flat_blocks(draws, f):
        w = weight[:, part]
        centred = np.where(w[..., None] > 0, block - centre, 0.0).reshape(w.size, -1)
        total += centred.T @ (w.reshape(-1, 1) * centred)
    return total / weight.sum()


def ess(draws: Draws, f: Function | None = None) -> Any:
    """Effective sample size: Var(f) / error^2, the independent draws that would do as well."""
    weight = weights(draws)

    def size(leaf: Any) -> Any:
        _, error, spread = moments(leaf, weight)
        with np.errstate(divide="ignore", invalid="ignore"):
            return shaped(np.where(spread > 0, spread / error**2, np.nan))

    return jax.tree.map(size, kept(draws, f))
