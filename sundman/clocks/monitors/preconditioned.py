"""The norm of the gradient in another metric: q = sum_i P_i G_i^2."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

from sundman import check
from sundman._types import PyTree
from sundman.clocks.base import time_dtype
from sundman.clocks.monitors.base import Monitor, total
from sundman.value import Number, array


class Diagonal(Monitor):
    """q = sum_i P_i G_i^2 with P given."""

    diagonal: PyTree = array()

    def init(self, params: PyTree) -> None:
        """Nothing; raises if the diagonal is not of the shapes of the parameters."""
        shapes = [jax.tree.map(jnp.shape, tree) for tree in (self.diagonal, params)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                "the diagonal of a preconditioned monitor must have the structure and the shapes "
                f"of the parameters: it has {shapes[0]}, they have {shapes[1]}"
            )

    def measure(self, grads: PyTree, params: PyTree, memory: None, step: Array):
        """sum_i P_i G_i^2."""
        del step
        dtype = time_dtype(params)
        each = jax.tree.map(lambda p, g: p * jnp.square(g.astype(dtype)), self.diagonal, grads)
        return total(each, dtype), memory


class RmsProp(Monitor):
    """q = sum_i G_i^2 / (sqrt(V_i) + eps), V an average of G^2."""

    decay: Number
    eps: Number

    def __post_init__(self) -> None:
        self._settle(decay=check.decay, eps=check.positive)

    def init(self, params: PyTree) -> PyTree:
        """V = 0; the first gradient replaces it."""
        return jax.tree.map(jnp.zeros_like, params)

    def measure(self, grads: PyTree, params: PyTree, memory: PyTree, step: Array):
        """q and the next V."""
        keep = jnp.where(step == 0, 0.0, self.decay)

        def next_(v: Array, g: Array) -> Array:
            return (keep * v + (1.0 - keep) * jnp.square(g)).astype(v.dtype)

        memory = jax.tree.map(next_, memory, grads)
        each = jax.tree.map(lambda v, g: jnp.square(g) / (jnp.sqrt(v) + self.eps), memory, grads)
        return total(each, time_dtype(params)), memory


def preconditioned(
    diagonal: PyTree = None, *, decay: float = 0.99, eps: float = 1e-5
) -> Diagonal | RmsProp:
    """q = sum_i P_i G_i^2 with P the ``diagonal``, positive and of the parameters' shapes.

    Without one, RMSProp's: P = 1 / (sqrt(V) + eps), V <- decay V + (1 - decay) G^2. Only the
    clock is preconditioned, not the motion, so that there is no Gamma term to correct for.
    """
    if diagonal is None:
        return RmsProp(decay, eps)
    diagonal = jax.tree.map(jnp.asarray, diagonal)
    for leaf in jax.tree.leaves(diagonal):
        if not bool(jnp.all(jnp.isfinite(leaf) & (leaf > 0))):
            raise ValueError(
                "the diagonal of a preconditioned monitor must be positive and finite; its least "
                f"number is {float(jnp.min(leaf))!r}, its largest {float(jnp.max(leaf))!r}"
            )
    return Diagonal(diagonal)
