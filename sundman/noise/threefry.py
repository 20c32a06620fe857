"""Threefry-2x32, a counter-based random function, in plain ``jnp``.

    (key, counter) -> two 32-bit words

Salmon, Moraes, Dror, Shaw (2011), "Parallel random numbers: as easy as 1, 2, 3".
Written with elementary operations only, so that XLA fuses it into whatever consumes the
words: no array of random bits is ever stored. 13 rounds pass BigCrush in that paper; 20 is
the conservative setting, and what ``jax.random`` uses.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

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
    """Encrypt a two-word counter with a two-word key: two uniform 32-bit words."""
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
    """
    counter = (jnp.uint32(purpose), jnp.asarray(number, jnp.uint32))
    return jnp.stack(threefry2x32((words[0], words[1]), counter, CONSERVATIVE_ROUNDS))
