"""The gradient of a posterior on minibatches of its data.

G = -(N/|B|) sum_B grad log p(y_i | x_i, theta) - grad log p(theta)
"""

from __future__ import annotations

from jax import Array

from sundman import check
from sundman._types import PyTree
from sundman.data.batches import ORDERS, take_rows
from sundman.gradients.base import GradientEstimator
from sundman.native.split_gradient import dense
from sundman.noise import Stream
from sundman.posterior import Batch, BatchLike, Evaluation, Posterior
from sundman.value import static


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
) -> Minibatch:
    """Minibatches for an estimator that comes back to rows; raises if it cannot.

    Args:
      name: of the estimator, for errors.
      posterior: with its data in memory.
      batch_size: rows a step.
      order: of the rows, as in :func:`minibatch`.

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
    check.count("batch_size", batch_size, least=1)
    batches = minibatch(posterior, batch_size, order=order)
    assert isinstance(batches, Minibatch)  # the data are in memory
    return batches
