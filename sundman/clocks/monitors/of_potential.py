"""Monitors made of a potential: its energy, its curvature."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from sundman import check
from sundman._types import PyTree
from sundman.clocks.base import time_dtype
from sundman.clocks.monitors.base import Monitor, check_callable, total
from sundman.noise import Stream
from sundman.noise.stream import map_leaves, words
from sundman.value import Number, as_value

_PROBE = 0x5EED


class Energy(Monitor):
    """q = max(U(theta) - lowest, 0): short steps high up.

    Args:
      potential: U.
      lowest: an energy below U's least.
    """

    potential: Callable[[PyTree], Array]
    _: KW_ONLY
    lowest: Number = 0.0

    def __post_init__(self) -> None:
        check_callable("energy", self.potential)
        self._set(potential=as_value(potential=self.potential))
        self._settle(lowest=check.number)

    def measure(self, grads: PyTree, params: PyTree, memory: None, step: Array):
        """The energy above the lowest."""
        del grads, step
        above = jnp.asarray(self.potential(params), time_dtype(params)) - self.lowest
        return jnp.maximum(above, 0.0), memory


class Curvature(Monitor):
    """q = |v . H v|, H the Hessian of ``potential`` and v random signs from the step's number.

    The trace of H on average (Hutchinson 1990), for about two more gradients a step: short steps
    where U is stiff, even where its gradient vanishes. All chains share a step's signs.

    Args:
      potential: U.
    """

    potential: Callable[[PyTree], Array]

    def __post_init__(self) -> None:
        check_callable("curvature", self.potential)
        self._set(potential=as_value(potential=self.potential))

    def measure(self, grads: PyTree, params: PyTree, memory: None, step: Array):
        """By a Hessian-vector product: the derivative of grad U along v."""
        del grads
        stream = Stream(jnp.array([_PROBE, 0], jnp.uint32), step)

        def signs(shape: tuple[int, ...], dtype: Any, offset: int) -> Array:
            bit = words(stream, shape, offset)[0] & jnp.uint32(1)
            return (2.0 * bit.astype(jnp.float32) - 1.0).astype(dtype)

        v = map_leaves(signs, params)
        _, Hv = jax.jvp(jax.grad(self.potential), (params,), (v,))
        return jnp.abs(total(jax.tree.map(jnp.multiply, v, Hv), time_dtype(params))), memory
