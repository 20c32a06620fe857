"""pSGLD: Langevin preconditioned by a running average of the squared gradient.

    V     <- lambda V + (1 - lambda) (G / scale)^2,    P = 1 / (sqrt(V) + eps)
    theta <- theta - dt P G + dt T Gamma + sqrt(2 T dt P) xi

Li, Chen, Carlson, Carin (2016), "Preconditioned stochastic gradient Langevin dynamics for deep
neural networks"; ``scale`` = N gives their V of mean gradients. V begins at the first squared
gradient, not at 0, so that the first steps are not too long.

P moves with theta, and without Gamma_i = dP_i / dtheta_i the law is wrong at every dt. As
dt -> 0 at a fixed lambda, V comes to follow G^2, and in one dimension the law tends to
exp(-U/T) / P: too much mass where gradients are large. A large eps makes P nearly constant and
that bias small. Gamma needs the diagonal of the Hessian, ``curvature``
(:mod:`sundman.curvature`):

    divergence="step":   Gamma_i = P'(V_i) (1 - lambda) 2 G_i H_ii / scale^2   what this step adds
    divergence="limit":  Gamma_i = P'(V_i)              2 G_i H_ii / scale^2   as if V were G^2

The first is the derivative given the past, as published; its factor 1 - lambda makes it small,
and in one dimension the law tends to exp(-U/T) / P^lambda. With the second it tends to
exp(-U/T), but only once dt / (1 - lambda) is short against the motion: it overcorrects before.
At T = 0 this is RMSProp.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from sundman import check
from sundman.curvature import Curvature
from sundman.integrators.base import Integrator, PyTree, cast_like, is_cold, per_leaf
from sundman.noise import Noise, Stream, name_of, named, purposes, substream

DIVERGENCES = ("step", "limit")


class SquareState(NamedTuple):
    """V, the average of squared gradients, and whether it has begun."""

    square: PyTree
    begun: Array


def zeros_wide(params: PyTree) -> PyTree:
    """Zeros in single precision, or in double where the parameters are: squares need range."""
    return jax.tree.map(
        lambda leaf: jnp.zeros(jnp.shape(leaf), jnp.result_type(jnp.float32, leaf)), params
    )


def with_noise(
    updates: PyTree, steps: PyTree, precondition: PyTree, temperature: float, xi: PyTree
) -> PyTree:
    """updates + sqrt(2 T dt P) xi."""
    return jax.tree.map(
        lambda push, h, p, eps: push + jnp.sqrt((2.0 * temperature) * h * p) * eps,
        updates,
        steps,
        precondition,
        xi,
    )


def psgld(
    temperature: float = 1.0,
    *,
    decay: float = 0.99,
    eps: float = 1e-5,
    scale: float = 1.0,
    curvature: Curvature | None = None,
    divergence: str = "step",
    noise: str | Noise = "gaussian",
) -> Integrator:
    """Euler-Maruyama with the RMSProp preconditioner; biased without ``curvature``.

    Args:
      temperature: T.
      decay: lambda; 1 / (1 - lambda) is the memory of V in steps, 0 is none.
      eps: added to sqrt(V); 1 / eps is the largest P.
      scale: what divides the gradient in V, N for mean gradients.
      curvature: ``(stream, position) -> `` diagonal of the Hessian of U; adds Gamma.
      divergence: which Gamma, ``"step"`` or ``"limit"``.
      noise: ``"gaussian"``, ``"two_point"`` or ``"three_point"``.
    """
    check.not_negative(temperature=temperature)
    check.positive(eps=eps, scale=scale)
    check.decay(decay=decay)
    check.choice("divergence", divergence, DIVERGENCES)
    if curvature is not None:
        check.function(curvature=curvature)
    draw = named(noise)
    cold = is_cold(temperature)

    def init(params: PyTree) -> SquareState:
        return SquareState(zeros_wide(params), jnp.zeros((), bool))

    def move(
        stream: Stream, grads: PyTree, state: SquareState, params: PyTree, dt: PyTree
    ) -> tuple[PyTree, SquareState]:
        steps = per_leaf(dt, params)
        keep = jnp.where(state.begun, decay, 0.0)
        grads = cast_like(grads, state.square)

        def average(old, grad):
            fresh = jnp.square(grad / scale)
            return (fresh + keep * (old - fresh)).astype(old.dtype)

        square = jax.tree.map(average, state.square, grads)
        precondition = jax.tree.map(lambda v: 1.0 / (jnp.sqrt(v) + eps), square)
        drift = jax.tree.map(lambda p, grad: -p * grad, precondition, grads)
        if not cold and curvature is not None:
            share = 1.0 - keep if divergence == "step" else 1.0

            def corrected(push, p, v, grad, hessian):
                root = jnp.sqrt(jnp.where(v > 0, v, 1.0))  # where V = 0, G = 0 and Gamma is 0
                slope = -jnp.square(p) / (2.0 * root)
                return push + temperature * share * slope * 2.0 * grad * hessian / scale**2

            hessian = curvature(substream(stream, purposes.CURVATURE), params)
            drift = jax.tree.map(corrected, drift, precondition, square, grads, hessian)
        updates = jax.tree.map(lambda h, push: h * push, steps, drift)
        if not cold:
            xi = draw(stream, params)
            updates = with_noise(updates, steps, precondition, temperature, xi)
        return cast_like(updates, params), SquareState(square, jnp.ones((), bool))

    options = {"decay": decay, "eps": eps, "scale": scale, "divergence": divergence}
    settings = {
        "integrator": "psgld",
        "temperature": temperature,
        **options,
        "curvature": None if curvature is None else name_of(curvature),
        "noise": name_of(noise),
    }
    again = partial(psgld, **options, curvature=curvature, noise=noise)
    return Integrator(init, move, again, settings)
