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

from sundman import check, native
from sundman.integrators.base import FusedMove, Integrator, PyTree, cast_like, is_cold, per_leaf
from sundman.noise import Noise, Stream, gaussian, name_of, named
from sundman.noise.gaussian import gaussian_leaf
from sundman.split import in_two


def euler_maruyama(temperature: float = 1.0, *, noise: str | Noise = "gaussian") -> Integrator:
    """First-order Langevin step; ``noise`` may be ``"two_point"`` or ``"three_point"``."""
    check.not_negative(temperature=temperature)
    draw = named(noise)
    cold = is_cold(temperature)

    def init(params: PyTree) -> tuple[()]:
        del params
        return ()

    def move(
        stream: Stream, grads: PyTree, state: tuple[()], params: PyTree, dt: PyTree
    ) -> tuple[PyTree, tuple[()]]:
        steps = per_leaf(dt, params)
        updates = jax.tree.map(lambda h, g: -h * g, steps, grads)
        if not cold:
            size = jax.tree.map(lambda h: jnp.sqrt((2.0 * temperature) * h), steps)
            updates = jax.tree.map(
                lambda drift, scale, eps: drift + scale * eps, updates, size, draw(stream, params)
            )
        return cast_like(updates, params), state

    def advance(
        stream: Stream, grads: PyTree, state: tuple[()], params: PyTree, dt: PyTree
    ) -> tuple[PyTree, tuple[()]]:
        offset, moved = 0, []
        leaves, structure = jax.tree.flatten(params)
        steps = jax.tree.leaves(per_leaf(dt, params))
        for theta, grad, h in zip(leaves, jax.tree.leaves(grads), steps, strict=True):
            scale = jnp.sqrt((2.0 * temperature) * h)
            if native.fits(theta):
                grad, precision = in_two(grad)
                moved.append(native.update(stream, theta, grad, precision, h, scale, offset))
            else:
                eps = gaussian_leaf(stream, theta, offset)
                moved.append(theta + (-h * grad + scale * eps).astype(theta.dtype))
            offset += theta.size
        return jax.tree.unflatten(structure, moved), state

    settings: dict[str, Any] = {
        "integrator": "euler_maruyama",
        "temperature": temperature,
        "noise": name_of(noise),
    }
    again = partial(euler_maruyama, noise=noise)
    fused = FusedMove(move, advance) if draw is gaussian and not cold else move
    return Integrator(init, fused, again, settings)
