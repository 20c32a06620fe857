"""Importance sampling of rows: those that matter more are drawn more often, and count less.

    G = (1/|B|) sum_B grad l_i(theta) / p_i - grad log p(theta),    i drawn with probability p_i

with l_i the negative log likelihood of row i: the plain sum N/|B| grad l_i with weights
1 / (N p_i), unbiased for any positive p. The variance is least for p_i in proportion to
|grad l_i|; a bound on it does, such as |(x_i, 1)| of a generalised linear model, the default.
Zhao, Zhang (2015), "Stochastic optimization with importance sampling for regularized loss
minimization"; for Langevin dynamics Putcha, Nemeth, Fearnhead (2023), "Preferential subsampling
for stochastic gradient Langevin dynamics".

Rows are found by bisection of the cumulated probabilities, whole numbers of 2^-32; the weights
are those of the rounded probabilities, so that rounding makes no bias.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman.data.minibatch import take_rows
from sundman.gradients.base import PyTree
from sundman.gradients.minibatch import in_memory
from sundman.noise import Stream, fold, purposes, threefry2x32
from sundman.posterior import Batch, Posterior

_UNITS = 2.0**32


class Weighted(NamedTuple):
    """The rows, where each one's share of the 32-bit words ends, and 1 / p_i."""

    rows: Batch
    ends: Array
    inverse: Array


@dataclass(frozen=True)
class Importance:
    """G on rows drawn with replacement, with given probabilities."""

    posterior: Posterior
    batch_size: int
    data: Weighted = field(compare=False, repr=False)

    def chosen(self, stream: Stream, data: Weighted) -> Array:
        """The rows of this step."""
        key = fold(stream.key, stream.step, purposes.ROWS)
        counter = jnp.arange(self.batch_size, dtype=jnp.uint32)
        word, _ = threefry2x32((key[0], key[1]), (counter, jnp.zeros_like(counter)))
        return jnp.searchsorted(data.ends, word, side="right")

    def __call__(self, stream: Stream, position: PyTree, data: Weighted) -> tuple[Array, PyTree]:
        """(U, G) estimated on this step's rows."""
        rows = self.chosen(stream, data)
        x, y, inverse = take_rows((data.rows.x, data.rows.y, data.inverse), rows)

        def potential(at: PyTree) -> Array:
            log_prob = self.posterior.pointwise(at, x, y)
            return -jnp.sum(inverse * log_prob) / self.batch_size - self.posterior.log_prior(at)

        return jax.value_and_grad(potential)(position)


def _row_norms(posterior: Posterior) -> np.ndarray:
    """|(x_i, 1)|."""
    assert posterior.data is not None  # importance() refuses streamed data
    total = np.ones(posterior.size)
    for leaf in jax.tree.leaves(posterior.data.x):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ValueError(
                f"x has dtype {leaf.dtype.name}, whose rows have no norm to go by: give "
                "importance its probabilities, one for each row"
            )
        total += np.square(np.asarray(leaf, np.float64)).reshape(posterior.size, -1).sum(axis=1)
    return np.sqrt(total)


def _checked(probabilities: Any, size: int) -> np.ndarray:
    """As float64, of the right length, positive, finite, with the sum 1."""
    found = np.asarray(probabilities, np.float64)
    if found.shape != (size,):
        raise ValueError(
            f"probabilities must have one number for each of the {size} rows, shape ({size},); "
            f"got shape {found.shape}"
        )
    wrong = ~(np.isfinite(found) & (found > 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            "probabilities must be positive and finite, or rows would never be drawn; row "
            f"{row} has {float(found[row])!r}"
        )
    return found / found.sum()


def importance(posterior: Posterior, batch_size: int, *, probabilities: Any = None) -> Importance:
    """The gradient on rows drawn with given probabilities, with replacement.

    Args:
      posterior: with its data in memory.
      batch_size: rows a step.
      probabilities: one positive number for each row, normalised here; by default in proportion
        to |(x_i, 1)|, the norm of the row with a 1 for the intercept.
    """
    batches = in_memory("importance", posterior, batch_size, True, is_sum=True)
    wanted = _row_norms(posterior) if probabilities is None else probabilities
    p = _checked(wanted, posterior.size)
    ends = np.rint(np.cumsum(p) * _UNITS)
    ends[-1] = _UNITS
    shares = np.diff(ends, prepend=0.0)
    if not (shares > 0).all():
        row = int(np.argmin(shares))
        raise ValueError(
            f"row {row} has the probability {p[row]:.3g}, less than the 2**-32 a row can be drawn "
            "with: make it larger or leave the row out"
        )
    inverse = jnp.asarray(_UNITS / shares, jnp.float32)
    data = Weighted(batches.data, jnp.asarray(ends[:-1].astype(np.uint32)), inverse)
    return Importance(posterior, batch_size, data)
