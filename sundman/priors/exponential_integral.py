"""log(e^u E1(u)) for u > 0, with E1 the exponential integral: the shape of the horseshoe.

Rational approximations of Abramowitz and Stegun (5.1.53 below 1, 5.1.56 above; errors below
2e-7 and 2e-8), and the derivative from E1 itself, d/du log(e^u E1) = 1 - 1 / (u e^u E1), so that
neither overflows nor loses digits for any u that single precision can hold.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

_SMALL = (-0.57721566, 0.99999193, -0.24991055, 0.05519968, -0.00976004, 0.00107857)
_LARGE_TOP = (0.2677737343, 8.6347608925, 18.0590169730, 8.5733287401, 1.0)
_LARGE_BOTTOM = (3.9584969228, 21.0996530827, 25.6329561486, 9.5733223454, 1.0)


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    total = jnp.full_like(x, coefficients[-1])
    for coefficient in coefficients[-2::-1]:
        total = total * x + coefficient
    return total


def _scaled_exp1(u: Array) -> Array:
    small, large = jnp.minimum(u, 1.0), jnp.maximum(u, 1.0)
    below = jnp.exp(small) * (_polynomial(_SMALL, small) - jnp.log(small))
    inverse = 1.0 / large  # in powers of 1/u, so that u^4 cannot overflow
    top = _polynomial(_LARGE_TOP[::-1], inverse)
    bottom = _polynomial(_LARGE_BOTTOM[::-1], inverse)
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
