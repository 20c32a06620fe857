"""Gradient estimators: what a sampler is told about U at each step.

An estimator is called with the step's random stream, the position and the data, and returns
the value and the gradient of U there, at full-data scale. It is the static part of a compiled
loop and compares equal when made of equal parts, so that repeated runs compile once; arrays go
in through ``data``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax import Array

from sundman import check, native, priors
from sundman.data.minibatch import epoch_rows, random_rows, take_rows
from sundman.noise import Stream, gaussian, substream
from sundman.posterior import Batch, Position, Posterior, model_params
from sundman.priors import Prior
from sundman.split import Split

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


@runtime_checkable
class RemembersGradients(Protocol):
    """A gradient estimator that carries something from step to step, such as old gradients."""

    def begin(self, position: PyTree, data: PyTree) -> PyTree:
        """What it remembers before the first step, at ``position``."""
        ...

    def recall(
        self, stream: Stream, position: PyTree, data: PyTree, memory: PyTree
    ) -> tuple[Array, PyTree, PyTree]:
        """(U, G) at ``position``, and what to remember from here on."""
        ...


def has_parts(gradient: GradientEstimator) -> bool:
    """Whether a part of U is cheaper than the whole."""
    return isinstance(gradient, (Minibatch, Streamed)) and gradient.posterior.is_sum


def in_parts(
    gradient: GradientEstimator,
    stream: Stream,
    position: PyTree,
    data: PyTree,
    memory: PyTree = (),
) -> tuple[Array, Array, PyTree, PyTree]:
    """A part of U that is cheap to have, U, G, and what to remember.

    What is not used of them is not computed. G has leaves of :class:`sundman.split.Split` where
    the native kernels are used.
    """
    if isinstance(gradient, RemembersGradients):
        value, grads, memory = gradient.recall(stream, position, data, memory)
        return value, value, grads, memory
    if has_parts(gradient):
        assert isinstance(gradient, (Minibatch, Streamed))
        found = _of_posterior(gradient.posterior, position, gradient.batch(stream, data))
        return *found, memory
    value, grads = gradient(stream, position, data)
    return value, value, grads, memory


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


def _of_posterior(
    posterior: Posterior, position: PyTree, batch: Batch
) -> tuple[Array, Array, PyTree]:
    """The likelihood's part of U, U and G on a batch; G in two parts where the kernels are used."""
    part, grads = jax.value_and_grad(posterior.scaled_loss)(position, batch)
    hyper = position.hyper if isinstance(position, Position) else {}
    hyper_grads = dict(grads.hyper) if hyper else {}
    log_prior, found = jnp.asarray(posterior.likelihood.log_hyper(hyper.get("likelihood"))), []
    if "likelihood" in hyper:
        pull = jax.grad(posterior.likelihood.log_hyper)(hyper["likelihood"])
        hyper_grads["likelihood"] = jax.tree.map(jnp.subtract, grads.hyper["likelihood"], pull)
    params, structure = jax.tree.flatten(model_params(position))
    rules = priors.assign(posterior.prior, model_params(position))
    for (path, prior), theta, grad in zip(
        rules, params, jax.tree.leaves(model_params(grads)), strict=True
    ):
        own = hyper.get(f"prior/{path}")
        log_density, grad, pull = _with_prior(prior, theta, grad, own)
        log_prior = log_prior + log_density
        found.append(grad)
        if own is not None:
            hyper_grads[f"prior/{path}"] = jax.tree.map(jnp.negative, pull)
    whole = jax.tree.unflatten(structure, found)
    return part, part - log_prior, Position(whole, hyper_grads) if hyper else whole


def _with_prior(
    prior: Prior, theta: Array, grad: Array, hyper: PyTree
) -> tuple[Array, Array | Split, PyTree]:
    """The log density of one array, its gradient with the prior's, and d log density / d hyper."""
    if prior.of_squares is None or not native.fits(theta):
        density, (pull, slope) = jax.value_and_grad(prior.log_density, (0, 1))(theta, hyper)
        return density, grad - pull, slope

    def log_density(squares: Array, hyper: PyTree) -> Array:
        assert prior.of_squares is not None
        return prior.of_squares(squares, theta.shape, hyper)

    split = Split(grad, theta, -2.0 * jax.grad(log_density)(jnp.float32(0.0), hyper))
    density, slope = jax.value_and_grad(log_density, 1)(split.products[2], hyper)
    return density, split, slope
