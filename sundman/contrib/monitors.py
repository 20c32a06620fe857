"""Monitors other than the norm of the gradient, for the Sundman clock.

    preconditioned   sum_i P_i G_i^2, P of the user or of RMSProp
    energy           U(theta) - lowest
    curvature        |v . H v|, v a random sign vector: |trace H| on average if H is definite
    noise_corrected  the average of ||G||^2 less the part that is noise

Each keeps the target, as any monitor does. None was better than the norm where we measured them
(``studies/samplers``); the paper of SA-SGLD names them as work to come.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from sundman import check
from sundman._types import PyTree
from sundman.clocks.base import time_dtype
from sundman.clocks.monitors import Monitor, total
from sundman.noise import Stream
from sundman.noise.stream import map_leaves, words
from sundman.value import Number, array, as_value

__all__ = ["curvature", "energy", "noise_corrected", "preconditioned"]

_PROBE_KEY = 0x5EED


class Diagonal(Monitor):
    """q = sum_i P_i G_i^2 with P given."""

    room = "contrib.monitors"

    diagonal: PyTree = array()

    def init(self, params: PyTree) -> None:
        """Nothing; raises if the diagonal is not of the shapes of the parameters."""
        shapes = [jax.tree.map(jnp.shape, tree) for tree in (self.diagonal, params)]
        if shapes[0] != shapes[1]:
            raise ValueError(
                "the diagonal of a preconditioned monitor must have the structure and the shapes "
                f"of the parameters: it has {shapes[0]}, they have {shapes[1]}"
            )

    def measure(
        self, grads: PyTree, params: PyTree, memory: None, step: Array
    ) -> tuple[Array, None]:
        """sum_i P_i G_i^2."""
        del step
        dtype = time_dtype(params)

        def weighted(p: Array, g: Array) -> Array:
            return p * jnp.square(g.astype(dtype))

        return total(jax.tree.map(weighted, self.diagonal, grads), dtype), memory


class RmsProp(Monitor):
    """q = sum_i G_i^2 / (sqrt(V_i) + eps), V an average of G^2."""

    room = "contrib.monitors"
    power_of_rows = 1.0

    decay: Number
    eps: Number

    def __post_init__(self) -> None:
        self._settle(decay=check.decay, eps=check.positive)

    def init(self, params: PyTree) -> PyTree:
        """V = 0; the first gradient replaces it."""
        return jax.tree.map(jnp.zeros_like, params)

    def measure(
        self, grads: PyTree, params: PyTree, memory: PyTree, step: Array
    ) -> tuple[Array, PyTree]:
        """q and the next V."""
        keep = jnp.where(step == 0, 0.0, self.decay)

        def averaged(v: Array, g: Array) -> Array:
            return (keep * v + (1.0 - keep) * jnp.square(g)).astype(v.dtype)

        def weighted(v: Array, g: Array) -> Array:
            return jnp.square(g) / (jnp.sqrt(v) + self.eps)

        memory = jax.tree.map(averaged, memory, grads)
        return total(jax.tree.map(weighted, memory, grads), time_dtype(params)), memory


def preconditioned(
    diagonal: PyTree = None, *, decay: float = 0.99, eps: float = 1e-5
) -> Diagonal | RmsProp:
    """q = sum_i P_i G_i^2: the norm of the gradient in another metric.

    Only the clock is preconditioned, not the motion, so that there is no Gamma term to correct
    for.

    Args:
      diagonal: P, positive and of the parameters' shapes. Without one it is that of RMSProp:
        P = 1 / (sqrt(V) + eps), V <- decay V + (1 - decay) G^2.
      decay: what is left of V after a step.
      eps: added to sqrt(V).

    Returns:
      The monitor.
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


class NoiseMemory(NamedTuple):
    """The average of ||G||^2 less noise; the gradient before, if the noise is estimated by it."""

    signal: Array
    before: PyTree


class NoiseCorrected(Monitor):
    """q = max(m, 0), m an average of ||G_n||^2 less its noise: the step follows U, not noise.

    The noise is sigma^2 d if ``sigma`` is known, and ||G_n - G_{n-1}||^2 / 2 if it is not: what
    differs between two steps is noise as long as grad U hardly moves in one. Averaging before the
    floor keeps the floor from making a bias. Batches without replacement are negatively
    correlated, which this does not see.

    Args:
      sigma: the standard deviation of the noise in each coordinate, if it is known.
      average: the newest number's share of the average.
    """

    room = "contrib.monitors"

    sigma: Number | None = None
    _: KW_ONLY
    average: Number = 0.05

    def __post_init__(self) -> None:
        if self.sigma is not None:
            self._settle(sigma=check.not_negative)
        self._settle(average=check.positive)
        if check.known(self.average) and self.average > 1.0:
            raise ValueError(f"average is a share, at most 1; got average={self.average!r}")

    def init(self, params: PyTree) -> NoiseMemory:
        """Nothing seen."""
        before = jax.tree.map(jnp.zeros_like, params) if self.sigma is None else None
        return NoiseMemory(jnp.zeros((), time_dtype(params)), before)

    def measure(
        self, grads: PyTree, params: PyTree, memory: NoiseMemory, step: Array
    ) -> tuple[Array, NoiseMemory]:
        """q and what is remembered; the first gradient counts in full if noise is not known."""
        dtype = memory.signal.dtype
        if self.sigma is None:
            change = jax.tree.map(jnp.subtract, grads, memory.before)
            noise = jnp.where(step == 0, 0.0, 0.5 * _sum_of_squares(change, dtype))
        else:
            noise = self.sigma**2 * sum(leaf.size for leaf in jax.tree.leaves(params))
        less_noise = _sum_of_squares(grads, dtype) - noise
        # An average of few numbers first: the one number of the first step is soon forgotten.
        share = jnp.maximum(self.average, 1.0 / (1.0 + step.astype(dtype)))
        signal = memory.signal + share * (less_noise - memory.signal)
        before = grads if self.sigma is None else None
        return jnp.maximum(signal, 0.0), NoiseMemory(signal, before)


class Energy(Monitor):
    """q = max(U(theta) - lowest, 0): short steps high up.

    Args:
      potential: U.
      lowest: an energy below U's least.
    """

    room = "contrib.monitors"
    power_of_rows = 1.0

    potential: Callable[[PyTree], Array]
    _: KW_ONLY
    lowest: Number = 0.0

    def __post_init__(self) -> None:
        _check_potential("energy", self.potential)
        self._set(potential=as_value(potential=self.potential))
        self._settle(lowest=check.number)

    def measure(
        self, grads: PyTree, params: PyTree, memory: None, step: Array
    ) -> tuple[Array, None]:
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

    room = "contrib.monitors"
    power_of_rows = 1.0

    potential: Callable[[PyTree], Array]

    def __post_init__(self) -> None:
        _check_potential("curvature", self.potential)
        self._set(potential=as_value(potential=self.potential))

    def measure(
        self, grads: PyTree, params: PyTree, memory: None, step: Array
    ) -> tuple[Array, None]:
        """By a Hessian-vector product: the derivative of grad U along v."""
        del grads
        stream = Stream(jnp.array([_PROBE_KEY, 0], jnp.uint32), step)

        def signs(shape: tuple[int, ...], dtype: DTypeLike, offset: int) -> Array:
            bit = words(stream, shape, offset)[0] & jnp.uint32(1)
            return (2.0 * bit.astype(jnp.float32) - 1.0).astype(dtype)

        v = map_leaves(signs, params)
        _, Hv = jax.jvp(jax.grad(self.potential), (params,), (v,))
        return jnp.abs(total(jax.tree.map(jnp.multiply, v, Hv), time_dtype(params))), memory


def _check_potential(name: str, potential: object) -> None:
    """Raise unless it can be a potential."""
    if not callable(potential):
        raise TypeError(f"monitors.{name} needs a potential U(params) -> scalar, got {potential!r}")


def _sum_of_squares(tree: PyTree, dtype: DTypeLike) -> Array:
    """The sum of all squares."""
    return total(jax.tree.map(lambda leaf: jnp.square(leaf.astype(dtype)), tree), dtype)


noise_corrected = NoiseCorrected
energy = Energy
curvature = Curvature
