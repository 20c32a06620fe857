"""Langevin in a Riemannian metric G(theta), overdamped and kinetic.

SGRLD, overdamped:

    theta <- theta - dt G^{-1} grad + dt T Gamma + sqrt(2 T dt) S xi,    S S^T = G^{-1}
    Gamma_i = sum_j d_j (G^{-1})_ij

Patterson, Teh (2013), "Stochastic gradient Riemannian Langevin dynamics on the probability
simplex", after Girolami, Calderhead (2011); metrics are in ``contrib.metric_tensors``. Weak
order one. ``divergence=False`` leaves Gamma out, as is often done: the law is then wrong at every
dt wherever G moves with theta; for a metric g(theta) I it is exp(-U/T) g. At T = 0 it is natural
gradient descent.

SGRHMC, kinetic:

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

from dataclasses import KW_ONLY

import jax
import jax.numpy as jnp
from jax import Array

from sundman import check
from sundman._types import PyTree
from sundman.contrib.metric_tensors.base import Metric, must_be_metric, one_step_for_all
from sundman.integrators.base import (
    Integrator,
    MomentumState,
    at_rest,
    cast_like,
    check_noise,
    per_leaf,
)
from sundman.noise import Noise, Purpose, Stream, named, substream
from sundman.value import Number, static


class Sgrld(Integrator):
    """Euler-Maruyama in a metric.

    Args:
      temperature: T; None is that of the target, or 1.
      metric: G, one of :mod:`sundman.contrib.metric_tensors`.
      divergence: False leaves out Gamma and samples another law.
      noise: ``"gaussian"``, ``"two_point"`` or ``"three_point"``.
    """

    label = "Langevin in a metric of yours, Fisher or Monge"
    weak_order = 1
    uses_position = True
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


class Sgrhmc(Integrator):
    """Kinetic Langevin in a metric, by a semi-implicit step.

    Args:
      temperature: T; None is that of the target, or 1.
      metric: G, one of :mod:`sundman.contrib.metric_tensors`.
      gamma: the friction.
      divergence: False leaves out Gamma and samples another law.
      noise: ``"gaussian"``, ``"two_point"`` or ``"three_point"``.
    """

    label = "kinetic Langevin in a metric"
    weak_order = 2
    kinetic = True
    uses_position = True
    references = ("ma2015recipe",)

    _: KW_ONLY
    metric: Metric
    gamma: Number = 1.0
    divergence: bool = static(default=True)
    noise: str | Noise = static(default="gaussian")

    def __post_init__(self) -> None:
        super().__post_init__()
        must_be_metric(self.metric)
        self._settle(gamma=check.positive)
        check.choices_are_static(divergence=self.divergence)
        check_noise(self.noise)

    @property
    def biased(self) -> bool:
        """Without the divergence, by design."""
        return not self.divergence

    def init(self, params: PyTree) -> MomentumState:
        """Zero momentum; the metric looks at the position."""
        self.metric.check(params)
        return at_rest(params)

    def move(
        self, stream: Stream, grads: PyTree, state: MomentumState, params: PyTree, dt: PyTree
    ) -> tuple[PyTree, MomentumState]:
        """The kick with its friction, then the position with S halfway."""
        metric = self.metric
        one_step_for_all(metric, dt)
        steps = per_leaf(dt, params)
        force = jax.tree.map(jnp.negative, metric.transpose_times(params, grads))
        if self.divergence and not self.cold:
            gamma = metric.root_divergence(substream(stream, Purpose.CURVATURE), params)
            force = jax.tree.map(lambda push, turn: push + self.T * turn, force, gamma)

        def kick(h: Array, push: Array, momentum: Array, xi: Array) -> Array:
            keep = jnp.exp(-self.gamma * h)
            heat = jnp.sqrt(-jnp.expm1(-2.0 * self.gamma * h) * self.T)
            return keep * momentum + jnp.sqrt(keep) * h * push + heat * xi

        xi = named(self.noise)(stream, params)
        momentum = cast_like(jax.tree.map(kick, steps, force, state.momentum, xi), params)
        velocity = metric.root_times(params, momentum)
        halfway = jax.tree.map(lambda x, h, v: x + 0.5 * h * v, params, steps, velocity)
        velocity = metric.root_times(cast_like(halfway, params), momentum)
        updates = jax.tree.map(lambda h, v: h * v, steps, velocity)
        return cast_like(updates, params), MomentumState(momentum)
