"""The horseshoe in five honest forms.

    tensor:        w ~ N(0, sigma^2), sigma = softplus(p) s, half-Cauchy(1) density on sigma:
                   one scale per array, as behind the paper's table
    relative:      the same with the half-Cauchy(1) density on sigma / s
    marginal:      w ~ N(0, lambda^2 s^2), lambda ~ C+(1) for each weight, integrated out
    hierarchical:  the same with the local scales sampled, and tau ~ C+(1) for the array:
                   w ~ N(0, (lambda tau s)^2)
    regularised:   hierarchical with a slab: lambda^2 -> c^2 lambda^2 / (c^2 + (lambda tau s)^2),
                   c^2 ~ inverse-gamma

s is ``scale``, divided by sqrt(fan_in) where asked. Carvalho, Polson, Scott (2010); Piironen,
Vehtari (2017) for the last.

The marginal form is log(e^u E1(u)) for u > 0, with E1 the exponential integral: by rational
approximations of Abramowitz and Stegun (5.1.53 below 1, 5.1.56 above; errors below 2e-7 and
2e-8), and the derivative from E1 itself, d/du log(e^u E1) = 1 - 1 / (u e^u E1), so that neither
overflows nor loses digits for any u that single precision can hold.
"""

from __future__ import annotations

import math
from dataclasses import field

import jax
import jax.numpy as jnp
from jax import Array
from jax.scipy.special import gammaln
from jax.typing import DTypeLike

from sundman import check
from sundman.priors.base import (
    Prior,
    PyTree,
    checked_fan_in,
    log_half_cauchy,
    log_normal_density,
    log_normal_of_squares,
    scale_for,
)
from sundman.value import Number, static

FORMS = ("tensor", "relative", "marginal", "hierarchical", "regularised")
_ONE_SCALE = ("tensor", "relative")
_SOFTPLUS_IS_ONE = math.log(math.expm1(1.0))
_EXP1_SMALL = (-0.57721566, 0.99999193, -0.24991055, 0.05519968, -0.00976004, 0.00107857)
_EXP1_LARGE_TOP = (0.2677737343, 8.6347608925, 18.0590169730, 8.5733287401, 1.0)
_EXP1_LARGE_BOTTOM = (3.9584969228, 21.0996530827, 25.6329561486, 9.5733223454, 1.0)


class Horseshoe(Prior):
    """The horseshoe prior in one of its forms.

    Args:
      scale: s; divided by sqrt(fan_in) as in :func:`gaussian`.
      form: ``"tensor"``, ``"relative"``, ``"marginal"``, ``"hierarchical"`` or
        ``"regularised"``. The tensor form does not know how wide a layer is: its scales are of
        the order of 1 where s may be a twentieth of that. The relative form does.
      fan_in: ``"leading"``, ``"trailing"``, a number, or None.
      jacobian: tensor and relative form: whether p's density has the factor d sigma / d p. The
        research code has not; with thousands of weights under one scale it makes no difference.
      floor: marginal form only: the pole at 0 is cut at |w| about floor * s.
      slab, slab_df: regularised form only: c^2 ~ InvGamma(slab_df/2, slab_df slab^2/2).
    """

    scale: Number = 1.0
    form: str = static(default="tensor", kw_only=True)
    fan_in: str | int | None = static(default=None, kw_only=True)
    jacobian: bool = static(default=True, kw_only=True)
    floor: Number = field(default=1e-3, kw_only=True)
    slab: Number = field(default=2.0, kw_only=True)
    slab_df: Number = field(default=4.0, kw_only=True)

    def __post_init__(self) -> None:
        check.choice("form", self.form, FORMS)
        check.choices_are_static(jacobian=self.jacobian)
        positive = check.positive
        self._settle(scale=positive, floor=positive, slab=positive, slab_df=positive)
        self._set(fan_in=checked_fan_in(self.fan_in), jacobian=bool(self.jacobian))

    @property
    def sees_squares(self) -> bool:
        """The tensor and the relative form are normal given their one scale."""
        return self.form in _ONE_SCALE

    def _log_scale(self, shape: tuple[int, ...]) -> Array:
        return jnp.log(scale_for(shape, self.scale, self.fan_in))

    def hyper(self, shape: tuple[int, ...], dtype: DTypeLike) -> dict[str, Array] | None:
        """The scales at 1, and the slab at its width."""
        if self.form in _ONE_SCALE:
            return {"p": jnp.asarray(_SOFTPLUS_IS_ONE, dtype)}
        if self.form == "marginal":
            return None
        scales = {"log_local": jnp.zeros(shape, dtype), "log_global": jnp.zeros((), dtype)}
        if self.form == "regularised":
            scales["log_slab2"] = jnp.asarray(2.0 * jnp.log(self.slab), dtype)
        return scales

    def log_density(self, w: Array, hyper: PyTree) -> Array:
        """The sum of the log densities of the weights, and of the sampled scales."""
        if self.form in _ONE_SCALE:
            return self.of_squares(jnp.sum(jnp.square(w)), w.shape, hyper)
        return self._marginal(w) if self.form == "marginal" else self._local(w, hyper)

    def of_squares(self, squares: Array, shape: tuple[int, ...], hyper: PyTree) -> Array:
        """One scale: log N(w; 0, sigma^2) + log C+(sigma), and log d sigma / d p.

        In the relative form C+ is the density of sigma / s.
        """
        p = hyper["p"]
        log_ratio = jnp.log(jax.nn.softplus(p))
        log_sigma = log_ratio + self._log_scale(shape)
        log_prior = self._log_cauchy(log_ratio, shape)
        if self.jacobian:
            log_prior += jax.nn.log_sigmoid(p)
            log_prior += 0.0 if self.form == "relative" else self._log_scale(shape)
        return log_normal_of_squares(squares, math.prod(shape), log_sigma) + log_prior

    def _log_cauchy(self, log_ratio: Array, shape: tuple[int, ...]) -> Array:
        """log C+ of the one scale, without a Jacobian; ``log_ratio`` is log(sigma / s)."""
        log_x = log_ratio + (0.0 if self.form == "relative" else self._log_scale(shape))
        return math.log(2.0 / math.pi) - jnp.logaddexp(0.0, 2.0 * log_x)

    def _marginal(self, w: Array) -> Array:
        """p(w) = e^u E1(u) / sqrt(2 pi^3) / s with u = (w/s)^2 / 2, cut at ``floor``."""
        scale = scale_for(w.shape, self.scale, self.fan_in)
        u = 0.5 * jnp.square(w / scale) + 0.5 * self.floor**2
        constant = -0.5 * math.log(2.0 * math.pi**3)
        return jnp.sum(log_scaled_exp1(u)) + w.size * (constant - jnp.log(scale))

    def _local(self, w: Array, hyper: PyTree) -> Array:
        """The hierarchical and the regularised form."""
        local, global_ = hyper["log_local"], hyper["log_global"]
        log_scale = local + global_ + self._log_scale(w.shape)
        log_prior = jnp.sum(log_half_cauchy(local)) + log_half_cauchy(global_)
        if self.form == "regularised":
            log_c2 = hyper["log_slab2"]
            # 1 / scale^2 -> 1 / scale^2 + 1 / c^2
            log_scale = -0.5 * jnp.logaddexp(-2.0 * log_scale, -log_c2)
            shape, rate = 0.5 * self.slab_df, 0.5 * self.slab_df * self.slab**2
            constant = shape * jnp.log(rate) - gammaln(shape)
            log_prior += constant - shape * log_c2 - rate * jnp.exp(-log_c2)
        return jnp.sum(log_normal_density(w, log_scale)) + log_prior


horseshoe = Horseshoe


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    total = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


def _scaled_exp1(u: Array) -> Array:
    small, large = jnp.minimum(u, 1.0), jnp.maximum(u, 1.0)
    below = jnp.exp(small) * (_polynomial(_EXP1_SMALL, small) - jnp.log(small))
    inverse = 1.0 / large  # in powers of 1/u, so that u^4 cannot overflow
    top = _polynomial(_EXP1_LARGE_TOP[::-1], inverse)
    bottom = _polynomial(_EXP1_LARGE_BOTTOM[::-1], inverse)
    return jnp.where(u < 1.0, below, top / bottom * inverse)


@jax.custom_jvp
def log_scaled_exp1(u: Array) -> Array:
    """log(e^u E1(u))."""
    return jnp.log(_scaled_exp1(u))


@log_scaled_exp1.defjvp
def _log_scaled_exp1_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (u,), (tangent,) = primals, tangents
    value = _scaled_exp1(u)
    # 1 - 1/(u value) loses its digits for large u, so its series in 1/u takes over.
    x = 1.0 / jnp.maximum(u, 1.0)
    series = -x * (1.0 - x * (1.0 - x * (3.0 - 13.0 * x)))
    slope = jnp.where(u < 60.0, 1.0 - 1.0 / (u * value), series)
    return jnp.log(value), slope * tangent
