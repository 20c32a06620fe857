"""Scales: linear coordinates z, position = L z, in which a law is of unit size in every direction.

A gradient G of U(position) is L' G in z; a step dz in z moves the position by L dz. With L frozen
this is a change of variables, so that a scheme which is right for any U is right in z as well.

    diagonal   a number for each coordinate, or for each array of the position
    dense      a matrix, for positions of a few dozen coordinates; they are taken in the order of
               jax.flatten_util.ravel_pytree
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
from jax import Array
from jax.flatten_util import ravel_pytree

from sundman import check
from sundman._types import PyTree
from sundman.value import Value, array


class Scale(Value):
    """L of position = L z."""

    def outward(self, step: PyTree) -> PyTree:
        """L v: a step in z as one of the position."""
        raise NotImplementedError

    def inward(self, grads: PyTree) -> PyTree:
        """L' G: a gradient with respect to the position as one with respect to z."""
        raise NotImplementedError

    def check_fits(self, params: PyTree) -> None:
        """Raise if it is not for positions like this one."""
        raise NotImplementedError

    @property
    def shape(self) -> tuple[int, ...]:
        """How many numbers it has."""
        raise NotImplementedError


class Diagonal(Scale):
    """L = diag(scale), a pytree like the position; a leaf may be one number for a whole array."""

    scale: PyTree = array()

    def __post_init__(self) -> None:
        scale = jax.tree.map(jnp.asarray, self.scale)
        _check_positive(scale)
        self._set(scale=scale)

    def outward(self, step: PyTree) -> PyTree:
        """L v."""
        return jax.tree.map(lambda s, v: (s * v).astype(v.dtype), self.scale, step)

    @property
    def shape(self) -> tuple[int, ...]:
        """How many numbers it has."""
        return (sum(leaf.size for leaf in jax.tree.leaves(self.scale)),)

    def inward(self, grads: PyTree) -> PyTree:
        """L' G, which is L G."""
        return self.outward(grads)

    def check_fits(self, params: PyTree) -> None:
        """Raise if the structure or a shape differs."""
        if jax.tree.structure(self.scale) != jax.tree.structure(params):
            raise ValueError(
                "the scale must have the structure of the position: it is "
                f"{jax.tree.structure(self.scale)}, the position {jax.tree.structure(params)}"
            )
        for scale, leaf in zip(jax.tree.leaves(self.scale), jax.tree.leaves(params), strict=True):
            if jnp.shape(scale) not in ((), jnp.shape(leaf)):
                raise ValueError(
                    "a leaf of the scale must be one number or have the shape of the position's: "
                    f"it has {jnp.shape(scale)}, the position {jnp.shape(leaf)}"
                )


class Dense(Scale):
    """L = matrix, on the ravelled position."""

    matrix: Array = array()

    def __post_init__(self) -> None:
        matrix = jnp.asarray(self.matrix)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not matrix.size:
            raise ValueError(f"the scale must be a square matrix, got shape {matrix.shape}")
        check.finite(matrix, "the scale")
        self._set(matrix=matrix)

    def outward(self, step: PyTree) -> PyTree:
        """L v."""
        flat, unravel = ravel_pytree(step)
        return unravel((self.matrix @ flat).astype(flat.dtype))

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return self.matrix.shape

    def inward(self, grads: PyTree) -> PyTree:
        """L' G."""
        flat, unravel = ravel_pytree(grads)
        return unravel((flat @ self.matrix).astype(flat.dtype))

    def check_fits(self, params: PyTree) -> None:
        """Raise if the number of coordinates differs."""
        size = sum(math.prod(jnp.shape(leaf)) for leaf in jax.tree.leaves(params))
        if size != self.matrix.shape[0]:
            raise ValueError(
                f"the scale is for positions of {self.matrix.shape[0]} coordinates, this one has "
                f"{size}"
            )


def _check_positive(scale: PyTree) -> None:
    for leaf in jax.tree.leaves(scale):
        if check.known(leaf) and not bool(jnp.all(jnp.isfinite(leaf) & (leaf > 0))):
            raise ValueError(
                "a scale must be positive and finite; its least number is "
                f"{float(jnp.min(leaf))!r}, its largest {float(jnp.max(leaf))!r}"
            )


diagonal = Diagonal
dense = Dense
