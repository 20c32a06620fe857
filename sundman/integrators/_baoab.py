"""BAOAB: kinetic Langevin by splitting, one gradient a step.

    B: p <- p - dt/2 G    A: theta <- theta + dt/2 p    O: p <- c p + sqrt((1 - c^2) T) eps

in the order B A O A B with c = exp(-gamma dt). Leimkuhler, Matthews (2013). The last half kick
needs the gradient at the new position, so it is made when that gradient arrives, with the step
it belongs to, and the next step's first half kick follows with the same gradient. Given the
adaptive clock this is ZBAOABZ: the two half updates of zeta around that gradient are one.

``sigma``, the standard deviation of the gradient noise in each coordinate if it is known, takes
the heat it adds out of the O step: variance (1 - c^2) T - c dt^2 sigma^2, not below 0.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import NamedTuple

import jax
import jax.numpy as jnp

from sundman import check
from sundman._types import PyTree
from sundman.integrators.base import Integrator, cast_like, per_leaf, zeros_per_leaf
from sundman.noise import Stream, gaussian
from sundman.value import Number


class KineticState(NamedTuple):
    """Momentum before the trailing half kick, and the step that kick belongs to."""

    momentum: PyTree
    dt: PyTree


def rest(params: PyTree) -> KineticState:
    """Zero momentum: the friction brings it to temperature within a few 1/gamma."""
    return KineticState(jax.tree.map(jnp.zeros_like, params), zeros_per_leaf(params))


class Baoab(Integrator):
    """Kinetic Langevin, second order in dt, exact for positions of a Gaussian target.

    Args:
      temperature: T; None is that of the target, or 1.
      gamma: the friction.
      sigma: standard deviation of the gradient noise in each coordinate, if it is known.
    """

    label = "BAOAB kinetic Langevin"
    weak_order = 2
    kinetic = True
    references = ("leimkuhler2013robust", "leimkuhler2013rational")

    _: KW_ONLY
    gamma: Number = 1.0
    sigma: Number = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self._settle(gamma=check.positive, sigma=check.not_negative)

    def init(self, params: PyTree) -> KineticState:
        """Zero momentum."""
        return rest(params)

    def move(
        self, stream: Stream, grads: PyTree, state: KineticState, params: PyTree, dt: PyTree
    ) -> tuple[PyTree, KineticState]:
        """The step before's last kick, and this step up to its own."""
        steps = per_leaf(dt, params)

        def step(h, h_before, grad, momentum, eps):
            before = momentum - 0.5 * (h_before + h) * grad
            keep = jnp.exp(-self.gamma * h)
            heat = keep * (h * self.sigma) ** 2
            variance = -jnp.expm1(-2.0 * self.gamma * h) * self.T - heat
            after = keep * before + jnp.sqrt(jnp.maximum(variance, 0.0)) * eps
            return 0.5 * h * (before + after), after

        eps = gaussian(stream, params)
        moved = jax.tree.map(step, steps, state.dt, grads, state.momentum, eps)
        updates, momentum = jax.tree.transpose(
            jax.tree.structure(params), jax.tree.structure((0, 0)), moved
        )
        return cast_like(updates, params), KineticState(cast_like(momentum, params), steps)
