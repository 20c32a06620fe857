"""A gradient in two parts, so that the native kernels take the prior's along.

    G = grad + precision theta

holds for arrays whose prior is normal given its scale. Adding the second term would be a pass
over the parameters of its own; the kernels add it where they read theta anyway.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from sundman import native
from sundman._types import PyTree


@dataclass(frozen=True)
class SplitGradient:
    """The gradient of one array: grad + precision theta. A leaf to JAX's tree functions."""

    grad: Array
    theta: Array
    precision: Array

    @cached_property
    def products(self) -> Array:
        """The sums of G^2, G theta and theta^2."""
        return native.products(self.theta, self.grad, self.precision)

    def evaluate(self) -> Array:
        """G."""
        return self.grad + self.precision * self.theta


def grad_and_precision(grad: Array | SplitGradient) -> tuple[Array, Array | float]:
    """The two parts; the second of a plain array is 0."""
    return (grad.grad, grad.precision) if isinstance(grad, SplitGradient) else (grad, 0.0)


def dense(grads: PyTree) -> PyTree:
    """The gradient as plain arrays."""
    return jax.tree.map(lambda g: g.evaluate() if isinstance(g, SplitGradient) else g, grads)


def squared_norm(grad: Array | SplitGradient, dtype: DTypeLike) -> Array:
    """The sum of G^2."""
    if isinstance(grad, SplitGradient):
        return grad.products[0].astype(dtype)
    if native.fits(grad):
        return native.squared_norm(grad).astype(dtype)
    return jnp.sum(jnp.square(grad.astype(dtype)))


def inner_product(grad: Array | SplitGradient, theta: Array) -> Array:
    """The sum of G theta."""
    return grad.products[1] if isinstance(grad, SplitGradient) else jnp.vdot(theta, grad)
