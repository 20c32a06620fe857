"""The gradient of a potential: exact, or with white noise added as a model of minibatches.

G = grad U + sigma xi,    xi ~ N(0, I) fresh at each step
"""

from __future__ import annotations

from typing import Any

import jax
from jax import Array

from sundman import check
from sundman._types import PyTree
from sundman.gradients.base import GradientEstimator, Potential
from sundman.noise import Purpose, Stream, gaussian, substream
from sundman.value import Number, as_value


class Exact(GradientEstimator):
    """The exact gradient of a potential, by automatic differentiation."""

    potential: Potential

    def __post_init__(self) -> None:
        self._set(potential=as_value(potential=self.potential))

    def __call__(self, stream: Stream, position: PyTree, batch: Any = None) -> tuple[Array, PyTree]:
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

    def __call__(self, stream: Stream, position: PyTree, batch: Any = None) -> tuple[Array, PyTree]:
        """(U, grad U + sigma xi)."""
        del batch
        value, grads = jax.value_and_grad(self.potential)(position)
        xi = gaussian(substream(stream, Purpose.GRADIENT_NOISE), position)
        return value, jax.tree.map(lambda g, z: g + self.sigma * z, grads, xi)


exact = Exact
noisy = Noisy
