"""Random words for a whole pytree, addressed by (key, step, element).

The element index runs over the ravelled tree, so the words depend on neither the grouping of
the elements into leaves, their shapes, nor on ``vmap``, ``scan``, ``jit`` or sharding.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import IntEnum
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import DTypeLike

from sundman._types import PyTree
from sundman.noise.threefry import DEFAULT_ROUNDS, fold, threefry2x32

_GOLDEN_RATIO = 0x9E3779B9
_LOW_BITS_KEY = 0x85EBCA6B


class Purpose(IntEnum):
    """What a stream of random words is for: each number is one independent use of a key.

    Numbers from 100 on are free for integrators and estimators outside this library.
    """

    GRADIENT_NOISE = 1
    CHAIN = 2
    ROWS = 3
    SAMPLER = 4
    CURVATURE = 5
    SWAP = 6
    REPLICA = 7


class Stream(NamedTuple):
    """Where in the random sequence a step stands: a key (two words) and the step's number."""

    key: Array
    step: Array


def substream(stream: Stream, purpose: int) -> Stream:
    """A stream independent of ``stream``, for another use of randomness in the same step."""
    return Stream(fold(stream.key, 0, purpose), stream.step)


def check_range(elements: int) -> None:
    """Raise if a position has more elements than there are counters."""
    if elements > 2**32:
        raise ValueError(
            f"the position has more than 2**32 elements ({elements}), beyond the range of "
            "the noise counter; split it over several samplers"
        )


def counters(stream: Stream, shape: tuple[int, ...], offset: int = 0) -> Array:
    """A number for each element of an array that starts at element ``offset``.

    index + golden * step changes as a whole from step to step: XLA then cannot hoist an array of
    counters out of a loop and read it back from memory.
    """
    size = math.prod(shape)
    check_range(offset + size)
    start = jnp.asarray(stream.step, jnp.uint32) * jnp.uint32(_GOLDEN_RATIO) + jnp.uint32(offset)
    return lax.iota(jnp.uint32, size).reshape(shape) + start


def words_at(stream: Stream, counter: Array, low: bool = False) -> tuple[Array, Array]:
    """Two random words for each counter of this step; ``low``: two more, for 64-bit draws."""
    second = stream.key[1] ^ jnp.uint32(_LOW_BITS_KEY) if low else stream.key[1]
    step = jnp.asarray(stream.step, jnp.uint32)
    return threefry2x32((stream.key[0], second), (counter, step), DEFAULT_ROUNDS)


def words(
    stream: Stream, shape: tuple[int, ...], offset: int = 0, low: bool = False
) -> tuple[Array, Array]:
    """Two random words for each element of an array that starts at element ``offset``."""
    return words_at(stream, counters(stream, shape, offset), low)


DrawLeaf = Callable[[tuple[int, ...], DTypeLike, int], Array]
"""Random numbers of a shape and a dtype, whose first element has the given number."""


def map_leaves(draw: DrawLeaf, like: PyTree) -> PyTree:
    """Apply ``draw(shape, dtype, offset)`` to each leaf, offsets counting ravelled elements."""
    leaves, structure = jax.tree.flatten(like)
    drawn, offset = [], 0
    for leaf in leaves:
        shape = jnp.shape(leaf)
        drawn.append(draw(shape, jnp.result_type(leaf), offset))
        offset += math.prod(shape)
    return jax.tree.unflatten(structure, drawn)
