"""The Monge metric G = I + alpha^2 u u^T, u = grad U: short steps along steep gradients.

    q = sqrt(1 + alpha^2 |u|^2)
    G^{-1} = I - phi u u^T,  phi = alpha^2 / q^2;    S = I - chi u u^T,  chi = alpha^2 / (q (1 + q))
    Gamma = -phi (H u + tr(H) u) - 2 phi' (u^T H u) u

with H the Hessian of U and phi' = d phi / d |u|^2; chi in place of phi for the divergence of S.
Hartmann, Girolami, Klami (2022), "Lagrangian manifold Monte Carlo on Monge patches".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field

import jax
import jax.numpy as jnp
from jax import Array

from sundman import check
from sundman._types import PyTree
from sundman.contrib.curvature import Curvature, as_curvature, exact
from sundman.contrib.metric_tensors.base import Metric
from sundman.noise import Stream
from sundman.value import Number, as_value


class Monge(Metric):
    """The Monge metric of a potential; one gradient for S, two Hessian products and a trace more.

    Args:
      potential: U.
      alpha: 0 is the identity.
      curvature: the diagonal of H, for its trace; exact if it is not given, which takes as many
        products as there are coordinates (:func:`sundman.contrib.curvature.probed` takes a few).
    """

    potential: Callable[[PyTree], Array]
    alpha: Number = 1.0
    curvature: Curvature | Callable[[Stream, PyTree], PyTree] | None = field(
        default=None, kw_only=True
    )

    def __post_init__(self) -> None:
        self._set(potential=as_value(potential=self.potential))
        self._settle(alpha=check.not_negative)
        if self.curvature is not None:
            self._set(curvature=as_curvature(self.curvature))

    def root_times(self, position: PyTree, v: PyTree) -> PyTree:
        """v - chi (u . v) u."""
        u = jax.grad(self.potential)(position)
        chi, _ = self._chi(self._q(u))
        share = chi * _dot(u, v)
        return jax.tree.map(lambda part, along: part - share * along, v, u)

    def divergence(self, stream: Stream, position: PyTree) -> PyTree:
        """Gamma with phi."""
        return self._divergence(self._phi, stream, position)

    def root_divergence(self, stream: Stream, position: PyTree) -> PyTree:
        """Gamma with chi."""
        return self._divergence(self._chi, stream, position)

    def _divergence(
        self, factor: Callable[[Array], tuple[Array, Array]], stream: Stream, position: PyTree
    ) -> PyTree:
        u, product = jax.linearize(jax.grad(self.potential), position)
        Hu = product(u)
        phi, slope = factor(self._q(u))
        curvature = exact(self.potential) if self.curvature is None else self.curvature
        trace = sum(jnp.sum(leaf) for leaf in jax.tree.leaves(curvature(stream, position)))
        along = phi * trace + 2.0 * slope * _dot(u, Hu)
        return jax.tree.map(lambda u, Hu: -phi * Hu - along * u, u, Hu)

    def _q(self, u: PyTree) -> Array:
        return jnp.sqrt(1.0 + self.alpha**2 * _dot(u, u))

    def _phi(self, q: Array) -> tuple[Array, Array]:
        """phi and phi'."""
        return self.alpha**2 / q**2, -(self.alpha**4) / q**4

    def _chi(self, q: Array) -> tuple[Array, Array]:
        """chi and chi'."""
        both = q * (1.0 + q)
        slope = -(self.alpha**4) * (1.0 + 2.0 * q) / (2.0 * q * both**2)
        return self.alpha**2 / both, slope


def _dot(one: PyTree, other: PyTree) -> Array:
    return jnp.asarray(sum(jax.tree.leaves(jax.tree.map(jnp.vdot, one, other))))
