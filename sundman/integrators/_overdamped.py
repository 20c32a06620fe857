"""Overdamped Langevin: the position moves, nothing else.

Euler-Maruyama, the step of SGLD:

    theta_{n+1} = theta_n - dt G_n + sqrt(2 T dt) eps_n

Welling, Teh (2011), "Bayesian learning via stochastic gradient Langevin dynamics". Weak order
one: averages are biased by O(dt). At T = 0 it is gradient descent.

Leimkuhler-Matthews, two half noises a step, second order at a constant step:

    theta_{n+1} = theta_n - dt G_n + sqrt(T dt / 2) (R_n + R_{n+1})

Leimkuhler, Matthews (2013), "Rational construction of stochastic numerical methods for
molecular sampling". When dt varies, each half noise keeps the scale of the step it came with:

    theta_{n+1} = theta_n - dt_{n+1} G_n + sqrt(T dt_n / 2) R_n + sqrt(T dt_{n+1} / 2) R_{n+1}

R_n is already in theta_n, so scaling it by a dt_{n+1} that follows G_n would add a drift. Of the
four variants of ``studies/samplers`` this one depends least on the lag. With a long memory
(alpha dtau about 0.01) it is first order with a small constant; the post-processed form with a full
lag has half its bias of E[x^2] on the quartic, but loses that with a guard. Without memory every
variant is off by 5% or more there.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from sundman._types import PyTree
from sundman.integrators.base import Integrator, cast_like, check_noise, langevin, per_leaf
from sundman.native.split_gradient import dense
from sundman.noise import Noise, Stream, gaussian, named
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


class CarriedNoise(NamedTuple):
    """The half noise of the last step, which the next one adds again."""

    half_noise: PyTree


class LeimkuhlerMatthews(Integrator):
    """Second-order Langevin step (constant dt), which carries half of its noise over.

    Args:
      temperature: T; None is that of the target, or 1.
    """

    label = "Leimkuhler-Matthews"
    weak_order = 2
    references = ("leimkuhler2013rational",)

    def init(self, params: PyTree) -> CarriedNoise:
        """No noise."""
        return CarriedNoise(jax.tree.map(jnp.zeros_like, params))

    def move(
        self, stream: Stream, grads: PyTree, state: CarriedNoise, params: PyTree, dt: PyTree
    ) -> tuple[PyTree, CarriedNoise]:
        """-dt G and the two half noises."""
        steps = per_leaf(dt, params)

        def half_noise(h: Array, fresh: Array) -> Array:
            return jnp.sqrt(0.5 * self.T * h) * fresh

        fresh = jax.tree.map(half_noise, steps, gaussian(stream, params))
        updates = jax.tree.map(
            lambda h, grad, carried, new: -h * grad + carried + new,
            steps,
            grads,
            state.half_noise,
            fresh,
        )
        return cast_like(updates, params), CarriedNoise(cast_like(fresh, params))
