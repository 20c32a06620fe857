"""SAGA: the last gradient of every row is kept, and their sum corrected by the batch.

    G      = S + (N/|B|) sum_B [grad l_i(theta) - t_i] - grad log p(theta),    S = sum_i t_i
    t_i   <- grad l_i(theta)   for i in B,    S <- S + sum_B [grad l_i(theta) - t_i]

with l_i the negative log likelihood of row i. Unbiased given the past because every batch is
drawn anew, its rows distinct: within an epoch without replacement the rows that come are those
with the oldest t_i, and G would lean towards them. No full pass after the first, but N d numbers
per chain. Dubey et al. (2016), "Variance reduction in stochastic gradient Langevin dynamics",
after Defazio, Bach, Lacoste-Julien (2014).

U is the plain minibatch estimate. S is kept by compensated summation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.custom_batching import custom_vmap

from sundman import check
from sundman._types import PyTree
from sundman.data.minibatch import permute, take_rows
from sundman.gradients.base import RemembersGradients
from sundman.gradients.minibatch import in_memory
from sundman.noise import Purpose, Stream, fold
from sundman.posterior import Batch, Posterior
from sundman.split import dense
from sundman.value import static

_ROWS_PER_PASS = 256
GIGABYTE = 10**9


class Table(NamedTuple):
    """The last gradient of every row, their sum, and what rounding took from the sum."""

    each: PyTree
    total: PyTree
    lost: PyTree


def _room(size: int, each: int, limit: int, chains: int = 1) -> Callable[[Array], Array]:
    """An identity that raises if tables of ``each`` bytes for all lanes of a ``vmap`` are large."""
    if chains * each > limit:
        raise ValueError(
            f"saga keeps the gradient of each of the {size} rows, {each / GIGABYTE:.3g} GB a "
            f"chain: for {chains} chains {chains * each / GIGABYTE:.3g} GB, more than the limit "
            f"of {limit / GIGABYTE:.3g} GB. Use svrg or control_variate, fewer chains or a larger "
            "limit_bytes"
        )

    @custom_vmap
    def identity(leaf: Array) -> Array:
        return leaf

    @identity.def_vmap
    def _lanes(lanes: int, batched: list[bool], leaf: Array) -> tuple[Array, bool]:
        return _room(size, each, limit, chains * lanes)(leaf), batched[0]

    return identity


class Saga(RemembersGradients):
    """G by the table of the rows' last gradients; what it remembers is that table."""

    posterior: Posterior
    batch_size: int = static()
    limit_bytes: int = static(default=GIGABYTE, kw_only=True)

    def _data(self) -> tuple[Any, Any]:
        data = self.posterior.data
        assert isinstance(data, Batch)  # saga() refuses streamed data
        return data.x, data.y

    def _row(self, position: PyTree, row: tuple[Any, Any]) -> tuple[Array, PyTree]:
        """l_i and its gradient."""
        x, y = jax.tree.map(lambda leaf: leaf[None], row)

        def loss(at: PyTree) -> Array:
            return -self.posterior.log_likelihood_of_rows(at, x, y)[0]

        return jax.value_and_grad(loss)(position)

    def begin(self, position: PyTree) -> Table:
        """The table of all rows' gradients at the first position."""
        leaves, structure = jax.tree.flatten(position)
        each = self.posterior.size * sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
        first = _room(self.posterior.size, each, self.limit_bytes)(leaves[0])
        position = jax.tree.unflatten(structure, [first, *leaves[1:]])
        table = lax.map(
            lambda row: self._row(position, row)[1], self._data(), batch_size=_ROWS_PER_PASS
        )
        total = jax.tree.map(lambda leaf: jnp.sum(leaf, axis=0), table)
        return Table(table, total, jax.tree.map(jnp.zeros_like, total))

    def recall(
        self, stream: Stream, position: PyTree, memory: Table, batch: Any = None
    ) -> tuple[Array, PyTree, Table]:
        """(U, G), and the table with this batch's gradients in it."""
        del batch
        index = jnp.arange(self.batch_size, dtype=jnp.uint32)
        rows = permute(index, fold(stream.key, stream.step, Purpose.ROWS), self.posterior.size)
        losses, new = jax.vmap(self._row, (None, 0))(position, take_rows(self._data(), rows))
        old = take_rows(memory.each, rows)
        change = jax.tree.map(lambda one, other: jnp.sum(one - other, axis=0), new, old)
        scale = self.posterior.size / self.batch_size
        grads = jax.tree.map(lambda s, c: s + scale * c, memory.total, change)
        _, value, grads = self.posterior.add_prior(position, scale * jnp.sum(losses), grads)
        each = jax.tree.map(lambda table, now: table.at[rows].set(now), memory.each, new)
        added = jax.tree.map(jnp.subtract, change, memory.lost)
        total = jax.tree.map(jnp.add, memory.total, added)
        lost = jax.tree.map(lambda s, before, a: (s - before) - a, total, memory.total, added)
        return value, dense(grads), Table(each, total, lost)


def saga(posterior: Posterior, batch_size: int, *, limit_bytes: int = GIGABYTE) -> Saga:
    """The minibatch gradient corrected by the last gradient of every row.

    Args:
      posterior: with its data in memory.
      batch_size: rows a step, distinct and drawn anew at each.
      limit_bytes: how large the tables of all chains together may be.

    Returns:
      The estimator.
    """
    in_memory("saga", posterior, batch_size, False, row_by_row=True)
    check.count("limit_bytes", limit_bytes, least=1)
    return Saga(posterior, int(batch_size), limit_bytes=int(limit_bytes))
