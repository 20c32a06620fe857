"""Preconditioned and Riemannian samplers at a fixed step h.

On the Sundman clock they are ``compose(integrators.psgld(...), clocks.sundman(...))`` and so on.
"""

from __future__ import annotations

from sundman import clocks, integrators
from sundman.curvature import Curvature
from sundman.metric_tensors import Metric
from sundman.samplers import Sampler, compose


def psgld(
    h: float,
    temperature: float = 1.0,
    *,
    decay: float = 0.99,
    eps: float = 1e-5,
    scale: float = 1.0,
    curvature: Curvature | None = None,
    divergence: str = "step",
) -> Sampler:
    """pSGLD at the fixed step h; biased without ``curvature``.

    theta <- theta - h P G + h T Gamma + sqrt(2 T h P) xi,   P = 1 / (sqrt(V) + eps).
    """
    integrator = integrators.psgld(
        temperature,
        decay=decay,
        eps=eps,
        scale=scale,
        curvature=curvature,
        divergence=divergence,
    )
    return compose(integrator, clocks.constant(h))


def adam_sgld(
    h: float,
    temperature: float = 1.0,
    *,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    scale: float = 1.0,
) -> Sampler:
    """AdamSGLD at the fixed step h: Adam with Langevin noise, biased by design."""
    integrator = integrators.adam_sgld(temperature, beta1=beta1, beta2=beta2, eps=eps, scale=scale)
    return compose(integrator, clocks.constant(h))


def sgrld(
    h: float, temperature: float = 1.0, *, metric: Metric, divergence: bool = True
) -> Sampler:
    """SGRLD in a metric (:mod:`sundman.metric_tensors`) at the fixed step h.

    theta <- theta - h G^{-1} grad + h T Gamma + sqrt(2 T h) G^{-1/2} xi.
    """
    return compose(
        integrators.sgrld(metric, temperature, divergence=divergence), clocks.constant(h)
    )


def sgrhmc(
    h: float,
    temperature: float = 1.0,
    *,
    metric: Metric,
    gamma: float = 1.0,
    divergence: bool = True,
) -> Sampler:
    """SGRHMC with friction gamma in a metric, at the fixed step h."""
    return compose(
        integrators.sgrhmc(metric, temperature, gamma=gamma, divergence=divergence),
        clocks.constant(h),
    )
