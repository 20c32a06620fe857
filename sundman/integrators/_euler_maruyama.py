"""Euler-Maruyama: the step of SGLD.

    theta_{n+1} = theta_n - dt G_n + sqrt(2 T dt) eps_n

Welling, Teh (2011), "Bayesian learning via stochastic gradient Langevin dynamics". Weak order
one: averages are biased by O(dt). At T = 0 it is gradient descent.
"""

from __future__ import annotations

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp

from sundman.integrators.base import (
    Integrator,
    PyTree,
    cast_like,
    check_noise,
    langevin,
    per_leaf,
)
from sundman.noise import Noise, Stream, named
from sundman.split import dense
from sundman.value import static


class EulerMaruyama(Integrator):
    """First-order Langevin step.

    Args:
      temperature: T; None is that of the target, or 1.
      noise: ``"gaussian"``, ``"two_point"`` or ``"three_point"``.
    """

    label = "Euler-Maruyama"
    weak_order = 1
    references = ("welling2011sgld",)
    takes_split_gradients = True

    _: KW_ONLY
    noise: str | Noise = static(default="gaussian")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_noise(self.noise)

    def move(
        self, stream: Stream, grads: PyTree, state: tuple[()], params: PyTree, dt: PyTree
    ) -> tuple[PyTree, tuple[()]]:
        """-dt G + sqrt(2 T dt) eps."""
        steps = per_leaf(dt, params)
        if self.cold:
            return cast_like(jax.tree.map(lambda h, g: -h * g, steps, dense(grads)), params), state
        scales = jax.tree.map(lambda h: jnp.sqrt((2.0 * self.T) * h), steps)
        return langevin(stream, grads, params, steps, scales, named(self.noise)), state
