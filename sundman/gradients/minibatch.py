"""The gradient of a posterior on minibatches of its data.

    G = -(N/|B|) sum_B grad log p(y_i | x_i, theta) - grad log p(theta)

Importance sampling draws those rows more often that matter more, and they count less:

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

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from numpy.typing import ArrayLike

from sundman import check
from sundman._types import PyTree
from sundman.data.batches import ORDERS, take_rows
from sundman.gradients.base import GradientEstimator
from sundman.native.split_gradient import dense
from sundman.noise import Purpose, Stream, fold, threefry2x32
from sundman.posterior import Batch, BatchLike, Evaluation, Posterior
from sundman.value import array, static

_UNITS = 2.0**32


class _OnBatches(GradientEstimator):
    """G of a posterior on a batch of its rows at each step."""

    posterior: Posterior

    def batch(self, stream: Stream, batch: BatchLike | None = None) -> Batch:
        """The rows of this step."""
        raise NotImplementedError

    @property
    def parts_differ(self) -> bool:
        """The likelihood's part is cheaper than U, unless the posterior has a U of its own."""
        return self.posterior.overrides("potential") is None

    def evaluate(
        self, stream: Stream, position: PyTree, memory: PyTree = (), batch: BatchLike | None = None
    ) -> tuple[Evaluation, PyTree]:
        """U and G on this step's rows."""
        return self.posterior.value_and_grad(position, self.batch(stream, batch)), memory

    def __call__(
        self, stream: Stream, position: PyTree, batch: BatchLike | None = None
    ) -> tuple[Array, PyTree]:
        """(U, G) on this step's rows."""
        _, value, grads = self.posterior.value_and_grad(position, self.batch(stream, batch))
        return value, dense(grads)


class Minibatch(_OnBatches):
    """G on ``batch_size`` rows of a posterior's in-memory data; all rows if it is None."""

    batch_size: int | None = static(default=None)
    order: str = static(default="shuffled", kw_only=True)

    def batch(self, stream: Stream, batch: BatchLike | None = None) -> Batch:
        """The rows of this step, drawn from the posterior's data."""
        del batch
        data = self.posterior.data
        assert isinstance(data, Batch)  # a streamed posterior has Streamed
        if self.batch_size is None:
            return data
        rows, mask = ORDERS[self.order](stream, self.posterior.size, self.batch_size)
        x, y = take_rows((data.x, data.y), rows)
        return Batch(x, y, mask)


class Streamed(_OnBatches):
    """G on the batches a host iterator gives, one at each step."""

    def batch(self, stream: Stream, batch: BatchLike | None = None) -> Batch:
        """The batch that is given."""
        del stream
        if batch is None:
            raise ValueError("this posterior streams its data: give a batch (x, y)")
        return Batch(*batch)


def minibatch(
    posterior: Posterior, batch_size: int | None, *, order: str = "shuffled"
) -> Minibatch | Streamed:
    """The gradient of a posterior on minibatches.

    Args:
      posterior: whose gradient it is; with host batches these are the minibatches.
      batch_size: rows a step; None takes all of them.
      order: ``"shuffled"``, each row once an epoch; ``"symmetric"``, an epoch and then the same
        batches backward; ``"with_replacement"``, rows drawn independently.

    Returns:
      The estimator.
    """
    check.choice("order", order, tuple(ORDERS))
    if posterior.host is not None:
        if order != "shuffled":
            raise ValueError(
                f"order={order!r} chooses rows of data in memory, but host batches come once and "
                "in an order of their own: give the posterior the data (x, y), or leave order out"
            )
        if batch_size is not None:
            raise ValueError("batch_size is set by the host batches themselves: leave it out")
        return Streamed(posterior)
    if batch_size is not None:
        check.count("batch_size", batch_size, least=1)
        if batch_size > posterior.size:
            raise ValueError(
                f"batch_size={batch_size} is more than the {posterior.size} rows of the data"
            )
        batch_size = int(batch_size)
    return Minibatch(posterior, batch_size, order=order)


def in_memory(
    name: str,
    posterior: Posterior,
    batch_size: int,
    order: str = "shuffled",
    *,
    row_by_row: bool = False,
) -> Minibatch:
    """Minibatches for an estimator that comes back to rows; raises if it cannot.

    Args:
      name: of the estimator, for errors.
      posterior: with its data in memory.
      batch_size: rows a step.
      order: of the rows, as in :func:`minibatch`.
      row_by_row: whether it needs the likelihood of single rows, apart from the prior.

    Returns:
      The minibatches.
    """
    if not isinstance(posterior, Posterior):
        raise TypeError(f"{name} needs a sundman.Posterior, which has data; got {posterior!r}")
    if posterior.host is not None:
        raise ValueError(
            f"{name} comes back to rows it has seen and needs in-memory data (x, y), not host "
            "batches: use plain minibatches with those"
        )
    own = posterior.overrides("potential", "scaled_loss")
    if row_by_row and own is not None:
        raise ValueError(
            f"{name} needs U as a sum over rows, but {type(posterior).__name__} has a {own} of its "
            "own: use svrg or control_variate"
        )
    check.count("batch_size", batch_size, least=1)
    batches = minibatch(posterior, batch_size, order=order)
    assert isinstance(batches, Minibatch)  # the data are in memory
    return batches


class Importance(GradientEstimator):
    """G on rows drawn with replacement, with given probabilities.

    Args:
      posterior: with its data in memory.
      batch_size: rows a step.
      ends: where each row's share of the 32-bit words ends, but for the last.
      inverse: 1 / p_i.
    """

    posterior: Posterior
    batch_size: int = static()
    ends: Array = array()
    inverse: Array = array()

    def chosen(self, stream: Stream) -> Array:
        """The rows of this step."""
        key = fold(stream.key, stream.step, Purpose.ROWS)
        counter = jnp.arange(self.batch_size, dtype=jnp.uint32)
        word, _ = threefry2x32((key[0], key[1]), (counter, jnp.zeros_like(counter)))
        return jnp.searchsorted(self.ends, word, side="right")

    def __call__(
        self, stream: Stream, position: PyTree, batch: BatchLike | None = None
    ) -> tuple[Array, PyTree]:
        """(U, G) estimated on this step's rows."""
        del batch
        data = self.posterior.data
        assert isinstance(data, Batch)  # importance() refuses streamed data
        x, y, inverse = take_rows((data.x, data.y, self.inverse), self.chosen(stream))

        def loss(at: PyTree) -> Array:
            log_prob = self.posterior.log_likelihood_of_rows(at, x, y)
            return -jnp.sum(inverse * log_prob) / self.batch_size

        part, grads = jax.value_and_grad(loss)(position)
        _, value, grads = self.posterior.add_prior(position, part, grads)
        return value, dense(grads)


def _row_norms(posterior: Posterior) -> np.ndarray:
    """|(x_i, 1)|."""
    assert isinstance(posterior.data, Batch)  # importance() refuses streamed data
    total = np.ones(posterior.size)
    for leaf in jax.tree.leaves(posterior.data.x):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ValueError(
                f"x has dtype {leaf.dtype.name}, whose rows have no norm to go by: give "
                "importance its probabilities, one for each row"
            )
        total += np.square(np.asarray(leaf, np.float64)).reshape(posterior.size, -1).sum(axis=1)
    return np.sqrt(total)


def _checked(probabilities: ArrayLike, size: int) -> np.ndarray:
    """As float64, of the right length, positive, finite, with the sum 1."""
    p = np.asarray(probabilities, np.float64)
    if p.shape != (size,):
        raise ValueError(
            f"probabilities must have one number for each of the {size} rows, shape ({size},); "
            f"got shape {p.shape}"
        )
    wrong = ~(np.isfinite(p) & (p > 0))
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(
            "probabilities must be positive and finite, or rows would never be drawn; row "
            f"{row} has {float(p[row])!r}"
        )
    return p / p.sum()


def importance(
    posterior: Posterior, batch_size: int, *, probabilities: ArrayLike | None = None
) -> Importance:
    """The gradient on rows drawn with given probabilities, with replacement.

    Args:
      posterior: with its data in memory.
      batch_size: rows a step.
      probabilities: one positive number for each row, normalised here; by default in proportion
        to |(x_i, 1)|, the norm of the row with a 1 for the intercept.

    Returns:
      The estimator.
    """
    in_memory("importance", posterior, batch_size, row_by_row=True)
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
    return Importance(posterior, int(batch_size), jnp.asarray(ends[:-1].astype(np.uint32)), inverse)
