"""Monitors: the number q that the Sundman clock watches, in the place of ||G||^2.

    g_n = q_n^(s/2) / Omega + delta,    q_n = monitor(G_n, theta_n, its memory, n) >= 0

    preconditioned   sum_i P_i G_i^2, P of the user or of RMSProp
    whitened         |L' G|^2 in the coordinates of :func:`sundman.integrators.whitened`
    energy           U(theta) - lowest
    curvature        |v . H v|, v a random sign vector: |trace H| on average if H is definite
    noise_corrected  the average of ||G||^2 less the part that is noise
    a function       (grads, params) -> q

Any of them keeps the target. With one scalar dt for all coordinates a step is that of the same
diffusion over another time: d E[f(theta)] = E[psi L f] dtau for every f of the position alone,
however zeta came about, memory and random probes included. In the stationary state that is zero,
so the law weighted by psi, and by dt, is the one that L leaves alone. What a monitor changes is
where steps are short, hence the size of the O(dtau) bias. One condition is left, that of ``lag``:
psi must not be correlated with the noise in the same step's gradient.

A monitor is a value with ``init`` and ``measure``: a subclass of :class:`Monitor`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY
from typing import ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import ArrayLike, DTypeLike

from sundman import check
from sundman._types import PyTree
from sundman.clocks.base import time_dtype
from sundman.noise import Stream
from sundman.noise.stream import map_leaves, words
from sundman.scaling import Scale
from sundman.value import Number, Value, array, as_value, static

__all__ = [
    "Monitor",
    "curvature",
    "energy",
    "function",
    "noise_corrected",
    "preconditioned",
    "whitened",
]

_PROBE_KEY = 0x5EED


class Monitor(Value):
    """What a clock watches, a value; ``memory`` is its own, carried from step to step.

    Attributes:
      power_of_rows: q grows like N to this power with the rows of the data: 2 for a squared
        gradient of U, 1 for U itself. It turns the ``omega`` of the mean loss into that of U.
    """

    room = "clocks.monitors"
    power_of_rows: ClassVar[float] = 2.0

    def init(self, params: PyTree) -> PyTree:
        """The memory before the first step.

        Args:
          params: the first position.

        Returns:
          A pytree of arrays; None if there is nothing to remember.
        """
        del params

    def measure(
        self, grads: PyTree, params: PyTree, memory: PyTree, step: Array
    ) -> tuple[Array, PyTree]:
        """q, zero or more, and the memory after this step.

        Args:
          grads: the gradient of U at ``params``.
          params: the position.
          memory: what the monitor remembers.
          step: the number of the step.

        Returns:
          q and the next memory.
        """
        raise NotImplementedError


class Function(Monitor):
    """q = measure(grads, params), a scalar; less than zero counts as zero."""

    function: Callable[[PyTree, PyTree], ArrayLike] = static()

    def measure(
        self, grads: PyTree, params: PyTree, memory: None, step: Array
    ) -> tuple[Array, None]:
        """The function's value, which must be a scalar."""
        del step
        q = jnp.asarray(self.function(grads, params))
        if q.shape != ():
            raise ValueError(f"a monitor must give one number, got shape {q.shape}")
        return jnp.maximum(q.astype(time_dtype(params)), 0.0), memory


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

    def measure(
        self, grads: PyTree, params: PyTree, memory: None, step: Array
    ) -> tuple[Array, None]:
        """sum_i P_i G_i^2."""
        del step
        dtype = time_dtype(params)

        def weighted(p: Array, g: Array) -> Array:
            return p * jnp.square(g.astype(dtype))

        return _sum(jax.tree.map(weighted, self.diagonal, grads), dtype), memory


class Whitened(Monitor):
    """q = |L' G|^2, the squared gradient in the coordinates of a scale."""

    scale: Scale

    def init(self, params: PyTree) -> None:
        """Nothing; raises if the scale is not for such positions."""
        self.scale.check_fits(params)

    def measure(
        self, grads: PyTree, params: PyTree, memory: None, step: Array
    ) -> tuple[Array, None]:
        """|L' G|^2."""
        del step
        dtype = time_dtype(params)
        inside = self.scale.inward(grads)
        return _sum(jax.tree.map(lambda g: jnp.square(g.astype(dtype)), inside), dtype), memory


whitened = Whitened


class RmsProp(Monitor):
    """q = sum_i G_i^2 / (sqrt(V_i) + eps), V an average of G^2."""

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
        return _sum(jax.tree.map(weighted, memory, grads), time_dtype(params)), memory


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
        return jnp.abs(_sum(jax.tree.map(jnp.multiply, v, Hv), time_dtype(params))), memory


function = Function
noise_corrected = NoiseCorrected
energy = Energy
curvature = Curvature


def as_monitor(monitor: Monitor | Callable[[PyTree, PyTree], ArrayLike]) -> Monitor:
    """A monitor as it is, a function (grads, params) -> q as a monitor."""
    if isinstance(monitor, Monitor):
        return monitor
    if callable(monitor) and not isinstance(monitor, type):
        return Function(monitor)
    raise TypeError(
        "monitor must be one of sundman.clocks.monitors or a function (grads, params) -> number, "
        f"got {monitor!r}"
    )


def _check_potential(name: str, potential: object) -> None:
    """Raise unless it can be a potential."""
    if not callable(potential):
        raise TypeError(f"monitors.{name} needs a potential U(params) -> scalar, got {potential!r}")


def _sum(tree: PyTree, dtype: DTypeLike) -> Array:
    """The sum of all numbers."""
    sums: list[Array] = [jnp.sum(leaf.astype(dtype)) for leaf in jax.tree.leaves(tree)]
    return sum(sums[1:], sums[0])


def _sum_of_squares(tree: PyTree, dtype: DTypeLike) -> Array:
    """The sum of all squares."""
    return _sum(jax.tree.map(lambda leaf: jnp.square(leaf.astype(dtype)), tree), dtype)
