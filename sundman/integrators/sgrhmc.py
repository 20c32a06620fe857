"""SGRHMC: kinetic Langevin in a Riemannian metric G(theta).

    d theta = S r dt,    dr = (-S^T grad U + T Gamma) dt - gamma r dt + sqrt(2 gamma T) dW
    S S^T = G^{-1},      Gamma_i = sum_j d_j S_ji

the recipe of Ma, Chen, Fox (2015), "A complete recipe for stochastic gradient MCMC", with
D = diag(0, gamma I) and Q = [[0, -S], [S^T, 0]]: it leaves exp(-(U + |r|^2/2)/T) as it is. The
momentum r is measured in the metric, so its law is N(0, T) everywhere and one friction gamma
suits all directions. A step, with c = exp(-gamma dt),

    r     <- c r + sqrt(c) dt (-S^T grad + T Gamma) + sqrt((1 - c^2) T) xi
    theta <- theta + dt S(theta + dt/2 S r) r

is SGHMC if G is the identity: one gradient, and S at two positions. ``divergence=False`` leaves
Gamma out and samples another law.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from sundman import check
from sundman.integrators.base import (
    Integrator,
    MomentumState,
    PyTree,
    at_rest,
    cast_like,
    is_cold,
    per_leaf,
)
from sundman.metric_tensors.base import Metric, must_be_metric, one_step_for_all
from sundman.noise import Noise, Stream, name_of, named, purposes, substream


def sgrhmc(
    metric: Metric,
    temperature: float = 1.0,
    *,
    gamma: float = 1.0,
    divergence: bool = True,
    noise: str | Noise = "gaussian",
) -> Integrator:
    """Kinetic Langevin in a metric with friction ``gamma``, by a semi-implicit step."""
    must_be_metric(metric)
    check.not_negative(temperature=temperature)
    check.positive(gamma=gamma)
    draw = named(noise)
    cold = is_cold(temperature)

    def init(params: PyTree) -> MomentumState:
        metric.check(params)
        return at_rest(params)

    def move(
        stream: Stream, grads: PyTree, state: MomentumState, params: PyTree, dt: PyTree
    ) -> tuple[PyTree, MomentumState]:
        one_step_for_all(metric, dt)
        steps = per_leaf(dt, params)
        force = jax.tree.map(jnp.negative, metric.transpose_times(params, grads))
        if divergence and not cold:
            turns = metric.root_divergence(substream(stream, purposes.CURVATURE), params)
            force = jax.tree.map(lambda push, turn: push + temperature * turn, force, turns)

        def kick(h, push, momentum, xi):
            keep = jnp.exp(-gamma * h)
            heat = jnp.sqrt(-jnp.expm1(-2.0 * gamma * h) * temperature)
            return keep * momentum + jnp.sqrt(keep) * h * push + heat * xi

        momentum = jax.tree.map(kick, steps, force, state.momentum, draw(stream, params))
        momentum = cast_like(momentum, params)
        velocity = metric.root_times(params, momentum)
        halfway = jax.tree.map(lambda x, h, v: x + 0.5 * h * v, params, steps, velocity)
        velocity = metric.root_times(cast_like(halfway, params), momentum)
        updates = jax.tree.map(lambda h, v: h * v, steps, velocity)
        return cast_like(updates, params), MomentumState(momentum)

    settings = {
        "integrator": "sgrhmc",
        "temperature": temperature,
        "metric": metric.name,
        "gamma": gamma,
        "divergence": divergence,
        "noise": name_of(noise),
    }
    again = partial(sgrhmc, metric, gamma=gamma, divergence=divergence, noise=noise)
    return Integrator(init, move, again, settings)
