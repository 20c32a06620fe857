"""The diagonal of the Hessian of U, and of Jacobians, by automatic differentiation.

    exact:   J_ii = (J e_i)_i, one product for each of the d coordinates
    probed:  J_ii = E[z_i (J z)_i] for independent signs z, one product for each probe

Bekas, Kokiopoulou, Saad (2007), "An estimator for the diagonal of a matrix". The probed diagonal
is unbiased with standard deviation sqrt(sum_{j != i} J_ij^2 / probes). A curvature is called with
the random stream of the step and the position; a diagonal known in closed form is a function
``lambda stream, position: ...``.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.flatten_util import ravel_pytree

from sundman import check
from sundman._types import PyTree
from sundman.noise import Stream, substream, two_point
from sundman.value import Value, as_value, static

__all__ = [
    "Curvature",
    "as_curvature",
    "exact",
    "jacobian_diagonal",
    "probed",
    "probed_jacobian_diagonal",
]

_ROWS_PER_PASS = 128


class Curvature(Value):
    """The diagonal of the Hessian of U at a position, exact or estimated without bias."""

    def __call__(self, stream: Stream, position: PyTree) -> PyTree:
        """d^2 U / d theta_i^2, a tree like the position.

        Args:
          stream: the random numbers of this step, for an estimate.
          position: theta.
        """
        raise NotImplementedError


class Exact(Curvature):
    """The exact diagonal by d Hessian-vector products; for a few hundred coordinates at most."""

    potential: Callable[[PyTree], Array]

    def __post_init__(self) -> None:
        self._set(potential=as_value(potential=self.potential))

    def __call__(self, stream: Stream, position: PyTree) -> PyTree:
        """d^2 U / d theta_i^2."""
        del stream
        return jacobian_diagonal(jax.grad(self.potential), position)


class Probed(Curvature):
    """An estimate by ``probes`` Hessian-vector products, which any dimension can afford."""

    potential: Callable[[PyTree], Array]
    probes: int = static(default=1)

    def __post_init__(self) -> None:
        self._set(potential=as_value(potential=self.potential))
        check.count("probes", self.probes, least=1)
        self._set(probes=int(self.probes))

    def __call__(self, stream: Stream, position: PyTree) -> PyTree:
        """An unbiased estimate of d^2 U / d theta_i^2."""
        return probed_jacobian_diagonal(jax.grad(self.potential), stream, position, self.probes)


class Function(Curvature):
    """A diagonal that is known: ``function(stream, position)``."""

    function: Callable[[Stream, PyTree], PyTree]

    def __post_init__(self) -> None:
        self._set(function=as_value(curvature=self.function))

    def __call__(self, stream: Stream, position: PyTree) -> PyTree:
        """What the function gives."""
        return self.function(stream, position)


exact = Exact
probed = Probed


def as_curvature(curvature: Curvature | Callable[[Stream, PyTree], PyTree]) -> Curvature:
    """A curvature as it is; a function (stream, position) -> diagonal as a curvature."""
    if isinstance(curvature, Curvature):
        return curvature
    if callable(curvature) and not isinstance(curvature, type):
        return Function(curvature)
    raise TypeError(
        "curvature must be one of contrib.curvature, as curvature.exact(potential), or a function "
        f"(stream, position) -> diagonal of the Hessian; got curvature={curvature!r}"
    )


def jacobian_diagonal(function: Callable[[PyTree], PyTree], position: PyTree) -> PyTree:
    """d f_i / d theta_i of a function from positions to trees of the same shape, exactly."""
    flat, unravel = ravel_pytree(position)
    _, product = jax.linearize(lambda x: ravel_pytree(function(unravel(x)))[0], flat)

    def entry(i: Array) -> Array:
        return product(jnp.zeros_like(flat).at[i].set(1))[i]

    rows = jnp.arange(flat.size)
    few = flat.size <= _ROWS_PER_PASS
    entries = jax.vmap(entry)(rows) if few else lax.map(entry, rows, batch_size=_ROWS_PER_PASS)
    return unravel(entries.astype(flat.dtype))


def probed_jacobian_diagonal(
    function: Callable[[PyTree], PyTree], stream: Stream, position: PyTree, probes: int
) -> PyTree:
    """d f_i / d theta_i estimated with vectors of random signs, without bias.

    Args:
      function: f, from positions to trees of the same shape.
      stream: the random numbers of this step.
      position: theta.
      probes: how many vectors.

    Returns:
      The mean of the estimates, a tree like the position.
    """
    _, product = jax.linearize(function, position)

    def estimate(number: int) -> PyTree:
        signs = two_point(substream(stream, number + 1), position)
        return jax.tree.map(lambda z, row: z * row / probes, signs, product(signs))

    total = estimate(0)
    for number in range(1, probes):
        total = jax.tree.map(jnp.add, total, estimate(number))
    return total
