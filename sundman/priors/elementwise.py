"""Priors without hyper-parameters: one density for every element of an array."""

from __future__ import annotations

import math
from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from sundman import check
from sundman.priors.base import (
    Prior,
    PyTree,
    log_normal_density,
    log_normal_of_squares,
    normal_prior,
    scale_rule,
)


def _prior(
    name: str, scale: float, fan_in: str | int | None, log_standard: Callable[[Array], Array]
) -> Prior:
    """The prior of w when w / scale has the log density ``log_standard``."""
    rule = scale_rule(scale, fan_in)

    def log_density(w: Array, hyper: PyTree) -> Array:
        del hyper
        at = rule(w.shape)
        return jnp.sum(log_standard(w / at)) - w.size * math.log(at)

    return Prior(name, log_density)


def gaussian(scale: float = 1.0, *, fan_in: str | int | None = None) -> Prior:
    """N(0, scale^2), or N(0, scale^2 / fan_in)."""
    rule = scale_rule(scale, fan_in)

    def of_squares(squares: Array, shape: tuple[int, ...], hyper: PyTree) -> Array:
        del hyper
        return log_normal_of_squares(squares, math.prod(shape), math.log(rule(shape)))

    return normal_prior("gaussian", of_squares)


def laplace(scale: float = 1.0, *, fan_in: str | int | None = None) -> Prior:
    """exp(-|w| / scale) / (2 scale); the gradient at 0 is 0."""
    # Not jnp.abs, whose derivative at 0 is 1.
    return _prior("laplace", scale, fan_in, lambda z: -z * jnp.sign(z) - math.log(2.0))


def student_t(df: float = 3.0, scale: float = 1.0, *, fan_in: str | int | None = None) -> Prior:
    """Student's t with ``df`` degrees of freedom: proportional to (1 + z^2/df)^(-(df+1)/2)."""
    check.positive(df=df)
    constant = math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - 0.5 * math.log(df * math.pi)
    return _prior(
        "student_t",
        scale,
        fan_in,
        lambda z: constant - 0.5 * (df + 1) * jnp.log1p(jnp.square(z) / df),
    )


def cauchy_proxy(scale: float = 1.0, *, fan_in: str | int | None = None) -> Prior:
    """-log(1 + (w/scale)^2 / 2) up to a constant: a Cauchy of scale sqrt(2) scale.

    Used in the literature in place of a horseshoe, whose tails it shares; it has no pole at 0.
    """
    constant = -math.log(math.pi * math.sqrt(2.0))
    return _prior("cauchy_proxy", scale, fan_in, lambda z: constant - jnp.log1p(0.5 * z * z))


def scale_mixture(
    narrow: float = 0.1,
    wide: float = 1.0,
    *,
    fraction: float = 0.5,
    fan_in: str | int | None = None,
) -> Prior:
    """fraction N(0, narrow^2) + (1 - fraction) N(0, wide^2): spike and slab."""
    check.positive(narrow=narrow, wide=wide, fraction=fraction)
    if fraction >= 1:
        raise ValueError(f"fraction must be between 0 and 1, got fraction={fraction!r}")

    def log_standard(z: Array) -> Array:
        spike = math.log(fraction) + log_normal_density(z, math.log(narrow / wide))
        slab = math.log1p(-fraction) + log_normal_density(z, 0.0)
        return jnp.logaddexp(spike, slab)

    return _prior("scale_mixture", wide, fan_in, log_standard)
