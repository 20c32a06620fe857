"""SGRLD: Langevin in a Riemannian metric G(theta).

    theta <- theta - dt G^{-1} grad + dt T Gamma + sqrt(2 T dt) S xi,    S S^T = G^{-1}
    Gamma_i = sum_j d_j (G^{-1})_ij

Patterson, Teh (2013), "Stochastic gradient Riemannian Langevin dynamics on the probability
simplex", after Girolami, Calderhead (2011); metrics are in :mod:`sundman.metric_tensors`. Weak
order one. ``divergence=False`` leaves Gamma out, as is often done: the law is then wrong at every
dt wherever G moves with theta; for a metric g(theta) I it is exp(-U/T) g. At T = 0 it is natural
gradient descent.
"""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp

from sundman import check
from sundman.integrators.base import Integrator, PyTree, cast_like, is_cold, per_leaf
from sundman.metric_tensors.base import Metric, must_be_metric, one_step_for_all
from sundman.noise import Noise, Stream, name_of, named, purposes, substream


def sgrld(
    metric: Metric,
    temperature: float = 1.0,
    *,
    divergence: bool = True,
    noise: str | Noise = "gaussian",
) -> Integrator:
    """Euler-Maruyama in a metric; ``divergence=False`` leaves out Gamma and samples another law."""
    must_be_metric(metric)
    check.not_negative(temperature=temperature)
    draw = named(noise)
    cold = is_cold(temperature)

    def init(params: PyTree) -> tuple[()]:
        metric.check(params)
        return ()

    def move(
        stream: Stream, grads: PyTree, state: tuple[()], params: PyTree, dt: PyTree
    ) -> tuple[PyTree, tuple[()]]:
        one_step_for_all(metric, dt)
        steps = per_leaf(dt, params)
        drift = jax.tree.map(jnp.negative, metric.inverse_times(params, grads))
        if divergence and not cold:
            gamma = metric.divergence(substream(stream, purposes.CURVATURE), params)
            drift = jax.tree.map(lambda push, turn: push + temperature * turn, drift, gamma)
        updates = jax.tree.map(lambda h, push: h * push, steps, drift)
        if not cold:
            spread = metric.root_times(params, draw(stream, params))
            updates = jax.tree.map(
                lambda push, h, xi: push + jnp.sqrt((2.0 * temperature) * h) * xi,
                updates,
                steps,
                spread,
            )
        return cast_like(updates, params), state

    settings = {
        "integrator": "sgrld",
        "temperature": temperature,
        "metric": metric.name,
        "divergence": divergence,
        "noise": name_of(noise),
    }
    again = partial(sgrld, metric, divergence=divergence, noise=noise)
    return Integrator(init, move, again, settings)
