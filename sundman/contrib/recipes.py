"""Preconditioned and Riemannian samplers at a fixed step h.

On the Sundman clock they are ``compose(integrators.psgld(...), clocks.sundman(...))`` and so on.
"""

from __future__ import annotations

from sundman import clocks
from sundman.contrib import integrators
from sundman.contrib.curvature import Curvature
from sundman.contrib.metric_tensors import Metric
from sundman.recipes.registry import StepOrClock, as_clock, recipe
from sundman.samplers import Sampler, compose
from sundman.value import Number


@recipe("pSGLD", integrators.psgld, clocks.constant)
def psgld(
    h: StepOrClock,
    temperature: Number | None = None,
    *,
    decay: Number = 0.99,
    eps: Number = 1e-5,
    scale: Number = 1.0,
    curvature: Curvature | None = None,
    divergence: str = "step",
) -> Sampler:
    """pSGLD at the fixed step h; biased without ``curvature``.

    theta <- theta - h P G + h T Gamma + sqrt(2 T h P) xi,   P = 1 / (sqrt(V) + eps).

    Args:
      h: the step: a physical time, a learning rate, an optax schedule, or a clock.
      temperature: T; None is that of the target, or 1.
      decay: lambda of the average V of squared gradients.
      eps: added to sqrt(V).
      scale: what divides the gradient in V, N for mean gradients.
      curvature: the diagonal of the Hessian of U; adds Gamma.
      divergence: which Gamma, ``"step"`` or ``"limit"``.

    Returns:
      The sampler.

    Examples:
      >>> star = sundman.targets.star()
      >>> sampler = sundman.contrib.psgld(1e-3, eps=0.1)
      >>> draws = sundman.sample(star, sampler, key=jax.random.key(0), steps=20)
      >>> draws.values.shape
      (1, 20, 2)
    """
    integrator = integrators.psgld(
        temperature,
        decay=decay,
        eps=eps,
        scale=scale,
        curvature=curvature,
        divergence=divergence,
    )
    return compose(integrator, as_clock(h))


@recipe("AdamSGLD", integrators.adam_sgld, clocks.constant)
def adam_sgld(
    h: StepOrClock,
    temperature: Number | None = None,
    *,
    beta1: Number = 0.9,
    beta2: Number = 0.999,
    eps: Number = 1e-8,
    scale: Number = 1.0,
) -> Sampler:
    """AdamSGLD at the fixed step h: Adam with Langevin noise, biased by design.

    Args:
      h: the step: a physical time, a learning rate, an optax schedule, or a clock.
      temperature: T; None is that of the target, or 1.
      beta1: decay of the average gradient.
      beta2: decay of the average squared gradient.
      eps: added to sqrt(V).
      scale: what divides the gradient in V, N for mean gradients.

    Returns:
      The sampler.

    Examples:
      >>> star = sundman.targets.star()
      >>> sampler = sundman.contrib.adam_sgld(1e-3, eps=0.1)
      >>> draws = sundman.sample(star, sampler, key=jax.random.key(0), steps=20)
      >>> draws.values.shape
      (1, 20, 2)
    """
    integrator = integrators.adam_sgld(temperature, beta1=beta1, beta2=beta2, eps=eps, scale=scale)
    return compose(integrator, as_clock(h))


@recipe("SGRLD", integrators.sgrld, clocks.constant)
def sgrld(
    h: StepOrClock,
    temperature: Number | None = None,
    *,
    metric: Metric,
    divergence: bool = True,
) -> Sampler:
    """SGRLD in a metric (:mod:`sundman.contrib.metric_tensors`) at the fixed step h.

    theta <- theta - h G^{-1} grad + h T Gamma + sqrt(2 T h) G^{-1/2} xi.

    Args:
      h: the step: a physical time, a learning rate, an optax schedule, or a clock.
      temperature: T; None is that of the target, or 1.
      metric: G.
      divergence: False leaves out Gamma and samples another law.

    Returns:
      The sampler.

    Examples:
      >>> star = sundman.targets.star()
      >>> metric = sundman.contrib.metric_tensors.monge(star.potential, 0.1)
      >>> sampler = sundman.contrib.sgrld(1e-3, metric=metric)
      >>> draws = sundman.sample(star, sampler, key=jax.random.key(0), steps=20)
      >>> draws.values.shape
      (1, 20, 2)
    """
    return compose(
        integrators.sgrld(temperature, metric=metric, divergence=divergence), as_clock(h)
    )


@recipe("SGRHMC", integrators.sgrhmc, clocks.constant)
def sgrhmc(
    h: StepOrClock,
    temperature: Number | None = None,
    *,
    metric: Metric,
    gamma: Number = 1.0,
    divergence: bool = True,
) -> Sampler:
    """SGRHMC with friction gamma in a metric, at the fixed step h.

    Args:
      h: the step: a physical time, a learning rate, an optax schedule, or a clock.
      temperature: T; None is that of the target, or 1.
      metric: G.
      gamma: the friction.
      divergence: False leaves out Gamma and samples another law.

    Returns:
      The sampler.

    Examples:
      >>> star = sundman.targets.star()
      >>> metric = sundman.contrib.metric_tensors.monge(star.potential, 0.1)
      >>> sampler = sundman.contrib.sgrhmc(0.01, metric=metric)
      >>> draws = sundman.sample(star, sampler, key=jax.random.key(0), steps=20)
      >>> draws.values.shape
      (1, 20, 2)
    """
    integrator = integrators.sgrhmc(temperature, metric=metric, gamma=gamma, divergence=divergence)
    return compose(integrator, as_clock(h))
