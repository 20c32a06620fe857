"""The posterior of a model: the one place that knows N, the prior and the temperature.

    U(theta) = -sum_i log p(y_i | x_i, theta) - log p(theta)

estimated on a minibatch B by scaling its sum with N / |B|. Samplers see U at full-data scale, in
physical time dt; :mod:`sundman.units` turns learning rates on the mean loss U/N into times.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman import check, likelihoods, native, priors, units
from sundman._types import PyTree
from sundman.data.base import as_examples, as_inputs
from sundman.data.streaming import HostBatches
from sundman.likelihoods import Likelihood
from sundman.native.split_gradient import SplitGradient, dense
from sundman.posterior.evaluation import (
    LIKELIHOOD,
    Batch,
    BatchLike,
    Evaluation,
    Model,
    Position,
    applying,
    hyper_params,
    likelihood_hyper,
    model_params,
    prior_name,
)
from sundman.priors import Prior, Rules
from sundman.priors.base import squares_suffice
from sundman.value import Number, Value, array, describe_value, static

_CATEGORICAL = likelihoods.categorical()
_STANDARD_NORMAL = priors.gaussian(1.0)

_FIXED = {
    "value_and_grad": "potential does not go through it",
    "gradient": "samplers take G from value_and_grad, not from it",
    "add_prior": "potential does not go through it",
    "log_likelihood_of_rows": "only estimators that go row by row go through it",
    "overrides": "it is how replaced methods are found",
}
"""The methods that no subclass may replace, and why not all that depends on U would follow."""


class _ByIdentity:
    """A model that has no hash, such as a dataclass of its own, taken for equal to itself only."""

    def __init__(self, apply: Model) -> None:
        self.apply = apply
        self.__qualname__ = type(apply).__qualname__

    def __call__(self, params: PyTree, x: PyTree) -> PyTree:
        return self.apply(params, x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and other.apply is self.apply

    def __hash__(self) -> int:
        return id(self.apply)


class Posterior(Value):
    """The posterior of ``apply(params, x)`` with a likelihood, a prior and data.

    A subclass may replace ``pointwise``, ``log_likelihood``, ``log_prior`` or ``potential``: every
    gradient estimator follows it, or refuses and says why. A subclass that replaces
    ``value_and_grad`` or another method that is only made of these is refused with a TypeError.

    Args:
      apply: the model, (params, x) -> outputs; params any pytree of float arrays.
      data: (x, y) arrays with one row per example, or :class:`sundman.data.HostBatches`.
      likelihood: one of :mod:`sundman.likelihoods`, or (outputs, y) -> log probabilities.
      prior: one of :mod:`sundman.priors` for all parameters, or a mapping from parameter paths.
      temperature: T of the target exp(-U/T); 1 is the Bayesian posterior. None leaves it to the
        sampler; a number given here and one given there must agree.
    """

    apply: Model = static()
    data: Batch | HostBatches = array(kw_only=True)
    likelihood: Likelihood = field(default=_CATEGORICAL, kw_only=True)
    prior: Prior | Rules = field(default=_STANDARD_NORMAL, kw_only=True)
    temperature: Number | None = field(default=None, kw_only=True)

    if TYPE_CHECKING:  # what it takes is more than what it has

        def __init__(
            self,
            apply: Model,
            *,
            data: Sequence[PyTree] | HostBatches,
            likelihood: Likelihood | Callable[[PyTree, PyTree], Array] = _CATEGORICAL,
            prior: priors.PriorLike = _STANDARD_NORMAL,
            temperature: Number | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        if not callable(self.apply):
            raise TypeError(f"apply must be a function (params, x) -> outputs, got {self.apply!r}")
        self._refuse_replaced_methods()
        if not _has_hash(self.apply):
            self._set(apply=_ByIdentity(self.apply))
        if self.temperature is not None:
            self._settle(temperature=check.not_negative)
        self._set(
            likelihood=likelihoods.as_likelihood(self.likelihood),
            prior=priors.as_rules(self.prior),
            data=_as_data(self.data),
        )

    @property
    def host(self) -> HostBatches | None:
        """The batches that are streamed, or None if the data are in memory."""
        return self.data if isinstance(self.data, HostBatches) else None

    @property
    def size(self) -> int:
        """N, the number of examples."""
        if isinstance(self.data, HostBatches):
            return self.data.size
        return _rows(self.data.y)

    def time_step(self, learning_rate: Number, *, kinetic: bool) -> Number:
        """The physical time of a learning rate on the mean loss U/N.

        Args:
          learning_rate: h.
          kinetic: whether it is for a sampler with momentum.

        Returns:
          dt = h / N, or sqrt(h / N) with momentum.
        """
        check.positive(learning_rate=learning_rate)
        return units.time_step(learning_rate, self.size, kinetic=kinetic)

    def learning_rate(self, dt: Number, *, kinetic: bool) -> Number:
        """The learning rate on the mean loss of a physical time: N dt, or N dt^2 with momentum."""
        return units.learning_rate(dt, self.size, kinetic=kinetic)

    def position(self, params: PyTree) -> PyTree:
        """``params`` with the first hyper-parameters of prior and likelihood, if there are any.

        A position that has them is kept. Checks the prior rules, the model's output and the labels
        against each other.
        """
        check.params(params, "params")
        start = jax.tree.map(jnp.asarray, params)
        params = model_params(start)
        hyper: dict[str, PyTree] = {}
        for path, prior, leaf in self._assigned(params):
            first = prior.hyper(leaf.shape, leaf.dtype)
            if first is not None:
                hyper[prior_name(path)] = first
        if self.likelihood.hyper is not None:
            hyper[LIKELIHOOD] = jax.tree.map(jnp.asarray, self.likelihood.hyper)
        if isinstance(start, Position):
            if jax.tree.map(jnp.shape, start.hyper) != jax.tree.map(jnp.shape, hyper):
                raise ValueError(
                    "the hyper-parameters of this position are not those of the prior and the "
                    f"likelihood: it has {sorted(start.hyper)}, they have {sorted(hyper)}"
                )
            hyper = start.hyper
        position = Position(params, hyper) if hyper else params
        self._check_model(position)
        return position

    def log_prior(self, position: PyTree) -> Array:
        """log p(theta), hyper-parameters included."""
        hyper = hyper_params(position)
        total = self.likelihood.log_hyper(likelihood_hyper(position))
        for path, prior, leaf in self._assigned(model_params(position)):
            total = total + prior.log_density(leaf, hyper.get(prior_name(path)))
        return jnp.asarray(total)

    def pointwise(self, position: PyTree, x: PyTree, y: PyTree) -> Array:
        """log p(y_i | x_i, theta) for each example.

        Args:
          position: theta.
          x: inputs, one row per example.
          y: targets, one row per example.

        Returns:
          An array of shape (batch,).
        """
        outputs = self.apply(model_params(position), x)
        return self.likelihood.log_prob(outputs, y, likelihood_hyper(position))

    def log_likelihood(self, position: PyTree, batch: BatchLike | None = None) -> Array:
        """Sum of log p(y_i | x_i, theta) over a batch; over all data if none is given."""
        x, y, mask = self._batch(batch)
        log_prob = self.pointwise(position, x, y)
        return jnp.sum(log_prob if mask is None else jnp.where(mask, log_prob, 0.0))

    def log_likelihood_of_rows(self, position: PyTree, x: PyTree, y: PyTree) -> Array:
        """The summands of :meth:`log_likelihood`, one for each example.

        They are ``pointwise``, or of a subclass with a ``log_likelihood`` of its own what that
        gives for each row alone.

        Args:
          position: theta.
          x: inputs, one row per example.
          y: targets, one row per example.

        Returns:
          An array of shape (batch,).
        """
        if not self.overrides("log_likelihood"):
            return self.pointwise(position, x, y)

        def of_one(row: tuple[PyTree, PyTree]) -> Array:
            return self.log_likelihood(position, Batch(*jax.tree.map(lambda a: a[None], row)))

        return jax.vmap(of_one)((x, y))

    def scaled_loss(self, position: PyTree, batch: BatchLike | None = None) -> Array:
        """The likelihood's part of U estimated on a batch: -(N/|B|) log_likelihood(batch)."""
        _, y, mask = self._batch(batch)
        rows = _rows(y) if mask is None else jnp.sum(mask)
        return -(self.size / rows) * self.log_likelihood(position, batch)

    def potential(self, position: PyTree, batch: BatchLike | None = None) -> Array:
        """U estimated on a batch: -(N/|B|) log_likelihood(batch) - log_prior."""
        return self.scaled_loss(position, batch) - self.log_prior(position)

    def value_and_grad(self, position: PyTree, batch: BatchLike | None = None) -> Evaluation:
        """U and G estimated on a batch: the gradient that every estimator and sampler uses.

        Args:
          position: where.
          batch: (x, y) or a :class:`Batch`; all data if it is None.

        Returns:
          The likelihood's part of U, U, and G, whose leaves may be split for the native kernels.
        """
        if self.overrides("potential"):
            value, grads = jax.value_and_grad(self.potential)(position, batch)
            return Evaluation(value, value, grads)
        return self.add_prior(position, *jax.value_and_grad(self.scaled_loss)(position, batch))

    def add_prior(self, position: PyTree, loss: Array, grads: PyTree) -> Evaluation:
        """U and G from the likelihood's part of them.

        Args:
          position: where.
          loss: the likelihood's part of U.
          grads: its gradient, in the structure of the position.

        Returns:
          U = loss - log_prior and G = grads - grad log_prior.
        """
        if self.overrides("log_prior"):
            log_prior, slope = jax.value_and_grad(self.log_prior)(position)
            return Evaluation(loss, loss - log_prior, jax.tree.map(jnp.subtract, grads, slope))
        hyper, hyper_grads = hyper_params(position), dict(hyper_params(grads))
        log_prior = jnp.asarray(self.likelihood.log_hyper(hyper.get(LIKELIHOOD)))
        if LIKELIHOOD in hyper:
            slope = jax.grad(self.likelihood.log_hyper)(hyper[LIKELIHOOD])
            hyper_grads[LIKELIHOOD] = jax.tree.map(jnp.subtract, hyper_grads[LIKELIHOOD], slope)
        param_grads: list[Array | SplitGradient] = []
        leaves, structure = jax.tree.flatten(model_params(grads))
        rules = self._assigned(model_params(position))
        for (path, prior, theta), grad in zip(rules, leaves, strict=True):
            name = prior_name(path)
            log_density, grad, slope = _with_prior(prior, theta, grad, hyper.get(name))
            log_prior = log_prior + log_density
            param_grads.append(grad)
            if name in hyper:
                hyper_grads[name] = jax.tree.map(jnp.subtract, hyper_grads[name], slope)
        params = jax.tree.unflatten(structure, param_grads)
        return Evaluation(
            loss, loss - log_prior, Position(params, hyper_grads) if hyper else params
        )

    def gradient(self, position: PyTree, batch: BatchLike | None = None) -> PyTree:
        """G of :meth:`value_and_grad` as plain arrays."""
        return dense(self.value_and_grad(position, batch).grads)

    def predict(self, position: PyTree, x: PyTree) -> PyTree:
        """The predictive of one position: class probabilities, or mean and sd."""
        x = as_inputs(x)
        with applying(position, x, lambda: self.example().x):
            outputs = self.apply(model_params(position), x)
        return self.likelihood.predict(outputs, likelihood_hyper(position))

    def example(self) -> Batch:
        """The first two rows, which models are checked with."""
        return jax.tree.map(lambda leaf: leaf[:2], self._first_batch())

    def _first_batch(self) -> Batch:
        """All data, or the first of the host batches."""
        return self.data if isinstance(self.data, Batch) else Batch(*self.data.peek())

    def overrides(self, *methods: str) -> str | None:
        """The first of these methods that a subclass has replaced, if any."""
        for name in methods:
            if getattr(type(self), name) is not getattr(Posterior, name):
                return name
        return None

    def _refuse_replaced_methods(self) -> None:
        """Raise if a subclass has replaced a method that not every estimate of U goes through."""
        replaced = Posterior.overrides(self, *_FIXED)
        if replaced is not None:
            raise TypeError(
                f"{type(self).__name__} replaces {replaced}, which would be ignored in part: "
                f"{_FIXED[replaced]}; replace pointwise, log_likelihood, log_prior or potential"
            )

    def __repr__(self) -> str:
        """The data by their number of rows."""
        options: dict[str, object] = {"likelihood": self.likelihood, "prior": self.prior}
        if self.temperature is not None:
            options["temperature"] = self.temperature
        text = ", ".join(f"{name}={describe_value(value)}" for name, value in options.items())
        streamed = "streamed " if self.host is not None else ""
        rows = f"<{streamed}{self.size} rows>"
        return f"{type(self).__qualname__}({describe_value(self.apply)}, data={rows}, {text})"

    def _assigned(self, params: PyTree) -> list[tuple[str, Prior, Array]]:
        """(path, prior, array) for every array of the parameters."""
        rules, leaves = priors.assign(self.prior, params), jax.tree.leaves(params)
        return [(path, prior, leaf) for (path, prior), leaf in zip(rules, leaves, strict=True)]

    def _batch(self, batch: BatchLike | None) -> Batch:
        if batch is not None:
            return Batch(*batch)
        if isinstance(self.data, HostBatches):
            raise ValueError("this posterior streams its data: give a batch (x, y)")
        return self.data

    def _check_model(self, position: PyTree) -> None:
        """Raise unless model, targets and likelihood fit together on two rows."""
        x, y, _ = self.example()
        with applying(position, x):
            outputs = jax.eval_shape(self.apply, model_params(position), x)
        targets = self._first_batch().y
        plain = isinstance(targets, (np.ndarray, Array)) and hasattr(outputs, "shape")
        if plain and check.known(targets):
            self.likelihood.check_targets(np.asarray(targets), outputs)
        log_prob = jax.eval_shape(self.pointwise, position, x, y)
        wanted = (_rows(y),)
        if getattr(log_prob, "shape", None) != wanted:
            raise ValueError(
                f"the likelihood {self.likelihood.name} must give one log probability per "
                f"example, shape {wanted} for {wanted[0]}; got {log_prob}"
            )


def _rows(y: PyTree) -> int:
    return len(jax.tree.leaves(y)[0])


def _has_hash(function: object) -> bool:
    try:
        hash(function)
    except TypeError:
        return False
    return True


def _as_data(data: object) -> Batch | HostBatches:
    """Checked arrays on the device, or host batches as they are."""
    if isinstance(data, HostBatches):
        return data
    pair = data[:2] if isinstance(data, Batch) and data.mask is None else data
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError("data must be a pair (x, y), or sundman.data.HostBatches")
    x, y = as_examples(*pair)
    for name, part in (("x", x), ("y", y)):
        for leaf in filter(check.known, jax.tree.leaves(part)):
            check.resolved(name, leaf)
    return jax.tree.map(jnp.asarray, Batch(x, y))


def _with_prior(
    prior: Prior, theta: Array, grad: Array, hyper: PyTree
) -> tuple[Array, Array | SplitGradient, PyTree]:
    """The log density of one array, its gradient with the prior's, and d log density / d hyper."""
    if not squares_suffice(prior) or not native.fits(theta):
        density, (pull, slope) = jax.value_and_grad(prior.log_density, (0, 1))(theta, hyper)
        return density, grad - pull, slope

    def log_density(squares: Array, hyper: PyTree) -> Array:
        return prior.of_squares(squares, theta.shape, hyper)

    split = SplitGradient(grad, theta, -2.0 * jax.grad(log_density)(jnp.float32(0.0), hyper))
    density, slope = jax.value_and_grad(log_density, 1)(split.products[2], hyper)
    return density, split, slope
