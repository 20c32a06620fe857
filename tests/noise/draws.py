"""Draws of the noise package as NumPy arrays, arranged for the checks of ``quality``.

Every function compiles anew, so a test may change the generator between two calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import NDArray

from sundman.noise import Stream, fold, gaussian, key_words, words

Noise = Callable[[Stream, Any], Any]


def stream(seed: int = 0, step: int = 0) -> Stream:
    """The stream of an integer seed at a step."""
    return Stream(key_words(jax.random.key(seed)), jnp.uint32(step))


def elements(
    count: int, *, seed: int = 0, noise: Noise = gaussian, dtype: Any = jnp.float32
) -> NDArray[np.float64]:
    """One step of ``count`` elements."""
    like = jax.ShapeDtypeStruct((count,), dtype)
    drawn = jax.jit(lambda stream: noise(stream, like))(stream(seed))
    return np.asarray(drawn, np.float64)


def by_step(steps: int, count: int, *, seed: int = 0) -> NDArray[np.float64]:
    """Normals of ``steps`` steps (rows) of ``count`` elements."""
    like = jax.ShapeDtypeStruct((count,), jnp.float32)
    key = stream(seed).key
    rows = jax.jit(jax.vmap(lambda step: gaussian(Stream(key, step), like)))
    return np.asarray(rows(jnp.arange(steps, dtype=jnp.uint32)), np.float64)


def by_key(keys: Array, count: int) -> NDArray[np.float64]:
    """Normals of step 0 for each key (rows), ``count`` elements each."""
    like = jax.ShapeDtypeStruct((count,), jnp.float32)
    rows = jax.jit(jax.vmap(lambda key: gaussian(Stream(key, jnp.uint32(0)), like)))
    return np.asarray(rows(keys), np.float64)


def seed_keys(count: int) -> Array:
    """The keys of the integer seeds 0, 1, 2, ..."""
    return jax.vmap(lambda seed: key_words(jax.random.key(seed)))(jnp.arange(count))


def chain_keys(count: int, *, seed: int = 0) -> Array:
    """One key per chain, folded from one key."""
    key = stream(seed).key
    return jax.vmap(lambda chain: fold(key, chain, 2))(jnp.arange(count, dtype=jnp.uint32))


def word_pairs(count: int, *, seed: int = 0, step: int = 0) -> NDArray[np.uint32]:
    """The two words of each of ``count`` elements, one element a row."""
    drawn = jax.jit(lambda stream: words(stream, (count,)))(stream(seed, step))
    return np.stack([np.asarray(word) for word in drawn], axis=1)
