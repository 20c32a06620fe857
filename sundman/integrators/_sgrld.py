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

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp

from sundman import check
from sundman._types import PyTree
from sundman.integrators.base import Integrator, cast_like, check_noise, per_leaf
from sundman.metric_tensors.base import Metric, must_be_metric, one_step_for_all
from sundman.noise import Noise, Purpose, Stream, named, substream
from sundman.value import static


class Sgrld(Integrator):
    """Euler-Maruyama in a metric.

    Args:
      temperature: T; None is that of the target, or 1.
      metric: G, one of :mod:`sundman.metric_tensors`.
      divergence: False leaves out Gamma and samples another law.
      noise: ``"gaussian"``, ``"two_point"`` or ``"three_point"``.
    """

    label = "Langevin in a metric of yours, Fisher or Monge"
    weak_order = 1
    references = ("patterson2013sgrld", "ma2015recipe")

    _: KW_ONLY
    metric: Metric
    divergence: bool = static(default=True)
    noise: str | Noise = static(default="gaussian")

    def __post_init__(self) -> None:
        super().__post_init__()
        must_be_metric(self.metric)
        check.choices_are_static(divergence=self.divergence)
        check_noise(self.noise)

    @property
    def biased(self) -> bool:
        """Without the divergence, by design."""
        return not self.divergence

    def init(self, params: PyTree) -> tuple[()]:
        """Nothing; the metric looks at the position."""
        self.metric.check(params)
        return ()

    def move(
        self, stream: Stream, grads: PyTree, state: tuple[()], params: PyTree, dt: PyTree
    ) -> tuple[PyTree, tuple[()]]:
        """-dt G^{-1} grad + dt T Gamma + sqrt(2 T dt) S xi."""
        metric, T = self.metric, self.T
        one_step_for_all(metric, dt)
        steps = per_leaf(dt, params)
        drift = jax.tree.map(jnp.negative, metric.inverse_times(params, grads))
        if self.divergence and not self.cold:
            gamma = metric.divergence(substream(stream, Purpose.CURVATURE), params)
            drift = jax.tree.map(lambda push, turn: push + T * turn, drift, gamma)
        updates = jax.tree.map(lambda h, push: h * push, steps, drift)
        if not self.cold:
            spread = metric.root_times(params, named(self.noise)(stream, params))
            updates = jax.tree.map(
                lambda push, h, xi: push + jnp.sqrt((2.0 * T) * h) * xi, updates, steps, spread
            )
        return cast_like(updates, params), state
