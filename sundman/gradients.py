"""Gradient estimators: what a sampler is told about U at each step.

An estimator is called with the step's random stream, the position and the data, and returns
the value and the gradient of U there, at full-data scale. It is the static part of a compiled
loop and compares equal when made of equal parts, so that repeated runs compile once; arrays go
in through ``data``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import jax
from jax import Array

from sundman import check
from sundman.data.minibatch import epoch_rows, random_rows, take_rows
from sundman.noise import Stream, gaussian, substream
from sundman.posterior import Batch, Posterior

PyTree = Any
Potential = Callable[[PyTree], Array]
_GRADIENT_NOISE = 1


class GradientEstimator(Protocol):
    """Value and (stochastic) gradient of U."""

    @property
    def data(self) -> PyTree:
        """The arrays it works on, or None."""
        ...

    def __call__(self, stream: Stream, position: PyTree, data: PyTree) -> tuple[Array, PyTree]:
        """(U, G) at ``position``, using the randomness of this step's ``stream``."""
        ...


@dataclass(frozen=True)
class Exact:
    """G = grad U by automatic differentiation."""

    potential: Potential
    data = None

    def __call__(self, stream: Stream, position: PyTree, data: PyTree) -> tuple[Array, PyTree]:
        """(U, grad U)."""
        del stream, data
        return jax.value_and_grad(self.potential)(position)


@dataclass(frozen=True)
class Noisy:
    """G = grad U + sigma xi with xi ~ N(0, I) fresh at each step: a model of minibatch noise."""

    potential: Potential
    sigma: float
    data = None

    def __call__(self, stream: Stream, position: PyTree, data: PyTree) -> tuple[Array, PyTree]:
        """(U, grad U + sigma xi)."""
        del data
        value, grads = jax.value_and_grad(self.potential)(position)
        xi = gaussian(substream(stream, _GRADIENT_NOISE), position)
        return value, jax.tree.map(lambda g, z: g + self.sigma * z, grads, xi)


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

    def __call__(self, stream: Stream, position: PyTree, data: Batch) -> tuple[Array, PyTree]:
        """(U, G) estimated on this step's rows."""
        size = self.posterior.size
        if self.batch_size is None:
            batch = data
        else:
            choose = random_rows if self.replace else epoch_rows
            rows, mask = choose(stream, size, self.batch_size)
            x, y = take_rows((data.x, data.y), rows)
            batch = Batch(x, y, mask)
        return jax.value_and_grad(self.posterior.potential)(position, batch)


@dataclass(frozen=True)
class Streamed:
    """G on the batches a host iterator gives: ``data`` is the step's batch."""

    posterior: Posterior
    data = None

    def __call__(self, stream: Stream, position: PyTree, data: Batch) -> tuple[Array, PyTree]:
        """(U, G) estimated on the batch."""
        del stream
        return jax.value_and_grad(self.posterior.potential)(position, Batch(*data))


def exact(potential: Potential) -> Exact:
    """The exact gradient of a potential."""
    return Exact(potential)


def noisy(potential: Potential, sigma: float) -> Noisy:
    """The exact gradient with white noise of standard deviation ``sigma`` per coordinate."""
    check.not_negative(sigma=sigma)
    return Noisy(potential, sigma)


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
