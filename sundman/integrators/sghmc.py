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

from functools import partial

import jax
import jax.numpy as jnp

from sundman import check
from sundman.integrators.base import Integrator, MomentumState, PyTree, at_rest, cast_like, per_leaf
from sundman.noise import Noise, Stream, name_of, named


def sghmc(
    temperature: float = 1.0,
    *,
    gamma: float = 1.0,
    sigma: float = 0.0,
    noise: str | Noise = "gaussian",
) -> Integrator:
    """Kinetic Langevin by a semi-implicit step, with an optional gradient-noise estimate."""
    check.not_negative(temperature=temperature, sigma=sigma)
    check.positive(gamma=gamma)
    draw = named(noise)

    def move(
        stream: Stream, grads: PyTree, state: MomentumState, params: PyTree, dt: PyTree
    ) -> tuple[PyTree, MomentumState]:
        steps = per_leaf(dt, params)

        def kick(h, grad, momentum, eps):
            keep = jnp.exp(-gamma * h)
            variance = -jnp.expm1(-2.0 * gamma * h) * temperature - keep * (h * sigma) ** 2
            kicked = keep * momentum - jnp.sqrt(keep) * h * grad
            return kicked + jnp.sqrt(jnp.maximum(variance, 0.0)) * eps

        momentum = jax.tree.map(kick, steps, grads, state.momentum, draw(stream, params))
        updates = jax.tree.map(lambda h, p: h * p, steps, momentum)
        return cast_like(updates, params), MomentumState(cast_like(momentum, params))

    settings = {
        "integrator": "sghmc",
        "temperature": temperature,
        "gamma": gamma,
        "sigma": sigma,
        "noise": name_of(noise),
    }
    again = partial(sghmc, gamma=gamma, sigma=sigma, noise=noise)
    return Integrator(at_rest, move, again, settings)
