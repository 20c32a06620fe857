"""Likelihoods: the log probability of each example given the model's output.

A likelihood is a value: another noise level is another leaf, not another program. It may have
hyper-parameters of its own (an unknown noise level), sampled together with the weights. ``predict``
turns an output into what is averaged over draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import field
from typing import ClassVar, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman import check
from sundman._types import PyTree
from sundman.value import Number, Value, describe_value, public_name, static

HasShape: TypeAlias = Array | jax.ShapeDtypeStruct
_LOG_2PI = math.log(2.0 * math.pi)


class Normal(NamedTuple):
    """A normal predictive for each point."""

    mean: Array
    sd: Array


class Likelihood(Value):
    """What a likelihood is. Subclass it for one of your own; ``log_prob`` is all it needs."""

    name: ClassVar[str] = "likelihood"

    def __init_subclass__(cls, **kwargs: object) -> None:
        """A likelihood is called as its class is, in snake case."""
        super().__init_subclass__(**kwargs)
        cls.name = public_name(cls)

    @property
    def hyper(self) -> PyTree:
        """First hyper-parameters, or None if there are none."""
        return None

    def log_hyper(self, hyper: PyTree) -> Array | float:
        """Log density of the hyper-parameters.

        Args:
          hyper: hyper-parameters like :attr:`hyper`, or None.

        Returns:
          A scalar.
        """
        del hyper
        return 0.0

    def log_prob(self, outputs: PyTree, y: PyTree, hyper: PyTree) -> Array:
        """The log probability of each example.

        Args:
          outputs: the model's, one row per example.
          y: targets, one row per example.
          hyper: hyper-parameters like :attr:`hyper`, or None.

        Returns:
          An array of shape (batch,).
        """
        raise NotImplementedError(f"{type(self).__name__} has no log_prob(outputs, y, hyper)")

    def predict(self, outputs: PyTree, hyper: PyTree) -> PyTree:
        """The predictive of each example, averaged over draws; the outputs as they are.

        Args:
          outputs: the model's, one row per example.
          hyper: hyper-parameters like :attr:`hyper`, or None.

        Returns:
          A pytree of arrays with one row per example.
        """
        del hyper
        return outputs

    def check_targets(self, y: np.ndarray, outputs: HasShape) -> None:
        """Raise if y cannot be targets of a model with outputs of this shape.

        Args:
          y: all targets.
          outputs: the shapes and types of the model's outputs for one batch.
        """
        del y, outputs


def _like(outputs: Array, y: Array) -> Array:
    """The outputs in the shape of the targets: a trailing axis of one is dropped."""
    return outputs[..., 0] if outputs.ndim == y.ndim + 1 and outputs.shape[-1] == 1 else outputs


def _per_example(log_prob: Array) -> Array:
    return log_prob.reshape(log_prob.shape[0], -1).sum(axis=1)


def _check_shape(y: np.ndarray, outputs: HasShape) -> None:
    shape, wanted = tuple(y.shape[1:]), tuple(outputs.shape[1:])
    if shape != wanted and (*shape, 1) != wanted:
        raise ValueError(
            f"each target has shape {shape} but the model's output for one example has {wanted}"
        )


class Categorical(Likelihood):
    """Softmax cross-entropy: outputs are logits (batch, classes), y integers or one-hot rows."""

    def log_prob(self, outputs: Array, y: Array, hyper: PyTree) -> Array:
        """log softmax(outputs) at the label."""
        del hyper
        log_p = jax.nn.log_softmax(outputs)
        if y.ndim == outputs.ndim:
            return jnp.sum(log_p * y, axis=-1)
        return jnp.take_along_axis(log_p, y[..., None].astype(jnp.int32), axis=-1)[..., 0]

    def predict(self, outputs: Array, hyper: PyTree) -> Array:
        """Class probabilities."""
        del hyper
        return jax.nn.softmax(outputs)

    def check_targets(self, y: np.ndarray, outputs: HasShape) -> None:
        """Labels are whole numbers below the number of outputs, or one-hot rows of that many."""
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


class Bernoulli(Likelihood):
    """Logistic regression: outputs are logits (batch,) or (batch, 1), y in {0, 1}."""

    def log_prob(self, outputs: Array, y: Array, hyper: PyTree) -> Array:
        """y z - log(1 + e^z) for the logit z."""
        del hyper
        logits = _like(outputs, y)
        return _per_example(y * logits - jax.nn.softplus(logits))

    def predict(self, outputs: Array, hyper: PyTree) -> Array:
        """The probability of 1."""
        del hyper
        return jax.nn.sigmoid(outputs)

    def check_targets(self, y: np.ndarray, outputs: HasShape) -> None:
        """Targets are 0 or 1."""
        _check_shape(y, outputs)
        if not np.isin(y, (0, 1)).all():
            raise ValueError("targets of a Bernoulli likelihood must be 0 or 1")


class Poisson(Likelihood):
    """Counts: outputs are log rates (batch,) or (batch, 1), y whole numbers."""

    def log_prob(self, outputs: Array, y: Array, hyper: PyTree) -> Array:
        """y log(rate) - rate - log(y!)."""
        del hyper
        log_rate = _like(outputs, y)
        log_factorial = jax.scipy.special.gammaln(y + 1.0)
        return _per_example(y * log_rate - jnp.exp(log_rate) - log_factorial)

    def predict(self, outputs: Array, hyper: PyTree) -> Array:
        """The rate."""
        del hyper
        return jnp.exp(outputs)

    def check_targets(self, y: np.ndarray, outputs: HasShape) -> None:
        """Targets are whole numbers, 0 or more."""
        _check_shape(y, outputs)
        if (y < 0).any() or (y != np.floor(y)).any():
            raise ValueError("targets of a Poisson likelihood must be whole numbers, 0 or more")


class Gaussian(Likelihood):
    """N(output, noise^2); with ``noise=None`` the noise level is learned with the weights.

    Args:
      noise: the standard deviation, or None.
      log_noise_prior: mean and standard deviation of log(noise), normal a priori if learned.
    """

    noise: Number | None = None
    log_noise_prior: tuple[Number, Number] = field(default=(-1.0, 1.0), kw_only=True)

    def __post_init__(self) -> None:
        if self.noise is not None:
            self._settle(noise=check.positive)
        prior = self.log_noise_prior
        if not isinstance(prior, (tuple, list)) or len(prior) != 2:
            raise TypeError(f"log_noise_prior must be a pair (mean, standard deviation): {prior!r}")
        check.number(**{"log_noise_prior[0]": prior[0]})
        check.positive(**{"log_noise_prior[1]": prior[1]})
        self._set(log_noise_prior=tuple(float(x) if check.known(x) else x for x in prior))

    @property
    def hyper(self) -> PyTree:
        """The mean of log(noise), if it is learned."""
        return (
            None if self.noise is not None else {"log_noise": jnp.float32(self.log_noise_prior[0])}
        )

    def log_hyper(self, hyper: PyTree) -> Array | float:
        """log N(log_noise; mean, sd^2)."""
        if self.noise is not None:
            return 0.0
        mean, sd = self.log_noise_prior
        z = (hyper["log_noise"] - mean) / sd
        return -0.5 * z * z - jnp.log(sd) - 0.5 * _LOG_2PI

    def _log_noise(self, hyper: PyTree) -> Array:
        return hyper["log_noise"] if self.noise is None else jnp.log(self.noise)

    def log_prob(self, outputs: Array, y: Array, hyper: PyTree) -> Array:
        """log N(y; output, noise^2), added up over several outputs."""
        log_noise = self._log_noise(hyper)
        z = (y - _like(outputs, y)) * jnp.exp(-log_noise)
        return _per_example(-0.5 * z * z - log_noise - 0.5 * _LOG_2PI)

    def predict(self, outputs: Array, hyper: PyTree) -> Normal:
        """The output and the noise level."""
        return Normal(outputs, jnp.broadcast_to(jnp.exp(self._log_noise(hyper)), outputs.shape))

    def check_targets(self, y: np.ndarray, outputs: HasShape) -> None:
        """Targets have the shape of the outputs."""
        _check_shape(y, outputs)


class HeteroscedasticGaussian(Likelihood):
    """N(mean, sd^2) with both from the model: outputs (batch, 2) are mean and log sd."""

    def log_prob(self, outputs: Array, y: Array, hyper: PyTree) -> Array:
        """log N(y; mean, sd^2)."""
        del hyper
        mean, log_sd = outputs[..., 0], outputs[..., 1]
        z = (y.reshape(mean.shape) - mean) * jnp.exp(-log_sd)
        return -0.5 * z * z - log_sd - 0.5 * _LOG_2PI

    def predict(self, outputs: Array, hyper: PyTree) -> Normal:
        """Mean and sd."""
        del hyper
        return Normal(outputs[..., 0], jnp.exp(outputs[..., 1]))

    def check_targets(self, y: np.ndarray, outputs: HasShape) -> None:
        """One target per example, two outputs."""
        if outputs.shape[-1] != 2 or y.size != y.shape[0]:
            raise ValueError(
                "a heteroscedastic Gaussian needs outputs (batch, 2), mean and log sd, and one "
                f"target per example; got outputs {outputs.shape} and targets {y.shape}"
            )


class FromFunction(Likelihood):
    """A function (outputs, y) -> log probability of each example as a likelihood."""

    function: Callable[[PyTree, PyTree], Array] = static()
    name: str = static(init=False)  # type: ignore[misc]  # of the function, not of the class

    def __post_init__(self) -> None:
        self._set(name=getattr(self.function, "__name__", type(self.function).__name__))

    def log_prob(self, outputs: PyTree, y: PyTree, hyper: PyTree) -> Array:
        """``function(outputs, y)``."""
        del hyper
        return self.function(outputs, y)

    def __repr__(self) -> str:
        """The function's name: it is given to a posterior as it is."""
        return describe_value(self.function)


categorical = Categorical
bernoulli = Bernoulli
poisson = Poisson
gaussian = Gaussian
heteroscedastic_gaussian = HeteroscedasticGaussian


def as_likelihood(likelihood: Likelihood | Callable[[PyTree, PyTree], Array]) -> Likelihood:
    """A likelihood; a function (outputs, y) -> log probability per example is wrapped."""
    if isinstance(likelihood, Likelihood):
        return likelihood
    if isinstance(likelihood, type) and issubclass(likelihood, Likelihood):
        ours = likelihood.__module__ == __name__
        name = f"likelihoods.{likelihood.name}" if ours else likelihood.__qualname__
        raise TypeError(f"the likelihood {name} is not called: write {name}()")
    if not callable(likelihood):
        raise TypeError(
            "likelihood must be one of sundman.likelihoods or a function (outputs, y) -> log "
            f"probability of each example; got {likelihood!r}"
        )
    return FromFunction(likelihood)
