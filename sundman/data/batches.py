"""Which rows a minibatch has, as a function of (key, step).

There is no order to store or to resume. Without replacement, an epoch is a pseudo-random
permutation of the rows, computed element by element: a Feistel network on the smallest near-square
table that holds N rows, walked until it lands below N (Black, Rogaway 2002). Every row comes once
an epoch, the last batch may be short, and batch n of a run can be had without the ones before it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.sharding import PartitionSpec

from sundman._types import PyTree
from sundman.noise import Purpose, Stream, fold, threefry2x32

DATA_AXIS = "data"
"""The axis of a mesh over which the rows of a minibatch are split."""
_ROUNDS = 8


def _mix(value: Array, key: Array, round_: Array) -> Array:
    word, _ = threefry2x32((key[0], key[1]), (value, jnp.full_like(value, round_)), 8)
    return word


def permute(index: Array, key: Array, size: int) -> Array:
    """The image of ``index`` (each below ``size``) under the permutation named by ``key``.

    Args:
      index: whole numbers below ``size``.
      key: two 32-bit words that name the permutation.
      size: the number of rows.

    Returns:
      Where each index goes, below ``size``.
    """
    rows = math.isqrt(size - 1) + 1
    columns = -(-size // rows)  # rows * columns - size < rows: few places to walk out of
    modulus = (jnp.uint32(rows), jnp.uint32(columns))

    def feistel(value: Array) -> Array:
        def two_rounds(n: Array, place: tuple[Array, Array]) -> tuple[Array, Array]:
            row, column = place
            row = (row + _mix(column, key, 2 * n) % modulus[0]) % modulus[0]
            column = (column + _mix(row, key, 2 * n + 1) % modulus[1]) % modulus[1]
            return row, column

        place = jnp.divmod(value, modulus[1])
        row, column = lax.fori_loop(jnp.uint32(0), jnp.uint32(_ROUNDS // 2), two_rounds, place)
        return row * modulus[1] + column

    def outside(value: Array) -> Array:
        return jnp.any(value >= size)

    def walk(value: Array) -> Array:
        return jnp.where(value >= size, feistel(value), value)

    first = feistel(index.astype(jnp.uint32))
    return first if rows * columns == size else lax.while_loop(outside, walk, first)


def epoch_rows(stream: Stream, size: int, batch_size: int) -> tuple[Array, Array | None]:
    """Rows of this step's batch, every row once an epoch; and which are real, if some are not.

    Args:
      stream: the randomness of this step, and its number.
      size: the number of rows of the data.
      batch_size: the number of rows of a batch.

    Returns:
      The rows; and a mask of the real ones if the last batch of an epoch is short, else None.
    """
    per_epoch = -(-size // batch_size)
    epoch, place = jnp.divmod(stream.step, jnp.uint32(per_epoch))
    index = place * jnp.uint32(batch_size) + jnp.arange(batch_size, dtype=jnp.uint32)
    if size % batch_size == 0:
        return permute(index, fold(stream.key, epoch, Purpose.ROWS), size), None
    real = index < size
    rows = permute(jnp.where(real, index, 0), fold(stream.key, epoch, Purpose.ROWS), size)
    return rows, real


def random_rows(stream: Stream, size: int, batch_size: int) -> tuple[Array, None]:
    """``batch_size`` rows drawn with replacement.

    Args:
      stream: the randomness of this step, and its number.
      size: the number of rows of the data.
      batch_size: the number of rows of a batch.

    Returns:
      The rows; and None, because all of them are real.
    """
    key = fold(stream.key, stream.step, Purpose.ROWS)
    counter = jnp.arange(batch_size, dtype=jnp.uint32)
    word, _ = threefry2x32((key[0], key[1]), (counter, jnp.zeros_like(counter)))
    return word % jnp.uint32(size), None


def symmetric_rows(stream: Stream, size: int, batch_size: int) -> tuple[Array, Array | None]:
    """Rows of this step's batch: an epoch, then the same batches backward, then a new epoch.

    Args:
      stream: the randomness of this step, and its number.
      size: the number of rows of the data.
      batch_size: the number of rows of a batch.

    Returns:
      The rows; and a mask of the real ones if a batch of an epoch is short, else None.
    """
    per_epoch = jnp.uint32(-(-size // batch_size))
    pair, place = jnp.divmod(stream.step, 2 * per_epoch)
    place = jnp.where(place < per_epoch, place, 2 * per_epoch - 1 - place)
    return epoch_rows(Stream(stream.key, pair * per_epoch + place), size, batch_size)


ORDERS: dict[str, Callable[[Stream, int, int], tuple[Array, Array | None]]] = {
    "shuffled": epoch_rows,
    "symmetric": symmetric_rows,
    "with_replacement": random_rows,
}
"""In which order rows come, by name."""


def take_rows(tree: PyTree, rows: Array) -> PyTree:
    """The given rows of every array of a pytree; on a mesh, each device has its part of them."""
    return jax.tree.map(lambda leaf: _split(jnp.take(leaf, rows, axis=0, mode="clip")), tree)


def _split(rows: Array) -> Array:
    """The rows over the axis ``data`` of the mesh that this is traced for, if there is one."""
    size = jax.sharding.get_abstract_mesh().shape.get(DATA_AXIS, 1)
    if size == 1 or len(rows) % size:
        return rows
    return lax.with_sharding_constraint(rows, PartitionSpec(DATA_AXIS))
