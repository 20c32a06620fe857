"""Preconditioned Langevin: RMSProp and Adam with noise.

pSGLD, preconditioned by a running average V of the squared gradient:

    V     <- lambda V + (1 - lambda) (G / scale)^2,    P = 1 / (sqrt(V) + eps)
    theta <- theta - dt P G + dt T Gamma + sqrt(2 T dt P) xi

Li, Chen, Carlson, Carin (2016), "Preconditioned stochastic gradient Langevin dynamics for deep
neural networks"; ``scale`` = N gives their V of mean gradients. V begins at the first squared
gradient, not at 0, so that the first steps are not too long.

P moves with theta, and without Gamma_i = dP_i / dtheta_i the law is wrong at every dt. As
dt -> 0 at a fixed lambda, V comes to follow G^2, and in one dimension the law tends to
exp(-U/T) / P: too much mass where gradients are large. A large eps makes P nearly constant and
that bias small. Gamma needs the diagonal of the Hessian, ``curvature``
(:mod:`sundman.contrib.curvature`):

    divergence="step":   Gamma_i = P'(V_i) (1 - lambda) 2 G_i H_ii / scale^2   what this step adds
    divergence="limit":  Gamma_i = P'(V_i)              2 G_i H_ii / scale^2   as if V were G^2

The first is the derivative given the past, as published; its factor 1 - lambda makes it small,
and in one dimension the law tends to exp(-U/T) / P^lambda. With the second it tends to
exp(-U/T), but only once dt / (1 - lambda) is short against the motion: it overcorrects before.
At T = 0 this is RMSProp.

AdamSGLD, Adam's step with Langevin noise:

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
import numpy as np
from jax import Array

from sundman import check
from sundman._types import PyTree
from sundman.contrib.curvature import Curvature, as_curvature
from sundman.integrators.base import Integrator, cast_like, check_noise, per_leaf
from sundman.noise import Noise, Purpose, Stream, named, substream
from sundman.value import Number, static

DIVERGENCES = ("step", "limit")


class SquareState(NamedTuple):
    """V, the average of squared gradients, and whether it has begun."""

    square: PyTree
    begun: Array


def _wide_zeros(params: PyTree) -> PyTree:
    """Zeros in single precision, or in double where the parameters are: squares need range."""
    return jax.tree.map(
        lambda leaf: jnp.zeros(jnp.shape(leaf), jnp.result_type(jnp.float32, leaf)), params
    )


def _with_noise(
    updates: PyTree, steps: PyTree, precondition: PyTree, temperature: Number, xi: PyTree
) -> PyTree:
    """updates + sqrt(2 T dt P) xi."""
    return jax.tree.map(
        lambda push, h, p, eps: push + jnp.sqrt((2.0 * temperature) * h * p) * eps,
        updates,
        steps,
        precondition,
        xi,
    )


class Psgld(Integrator):
    """Euler-Maruyama with the RMSProp preconditioner; biased without ``curvature``.

    Args:
      temperature: T; None is that of the target, or 1.
      decay: lambda; 1 / (1 - lambda) is the memory of V in steps, 0 is none.
      eps: added to sqrt(V); 1 / eps is the largest P.
      scale: what divides the gradient in V, N for mean gradients.
      curvature: ``(stream, position) -> `` diagonal of the Hessian of U; adds Gamma.
      divergence: which Gamma, ``"step"`` or ``"limit"``.
      noise: ``"gaussian"``, ``"two_point"`` or ``"three_point"``.
    """

    label = "RMSProp with noise"
    references = ("li2016psgld",)

    _: KW_ONLY
    decay: Number = 0.99
    eps: Number = 1e-5
    scale: Number = 1.0
    curvature: Curvature | None = None
    divergence: str = static(default="step")
    noise: str | Noise = static(default="gaussian")

    def __post_init__(self) -> None:
        super().__post_init__()
        self._settle(decay=check.decay, eps=check.positive, scale=check.positive)
        check.choice("divergence", self.divergence, DIVERGENCES)
        check_noise(self.noise)
        if self.curvature is not None:
            self._set(curvature=as_curvature(self.curvature))

    @property
    def biased(self) -> bool:
        """By design, unless the whole Gamma is added: without memory the published one is that."""
        forgets = check.known(self.decay) and not np.any(self.decay)
        whole = self.divergence == "limit" or forgets
        return self.curvature is None or not whole

    def init(self, params: PyTree) -> SquareState:
        """V of no gradient."""
        return SquareState(_wide_zeros(params), jnp.zeros((), bool))

    def move(
        self, stream: Stream, grads: PyTree, state: SquareState, params: PyTree, dt: PyTree
    ) -> tuple[PyTree, SquareState]:
        """-dt P G + dt T Gamma + sqrt(2 T dt P) xi."""
        scale, steps = self.scale, per_leaf(dt, params)
        keep = jnp.where(state.begun, self.decay, 0.0)
        grads = cast_like(grads, state.square)

        def average(old: Array, grad: Array) -> Array:
            fresh = jnp.square(grad / scale)
            return (fresh + keep * (old - fresh)).astype(old.dtype)

        square = jax.tree.map(average, state.square, grads)
        precondition = jax.tree.map(lambda v: 1.0 / (jnp.sqrt(v) + self.eps), square)
        drift = jax.tree.map(lambda p, grad: -p * grad, precondition, grads)
        if not self.cold and self.curvature is not None:
            share = 1.0 - keep if self.divergence == "step" else 1.0

            def corrected(push: Array, p: Array, v: Array, grad: Array, hessian: Array) -> Array:
                root = jnp.sqrt(jnp.where(v > 0, v, 1.0))  # where V = 0, G = 0 and Gamma is 0
                slope = -jnp.square(p) / (2.0 * root)
                return push + self.T * share * slope * 2.0 * grad * hessian / scale**2

            hessian = self.curvature(substream(stream, Purpose.CURVATURE), params)
            drift = jax.tree.map(corrected, drift, precondition, square, grads, hessian)
        updates = jax.tree.map(lambda h, push: h * push, steps, drift)
        if not self.cold:
            xi = named(self.noise)(stream, params)
            updates = _with_noise(updates, steps, precondition, self.T, xi)
        return cast_like(updates, params), SquareState(square, jnp.ones((), bool))


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
        return AdamState(_wide_zeros(params), _wide_zeros(params), one, one)

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
            updates = _with_noise(updates, steps, precondition, self.T, xi)
        after = AdamState(
            cast_like(mean, state.mean),
            cast_like(square, state.square),
            missing_mean,
            missing_square,
        )
        return cast_like(updates, params), after
