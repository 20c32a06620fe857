"""The posterior of a model: the one place that knows N, the prior and the temperature.

    U(theta) = -sum_i log p(y_i | x_i, theta) - log p(theta)

estimated on a minibatch B by scaling its sum with N / |B|. Samplers see U at full-data scale, in
physical time dt; :mod:`sundman.units` turns learning rates on the mean loss U/N into times.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman import check, likelihoods, native, priors, units
from sundman._types import PyTree
from sundman.data.base import as_examples, as_inputs
from sundman.data.host import HostBatches
from sundman.likelihoods import Likelihood
from sundman.priors import Prior, Rules
from sundman.priors.base import squares_suffice
from sundman.split import Split, dense
from sundman.value import Number, Value, array, in_words, static

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


class Evaluation(NamedTuple):
    """U and its gradient at a position.

    Attributes:
      loss: the likelihood's part of U, cheap to have: a sign of whether U is finite.
      value: U.
      grads: G, at full-data scale; leaves may be :class:`sundman.split.Split` where the native
        kernels are used, and :func:`sundman.split.dense` makes arrays of them.
    """

    loss: Array
    value: Array
    grads: PyTree


def model_params(position: PyTree) -> PyTree:
    """The model's parameters in a position, with or without hyper-parameters."""
    return position.params if isinstance(position, Position) else position


class _ByIdentity:
    """A model that has no hash, such as a dataclass of its own, taken for equal to itself only."""

    def __init__(self, apply: Model) -> None:
        self.apply = apply
        self.__qualname__ = type(apply).__qualname__

    def __call__(self, params: PyTree, x: Any) -> Any:
        return self.apply(params, x)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ByIdentity) and other.apply is self.apply

    def __hash__(self) -> int:
        return id(self.apply)


class Posterior(Value):
    """The posterior of ``apply(params, x)`` with a likelihood, a prior and data.

    A subclass may replace ``pointwise``, ``log_likelihood``, ``log_prior`` or ``potential``: every
    gradient estimator follows it, or refuses and says why.

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
            data: Any,
            likelihood: Likelihood | Callable[[Any, Any], Array] = _CATEGORICAL,
            prior: priors.PriorLike = _STANDARD_NORMAL,
            temperature: Number | None = None,
        ) -> None: ...

    def __post_init__(self) -> None:
        if not callable(self.apply):
            raise TypeError(f"apply must be a function (params, x) -> outputs, got {self.apply!r}")
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
        return len(jax.tree.leaves(self.data.y)[0])

    def time_step(self, learning_rate: Number, *, kinetic: bool) -> Any:
        """The physical time of a learning rate on the mean loss U/N.

        Args:
          learning_rate: h.
          kinetic: whether it is for a sampler with momentum.

        Returns:
          dt = h / N, or sqrt(h / N) with momentum.
        """
        check.positive(learning_rate=learning_rate)
        return units.time_step(learning_rate, self.size, kinetic=kinetic)

    def learning_rate(self, dt: Number, *, kinetic: bool) -> Any:
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
        hyper: dict[str, Any] = {}
        for path, prior, leaf in self._assigned(params):
            first = prior.hyper(leaf.shape, leaf.dtype)
            if first is not None:
                hyper[f"prior/{path}"] = first
        if self.likelihood.hyper is not None:
            hyper["likelihood"] = jax.tree.map(jnp.asarray, self.likelihood.hyper)
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
        hyper = position.hyper if isinstance(position, Position) else {}
        total = self.likelihood.log_hyper(hyper.get("likelihood"))
        for path, prior, leaf in self._assigned(model_params(position)):
            total = total + prior.log_density(leaf, hyper.get(f"prior/{path}"))
        return jnp.asarray(total)

    def pointwise(self, position: PyTree, x: Any, y: Any) -> Array:
        """log p(y_i | x_i, theta) for each example."""
        outputs = self.apply(model_params(position), x)
        return self.likelihood.log_prob(outputs, y, self._likelihood_hyper(position))

    def log_likelihood(self, position: PyTree, batch: Any = None) -> Array:
        """Sum of log p(y_i | x_i, theta) over a batch; over all data if none is given."""
        x, y, mask = self._batch(batch)
        log_prob = self.pointwise(position, x, y)
        return jnp.sum(log_prob if mask is None else jnp.where(mask, log_prob, 0.0))

    def log_likelihood_of_rows(self, position: PyTree, x: Any, y: Any) -> Array:
        """The summands of :meth:`log_likelihood`, one for each example.

        They are ``pointwise``, or of a subclass with a ``log_likelihood`` of its own what that
        gives for each row alone.
        """
        if not self.overrides("log_likelihood"):
            return self.pointwise(position, x, y)

        def of_one(row: tuple[Any, Any]) -> Array:
            return self.log_likelihood(position, Batch(*jax.tree.map(lambda a: a[None], row)))

        return jax.vmap(of_one)((x, y))

    def scaled_loss(self, position: PyTree, batch: Any = None) -> Array:
        """The likelihood's part of U estimated on a batch: -(N/|B|) log_likelihood(batch)."""
        _, y, mask = self._batch(batch)
        rows = len(jax.tree.leaves(y)[0]) if mask is None else jnp.sum(mask)
        return -(self.size / rows) * self.log_likelihood(position, batch)

    def potential(self, position: PyTree, batch: Any = None) -> Array:
        """U estimated on a batch: -(N/|B|) log_likelihood(batch) - log_prior."""
        return self.scaled_loss(position, batch) - self.log_prior(position)

    def value_and_grad(self, position: PyTree, batch: Any = None) -> Evaluation:
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
        hyper = position.hyper if isinstance(position, Position) else {}
        of_hyper = dict(grads.hyper) if hyper else {}
        log_prior = jnp.asarray(self.likelihood.log_hyper(hyper.get("likelihood")))
        if "likelihood" in hyper:
            slope = jax.grad(self.likelihood.log_hyper)(hyper["likelihood"])
            of_hyper["likelihood"] = jax.tree.map(jnp.subtract, of_hyper["likelihood"], slope)
        of_params = []
        leaves, structure = jax.tree.flatten(model_params(grads))
        rules = self._assigned(model_params(position))
        for (path, prior, theta), grad in zip(rules, leaves, strict=True):
            name = f"prior/{path}"
            log_density, grad, slope = _with_prior(prior, theta, grad, hyper.get(name))
            log_prior = log_prior + log_density
            of_params.append(grad)
            if name in hyper:
                of_hyper[name] = jax.tree.map(jnp.subtract, of_hyper[name], slope)
        params = jax.tree.unflatten(structure, of_params)
        return Evaluation(loss, loss - log_prior, Position(params, of_hyper) if hyper else params)

    def gradient(self, position: PyTree, batch: Any = None) -> PyTree:
        """G of :meth:`value_and_grad` as plain arrays."""
        return dense(self.value_and_grad(position, batch).grads)

    def predict(self, position: PyTree, x: Any) -> Any:
        """The predictive of one position: class probabilities, or mean and sd."""
        x = as_inputs(x)
        with applying(position, x, lambda: self.example().x):
            outputs = self.apply(model_params(position), x)
        return self.likelihood.predict(outputs, self._likelihood_hyper(position))

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

    def __repr__(self) -> str:
        """The data by their number of rows."""
        options = {"likelihood": self.likelihood, "prior": self.prior}
        if self.temperature is not None:
            options["temperature"] = self.temperature
        text = ", ".join(f"{name}={in_words(value)}" for name, value in options.items())
        streamed = "streamed " if self.host is not None else ""
        rows = f"<{streamed}{self.size} rows>"
        return f"{type(self).__qualname__}({in_words(self.apply)}, data={rows}, {text})"

    def _assigned(self, params: PyTree) -> list[tuple[str, Prior, Array]]:
        """(path, prior, array) for every array of the parameters."""
        rules, leaves = priors.assign(self.prior, params), jax.tree.leaves(params)
        return [(path, prior, leaf) for (path, prior), leaf in zip(rules, leaves, strict=True)]

    def _likelihood_hyper(self, position: PyTree) -> PyTree:
        return position.hyper.get("likelihood") if isinstance(position, Position) else None

    def _batch(self, batch: Any) -> Batch:
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
        wanted = (len(jax.tree.leaves(y)[0]),)
        if getattr(log_prob, "shape", None) != wanted:
            raise ValueError(
                f"the likelihood {self.likelihood.name} must give one log probability per "
                f"example, shape {wanted} for {wanted[0]}; got {log_prob}"
            )


def _has_hash(function: Any) -> bool:
    try:
        return isinstance(function, Hashable) and hash(function) is not None
    except TypeError:
        return False


def _as_data(data: Any) -> Batch | HostBatches:
    """Checked arrays on the device, or host batches as they are."""
    if isinstance(data, HostBatches):
        return data
    pair = data[:2] if isinstance(data, Batch) and data.mask is None else data
    if not isinstance(pair, (tuple, list)) or len(pair) != 2:
        raise TypeError("data must be a pair (x, y), or sundman.data.HostBatches")
    return jax.tree.map(jnp.asarray, Batch(*as_examples(*pair)))


def _features(x: Any) -> str:
    """The number of features of each row, or the shapes of rows that are no vectors."""
    shapes = [tuple(leaf.shape[1:]) for leaf in jax.tree.leaves(x)]
    if len(shapes) == 1 and len(shapes[0]) == 1:
        return f"{shapes[0][0]} features"
    return "rows of shape " + ", ".join(map(str, shapes))


@contextmanager
def applying(position: PyTree, x: Any, example: Callable[[], Any] = lambda: None) -> Iterator[None]:
    """Errors of a model that does not fit x say so, with the features on both sides.

    Args:
      position: with the parameters.
      x: the inputs.
      example: gives inputs the model is known to take, if there are any.
    """
    try:
        yield
    except jax.errors.JAXTypeError:  # about tracing, in the model itself
        raise
    except (TypeError, ValueError) as error:
        known = example()
        if known is not None and _features(known) != _features(x):
            other = f"the model was checked with {_features(known)}"
        else:
            named = priors.paths(model_params(position))
            shapes = ", ".join(f"{path or 'the array'} {jnp.shape(leaf)}" for path, leaf in named)
            other = f"the parameters have the shapes {shapes}"
        raise ValueError(
            f"the model cannot be applied to x: x has {_features(x)}, {other} "
            f"(apply(params, x) raised {type(error).__name__})"
        ) from error


def _with_prior(
    prior: Prior, theta: Array, grad: Array, hyper: PyTree
) -> tuple[Array, Array | Split, PyTree]:
    """The log density of one array, its gradient with the prior's, and d log density / d hyper."""
    if not squares_suffice(prior) or not native.fits(theta):
        density, (pull, slope) = jax.value_and_grad(prior.log_density, (0, 1))(theta, hyper)
        return density, grad - pull, slope

    def log_density(squares: Array, hyper: PyTree) -> Array:
        return prior.of_squares(squares, theta.shape, hyper)

    split = Split(grad, theta, -2.0 * jax.grad(log_density)(jnp.float32(0.0), hyper))
    density, slope = jax.value_and_grad(log_density, 1)(split.products[2], hyper)
    return density, split, slope
