"""Leimkuhler-Matthews: two half noises a step, second order at a constant step.

    theta_{n+1} = theta_n - dt G_n + sqrt(T dt / 2) (R_n + R_{n+1})

Leimkuhler, Matthews (2013), "Rational construction of stochastic numerical methods for
molecular sampling". When dt varies, each half noise keeps the scale of the step it came with:

    theta_{n+1} = theta_n - dt_{n+1} G_n + sqrt(T dt_n / 2) R_n + sqrt(T dt_{n+1} / 2) R_{n+1}

R_n is already in theta_n, so scaling it by a dt_{n+1} that follows G_n would add a drift. Of the
four variants in ``benchmarks/lm_variants.py`` this one depends least on the lag. With a long memory
(alpha dtau about 0.01) it is first order with a small constant; the post-processed form with a full
lag has half its bias of E[x^2] on the quartic, but loses that with a guard. Without memory every
variant is off by 5% or more there.
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp

from sundman._types import PyTree
from sundman.integrators.base import Integrator, cast_like, per_leaf
from sundman.noise import Stream, gaussian


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

        def half_noise(h, fresh):
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
