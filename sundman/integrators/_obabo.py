"""OBABO: kinetic Langevin by splitting, friction outermost, one gradient a step.

    O: p <- c p + sqrt((1 - c^2) T) eps    B: p <- p - dt/2 G    A: theta <- theta + dt p

in the order O B A B O, each O over dt/2 with c = exp(-gamma dt/2). Bussi, Parrinello (2007),
"Accurate sampling using Langevin dynamics". The trailing B and O need the gradient at the new
position, so they are made when that gradient arrives, with the step they belong to. That O and
the O which opens the next step are one, over (dt_before + dt)/2:

    p <- p - dt_before/2 G,   O((dt_before + dt)/2),   p <- p - dt/2 G,   theta <- theta + dt p

Second order in dt. On a Gaussian of precision k the variance of the positions is too large by
the factor 1 / (1 - k dt^2/4), for any gamma.

``sigma``, the standard deviation of the gradient noise in each coordinate if it is known, takes
the heat it adds out of the O step: variance (1 - c^2) T - sigma^2 (c dt_before + dt)^2/4, c being
that of the joined O, not below 0.
"""

from __future__ import annotations

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp

from sundman import check
from sundman._types import PyTree
from sundman.integrators._baoab import KineticState, rest
from sundman.integrators.base import Integrator, cast_like, per_leaf
from sundman.noise import Stream, gaussian
from sundman.value import Number


class Obabo(Integrator):
    """Kinetic Langevin, second order in dt, with the friction around a Verlet step.

    Args:
      temperature: T; None is that of the target, or 1.
      gamma: the friction.
      sigma: standard deviation of the gradient noise in each coordinate, if it is known.
    """

    label = "OBABO kinetic Langevin"
    weak_order = 2
    kinetic = True
    references = ("bussi2007accurate",)

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
        """The step before's last B and O, and this step up to its own."""
        steps = per_leaf(dt, params)

        def kicked(h, h_before, grad, momentum, eps):
            between = 0.5 * self.gamma * (h_before + h)
            keep = jnp.exp(-between)
            heat = 0.25 * jnp.square(self.sigma * (keep * h_before + h))
            variance = jnp.maximum(-jnp.expm1(-2.0 * between) * self.T - heat, 0.0)
            completed = keep * (momentum - 0.5 * h_before * grad) + jnp.sqrt(variance) * eps
            return completed - 0.5 * h * grad

        eps = gaussian(stream, params)
        momentum = jax.tree.map(kicked, steps, state.dt, grads, state.momentum, eps)
        updates = jax.tree.map(lambda h, p: h * p, steps, momentum)
        return cast_like(updates, params), KineticState(cast_like(momentum, params), steps)
