"""Likelihoods: the log probability of each example given the model's output.

A likelihood may have hyper-parameters of its own (an unknown noise level), sampled together with
the weights. ``predict`` turns an output into what is averaged over draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman import check

PyTree = Any
_LOG_2PI = math.log(2.0 * math.pi)


class Normal(NamedTuple):
    """A normal predictive for each point."""

    mean: Array
    sd: Array


def _any_targets(y: np.ndarray, outputs: Any) -> None:
    del y, outputs


def _no_hyper_density(hyper: PyTree) -> float:
    del hyper
    return 0.0


@dataclass(frozen=True, eq=False)
class Likelihood:
    """A likelihood.

    Attributes:
      name: what it is.
      log_prob: (outputs, y, hyper) -> log probability of each example, shape (batch,).
      predict: (outputs, hyper) -> the predictive of each example.
      check_targets: (y, shape of the outputs) -> raises if y cannot be such targets.
      hyper: first hyper-parameters, or None.
      log_hyper: log density of the hyper-parameters.
    """

    name: str
    log_prob: Callable[[Any, Array, PyTree], Array]
    predict: Callable[[Any, PyTree], Any]
    check_targets: Callable[[np.ndarray, Any], None] = _any_targets
    hyper: PyTree = None
    log_hyper: Callable[[PyTree], Any] = _no_hyper_density


def _like(outputs: Array, y: Array) -> Array:
    """The outputs in the shape of the targets: a trailing axis of one is dropped."""
    return outputs[..., 0] if outputs.ndim == y.ndim + 1 and outputs.shape[-1] == 1 else outputs


def _per_example(log_prob: Array) -> Array:
    return log_prob.reshape(log_prob.shape[0], -1).sum(axis=1)


def _check_shape(y: np.ndarray, outputs: Any) -> None:
    got, wanted = tuple(y.shape[1:]), tuple(outputs.shape[1:])
    if got != wanted and (*got, 1) != wanted:
        raise ValueError(
            f"each target has shape {got} but the model's output for one example has {wanted}"
        )


def categorical() -> Likelihood:
    """Softmax cross-entropy: outputs are logits (batch, classes), y integers or one-hot rows."""

    def log_prob(outputs: Array, y: Array, hyper: PyTree) -> Array:
        del hyper
        log_p = jax.nn.log_softmax(outputs)
        if y.ndim == outputs.ndim:
            return jnp.sum(log_p * y, axis=-1)
        return jnp.take_along_axis(log_p, y[..., None].astype(jnp.int32), axis=-1)[..., 0]

    def check_targets(y: np.ndarray, outputs: Any) -> None:
        classes = outputs.shape[-1]
        if y.ndim == 2:
            if y.shape[1] != classes:
                raise ValueError(f"one-hot labels have {y.shape[1]} classes, the model {classes}")
            if y.min() < 0 or not np.allclose(y.sum(axis=1), 1.0, atol=1e-4):
                raise ValueError("one-hot labels must not be negative, and each row sum to 1")
            return
        if not np.issubdtype(y.dtype, np.integer):
            raise TypeError(f"class labels must be integers or one-hot, got dtype {y.dtype}")
        if y.min() < 0 or y.max() >= classes:
            raise ValueError(
                f"class labels must be in 0..{classes - 1}, the model's outputs; "
                f"got labels from {y.min()} to {y.max()}"
            )

    def predict(outputs: Array, hyper: PyTree) -> Array:
        del hyper
        return jax.nn.softmax(outputs)

    return Likelihood("categorical", log_prob, predict, check_targets)


def bernoulli() -> Likelihood:
    """Logistic regression: outputs are logits (batch,) or (batch, 1), y in {0, 1}."""

    def log_prob(outputs: Array, y: Array, hyper: PyTree) -> Array:
        del hyper
        logits = _like(outputs, y)
        return _per_example(y * logits - jax.nn.softplus(logits))

    def check_targets(y: np.ndarray, outputs: Any) -> None:
        _check_shape(y, outputs)
        if not np.isin(y, (0, 1)).all():
            raise ValueError("targets of a Bernoulli likelihood must be 0 or 1")

    def predict(outputs: Array, hyper: PyTree) -> Array:
        del hyper
        return jax.nn.sigmoid(outputs)

    return Likelihood("bernoulli", log_prob, predict, check_targets)


def poisson() -> Likelihood:
    """Counts: outputs are log rates (batch,) or (batch, 1), y whole numbers."""

    def log_prob(outputs: Array, y: Array, hyper: PyTree) -> Array:
        del hyper
        log_rate = _like(outputs, y)
        log_factorial = jax.scipy.special.gammaln(y + 1.0)
        return _per_example(y * log_rate - jnp.exp(log_rate) - log_factorial)

    def check_targets(y: np.ndarray, outputs: Any) -> None:
        _check_shape(y, outputs)
        if (y < 0).any() or (y != np.floor(y)).any():
            raise ValueError("targets of a Poisson likelihood must be whole numbers, 0 or more")

    def predict(outputs: Array, hyper: PyTree) -> Array:
        del hyper
        return jnp.exp(outputs)

    return Likelihood("poisson", log_prob, predict, check_targets)


def gaussian(
    noise: float | None = None, *, log_noise_prior: tuple[float, float] = (-1.0, 1.0)
) -> Likelihood:
    """N(output, noise^2); with ``noise=None`` the noise level is learned with the weights.

    ``log_noise_prior`` is the mean and standard deviation of log(noise), then normal a priori.
    """
    if noise is not None:
        check.positive(noise=noise)
    centre, spread = log_noise_prior
    check.positive(**{"log_noise_prior[1]": spread})

    def log_noise(hyper: PyTree) -> Any:
        return math.log(noise) if noise is not None else hyper["log_noise"]

    def log_prob(outputs: Array, y: Array, hyper: PyTree) -> Array:
        scale = log_noise(hyper)
        z = (y - _like(outputs, y)) * jnp.exp(-scale)
        return _per_example(-0.5 * z * z - scale - 0.5 * _LOG_2PI)

    def predict(outputs: Array, hyper: PyTree) -> Normal:
        return Normal(outputs, jnp.broadcast_to(jnp.exp(log_noise(hyper)), outputs.shape))

    def log_hyper(hyper: PyTree) -> Any:
        if noise is not None:
            return 0.0
        z = (hyper["log_noise"] - centre) / spread
        return -0.5 * z * z - math.log(spread) - 0.5 * _LOG_2PI

    hyper = None if noise is not None else {"log_noise": np.float32(centre)}
    return Likelihood("gaussian", log_prob, predict, _check_shape, hyper, log_hyper)


def heteroscedastic_gaussian() -> Likelihood:
    """N(mean, sd^2) with both from the model: outputs (batch, 2) are mean and log sd."""

    def log_prob(outputs: Array, y: Array, hyper: PyTree) -> Array:
        del hyper
        mean, log_sd = outputs[..., 0], outputs[..., 1]
        z = (y.reshape(mean.shape) - mean) * jnp.exp(-log_sd)
        return -0.5 * z * z - log_sd - 0.5 * _LOG_2PI

    def check_targets(y: np.ndarray, outputs: Any) -> None:
        if outputs.shape[-1] != 2 or y.size != y.shape[0]:
            raise ValueError(
                "a heteroscedastic Gaussian needs outputs (batch, 2), mean and log sd, and one "
                f"target per example; got outputs {outputs.shape} and targets {y.shape}"
            )

    def predict(outputs: Array, hyper: PyTree) -> Normal:
        del hyper
        return Normal(outputs[..., 0], jnp.exp(outputs[..., 1]))

    return Likelihood("heteroscedastic_gaussian", log_prob, predict, check_targets)


def as_likelihood(likelihood: Likelihood | Callable[[Any, Any], Array]) -> Likelihood:
    """A likelihood; a function (outputs, y) -> log probability per example is wrapped."""
    if isinstance(likelihood, Likelihood):
        return likelihood
    if not callable(likelihood):
        raise TypeError(
            "likelihood must be one of sundman.likelihoods or a function (outputs, y) -> log "
            f"probability of each example; got {likelihood!r}"
        )
    name = getattr(likelihood, "__name__", "user")
    return Likelihood(name, lambda o, y, hyper: likelihood(o, y), lambda o, hyper: o)
