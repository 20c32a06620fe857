"""Signs of a chain running away, computed with the block on the device.

A chain is lost when its potential or gradient is not finite, or when the potential has risen out
of all proportion above the lowest one it has met.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax

from sundman._types import PyTree
from sundman.runner.chain_mapping import runs_sequentially

RUNAWAY = 1e4


class Health(NamedTuple):
    """Of each chain over a block: its lowest potential so far, and the largest rise above it.

    ``worst`` is the largest :func:`rise`, NaN if anything was not finite; ``finite`` says whether
    the position at the end is, ``steps`` how many steps of a burn-in went well.
    """

    low: Array
    worst: Array
    finite: Array
    steps: Array


def rise(value: Any, low: Any, scale: Any) -> Any:
    """How far the potential is above its lowest: (U - U_low) / (d max(T, 1) + |U_low|).

    Below 1 or so in equilibrium, where U - U_low is about d T / 2.
    """
    return (value - low) / (scale + abs(low))


def size_of(positions: PyTree) -> int:
    """d, for positions with a leading axis of chains."""
    return sum(leaf[0].size for leaf in jax.tree.leaves(positions))


def rise_scale(size: int, temperature: Any) -> Any:
    """d max(T, 1); of a stacked sampler, for each chain."""
    return size * jnp.maximum(temperature, 1.0)


def all_finite(positions: PyTree) -> Array:
    """For each chain, whether every number of its position is finite."""
    leaves = jax.tree.leaves(positions)
    flat = [jnp.isfinite(leaf).reshape(len(leaf), -1).all(axis=1) for leaf in leaves]
    return jnp.stack(flat).all(axis=0)


def sound_potential(weight: Any, stats: Mapping[str, Any], numpy: Any = jnp) -> Any:
    """The potential of each draw, NaN where its weight or gradient is not finite."""
    good = numpy.isfinite(weight)
    if "grad_norm" in stats:
        good = good & numpy.isfinite(stats["grad_norm"])
    return numpy.where(good, stats["potential"], numpy.nan)


def of_records(
    weight: Array,
    stats: Mapping[str, Array],
    count: Array,
    low: Array,
    positions: PyTree,
    temperature: Any,
) -> Health:
    """What the first ``count`` draws of a block's records say about its chains.

    The order within the block is not looked at here: a potential that fell shows as a rise, too,
    and is for the guard to tell apart.
    """
    value = sound_potential(weight, stats)
    draws = 1 if runs_sequentially(positions) else 0
    real = lax.broadcasted_iota(jnp.uint32, value.shape, draws) < count
    low = jnp.minimum(low, jnp.min(jnp.where(real, value, jnp.inf), axis=draws).astype(low.dtype))
    high = jnp.max(jnp.where(real, value, -jnp.inf), axis=draws).astype(low.dtype)
    worst = rise(high, low, rise_scale(size_of(positions), temperature))
    return Health(low, worst, all_finite(positions), jnp.zeros(low.shape, jnp.uint32))
