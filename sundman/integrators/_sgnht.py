"""SGNHT / adaptive Langevin: a thermostat that learns the gradient noise.

    d theta = p dt,   dp = -G dt - xi p dt + sqrt(2 A T) dW,   d xi = (|p|^2/d - T) / Q dt

Ding et al. (2014); split as B A D O D A B (Leimkuhler, Shang 2016, "Adaptive thermostats for
noisy gradient systems"), D being the half step of xi and O the Ornstein-Uhlenbeck step with
friction xi. White gradient noise of unknown size only shifts xi: the positions keep the right
temperature. One gradient a step, as in :class:`sundman.integrators.baoab`.

With ``per_coordinate`` each coordinate has a thermostat of its own, so that gradient noise may
differ from one to the next:

    d xi_i = (p_i^2 - T) / Q dt

Gan et al. (2015), "Scalable deep Poisson factor analysis for topic modeling".
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from sundman import check
from sundman._types import PyTree
from sundman.integrators.base import Integrator, cast_like, per_leaf, zeros_per_leaf
from sundman.noise import Stream, gaussian
from sundman.value import Number, static


class ThermostatState(NamedTuple):
    """Momentum before the trailing half kick, that kick's step, and the friction xi.

    One number, or one for each coordinate.
    """

    momentum: PyTree
    dt: PyTree
    xi: PyTree


def _mean_square(tree: PyTree, dtype: DTypeLike) -> Array:
    leaves = jax.tree.leaves(tree)
    size = sum(leaf.size for leaf in leaves)
    total = sum(jnp.sum(jnp.square(leaf.astype(dtype))) for leaf in leaves)
    return jnp.asarray(total / size)


def _mean_decay(x: Array) -> Array:
    """(1 - exp(-x)) / x, 1 at x = 0; x may be negative."""
    small = jnp.abs(x) < 1e-3
    safe = jnp.where(small, 1.0, x)
    return jnp.where(small, 1.0 - 0.5 * x, -jnp.expm1(-safe) / safe)


def _shared(tree: PyTree, like: PyTree) -> PyTree:
    """``tree``, which is one number, for each leaf of ``like``."""
    return jax.tree.map(lambda _: tree, like)


class Sgnht(Integrator):
    """Kinetic Langevin with a Nose-Hoover thermostat.

    Args:
      temperature: T; None is that of the target, or 1.
      gamma: A, the friction that balances the injected noise and the first value of xi.
      mass: Q, the inertia of the thermostat per degree of freedom.
      per_coordinate: a thermostat for each coordinate.
    """

    label = "BADODAB with a thermostat"
    weak_order = 2
    kinetic = True
    references = ("ding2014sgnht", "leimkuhler2016adaptive")

    _: KW_ONLY
    gamma: Number = 1.0
    mass: Number = 1.0
    per_coordinate: bool = static(default=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._settle(gamma=check.positive, mass=check.positive)
        check.choices_are_static(per_coordinate=self.per_coordinate)

    def init(self, params: PyTree) -> ThermostatState:
        """Zero momentum, xi = gamma."""
        momentum = jax.tree.map(jnp.zeros_like, params)
        if self.per_coordinate:
            xi = jax.tree.map(
                lambda leaf: jnp.full_like(leaf, self.gamma, jnp.result_type(jnp.float32, leaf)),
                params,
            )
        else:
            dtype = jnp.result_type(jnp.float32, *jax.tree.leaves(params))
            xi = jnp.asarray(self.gamma, dtype)
        return ThermostatState(momentum, zeros_per_leaf(params), xi)

    def _heated(self, xi: PyTree, momentum: PyTree, steps: PyTree) -> PyTree:
        """xi after half a step."""
        if self.per_coordinate:
            return jax.tree.map(
                lambda x, p, h: x + 0.5 * h * (jnp.square(p.astype(x.dtype)) - self.T) / self.mass,
                xi,
                momentum,
                steps,
            )
        leaves = jax.tree.leaves(steps)
        mean_step = sum(leaves[1:], leaves[0]) / len(leaves)
        return xi + 0.5 * mean_step * (_mean_square(momentum, xi.dtype) - self.T) / self.mass

    def move(
        self, stream: Stream, grads: PyTree, state: ThermostatState, params: PyTree, dt: PyTree
    ) -> tuple[PyTree, ThermostatState]:
        """The step before's last kick, and B A D O D A of this one."""
        steps = per_leaf(dt, params)

        def kick(h: Array, h_before: Array, grad: Array, momentum: Array) -> Array:
            return momentum - 0.5 * (h_before + h) * grad

        def friction(h: Array, xi: Array, momentum: Array, eps: Array) -> Array:
            variance = 2.0 * self.gamma * self.T * h * _mean_decay(2.0 * xi * h)
            return jnp.exp(-xi * h) * momentum + jnp.sqrt(variance) * eps

        before = jax.tree.map(kick, steps, state.dt, grads, state.momentum)
        xi = self._heated(state.xi, before, steps)
        each = xi if self.per_coordinate else _shared(xi, params)
        after = jax.tree.map(friction, steps, each, before, gaussian(stream, params))
        xi = self._heated(xi, after, steps)
        updates = jax.tree.map(lambda h, p, q: 0.5 * h * (p + q), steps, before, after)
        return cast_like(updates, params), ThermostatState(cast_like(after, params), steps, xi)
