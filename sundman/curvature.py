"""Diagonals of Jacobians and Hessians by automatic differentiation.

    exact:   J_ii = (J e_i)_i, one product for each of the d coordinates
    probed:  J_ii = E[z_i (J z)_i] for independent signs z, one product for each probe

Bekas, Kokiopoulou, Saad (2007), "An estimator for the diagonal of a matrix". The probed diagonal
is unbiased with standard deviation sqrt(sum_{j != i} J_ij^2 / probes). A curvature is called with
the random stream of the step and the position; a diagonal known in closed form is
``lambda stream, position: ...``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.flatten_util import ravel_pytree

from sundman import check
from sundman.noise import Stream, substream, two_point

PyTree = Any
Curvature = Callable[[Stream, PyTree], PyTree]
_AT_ONCE = 128


def jacobian_diagonal(function: Callable[[PyTree], PyTree], position: PyTree) -> PyTree:
    """d f_i / d theta_i of a function from positions to trees of the same shape, exactly."""
    flat, unravel = ravel_pytree(position)
    _, product = jax.linearize(lambda x: ravel_pytree(function(unravel(x)))[0], flat)

    def entry(i: Array) -> Array:
        return product(jnp.zeros_like(flat).at[i].set(1))[i]

    rows = jnp.arange(flat.size)
    few = flat.size <= _AT_ONCE
    found = jax.vmap(entry)(rows) if few else lax.map(entry, rows, batch_size=_AT_ONCE)
    return unravel(found.astype(flat.dtype))


def probed_jacobian_diagonal(
    function: Callable[[PyTree], PyTree], stream: Stream, position: PyTree, probes: int
) -> PyTree:
    """d f_i / d theta_i estimated with ``probes`` vectors of random signs, without bias."""
    _, product = jax.linearize(function, position)

    def estimate(number: int) -> PyTree:
        signs = two_point(substream(stream, number + 1), position)
        return jax.tree.map(lambda z, row: z * row / probes, signs, product(signs))

    total = estimate(0)
    for number in range(1, probes):
        total = jax.tree.map(jnp.add, total, estimate(number))
    return total


@dataclass(frozen=True)
class Exact:
    """The diagonal of the Hessian of U by d Hessian-vector products."""

    potential: Callable[[PyTree], Array]

    def __call__(self, stream: Stream, position: PyTree) -> PyTree:
        """d^2 U / d theta_i^2."""
        del stream
        return jacobian_diagonal(jax.grad(self.potential), position)


@dataclass(frozen=True)
class Probed:
    """The diagonal of the Hessian of U by ``probes`` Hessian-vector products."""

    potential: Callable[[PyTree], Array]
    probes: int

    def __call__(self, stream: Stream, position: PyTree) -> PyTree:
        """An unbiased estimate of d^2 U / d theta_i^2."""
        return probed_jacobian_diagonal(jax.grad(self.potential), stream, position, self.probes)


def exact(potential: Callable[[PyTree], Array]) -> Exact:
    """The exact Hessian diagonal of a potential; for a few hundred coordinates at most."""
    check.function(potential=potential)
    return Exact(potential)


def probed(potential: Callable[[PyTree], Array], probes: int = 1) -> Probed:
    """An estimate of the Hessian diagonal of a potential that any dimension can afford."""
    check.function(potential=potential)
    check.count("probes", probes, least=1)
    return Probed(potential, int(probes))
