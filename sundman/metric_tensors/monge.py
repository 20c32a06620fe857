"""The Monge metric G = I + alpha^2 u u^T, u = grad U: short steps along steep gradients.

    q = sqrt(1 + alpha^2 |u|^2)
    G^{-1} = I - phi u u^T,  phi = alpha^2 / q^2;    S = I - chi u u^T,  chi = alpha^2 / (q (1 + q))
    Gamma = -phi (H u + tr(H) u) - 2 phi' (u^T H u) u

with H the Hessian of U and phi' = d phi / d |u|^2; chi in place of phi for the divergence of S.
Hartmann, Girolami, Klami (2022), "Lagrangian manifold Monte Carlo on Monge patches".
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from sundman import check
from sundman.curvature import Curvature, exact
from sundman.metric_tensors.base import Metric, PyTree
from sundman.noise import Stream


def monge(
    potential: Callable[[PyTree], Array], alpha: float = 1.0, *, curvature: Curvature | None = None
) -> Metric:
    """The Monge metric of a potential; one gradient for S, two Hessian products and a trace more.

    Args:
      potential: U.
      alpha: 0 is the identity.
      curvature: the diagonal of H, for its trace; exact if it is not given, which takes as many
        products as there are coordinates (:func:`sundman.curvature.probed` takes a few).
    """
    check.function(potential=potential)
    check.not_negative(alpha=alpha)
    hessian_diagonal = exact(potential) if curvature is None else curvature
    check.function(curvature=hessian_diagonal)

    def stretch(u: PyTree) -> Array:
        return jnp.sqrt(1.0 + alpha**2 * _dot(u, u))

    def root_times(position: PyTree, v: PyTree) -> PyTree:
        u = jax.grad(potential)(position)
        q = stretch(u)
        share = alpha**2 / (q * (1.0 + q)) * _dot(u, v)
        return jax.tree.map(lambda part, along: part - share * along, v, u)

    def of(factor: Callable[[Array], tuple[Array, Array]]) -> Curvature:
        def divergence(stream: Stream, position: PyTree) -> PyTree:
            u, Hu = _gradient_and_product(potential, position)
            size, change = factor(stretch(u))
            trace = sum(
                jnp.sum(leaf) for leaf in jax.tree.leaves(hessian_diagonal(stream, position))
            )
            along = size * trace + 2.0 * change * _dot(u, Hu)
            return jax.tree.map(lambda part, turned: -size * turned - along * part, u, Hu)

        return divergence

    def inverse_factor(q: Array) -> tuple[Array, Array]:
        return alpha**2 / q**2, -(alpha**4) / q**4

    def root_factor(q: Array) -> tuple[Array, Array]:
        both = q * (1.0 + q)
        return alpha**2 / both, -(alpha**4) * (1.0 + 2.0 * q) / (2.0 * q * both**2)

    return Metric(
        f"monge(alpha={alpha:g})",
        root_times,
        root_times,
        of(inverse_factor),
        of(root_factor),
        lambda position: None,
    )


def _dot(one: PyTree, other: PyTree) -> Array:
    return jnp.asarray(sum(jax.tree.leaves(jax.tree.map(jnp.vdot, one, other))))


def _gradient_and_product(potential: Callable, position: PyTree) -> tuple[PyTree, PyTree]:
    """u = grad U and H u."""
    gradient = jax.grad(potential)
    u, product = jax.linearize(gradient, position)
    return u, product(u)
