"""Euler-Maruyama: the step of SGLD.

    theta_{n+1} = theta_n - dt G_n + sqrt(2 T dt) eps_n

Welling, Teh (2011), "Bayesian learning via stochastic gradient Langevin dynamics". Weak order
one: averages are biased by O(dt). At T = 0 it is gradient descent.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from sundman import check
from sundman.integrators.base import Integrator, PyTree, cast_like, per_leaf
from sundman.noise import Noise, Stream, named


def euler_maruyama(temperature: float = 1.0, *, noise: str | Noise = "gaussian") -> Integrator:
    """First-order Langevin step; ``noise`` may be ``"two_point"`` or ``"three_point"``."""
    check.not_negative(temperature=temperature)
    draw = named(noise)

    def init(params: PyTree) -> tuple[()]:
        del params
        return ()

    def move(
        stream: Stream, grads: PyTree, state: tuple[()], params: PyTree, dt: PyTree
    ) -> tuple[PyTree, tuple[()]]:
        steps = per_leaf(dt, params)
        updates = jax.tree.map(lambda h, g: -h * g, steps, grads)
        if not (isinstance(temperature, (int, float)) and temperature == 0):
            size = jax.tree.map(lambda h: jnp.sqrt((2.0 * temperature) * h), steps)
            updates = jax.tree.map(
                lambda drift, scale, eps: drift + scale * eps, updates, size, draw(stream, params)
            )
        return cast_like(updates, params), state

    settings: dict[str, Any] = {
        "integrator": "euler_maruyama",
        "temperature": temperature,
        "noise": noise if isinstance(noise, str) else getattr(noise, "__name__", repr(noise)),
    }
    return Integrator(init, move, partial(euler_maruyama, noise=noise), settings)
