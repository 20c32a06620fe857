"""Random words for a whole pytree, addressed by (key, step, element).

The element index runs over the ravelled tree, so the words depend on neither the grouping of
the elements into leaves, their shapes, nor on ``vmap``, ``scan``, ``jit`` or sharding.

The words are those of Threefry-2x32, a counter-based random function, in plain ``jnp``:

    (key, counter) -> two 32-bit words

Salmon, Moraes, Dror, Shaw (2011), "Parallel random numbers: as easy as 1, 2, 3".
Written with elementary operations only, so that XLA fuses it into whatever consumes the
words: no array of random bits is ever stored. 13 rounds pass BigCrush in that paper; 20 is
the conservative setting, and what ``jax.random`` uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import IntEnum
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.typing import DTypeLike

from sundman._types import PyTree

DEFAULT_ROUNDS = 13
CONSERVATIVE_ROUNDS = 20

_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)
_PARITY = 0x1BD11BDA


def _rotate_left(word: Array, bits: int) -> Array:
    return (word << jnp.uint32(bits)) | (word >> jnp.uint32(32 - bits))


@partial(jax.jit, static_argnames="rounds", inline=True)  # traced once for a shape
def threefry2x32(
    key: tuple[Array, Array], counter: tuple[Array, Array], rounds: int = DEFAULT_ROUNDS
) -> tuple[Array, Array]:
    """Encrypt a two-word counter with a two-word key.

    Args:
      key: two 32-bit words.
      counter: two 32-bit words, or two arrays of them.
      rounds: how often they are mixed; 20 is the conservative choice.

    Returns:
      Two uniform 32-bit words for each counter.
    """
    schedule = (key[0], key[1], key[0] ^ key[1] ^ jnp.uint32(_PARITY))
    left, right = counter[0] + schedule[0], counter[1] + schedule[1]
    for i in range(rounds):
        left = left + right
        right = _rotate_left(right, _ROTATIONS[i % 8]) ^ left
        if i % 4 == 3:
            turn = i // 4 + 1
            left = left + schedule[turn % 3]
            right = right + schedule[(turn + 1) % 3] + jnp.uint32(turn)
    return left, right


def key_words(key: Array) -> Array:
    """The two 32-bit words of a JAX key, typed or raw; a key of four words is mixed to two."""
    key = jnp.asarray(key)
    if jnp.issubdtype(key.dtype, jax.dtypes.prng_key):
        key = jax.random.key_data(key)
    if key.dtype != jnp.uint32 or key.ndim != 1 or key.shape[0] not in (2, 4):
        raise TypeError(
            "key must be one JAX random key, as made by jax.random.key(seed); got an array of "
            f"shape {key.shape} and dtype {key.dtype.name}"
        )
    if key.shape[0] == 2:
        return key
    return jnp.stack(threefry2x32((key[0], key[1]), (key[2], key[3]), CONSERVATIVE_ROUNDS))


def fold(words: Array, number: Array | int, purpose: int) -> Array:
    """A new key from a key, a purpose (1 or more) and a number; always 20 rounds.

    With purpose 0 it would be ``jax.random.fold_in``, whose keys the user may hold already.

    Args:
      words: the two words of a key.
      number: which of the new keys, such as the number of a chain.
      purpose: what it is for, one of :class:`Purpose` or 100 and more.

    Returns:
      The two words of the new key.
    """
    counter = (jnp.uint32(purpose), jnp.asarray(number, jnp.uint32))
    return jnp.stack(threefry2x32((words[0], words[1]), counter, CONSERVATIVE_ROUNDS))


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
    WARM_UP = 8
    FRESH_MOMENTUM = 9
    POSITION_NOISE = 11
    SUBSPACE_NOISE = 12
    CENTRE = 13


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
    """Two random words for each element of an array.

    Args:
      stream: the key and the step.
      shape: that of the array.
      offset: the number of its first element among all that this step draws.
      low: two further words instead, for 64-bit draws.

    Returns:
      Two arrays of 32-bit words.
    """
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
