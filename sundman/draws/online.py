"""Averages of a function of the position, kept in constant memory while a run goes on.

    W <- W + w,    mean <- mean + (w / W) (f - mean)

with the time weights, and with equal weights beside it.
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
    """Running averages of a chain: weighted by time, and with equal weights."""

    weight: Array
    weighted: PyTree
    number: Array
    equal: PyTree


def begin(like: PyTree) -> Average:
    """Nothing averaged yet; ``like`` has the shapes of the function's value."""
    zero = jnp.zeros((), jnp.float32)
    empty = jax.tree.map(
        lambda leaf: jnp.zeros(leaf.shape, jnp.result_type(leaf.dtype, jnp.float32)), like
    )
    return Average(zero, empty, zero, empty)


def _toward(mean: PyTree, value: PyTree, share: Array) -> PyTree:
    def move(m: Array, v: Array) -> Array:
        return jnp.where(share > 0, m + share.astype(m.dtype) * (v - m), m)

    return jax.tree.map(move, mean, value)


def add(average: Average, value: PyTree, weight: Array, stats: Mapping[str, Array]) -> Average:
    """Take in one value; one with a non-finite potential or gradient counts for nothing."""
    good = jnp.isfinite(stats["potential"]) & jnp.isfinite(stats.get("grad_norm", 0.0))
    good &= jnp.isfinite(weight)
    weight = jnp.where(good, weight, 0.0).astype(average.weight.dtype)
    total = average.weight + weight
    number = average.number + good
    return Average(
        total,
        _toward(average.weighted, value, weight / jnp.maximum(total, 1e-37)),
        number,
        _toward(average.equal, value, jnp.where(good, 1.0 / jnp.maximum(number, 1.0), 0.0)),
    )


def averaged(averages: Average | None) -> Average | None:
    """The averages of every chain on the host, NaN for a chain that has averaged nothing."""
    if averages is None:
        return None
    some = np.asarray(averages.number) > 0

    def of_some(leaf: Array) -> np.ndarray:
        host = np.asarray(leaf)
        return np.where(some.reshape(-1, *[1] * (host.ndim - 1)), host, np.nan)

    return jax.tree.map(of_some, averages)
