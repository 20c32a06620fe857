"""The horseshoe in four honest forms.

    tensor:        w ~ N(0, sigma^2), sigma = softplus(p) s, half-Cauchy(1) density on sigma:
                   one scale per array, as behind the paper's table
    marginal:      w ~ N(0, lambda^2 s^2), lambda ~ C+(1) for each weight, integrated out
    hierarchical:  the same with the local scales sampled, and tau ~ C+(1) for the array:
                   w ~ N(0, (lambda tau s)^2)
    regularised:   hierarchical with a slab: lambda^2 -> c^2 lambda^2 / (c^2 + (lambda tau s)^2),
                   c^2 ~ inverse-gamma

s is ``scale``, divided by sqrt(fan_in) where asked. Carvalho, Polson, Scott (2010); Piironen,
Vehtari (2017) for the last.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from sundman import check
from sundman.priors.base import (
    Prior,
    PyTree,
    log_half_cauchy,
    log_normal_density,
    log_normal_of_squares,
    normal_prior,
    scale_rule,
)
from sundman.priors.exponential_integral import log_scaled_exp1

FORMS = ("tensor", "marginal", "hierarchical", "regularised")
_ONE = math.log(math.expm1(1.0))


def horseshoe(
    scale: float = 1.0,
    *,
    form: str = "tensor",
    fan_in: str | int | None = None,
    jacobian: bool = True,
    floor: float = 1e-3,
    slab: float = 2.0,
    slab_df: float = 4.0,
) -> Prior:
    """The horseshoe prior in one of its forms.

    Args:
      scale: s; divided by sqrt(fan_in) as in :func:`gaussian`.
      form: ``"tensor"``, ``"marginal"``, ``"hierarchical"`` or ``"regularised"``.
      fan_in: ``"leading"``, ``"trailing"``, a number, or None.
      jacobian: tensor form only: whether p's density has the factor d sigma / d p. The research
        code has not; with thousands of weights under one scale it makes no difference.
      floor: marginal form only: the pole at 0 is cut at |w| about floor * s.
      slab, slab_df: regularised form only: c^2 ~ InvGamma(slab_df/2, slab_df slab^2/2).
    """
    check.choice("form", form, FORMS)
    rule = scale_rule(scale, fan_in)
    if form == "tensor":
        return _tensor(rule, jacobian)
    if form == "marginal":
        check.positive(floor=floor)
        return _marginal(rule, floor)
    check.positive(slab=slab, slab_df=slab_df)
    return _local(rule, (slab, slab_df) if form == "regularised" else None)


def _tensor(rule: Any, jacobian: bool) -> Prior:
    def hyper(shape: tuple[int, ...], dtype: Any) -> dict[str, Array]:
        del shape
        return {"p": jnp.asarray(_ONE, dtype)}

    def of_squares(squares: Array, shape: tuple[int, ...], hyper: PyTree) -> Array:
        p = hyper["p"]
        log_sigma = jnp.log(jax.nn.softplus(p)) + math.log(rule(shape))
        log_prior = math.log(2.0 / math.pi) - jnp.logaddexp(0.0, 2.0 * log_sigma)
        if jacobian:
            log_prior += jax.nn.log_sigmoid(p) + math.log(rule(shape))
        return log_normal_of_squares(squares, math.prod(shape), log_sigma) + log_prior

    return normal_prior("horseshoe_tensor", of_squares, hyper)


def _marginal(rule: Any, floor: float) -> Prior:
    constant = -0.5 * math.log(2.0 * math.pi**3)

    def log_density(w: Array, hyper: PyTree) -> Array:
        del hyper
        at = rule(w.shape)
        u = 0.5 * jnp.square(w / at) + 0.5 * floor**2
        return jnp.sum(log_scaled_exp1(u)) + w.size * (constant - math.log(at))

    return Prior("horseshoe_marginal", log_density)


def _local(rule: Any, slab: tuple[float, float] | None) -> Prior:
    def hyper(shape: tuple[int, ...], dtype: Any) -> dict[str, Array]:
        scales = {"log_local": jnp.zeros(shape, dtype), "log_global": jnp.zeros((), dtype)}
        if slab is not None:
            scales["log_slab2"] = jnp.asarray(2.0 * math.log(slab[0]), dtype)
        return scales

    def log_density(w: Array, hyper: PyTree) -> Array:
        local, global_ = hyper["log_local"], hyper["log_global"]
        log_scale = local + global_ + math.log(rule(w.shape))
        log_prior = jnp.sum(log_half_cauchy(local)) + log_half_cauchy(global_)
        if slab is not None:
            width, df = slab
            log_c2 = hyper["log_slab2"]
            # 1 / scale^2 -> 1 / scale^2 + 1 / c^2
            log_scale = -0.5 * jnp.logaddexp(-2.0 * log_scale, -log_c2)
            shape, rate = 0.5 * df, 0.5 * df * width**2
            constant = shape * math.log(rate) - math.lgamma(shape)
            log_prior += constant - shape * log_c2 - rate * jnp.exp(-log_c2)
        return jnp.sum(log_normal_density(w, log_scale)) + log_prior

    name = "horseshoe_hierarchical" if slab is None else "horseshoe_regularised"
    return Prior(name, log_density, hyper)
