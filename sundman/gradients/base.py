"""What every gradient estimator is: a function of the step's randomness, the position and data."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from jax import Array

from sundman.noise import Stream

PyTree = Any
Potential = Callable[[PyTree], Array]


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
