"""Priors without hyper-parameters: one density for every element of an array.

    log p(w) = sum_i log f(w_i / s) - n log s

with f the density at scale one and s = ``scale``, divided by sqrt(fan_in) where asked.
"""

from __future__ import annotations

import math
from dataclasses import field

import jax.numpy as jnp
from jax import Array
from jax.scipy.special import gammaln

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


class _Elementwise(Prior):
    """A prior given by the log density of w / s."""

    def _scale(self, shape: tuple[int, ...]) -> Number:
        raise NotImplementedError

    def _log_standard(self, z: Array) -> Array:
        raise NotImplementedError

    def log_density(self, w: Array, hyper: PyTree) -> Array:
        """The sum of log f(w_i / s) - log s."""
        del hyper
        scale = self._scale(w.shape)
        return jnp.sum(self._log_standard(w / scale)) - w.size * jnp.log(scale)


class _OfOneScale(_Elementwise):
    """With no other number than the scale."""

    scale: Number = 1.0
    fan_in: str | int | None = static(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._settle(scale=check.positive)
        self._set(fan_in=checked_fan_in(self.fan_in))

    def _scale(self, shape: tuple[int, ...]) -> Number:
        return scale_for(shape, self.scale, self.fan_in)


class LogHalfCauchy(_OfOneScale):
    """The law of v = log(x) with x half-Cauchy(scale): for the log of a scale that is sampled."""

    def log_density(self, w: Array, hyper: PyTree) -> Array:
        """The sum of log C+(e^v / scale) + v - log(scale)."""
        del hyper
        return jnp.sum(log_half_cauchy(w - jnp.log(self._scale(w.shape))))


class Gaussian(_OfOneScale):
    """N(0, scale^2), or N(0, scale^2 / fan_in)."""

    @property
    def sees_squares(self) -> bool:
        """It is normal."""
        return True

    def of_squares(self, squares: Array, shape: tuple[int, ...], hyper: PyTree) -> Array:
        """The log density of an array with this sum of squares."""
        del hyper
        return log_normal_of_squares(squares, math.prod(shape), jnp.log(self._scale(shape)))

    def log_density(self, w: Array, hyper: PyTree) -> Array:
        """The sum of log N(w_i; 0, s^2)."""
        return self.of_squares(jnp.sum(jnp.square(w)), w.shape, hyper)


class Laplace(_OfOneScale):
    """exp(-|w| / scale) / (2 scale); the gradient at 0 is 0."""

    def _log_standard(self, z: Array) -> Array:
        return -z * jnp.sign(z) - math.log(2.0)  # not jnp.abs, whose derivative at 0 is 1


class CauchyProxy(_OfOneScale):
    """-log(1 + (w/scale)^2 / 2) up to a constant: a Cauchy of scale sqrt(2) scale.

    Used in the literature in place of a horseshoe, whose tails it shares; it has no pole at 0.
    """

    def _log_standard(self, z: Array) -> Array:
        return -math.log(math.pi * math.sqrt(2.0)) - jnp.log1p(0.5 * z * z)


class StudentT(_Elementwise):
    """Student's t with ``df`` degrees of freedom: proportional to (1 + z^2/df)^(-(df+1)/2)."""

    df: Number = 3.0
    scale: Number = 1.0
    fan_in: str | int | None = static(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._settle(df=check.positive, scale=check.positive)
        self._set(fan_in=checked_fan_in(self.fan_in))

    def _scale(self, shape: tuple[int, ...]) -> Number:
        return scale_for(shape, self.scale, self.fan_in)

    def _log_standard(self, z: Array) -> Array:
        df = self.df
        constant = gammaln(0.5 * (df + 1)) - gammaln(0.5 * df) - 0.5 * jnp.log(df * math.pi)
        return constant - 0.5 * (df + 1) * jnp.log1p(jnp.square(z) / df)


class ScaleMixture(_Elementwise):
    """fraction N(0, narrow^2) + (1 - fraction) N(0, wide^2): spike and slab."""

    narrow: Number = 0.1
    wide: Number = 1.0
    fraction: Number = field(default=0.5, kw_only=True)
    fan_in: str | int | None = static(default=None, kw_only=True)

    def __post_init__(self) -> None:
        self._settle(narrow=check.positive, wide=check.positive, fraction=check.positive)
        if check.known(self.fraction) and self.fraction >= 1:
            raise ValueError(f"fraction must be between 0 and 1, got fraction={self.fraction!r}")
        self._set(fan_in=checked_fan_in(self.fan_in))

    def _scale(self, shape: tuple[int, ...]) -> Number:
        return scale_for(shape, self.wide, self.fan_in)

    def _log_standard(self, z: Array) -> Array:
        spike = jnp.log(self.fraction) + log_normal_density(z, jnp.log(self.narrow / self.wide))
        slab = jnp.log1p(-self.fraction) + log_normal_density(z, 0.0)
        return jnp.logaddexp(spike, slab)


gaussian = Gaussian
laplace = Laplace
student_t = StudentT
cauchy_proxy = CauchyProxy
scale_mixture = ScaleMixture
