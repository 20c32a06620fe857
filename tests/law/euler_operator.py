"""The law of an Euler step in one dimension, from the integrator itself and without Monte Carlo.

A step without memory is x' = x + a(x) + b(x) eps. Given noise 0 and noise 1 in turn, an integrator
tells a and a + b at every node of a grid, and the law it leaves unchanged solves a linear system
(:mod:`transfer`). Run it in double precision.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from transfer import Floats, Function, panels, stationary

from sundman.integrators import Integrator
from sundman.noise import Stream

Scheme = Callable[[Any], Integrator]  # from the noise to the integrator


def nothing(stream: Stream, like: Any) -> Any:
    return jax.tree.map(jnp.zeros_like, like)


def unit(stream: Stream, like: Any) -> Any:
    return jax.tree.map(jnp.ones_like, like)


def moves(scheme: Scheme, potential: Callable, h: float, x: Floats) -> tuple[Floats, Floats]:
    """a and b at the nodes x."""

    def at(x: Any, noise: Any) -> Any:
        integrator, position = scheme(noise), jnp.reshape(x, (1,))
        stream = Stream(jnp.zeros(2, jnp.uint32), jnp.uint32(0))
        grads = jax.grad(potential)(position)
        return integrator.move(stream, grads, integrator.init(position), position, h)[0][0]

    a, together = (
        np.asarray(jax.jit(jax.vmap(lambda x, noise=noise: at(x, noise)))(x), np.float64)
        for noise in (nothing, unit)
    )
    return a, together - a


def average(
    scheme: Scheme, potential: Callable, f: Function, h: float, *, reach: float = 4.0
) -> float:
    """E[f] under the scheme at the fixed step h."""
    coarse = np.linspace(-reach, reach, 101)
    narrowest = moves(scheme, potential, h, coarse)[1].min()
    half = max(20, int(np.ceil(reach / (5 * narrowest))))
    x, width = panels(np.linspace(-reach, reach, 2 * half + 1), 10)
    a, b = moves(scheme, potential, h, x)
    bell = np.exp(-(((x - (x + a)[:, None]) / b[:, None]) ** 2) / 2) / b[:, None]
    return float(stationary(bell * width) @ f(x))


def limit(
    scheme: Scheme, potential: Callable, f: Function, h: float, *, reach: float = 4.0
) -> float:
    """E[f] as the step goes to 0, from h and h/2 of a scheme of order one."""
    whole, half = (average(scheme, potential, f, step, reach=reach) for step in (h, h / 2))
    return 2 * half - whole


def by_density(log_density: Function, f: Function, reach: float = 6.0) -> float:
    """E[f] under a density known up to its normaliser, by quadrature."""
    x, width = panels(np.linspace(-reach, reach, 401), 10)
    log = log_density(x)
    mass = np.exp(log - log.max()) * width
    return float(mass @ f(x) / mass.sum())
