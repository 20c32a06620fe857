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

from functools import partial

import jax
import jax.numpy as jnp

from sundman import check
from sundman.integrators.baoab import KineticState, rest
from sundman.integrators.base import Integrator, PyTree, cast_like, per_leaf
from sundman.noise import Stream, gaussian


def obabo(temperature: float = 1.0, *, gamma: float = 1.0, sigma: float = 0.0) -> Integrator:
    """Kinetic Langevin, second order in dt, with the friction around a Verlet step."""
    check.not_negative(temperature=temperature, sigma=sigma)
    check.positive(gamma=gamma)

    def move(
        stream: Stream, grads: PyTree, state: KineticState, params: PyTree, dt: PyTree
    ) -> tuple[PyTree, KineticState]:
        steps = per_leaf(dt, params)

        def kicked(h, h_before, grad, momentum, eps):
            between = 0.5 * gamma * (h_before + h)
            keep = jnp.exp(-between)
            heat = 0.25 * jnp.square(sigma * (keep * h_before + h))
            variance = jnp.maximum(-jnp.expm1(-2.0 * between) * temperature - heat, 0.0)
            completed = keep * (momentum - 0.5 * h_before * grad) + jnp.sqrt(variance) * eps
            return completed - 0.5 * h * grad

        eps = gaussian(stream, params)
        momentum = jax.tree.map(kicked, steps, state.dt, grads, state.momentum, eps)
        updates = jax.tree.map(lambda h, p: h * p, steps, momentum)
        return cast_like(updates, params), KineticState(cast_like(momentum, params), steps)

    settings = {
        "integrator": "obabo",
        "temperature": temperature,
        "gamma": gamma,
        "sigma": sigma,
    }
    return Integrator(rest, move, partial(obabo, gamma=gamma, sigma=sigma), settings)
