"""A few directions of one array, each of its shape: what low-rank friction follows.

Directions of an array of at least 4,096 numbers in single precision are kept as bfloat16: a step is
as fast as memory brings them, and eight bits of each number are more than they are known to. They
are kept as their bits, in integers, which every file and every library has. The directions of
smaller arrays are of the array's own type, so the law of a small problem is not touched by it.
"""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jax import Array, lax

from sundman import native
from sundman.noise import Stream
from sundman.noise.gaussian import gaussian_leaf

_BITS = jnp.uint16


class ScaledNoise(NamedTuple):
    """Normal numbers for one array.

    Attributes:
      stream: the key and the step.
      scale: what they are multiplied by.
      offset: the number of the first among all that this step draws.
    """

    stream: Stream
    scale: Array | float
    offset: int


def zeros(number: int, array: Array) -> Array:
    """Directions before any is known.

    Args:
      number: of directions.
      array: an array of the position.

    Returns:
      (number, *shape of the array).
    """
    dtype = jnp.result_type(array)
    large = dtype == jnp.float32 and jnp.size(array) >= native.SMALLEST
    return jnp.zeros((number, *jnp.shape(array)), _BITS if large else dtype)


def products(directions: Array, rows: Array) -> Array:
    """What a Gram matrix needs: V and the rows, one below the other, times the rows transposed.

    Args:
      directions: (m, *shape).
      rows: (n, *shape).

    Returns:
      (m + n, n).
    """
    if _by_kernels(directions):
        return native.inner_products(directions, rows)
    each = rows.reshape(rows.shape[0], -1)
    # in one product: XLA would take that of the rows alone out of a loop that has them from outside
    return jnp.concatenate([_numbers(directions), each]) @ each.T


def along(directions: Array, array: Array) -> Array:
    """The inner product of each direction with one array.

    Args:
      directions: (m, *shape).
      array: (*shape).

    Returns:
      (m).
    """
    if _by_kernels(directions):
        return native.inner_products(directions, array[None])[:-1, 0]
    return _numbers(directions) @ array.reshape(-1)


def weighted_sum(
    weights: Array, directions: Array, array: Array, noise: ScaledNoise | None = None
) -> Array:
    """The directions and one array by their weights, and noise.

    Args:
      weights: (m + 1), that of the array last.
      directions: (m, *shape).
      array: (*shape).
      noise: what is added; None is nothing.

    Returns:
      (*shape).
    """
    if _by_kernels(directions):
        weights = weights.astype(jnp.float32)
        if noise is None:
            return native.weighted_sum(weights, directions, array)
        stream, scale, offset = noise
        return native.weighted_sum(weights, directions, array, stream, scale, offset)
    # what is kept of the array is near 1, which a type of few bits would round to 1
    V = _numbers(directions)
    total = (weights[:-1].astype(V.dtype) @ V).reshape(array.shape) + weights[-1] * array
    if noise is not None:
        total += noise.scale * gaussian_leaf(noise.stream, array, noise.offset)
    return total.astype(array.dtype)


def mixed(weights: Array, directions: Array, rows: Array) -> Array:
    """New directions: sums of the old ones and of some arrays.

    Args:
      weights: (m, m + n).
      directions: (m, *shape).
      rows: (n, *shape).

    Returns:
      As ``directions``.
    """
    weights = weights.astype(rows.dtype)
    if _by_kernels(directions):
        return native.mix(weights, directions, rows)
    m = directions.shape[0]
    new = weights[:, :m] @ _numbers(directions) + weights[:, m:] @ rows.reshape(len(rows), -1)
    if directions.dtype == _BITS:
        new = lax.bitcast_convert_type(new.astype(jnp.bfloat16), _BITS)
    return new.reshape(directions.shape)


def _numbers(directions: Array) -> Array:
    """What is kept, as numbers: a row for each direction."""
    V = directions.reshape(directions.shape[0], -1)
    if V.dtype != _BITS:
        return V
    return lax.bitcast_convert_type(V, jnp.bfloat16).astype(jnp.float32)


def _by_kernels(directions: Array) -> bool:
    return native.active() and directions.dtype == _BITS
