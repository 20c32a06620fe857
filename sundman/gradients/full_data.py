"""Passes over all rows of a posterior, or many: what a run looks at them for.

Rows come some thousand at a time, and differences to a reference are taken row by row before
anything is summed, so that U of a million rows keeps its digits in single precision; the sums of
the pieces are added up in double precision on the host. Positions are vectors here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax
from jax.flatten_util import ravel_pytree

from sundman._types import PyTree
from sundman.data.batches import permute, random_rows, take_rows
from sundman.noise import Stream
from sundman.posterior import Batch, Posterior

_ROWS = 16_384  # of a piece of a pass
_ROWS_OF_HESSIAN = 2_048
_FEWEST_ROWS = 256  # by which a change of the gradient is known
_SPOT_ROWS = 0x5907  # a word of the keys that choose them
_ELEMENTS = 2**24  # numbers that a piece of a pass holds at a time, about


class FullPass(NamedTuple):
    """U and its gradient at some positions, on all rows, in double precision.

    Attributes:
      value: U less U at the reference, (position,).
      grads: (position, d).
      losses: the likelihood's part of ``grads``, (position, d).
      reference: the likelihood's part of U at the reference.
    """

    value: np.ndarray
    grads: np.ndarray
    losses: np.ndarray
    reference: float


class Spots(NamedTuple):
    """U and its gradient at some positions, without the noise of minibatches.

    Attributes:
      value: U, less its mean over the positions, (position,).
      grads: (position, d).
      rows: of each position.
    """

    value: np.ndarray
    grads: np.ndarray
    rows: int


def spots(
    posterior: Posterior,
    example: PyTree,
    at: np.ndarray,
    budget: float,
    known: tuple[np.ndarray, np.ndarray] | None = None,
) -> Spots | None:
    """U and its gradient at some positions, on all rows if that is affordable.

    If not, on all rows at one position, and by what has changed since on fewer: near a mode that is
    as good.

    Args:
      posterior: with its data in memory.
      example: a position, for its structure.
      at: positions, (k, d).
      budget: rows that may be looked at, all positions together.
      known: a position at which the likelihood's part of the gradient over all rows is known, and
        that gradient; if None it is computed at the mean of the positions.

    Returns:
      What was found; None if too few rows are affordable.
    """
    middle = at.mean(axis=0)
    if budget >= len(at) * posterior.size:
        whole = full_pass(posterior, example, at, middle)
        return Spots(whole.value - whole.value.mean(), whole.grads, posterior.size)
    left = budget - (posterior.size if known is None else 0)
    rows = int(left // (2 * len(at)))
    if rows < min(_FEWEST_ROWS, posterior.size):
        return None
    if known is None:
        known = middle, full_pass(posterior, example, middle[None], middle).losses[0]
    middle, there = known
    value, grads = np.zeros(len(at)), np.zeros(at.shape)
    for number, here in enumerate(at):  # rows of its own each, so that their scatter averages out
        key = np.array([number, _SPOT_ROWS], np.uint32)
        part = full_pass(posterior, example, np.stack([here, middle]), middle, rows, key)
        missing = there - part.losses[1]
        value[number] = part.value[0] + (here - middle) @ missing
        grads[number] = part.grads[0] + missing
    value -= value.mean()
    return Spots(value, grads, rows)


class Curvature(NamedTuple):
    """U, its gradient and Hessian on some rows, scaled to all of them.

    Attributes:
      value: U less U at another position.
      grads: (d,).
      hessian: (d, d).
    """

    value: float
    grads: np.ndarray
    hessian: np.ndarray


def _rows_of(posterior: Posterior, index: Array) -> tuple[PyTree, PyTree]:
    data = posterior.data
    assert isinstance(data, Batch)  # whoever asks has seen to it
    return take_rows((data.x, data.y), index)


@partial(jax.jit, static_argnames=("rows",))
def _piece(
    posterior: Posterior,
    example: PyTree,
    at: Array,
    reference: Array,
    first: Array,
    end: Array,
    key: Array,
    shuffled: Array,
    *,
    rows: int,
) -> tuple[Array, Array, Array]:
    """Sums over some rows of l_i - l_i(reference), of their gradients, and of l_i(reference)."""
    unravel = ravel_pytree(example)[1]
    index = first + jnp.arange(rows)
    real = index < end
    other = permute(jnp.where(real, index, 0), key, posterior.size)
    index = jnp.where(shuffled, other.astype(index.dtype), index)
    x, y = _rows_of(posterior, index)

    def losses(flat: Array) -> Array:
        return jnp.where(real, -posterior.log_likelihood_of_rows(unravel(flat), x, y), 0.0)

    there = losses(reference)

    here, back = jax.vjp(losses, at)
    return jnp.sum(here - there), back(jnp.ones_like(here))[0], jnp.sum(there)


@jax.jit
def _prior(
    posterior: Posterior, example: PyTree, at: Array, reference: Array
) -> tuple[Array, Array]:
    """-log p(theta) less that of the reference, and its gradient."""
    unravel = ravel_pytree(example)[1]

    def potential(flat: Array) -> Array:
        return -posterior.log_prior(unravel(flat))

    value, slope = jax.value_and_grad(potential)(at)
    return value - potential(reference), slope


def full_pass(
    posterior: Posterior,
    example: PyTree,
    at: np.ndarray,
    reference: np.ndarray,
    rows: int | None = None,
    key: Array | np.ndarray | None = None,
) -> FullPass:
    """U and its gradient on all rows, or on some, scaled to all.

    Args:
      posterior: with its data in memory.
      example: a position, for its structure.
      at: positions, (k, d).
      reference: the one whose U is taken off, (d,).
      rows: how many; all if it is None.
      key: two words that choose them, if they are not all; some fixed ones if it is None.

    Returns:
      U, less U at the reference, and the gradient, with the likelihood's part of it.
    """
    dtype = ravel_pytree(example)[0].dtype
    other = np.asarray(reference, dtype)
    end = posterior.size if rows is None else min(rows, posterior.size)
    size = int(np.clip(_ELEMENTS // max(at.shape[1], 1), 256, _ROWS))
    values, grads, losses, whole = np.zeros(len(at)), np.zeros(at.shape), np.zeros(at.shape), 0.0
    scale = posterior.size / end
    words = np.zeros(2, np.uint32) if key is None else key
    for number, position in enumerate(np.asarray(at, dtype)):  # one program, however many there are
        change, slope, whole = 0.0, np.zeros(at.shape[1]), 0.0
        for first in range(0, end, size):
            found = _piece(
                posterior,
                example,
                position,
                other,
                np.int32(first),
                np.int32(end),
                words,
                np.bool_(end < posterior.size),
                rows=size,
            )
            one, two, three = (np.asarray(each, np.float64) for each in found)
            change, slope, whole = change + float(one), slope + two, whole + float(three)
        prior = _prior(posterior, example, position, other)
        value, pull = (np.asarray(each, np.float64) for each in prior)
        values[number], losses[number] = scale * change + float(value), scale * slope
        grads[number] = losses[number] + pull
    return FullPass(values, grads, losses, scale * whole)


@jax.jit
def _curvature(
    posterior: Posterior, example: PyTree, at: Array, other: Array, key: Array, rows: Array
) -> tuple[Array, Array, Array]:
    unravel = ravel_pytree(example)[1]

    def prior(flat: Array) -> Array:
        return -posterior.log_prior(unravel(flat))

    def piece(number: Array, total: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        place = number * _ROWS_OF_HESSIAN + jnp.arange(_ROWS_OF_HESSIAN, dtype=jnp.int32)
        real = place < rows
        index = permute(jnp.where(real, place, 0).astype(jnp.uint32), key, posterior.size)
        x, y = _rows_of(posterior, index)

        def losses(flat: Array) -> Array:
            return jnp.where(real, -posterior.log_likelihood_of_rows(unravel(flat), x, y), 0.0)

        def slope(flat: Array) -> Array:
            here, back = jax.vjp(losses, flat)
            return back(jnp.ones_like(here))[0]

        change = jnp.sum(losses(at) - losses(other))
        part = (change, slope(at), jax.jacfwd(slope)(at))
        return jax.tree.map(jnp.add, total, part)

    d = at.shape[0]
    nothing = (jnp.zeros((), at.dtype), jnp.zeros(d, at.dtype), jnp.zeros((d, d), at.dtype))
    pieces = (rows + _ROWS_OF_HESSIAN - 1) // _ROWS_OF_HESSIAN
    total = lax.fori_loop(0, pieces, piece, nothing)
    scale = posterior.size / rows
    own = (prior(at) - prior(other), jax.grad(prior)(at), jax.hessian(prior)(at))
    return jax.tree.map(lambda a, b: (scale * a + b).astype(a.dtype), total, own)


def curvature(
    posterior: Posterior, example: PyTree, at: np.ndarray, other: np.ndarray, key: Array, rows: int
) -> Curvature:
    """U against another position, its gradient and Hessian on ``rows`` rows, always the same ones.

    Args:
      posterior: with its data in memory.
      example: a position, for its structure.
      at: the position, (d,).
      other: the other one, (d,).
      key: two words that choose the rows; fewer rows are a part of more.
      rows: how many.

    Returns:
      All three, scaled to all rows.
    """
    dtype = ravel_pytree(example)[0].dtype
    here, there = (np.asarray(flat, dtype) for flat in (at, other))
    found = _curvature(posterior, example, here, there, key, np.int32(min(rows, posterior.size)))
    value, grads, hessian = (np.asarray(each, np.float64) for each in found)
    return Curvature(float(value), grads, 0.5 * (hessian + hessian.T))


class RowNoise(NamedTuple):
    """The covariance of rows' gradients L' grad l_i, times N^2: the noise of a batch of one.

    Attributes:
      plain: of the gradients themselves.
      change: of what they change by since a centre.
    """

    plain: np.ndarray
    change: np.ndarray


def _slopes_of_rows(
    posterior: Posterior, unravel: Callable[[Array], PyTree], at: Array, index: Array
) -> Array:
    """grad l_i of some rows, (row, d)."""

    def slope(row: PyTree) -> Array:
        def loss(flat: Array) -> Array:
            x, y = jax.tree.map(lambda leaf: leaf[None], row)
            return -posterior.log_likelihood_of_rows(unravel(flat), x, y)[0]

        return jax.grad(loss)(at)

    return jax.vmap(slope)(_rows_of(posterior, index))


@partial(jax.jit, static_argnames=("rows",))
def _row_noise(
    posterior: Posterior,
    example: PyTree,
    at: Array,
    centre: Array,
    scale: Array,
    key: Array,
    *,
    rows: int,
) -> tuple[Array, Array]:
    unravel = ravel_pytree(example)[1]

    def covariance(each: Array) -> Array:
        away = (each - each.mean(axis=0)) @ scale
        return away.T @ away / rows

    def one(item: tuple[Array, Array]) -> tuple[Array, Array]:
        number, flat = item
        index, _ = random_rows(Stream(key, number), posterior.size, rows)
        here, there = (_slopes_of_rows(posterior, unravel, x, index) for x in (flat, centre))
        return covariance(here), covariance(here - there)

    numbers = jnp.arange(len(at), dtype=jnp.uint32)
    plain, change = lax.map(one, (numbers, at))
    return plain.mean(axis=0), change.mean(axis=0)


def row_noise(
    posterior: Posterior,
    example: PyTree,
    at: np.ndarray,
    centre: np.ndarray,
    scale: np.ndarray,
    key: Array,
    *,
    rows: int,
) -> RowNoise:
    """How much the gradients of single rows vary, and how much what they change by since a centre.

    Args:
      posterior: with its data in memory.
      example: a position, for its structure.
      at: typical positions, (k, d), over which the covariances are averaged.
      centre: (d,).
      scale: L, a matrix.
      key: two words that choose the rows.
      rows: of each position, drawn anew.

    Returns:
      The covariances in the coordinates of L.
    """
    dtype = ravel_pytree(example)[0].dtype
    arrays = (np.asarray(each, dtype) for each in (at, centre, scale))
    found = _row_noise(posterior, example, *arrays, key, rows=rows)
    square = float(posterior.size) ** 2
    return RowNoise(*(square * np.asarray(each, np.float64) for each in found))


@partial(jax.jit, static_argnames=("rows",))
def slopes_of_rows(
    posterior: Posterior, example: PyTree, at: Array, centre: Array, key: Array, *, rows: int
) -> tuple[Array, Array]:
    """grad l_i of some rows at every position, and less that at a centre; (position, row, d).

    Args:
      posterior: with its data in memory.
      example: a position, for its structure.
      at: (k, d).
      centre: (d,).
      key: two words that choose the rows.
      rows: of each position, drawn anew.
    """
    unravel = ravel_pytree(example)[1]

    def one(item: tuple[Array, Array]) -> tuple[Array, Array]:
        number, flat = item
        index, _ = random_rows(Stream(key, number), posterior.size, rows)
        here, there = (_slopes_of_rows(posterior, unravel, x, index) for x in (flat, centre))
        return here, here - there

    return lax.map(one, (jnp.arange(len(at), dtype=jnp.uint32), at))


@partial(jax.jit, static_argnames=("rows",))
def slopes_by_chance(
    posterior: Posterior, example: PyTree, at: Array, signs: Array, key: Array, *, rows: int
) -> Array:
    """sum_i e_i grad l_i of some rows with random e, (k, d): it varies like a draw of the score.

    Args:
      posterior: with its data in memory.
      example: a position, for its structure.
      at: (d,).
      signs: e, of unit variance, (k, rows).
      key: two words that choose the rows.
      rows: how many.
    """
    unravel = ravel_pytree(example)[1]
    x, y = _rows_of(posterior, _chosen(posterior, key, rows))

    def losses(flat: Array) -> Array:
        return -posterior.log_likelihood_of_rows(unravel(flat), x, y)

    back = jax.vjp(losses, at)[1]
    return jax.vmap(lambda e: back(e)[0])(signs)


@jax.jit
def hessian_products(
    posterior: Posterior, example: PyTree, at: Array, ways: Array, key: Array, rows: Array
) -> Array:
    """The Hessian of U, by some rows and the prior, times each of ``ways``, (k, d).

    Args:
      posterior: with its data in memory.
      example: a position, for its structure.
      at: (d,).
      ways: (k, d).
      key: two words that choose the rows.
      rows: how many.
    """
    unravel = ravel_pytree(example)[1]

    def turned(potential: Callable[[Array], Array]) -> Array:
        return jax.vmap(jax.linearize(jax.grad(potential), at)[1])(ways)

    def piece(number: Array, total: Array) -> Array:
        place = number * _ROWS_OF_HESSIAN + jnp.arange(_ROWS_OF_HESSIAN, dtype=jnp.int32)
        real = place < rows
        index = permute(jnp.where(real, place, 0).astype(jnp.uint32), key, posterior.size)
        x, y = _rows_of(posterior, index)

        def losses(flat: Array) -> Array:
            each = -posterior.log_likelihood_of_rows(unravel(flat), x, y)
            return jnp.sum(jnp.where(real, each, 0.0))

        return total + turned(losses)

    pieces = (rows + _ROWS_OF_HESSIAN - 1) // _ROWS_OF_HESSIAN
    total = lax.fori_loop(0, pieces, piece, jnp.zeros_like(ways))
    own = turned(lambda flat: -posterior.log_prior(unravel(flat)))
    return ((posterior.size / rows) * total + own).astype(ways.dtype)


def _chosen(posterior: Posterior, key: Array, rows: int) -> Array:
    """Distinct rows, always the same of a key."""
    return permute(jnp.arange(rows, dtype=jnp.uint32), key, posterior.size)
