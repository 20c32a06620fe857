"""SGHMC: stochastic gradient Langevin with momentum and friction.

    p     <- c p - sqrt(c) dt G + sqrt((1 - c^2) T - c dt^2 sigma^2) eps,    c = exp(-gamma dt)
    theta <- theta + dt p

Chen, Fox, Guestrin (2014), "Stochastic gradient Hamiltonian Monte Carlo", with the friction
and its noise solved exactly, half before and half after the kick, instead of by Euler: that
takes away a bias gamma dt / 2 of the positions. ``sigma`` is the estimate of the gradient
noise's standard deviation in each coordinate (their B-hat is dt sigma^2 / 2): the heat that noise
brings is taken out of the injected noise, as far as there is any. At T = 0 it is gradient
descent with momentum exp(-gamma dt).
"""

from __future__ import annotations

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp

from sundman import check
from sundman.integrators.base import (
    Integrator,
    MomentumState,
    PyTree,
    at_rest,
    cast_like,
    check_noise,
    per_leaf,
)
from sundman.noise import Noise, Stream, named
from sundman.value import Number, static


class Sghmc(Integrator):
    """Kinetic Langevin by a semi-implicit step, with an optional gradient-noise estimate.

    Args:
      temperature: T; None is that of the target, or 1.
      gamma: the friction.
      sigma: standard deviation of the gradient noise in each coordinate, if it is known.
      noise: ``"gaussian"``, ``"two_point"`` or ``"three_point"``.
    """

    label = "kinetic Langevin, kick inside the friction"
    weak_order = 2
    kinetic = True
    references = ("chen2014sghmc",)

    _: KW_ONLY
    gamma: Number = 1.0
    sigma: Number = 0.0
    noise: str | Noise = static(default="gaussian")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._settle(gamma=check.positive, sigma=check.not_negative)
        check_noise(self.noise)

    def init(self, params: PyTree) -> MomentumState:
        """Zero momentum."""
        return at_rest(params)

    def move(
        self, stream: Stream, grads: PyTree, state: MomentumState, params: PyTree, dt: PyTree
    ) -> tuple[PyTree, MomentumState]:
        """The kick with its friction, then the position."""
        steps = per_leaf(dt, params)

        def kick(h, grad, momentum, eps):
            keep = jnp.exp(-self.gamma * h)
            heat = keep * (h * self.sigma) ** 2
            variance = -jnp.expm1(-2.0 * self.gamma * h) * self.T - heat
            kicked = keep * momentum - jnp.sqrt(keep) * h * grad
            return kicked + jnp.sqrt(jnp.maximum(variance, 0.0)) * eps

        eps = named(self.noise)(stream, params)
        momentum = jax.tree.map(kick, steps, grads, state.momentum, eps)
        updates = jax.tree.map(lambda h, p: h * p, steps, momentum)
        return cast_like(updates, params), MomentumState(cast_like(momentum, params))
