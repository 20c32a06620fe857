"""The gradient of a potential: exact, or with white noise added as a model of minibatches."""

from __future__ import annotations

from dataclasses import dataclass

import jax
from jax import Array

from sundman import check
from sundman.gradients.base import Potential, PyTree
from sundman.noise import Stream, gaussian, purposes, substream


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
        xi = gaussian(substream(stream, purposes.GRADIENT_NOISE), position)
        return value, jax.tree.map(lambda g, z: g + self.sigma * z, grads, xi)


def exact(potential: Potential) -> Exact:
    """The exact gradient of a potential."""
    return Exact(potential)


def noisy(potential: Potential, sigma: float) -> Noisy:
    """The exact gradient with white noise of standard deviation ``sigma`` per coordinate."""
    check.not_negative(sigma=sigma)
    return Noisy(potential, sigma)
