"""The posterior of a model: the one place that knows N, the prior and the temperature.

    U(theta) = -sum_i log p(y_i | x_i, theta) - log p(theta)

estimated on a minibatch B by scaling its sum with N / |B|. Samplers see U at full-data scale, in
physical time dt; a deep-learning step h on the mean loss is the time dt = h / N.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman import check, likelihoods, priors
from sundman.data.host import HostBatches
from sundman.likelihoods import Likelihood
from sundman.priors import Rules

PyTree = Any
Model = Callable[[PyTree, Any], Any]
_CATEGORICAL = likelihoods.categorical()
_STANDARD_NORMAL = priors.gaussian(1.0)


class Batch(NamedTuple):
    """Examples, and which of them count (``None``: all)."""

    x: Any
    y: Any
    mask: Array | None = None


class Position(NamedTuple):
    """Where a hierarchical model's chain is: the model's parameters and the hyper-parameters."""

    params: PyTree
    hyper: PyTree


def model_params(position: PyTree) -> PyTree:
    """The model's parameters in a position, with or without hyper-parameters."""
    return position.params if isinstance(position, Position) else position


def _pair(data: Any) -> tuple[Any, Any]:
    if not isinstance(data, (tuple, list)) or len(data) != 2:
        raise TypeError("data must be a pair (x, y), or sundman.data.HostBatches")
    x, y = (jax.tree.map(np.asarray, part) for part in data)
    return x, y


class Posterior:
    """The posterior of ``apply(params, x)`` with a likelihood, a prior and data.

    Args:
      apply: the model, (params, x) -> outputs; params any pytree of float arrays.
      likelihood: one of :mod:`sundman.likelihoods`, or (outputs, y) -> log probabilities.
      prior: one of :mod:`sundman.priors` for all parameters, or a mapping from parameter paths.
      data: (x, y) arrays with one row per example, or :class:`sundman.data.HostBatches`.
      temperature: T of the target exp(-U/T); 1 is the Bayesian posterior.
    """

    def __init__(
        self,
        apply: Model,
        *,
        data: Any,
        likelihood: Likelihood | Callable = _CATEGORICAL,
        prior: Rules = _STANDARD_NORMAL,
        temperature: float = 1.0,
    ) -> None:
        if not callable(apply):
            raise TypeError(f"apply must be a function (params, x) -> outputs, got {apply!r}")
        check.not_negative(temperature=temperature)
        priors.check_rules(prior)
        self.apply = apply
        self.likelihood = likelihoods.as_likelihood(likelihood)
        self.prior = prior
        self.temperature = temperature
        if isinstance(data, HostBatches):
            self.host, self.size, self._targets = data, data.size, None
            self.data: Batch | None = None
        else:
            x, y = _pair(data)
            self.host, self.size, self._targets = None, check.examples(x, y), y
            self.data = jax.tree.map(jnp.asarray, Batch(x, y))

    def step(self, h: float) -> float:
        """The physical time of a learning rate h on the mean loss U/N: dt = h / N."""
        check.positive(h=h)
        return h / self.size

    def learning_rate(self, dt: float) -> float:
        """The learning rate on the mean loss of a physical time: h = N dt."""
        return dt * self.size

    def position(self, params: PyTree) -> PyTree:
        """``params`` with the first hyper-parameters of prior and likelihood, if there are any.

        A position that has them is kept. Checks the prior rules, the model's output and the labels
        against each other.
        """
        check.params(params, "params")
        given = jax.tree.map(jnp.asarray, params)
        params = model_params(given)
        hyper: dict[str, Any] = {}
        for (path, prior), leaf in zip(
            priors.assign(self.prior, params), jax.tree.leaves(params), strict=True
        ):
            first = prior.hyper(leaf.shape, leaf.dtype)
            if first is not None:
                hyper[f"prior/{path}"] = first
        if self.likelihood.hyper is not None:
            hyper["likelihood"] = jax.tree.map(jnp.asarray, self.likelihood.hyper)
        if isinstance(given, Position):
            if jax.tree.map(jnp.shape, given.hyper) != jax.tree.map(jnp.shape, hyper):
                raise ValueError(
                    "the hyper-parameters of this position are not those of the prior and the "
                    f"likelihood: it has {sorted(given.hyper)}, they have {sorted(hyper)}"
                )
            hyper = given.hyper
        position = Position(params, hyper) if hyper else params
        self._check_model(position)
        return position

    def _check_model(self, position: PyTree) -> None:
        batch = self.data if self.host is None else Batch(*self.host.peek())
        assert batch is not None  # there is one of data and host
        x, y = jax.tree.map(lambda leaf: leaf[:2], (batch.x, batch.y))
        outputs = jax.eval_shape(self.apply, model_params(position), x)
        targets = batch.y if self._targets is None else self._targets
        if isinstance(targets, np.ndarray) and hasattr(outputs, "shape"):
            self.likelihood.check_targets(targets, outputs)
        log_prob = jax.eval_shape(self.pointwise, position, x, y)
        wanted = (len(jax.tree.leaves(y)[0]),)
        if getattr(log_prob, "shape", None) != wanted:
            raise ValueError(
                f"the likelihood {self.likelihood.name} must give one log probability per "
                f"example, shape {wanted} for {wanted[0]}; got {log_prob}"
            )

    def log_prior(self, position: PyTree) -> Array:
        """log p(theta), hyper-parameters included."""
        params = model_params(position)
        hyper = position.hyper if isinstance(position, Position) else {}
        total = self.likelihood.log_hyper(hyper.get("likelihood"))
        for (path, prior), leaf in zip(
            priors.assign(self.prior, params), jax.tree.leaves(params), strict=True
        ):
            total = total + prior.log_density(leaf, hyper.get(f"prior/{path}"))
        return jnp.asarray(total)

    def log_likelihood(self, position: PyTree, batch: Any = None) -> Array:
        """Sum of log p(y_i | x_i, theta) over a batch; over all data if none is given."""
        x, y, mask = self._batch(batch)
        outputs = self.apply(model_params(position), x)
        log_prob = self.likelihood.log_prob(outputs, y, self._likelihood_hyper(position))
        return jnp.sum(log_prob if mask is None else jnp.where(mask, log_prob, 0.0))

    def scaled_loss(self, position: PyTree, batch: Any = None) -> Array:
        """The likelihood's part of U estimated on a batch: -(N/|B|) log_likelihood(batch)."""
        _, y, mask = self._batch(batch)
        rows = len(jax.tree.leaves(y)[0]) if mask is None else jnp.sum(mask)
        return -(self.size / rows) * self.log_likelihood(position, batch)

    def potential(self, position: PyTree, batch: Any = None) -> Array:
        """U estimated on a batch: -(N/|B|) log_likelihood(batch) - log_prior."""
        return self.scaled_loss(position, batch) - self.log_prior(position)

    @property
    def is_sum(self) -> bool:
        """Whether the potential is that of this class: likelihood plus prior."""
        return type(self).potential is Posterior.potential

    def gradient(self, position: PyTree, batch: Any = None) -> PyTree:
        """Gradient of :meth:`potential`: the stochastic gradient of U at full-data scale."""
        return jax.grad(self.potential)(position, batch)

    def predict(self, position: PyTree, x: Any) -> Any:
        """The predictive of one position: class probabilities, or mean and sd."""
        outputs = self.apply(model_params(position), x)
        return self.likelihood.predict(outputs, self._likelihood_hyper(position))

    def pointwise(self, position: PyTree, x: Any, y: Any) -> Array:
        """log p(y_i | x_i, theta) for each example."""
        outputs = self.apply(model_params(position), x)
        return self.likelihood.log_prob(outputs, y, self._likelihood_hyper(position))

    def _likelihood_hyper(self, position: PyTree) -> PyTree:
        return position.hyper.get("likelihood") if isinstance(position, Position) else None

    def _batch(self, batch: Any) -> Batch:
        if batch is not None:
            return Batch(*batch)
        if self.data is None:
            raise ValueError("this posterior streams its data: give a batch (x, y)")
        return self.data
