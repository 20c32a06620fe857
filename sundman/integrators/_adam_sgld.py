"""AdamSGLD: Adam's step with Langevin noise.

    m <- beta1 m + (1 - beta1) G,    V <- beta2 V + (1 - beta2) (G / scale)^2
    P = 1 / (sqrt(V_hat) + eps),     m_hat = m / (1 - beta1^n),  V_hat = V / (1 - beta2^n)
    theta <- theta - dt P m_hat + sqrt(2 T dt P) xi

The moments are those of Kingma, Ba (2015), "Adam: a method for stochastic optimization"; Langevin
noise with Adam's drift is studied by Kim, Song, Liang (2022), "Stochastic gradient Langevin
dynamics with adaptive drifts", who keep the noise isotropic. Biased by design: the drift is an
average of past gradients, so noise and drift are no longer in balance, and P moves with theta
without a Gamma. As dt -> 0 at fixed betas the law in one dimension tends to exp(-U/T) / P with
P = 1 / (|grad U| / scale + eps). At T = 0 it is Adam with the learning rate scale dt on the
gradient of U / scale.
"""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from sundman import check
from sundman._types import PyTree
from sundman.integrators._psgld import with_noise, zeros_wide
from sundman.integrators.base import Integrator, cast_like, check_noise, per_leaf
from sundman.noise import Noise, Stream, named
from sundman.value import Number, static


class AdamState(NamedTuple):
    """The averages m and V of gradients and their squares, and how much is missing of each.

    ``missing_mean`` is beta1^n and ``missing_square`` beta2^n, n steps so far.
    """

    mean: PyTree
    square: PyTree
    missing_mean: Array
    missing_square: Array


class AdamSgld(Integrator):
    """Adam with Langevin noise: a heuristic whose law is not exp(-U/T), at any step.

    Args:
      temperature: T; None is that of the target, or 1.
      beta1: decay of the average gradient, the drift.
      beta2: decay of the average squared gradient, the preconditioner.
      eps: added to sqrt(V); 1 / eps is the largest P.
      scale: what divides the gradient in V, N for mean gradients.
      noise: ``"gaussian"``, ``"two_point"`` or ``"three_point"``.
    """

    label = "Adam with noise"
    references = ("kingma2015adam", "kim2022adaptive")

    _: KW_ONLY
    beta1: Number = 0.9
    beta2: Number = 0.999
    eps: Number = 1e-8
    scale: Number = 1.0
    noise: str | Noise = static(default="gaussian")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._settle(beta1=check.decay, beta2=check.decay, eps=check.positive, scale=check.positive)
        check_noise(self.noise)

    @property
    def biased(self) -> bool:
        """By design."""
        return True

    def init(self, params: PyTree) -> AdamState:
        """Nothing averaged yet."""
        one = jnp.ones((), jnp.result_type(jnp.float32, *jax.tree.leaves(params)))
        return AdamState(zeros_wide(params), zeros_wide(params), one, one)

    def move(
        self, stream: Stream, grads: PyTree, state: AdamState, params: PyTree, dt: PyTree
    ) -> tuple[PyTree, AdamState]:
        """-dt P m_hat + sqrt(2 T dt P) xi."""
        beta1, beta2 = self.beta1, self.beta2
        steps = per_leaf(dt, params)
        grads = cast_like(grads, state.mean)
        mean = jax.tree.map(lambda m, g: beta1 * m + (1.0 - beta1) * g, state.mean, grads)
        square = jax.tree.map(
            lambda v, g: beta2 * v + (1.0 - beta2) * jnp.square(g / self.scale),
            state.square,
            grads,
        )
        missing_mean = beta1 * state.missing_mean
        missing_square = beta2 * state.missing_square
        precondition = jax.tree.map(
            lambda v: 1.0 / (jnp.sqrt(v / (1.0 - missing_square)) + self.eps), square
        )
        updates = jax.tree.map(
            lambda h, p, m: -h * p * m / (1.0 - missing_mean), steps, precondition, mean
        )
        if not self.cold:
            xi = named(self.noise)(stream, params)
            updates = with_noise(updates, steps, precondition, self.T, xi)
        after = AdamState(
            cast_like(mean, state.mean),
            cast_like(square, state.square),
            missing_mean,
            missing_square,
        )
        return cast_like(updates, params), after
