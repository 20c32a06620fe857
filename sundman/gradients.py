"""Gradient estimators: what a sampler is told about U at each step.

An estimator is called with the step's random stream and the position and returns the value
and the gradient of U there, at full-data scale. Estimators compare equal when made of equal
parts, so that repeated runs reuse one compiled loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import jax
from jax import Array

from sundman import check
from sundman.noise import Stream, gaussian, substream

PyTree = Any
Potential = Callable[[PyTree], Array]
_GRADIENT_NOISE = 1


class GradientEstimator(Protocol):
    """Value and (stochastic) gradient of U; ``potential`` is the exact U."""

    @property
    def potential(self) -> Potential:
        """The function U itself."""
        ...

    def __call__(self, stream: Stream, position: PyTree) -> tuple[Array, PyTree]:
        """(U, G) at ``position``, using the randomness of this step's ``stream``."""
        ...


@dataclass(frozen=True)
class Exact:
    """G = grad U by automatic differentiation."""

    potential: Potential

    def __call__(self, stream: Stream, position: PyTree) -> tuple[Array, PyTree]:
        """(U, grad U)."""
        del stream
        return jax.value_and_grad(self.potential)(position)


@dataclass(frozen=True)
class Noisy:
    """G = grad U + sigma xi with xi ~ N(0, I) fresh at each step: a model of minibatch noise."""

    potential: Potential
    sigma: float

    def __call__(self, stream: Stream, position: PyTree) -> tuple[Array, PyTree]:
        """(U, grad U + sigma xi)."""
        value, grads = jax.value_and_grad(self.potential)(position)
        xi = gaussian(substream(stream, _GRADIENT_NOISE), position)
        return value, jax.tree.map(lambda g, z: g + self.sigma * z, grads, xi)


def exact(potential: Potential) -> Exact:
    """The exact gradient of a potential."""
    return Exact(potential)


def noisy(potential: Potential, sigma: float) -> Noisy:
    """The exact gradient with white noise of standard deviation ``sigma`` per coordinate."""
    check.not_negative(sigma=sigma)
    return Noisy(potential, sigma)
