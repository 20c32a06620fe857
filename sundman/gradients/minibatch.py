"""The gradient of a posterior on minibatches of its data.

G = -(N/|B|) sum_B grad log p(y_i | x_i, theta) - grad log p(theta)
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
from jax import Array

from sundman import check
from sundman.data.minibatch import epoch_rows, random_rows, take_rows
from sundman.gradients.base import GradientEstimator, PyTree
from sundman.noise import Stream
from sundman.posterior import Batch, Posterior


@dataclass(frozen=True)
class Minibatch:
    """G on ``batch_size`` rows of a posterior's in-memory data; all rows if it is None."""

    posterior: Posterior
    batch_size: int | None
    replace: bool

    @property
    def data(self) -> Batch:
        """The whole data set."""
        assert self.posterior.data is not None  # a streamed posterior has Streamed
        return self.posterior.data

    def batch(self, stream: Stream, data: Batch) -> Batch:
        """Rows for this step."""
        if self.batch_size is None:
            return data
        choose = random_rows if self.replace else epoch_rows
        rows, mask = choose(stream, self.posterior.size, self.batch_size)
        x, y = take_rows((data.x, data.y), rows)
        return Batch(x, y, mask)

    def __call__(self, stream: Stream, position: PyTree, data: Batch) -> tuple[Array, PyTree]:
        """(U, G) estimated on this step's rows."""
        return jax.value_and_grad(self.posterior.potential)(position, self.batch(stream, data))


@dataclass(frozen=True)
class Streamed:
    """G on the batches a host iterator gives: ``data`` is the step's batch."""

    posterior: Posterior
    data = None

    def batch(self, stream: Stream, data: Batch) -> Batch:
        """The batch."""
        del stream
        return Batch(*data)

    def __call__(self, stream: Stream, position: PyTree, data: Batch) -> tuple[Array, PyTree]:
        """(U, G) estimated on the batch."""
        return jax.value_and_grad(self.posterior.potential)(position, self.batch(stream, data))


def minibatch(
    posterior: Posterior, batch_size: int | None, *, replace: bool = False
) -> GradientEstimator:
    """The gradient of a posterior on minibatches, without replacement within an epoch."""
    if posterior.host is not None:
        if batch_size is not None:
            raise ValueError("batch_size is set by the host batches themselves: leave it out")
        return Streamed(posterior)
    if batch_size is not None:
        check.count("batch_size", batch_size, least=1)
        if batch_size > posterior.size:
            raise ValueError(
                f"batch_size={batch_size} is more than the {posterior.size} rows of the data"
            )
    return Minibatch(posterior, batch_size, replace)


def in_memory(
    name: str, posterior: Posterior, batch_size: int, replace: bool, *, is_sum: bool = False
) -> Minibatch:
    """Minibatches for the estimator ``name``, which needs to address rows; raises if it cannot.

    ``is_sum``: it needs the likelihood of single rows, apart from the prior.
    """
    if not isinstance(posterior, Posterior):
        raise TypeError(f"{name} needs a sundman.Posterior, which has data; got {posterior!r}")
    if posterior.host is not None:
        raise ValueError(
            f"{name} comes back to rows it has seen and needs in-memory data (x, y), not host "
            "batches: use plain minibatches with those"
        )
    if is_sum and not posterior.is_sum:
        raise ValueError(
            f"{name} needs U as a sum over rows, but {type(posterior).__name__} has a potential "
            "of its own: use svrg or control_variate"
        )
    check.count("batch_size", batch_size, least=1)
    batches = minibatch(posterior, batch_size, replace=replace)
    assert isinstance(batches, Minibatch)  # the data are in memory
    return batches
