"""Averages of a function of the position, kept in constant memory while a run goes on.

    W <- W + w,    mean <- mean + (w / W) (f - mean)

with the time weights, and with equal weights beside it. In single precision such a sum stands
still once its terms are below its last digit, so each number is kept as two, ``high + low``, and
what rounding takes from the first goes into the second (Neumaier 1974). They are put together in
double precision on the host.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman._types import PyTree


class Average(NamedTuple):
    """Averages over the draws of each chain: weighted by time, and with equal weights.

    Attributes:
      weight: the sum of the weights.
      weighted: the average weighted by time.
      number: how many draws were averaged.
      equal: the average with equal weights.
    """

    weight: np.ndarray
    weighted: PyTree
    number: np.ndarray
    equal: PyTree


class RunningAverage(NamedTuple):
    """The averages of a chain while it runs, each as (high, low); part of a run's state."""

    weight: tuple[Array, Array]
    weighted: tuple[PyTree, PyTree]
    number: Array
    equal: tuple[PyTree, PyTree]


def compensated(high: Array, low: Array, term: Array) -> tuple[Array, Array]:
    """(high + low) + term as two numbers of the same precision: what is rounded off goes to low."""
    total = high + term
    larger = jnp.abs(high) >= jnp.abs(term)
    rounding_error = jnp.where(larger, (high - total) + term, (term - total) + high)
    low = low + rounding_error
    new = total + low  # kept normalised, so that high is the nearest number to the sum
    return new, (total - new) + low


def begin(like: PyTree) -> RunningAverage:
    """Nothing averaged yet; ``like`` has the shapes of the function's value."""
    zero = jnp.zeros((), jnp.float32)
    empty = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, jnp.result_type(leaf.dtype, jnp.float32)), like
    )
    return RunningAverage((zero, zero), (empty, empty), jnp.uint32(0), (empty, empty))


def _toward(mean: tuple[PyTree, PyTree], value: PyTree, share: Array) -> tuple[PyTree, PyTree]:
    """The mean moved by ``share`` of the way to a value."""

    def move(high: Array, low: Array, v: Array) -> tuple[Array, Array]:
        term = share.astype(high.dtype) * ((v - high) - low)
        return compensated(high, low, jnp.where(share > 0, term, 0))

    leaves, structure = jax.tree.flatten(mean[0])
    pairs = [
        move(*each) for each in zip(leaves, *map(jax.tree.leaves, (mean[1], value)), strict=True)
    ]
    high, low = ([pair[i] for pair in pairs] for i in (0, 1))
    return jax.tree.unflatten(structure, high), jax.tree.unflatten(structure, low)


def add(
    average: RunningAverage, value: PyTree, weight: Array, stats: Mapping[str, Array]
) -> RunningAverage:
    """Take in one value; one with a non-finite potential or gradient counts for nothing."""
    good = jnp.isfinite(stats["potential"]) & jnp.isfinite(stats.get("grad_norm", 0.0))
    good &= jnp.isfinite(weight)
    weight = jnp.where(good, weight, 0.0).astype(average.weight[0].dtype)
    total = compensated(*average.weight, weight)
    number = average.number + good.astype(jnp.uint32)
    share = jnp.where(good, 1.0 / jnp.maximum(number, 1).astype(jnp.float32), 0.0)
    return RunningAverage(
        total,
        _toward(average.weighted, value, weight / jnp.maximum(total[0], 1e-37)),
        number,
        _toward(average.equal, value, share),
    )


def averaged(running: RunningAverage | None) -> Average | None:
    """The averages of every chain on the host, NaN for a chain that has averaged nothing."""
    if running is None:
        return None
    number = np.asarray(running.number)

    def joined(pair: tuple[PyTree, PyTree]) -> PyTree:
        def one(high: Array, low: Array) -> np.ndarray:
            a, b = np.asarray(high), np.asarray(low)
            wide = np.result_type(a.dtype, np.float64)
            some = (number > 0).reshape(-1, *[1] * (a.ndim - 1))
            return np.where(some, a.astype(wide) + b.astype(wide), np.nan)

        return jax.tree.map(one, *pair)

    weight, weighted, equal = map(joined, (running.weight, running.weighted, running.equal))
    return Average(weight, weighted, np.where(number > 0, number.astype(np.float64), np.nan), equal)
