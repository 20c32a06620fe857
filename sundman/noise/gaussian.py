"""Standard normals, and bounded numbers that stand for them in schemes of weak order one.

Normals are by Box-Muller with polynomials, both of a pair,

    z = sqrt(-2 log u) cos(2 pi v)   and   sqrt(-2 log u) cos(2 pi (v + 1/4))

for two elements whose counters differ in the bit 8 alone. XLA computes every element by itself,
so that generator, transform and update fuse into one pass; the native kernels compute a pair
from one pair of words.

u comes from all 32 bits of the first word, so single-precision tails reach 6.7 sigma; v from
the second word. Both functions are short polynomials because XLA fuses and vectorises those,
and a library call it does not. Double precision takes 64 bits for each and exact functions;
its normals are those of single precision with more digits, so one key means one stream.

The bounded numbers have the normal's first moments:

    two_point:    +-1 with probability 1/2 each              (moments to order 3)
    three_point:  +-sqrt(3) with probability 1/6 each, or 0  (moments to order 5)

An Euler step keeps its weak order with either. They are cheaper than a normal, and without tails.
"""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.typing import ArrayLike, DTypeLike

from sundman import native
from sundman._types import PyTree
from sundman.noise.stream import Stream, counters, map_leaves, words, words_at

# sin(2 pi s) / s in powers of s^2 on |s| <= 1/4, error 2.7e-8.
_SINE_COEFFICIENTS = (6.28318528, -41.34168067, 81.60248074, -76.58128456, 39.76072208)
# log(1 + f) / f in powers of f for 1 + f in [sqrt(1/2), sqrt(2)], error 3.1e-8.
_LOG_COEFFICIENTS = (
    0.99999997,
    -0.49999987,
    0.33334183,
    -0.25002153,
    0.19956977,
    -0.16560696,
    0.14949095,
    -0.14377331,
    0.08743945,
)
_LOG_2 = math.log(2.0)
# The bit that tells the elements of a pair apart, and what makes it a quarter of 2^32.
_PAIR_BIT = np.uint32(8)
_QUARTER_TURN = np.uint32(2**27)
_SQRT_HALF_BITS = 0x3F3504F3
_SIXTH_OF_WORDS = 2**32 // 6


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    total = jnp.float32(coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * x + jnp.float32(coefficient)
    return total


def _log_fraction(word: Array) -> Array:
    """log of (word + 1/2) / 2^32 in single precision."""
    bits = lax.bitcast_convert_type(word.astype(jnp.float32) + jnp.float32(0.5), jnp.int32)
    exponent = (bits - jnp.int32(_SQRT_HALF_BITS)) >> 23
    mantissa = lax.bitcast_convert_type(bits - (exponent << 23), jnp.float32)
    f = mantissa - jnp.float32(1.0)
    whole = (exponent - 32).astype(jnp.float32) * jnp.float32(_LOG_2)
    return whole + f * _polynomial(_LOG_COEFFICIENTS, f)


def _cosine_turn(word: Array) -> Array:
    """cos(2 pi v), v = word / 2^32 as a signed fraction of a turn, in single precision."""
    v = lax.bitcast_convert_type(word, jnp.int32).astype(jnp.float32) * jnp.float32(2.0**-32)
    s = jnp.float32(0.25) - jnp.abs(v)
    return s * _polynomial(_SINE_COEFFICIENTS, s * s)


def _single(stream: Stream, counter: Array) -> Array:
    first, second = words_at(stream, counter & ~_PAIR_BIT)
    radius = jnp.sqrt(jnp.maximum(jnp.float32(-2.0) * _log_fraction(first), jnp.float32(0.0)))
    return radius * _cosine_turn(second + (counter & _PAIR_BIT) * _QUARTER_TURN)


def _double(stream: Stream, counter: Array) -> Array:
    scale = 2.0**-32
    first, second = words_at(stream, counter & ~_PAIR_BIT)
    low_u, low_v = (w.astype(jnp.float64) for w in words_at(stream, counter & ~_PAIR_BIT, low=True))
    turned = second + (counter & _PAIR_BIT) * _QUARTER_TURN
    u = (first.astype(jnp.float64) + (low_u + 0.5) * scale) * scale
    v = (turned.astype(jnp.float64) + (low_v + 0.5) * scale) * scale
    return jnp.sqrt(-2.0 * jnp.log(u)) * jnp.cos(2.0 * math.pi * v)


def gaussian_leaf(stream: Stream, like: ArrayLike, offset: int) -> Array:
    """Independent N(0, 1) numbers for the elements of one array, the first being ``offset``."""
    return _draw(stream, jnp.shape(like), jnp.result_type(like), offset)


def _draw(stream: Stream, shape: tuple[int, ...], dtype: DTypeLike, offset: int) -> Array:
    if native.fits(jax.ShapeDtypeStruct(shape, dtype)):
        return native.normals(stream, shape, offset)
    counter = counters(stream, shape, offset)
    if dtype == jnp.float64:
        return _double(stream, counter)
    return _single(stream, counter).astype(dtype)


def gaussian(stream: Stream, like: PyTree) -> PyTree:
    """Independent N(0, 1) numbers with the structure, shapes and dtypes of ``like``."""
    return map_leaves(partial(_draw, stream), like)


def two_point(stream: Stream, like: PyTree) -> PyTree:
    """+1 or -1 with equal probability, shaped like ``like``."""

    def draw(shape: tuple[int, ...], dtype: DTypeLike, offset: int) -> Array:
        first, _ = words(stream, shape, offset)
        return jnp.where(first < jnp.uint32(2**31), 1.0, -1.0).astype(dtype)

    return map_leaves(draw, like)


def three_point(stream: Stream, like: PyTree) -> PyTree:
    """sqrt(3), -sqrt(3) or 0 with probabilities 1/6, 1/6, 2/3, shaped like ``like``."""

    def draw(shape: tuple[int, ...], dtype: DTypeLike, offset: int) -> Array:
        first, _ = words(stream, shape, offset)
        up = first < jnp.uint32(_SIXTH_OF_WORDS)
        down = first >= jnp.uint32(2**32 - _SIXTH_OF_WORDS)
        size = math.sqrt(3.0)
        return jnp.where(up, size, jnp.where(down, -size, 0.0)).astype(dtype)

    return map_leaves(draw, like)
