"""What every gradient estimator is: a value that gives U and a gradient G of it at each step.

G is at full-data scale, and right on average: E[G] = grad U. The randomness of a step is its
stream's; what an estimator works on (a posterior, a fixed point, probabilities of rows) are its
own leaves, so that other data of the same shape do not compile again.

The simplest estimators are of a potential: exact, or with white noise added as a model of
minibatches,

    G = grad U + sigma xi,    xi ~ N(0, I) fresh at each step
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
from jax import Array

from sundman import check
from sundman._types import PyTree
from sundman.noise import Purpose, Stream, gaussian, substream
from sundman.posterior import BatchLike, Evaluation
from sundman.value import Number, Value, as_value, describe_value, public_name

Potential = Callable[[PyTree], Array]


class GradientEstimator(Value):
    """Value and (stochastic) gradient of U. Subclass it for one of your own.

    class Halved(GradientEstimator):
        posterior: sundman.Posterior

        def __call__(self, stream, position, batch=None):
            value, grads = jax.value_and_grad(self.posterior.potential)(position)
            return value, jax.tree.map(lambda g: 0.5 * g, grads)
    """

    @property
    def parts_differ(self) -> bool:
        """Whether the ``loss`` of :meth:`evaluate` is cheaper than its ``value``."""
        return False

    @property
    def agrees(self) -> bool:
        """Whether G is the gradient of U, both with the same stream: if so, runs check that it is.

        False unless an estimator of your own says otherwise: a control variate for G need not be
        one for U.
        """
        return False

    def __call__(
        self, stream: Stream, position: PyTree, batch: BatchLike | None = None
    ) -> tuple[Array, PyTree]:
        """U and G at a position.

        Args:
          stream: the randomness of this step.
          position: where.
          batch: this step's rows, for an estimator on streamed data; None for any other.

        Returns:
          (U, G), with G as plain arrays.
        """
        raise NotImplementedError(f"{type(self).__name__} has no __call__(stream, position, batch)")

    def evaluate(
        self, stream: Stream, position: PyTree, memory: PyTree = (), batch: BatchLike | None = None
    ) -> tuple[Evaluation, PyTree]:
        """What a run asks for at each step.

        Args:
          stream: the randomness of this step.
          position: where.
          memory: what the estimator remembers of the steps before.
          batch: this step's rows, for an estimator on streamed data.

        Returns:
          The evaluation, whose gradient may be split for the native kernels; and what to remember.
        """
        value, grads = self(stream, position, batch)
        return Evaluation(value, value, grads), memory

    def __repr__(self) -> str:
        """Its posterior, numbers and choices; arrays are left out."""
        cls, arguments = type(self), []
        for each in dataclasses.fields(self):
            value = getattr(self, each.name)
            choice = each.metadata.get("static", False)
            if choice or isinstance(value, (Value, bool, int, float)):
                arguments.append(f"{each.name}={describe_value(value)}")
        ours = cls.__module__.startswith("sundman.gradients")
        name = f"gradients.{public_name(cls)}" if ours else cls.__qualname__
        return f"{name}({', '.join(arguments)})"


class RemembersGradients(GradientEstimator):
    """A gradient estimator that carries something from step to step, such as old gradients."""

    def begin(self, position: PyTree) -> PyTree:
        """What it remembers before the first step, at ``position``."""
        raise NotImplementedError(f"{type(self).__name__} has no begin(position)")

    def recall(
        self, stream: Stream, position: PyTree, memory: PyTree, batch: BatchLike | None = None
    ) -> tuple[Array, PyTree, PyTree]:
        """U and G at a position, with what is remembered.

        Args:
          stream: the randomness of this step.
          position: where.
          memory: from :meth:`begin` or the step before.
          batch: this step's rows, for an estimator on streamed data.

        Returns:
          U, G, and what to remember from here on.
        """
        raise NotImplementedError(f"{type(self).__name__} has no recall(stream, position, memory)")

    def __call__(
        self, stream: Stream, position: PyTree, batch: BatchLike | None = None
    ) -> tuple[Array, PyTree]:
        """(U, G) as if it began here."""
        return self.recall(stream, position, self.begin(position), batch)[:2]

    def evaluate(
        self, stream: Stream, position: PyTree, memory: PyTree = (), batch: BatchLike | None = None
    ) -> tuple[Evaluation, PyTree]:
        """U and G by :meth:`recall`, and what to remember."""
        value, grads, memory = self.recall(stream, position, memory, batch)
        return Evaluation(value, value, grads), memory


class Exact(GradientEstimator):
    """The exact gradient of a potential, by automatic differentiation."""

    potential: Potential

    def __post_init__(self) -> None:
        self._set(potential=as_value(potential=self.potential))

    @property
    def agrees(self) -> bool:
        """That it is."""
        return True

    def __call__(
        self, stream: Stream, position: PyTree, batch: BatchLike | None = None
    ) -> tuple[Array, PyTree]:
        """(U, grad U)."""
        del stream, batch
        return jax.value_and_grad(self.potential)(position)


class Noisy(GradientEstimator):
    """The exact gradient with white noise of standard deviation ``sigma`` per coordinate."""

    potential: Potential
    sigma: Number

    def __post_init__(self) -> None:
        self._set(potential=as_value(potential=self.potential))
        self._settle(sigma=check.not_negative)

    def __call__(
        self, stream: Stream, position: PyTree, batch: BatchLike | None = None
    ) -> tuple[Array, PyTree]:
        """(U, grad U + sigma xi)."""
        del batch
        value, grads = jax.value_and_grad(self.potential)(position)
        xi = gaussian(substream(stream, Purpose.GRADIENT_NOISE), position)
        return value, jax.tree.map(lambda g, z: g + self.sigma * z, grads, xi)


exact = Exact
noisy = Noisy
