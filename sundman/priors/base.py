"""The prior contract: a log density for the elements of one parameter array.

A prior may have hyper-parameters of its own (scales), made for each array it is given to and
sampled together with the weights. They live on an unbounded scale, and their log density
includes the Jacobian of that scale unless a form says otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
from jax import Array

from sundman import check

PyTree = Any
FAN_INS = ("leading", "trailing")
LOG_2PI = math.log(2.0 * math.pi)


def _no_hyper(shape: tuple[int, ...], dtype: Any) -> None:
    del shape, dtype


@dataclass(frozen=True, eq=False)
class Prior:
    """A density for the elements of an array.

    Attributes:
      name: what it is.
      log_density: (array, hyper) -> sum of the log densities of the elements and of ``hyper``.
      hyper: (shape, dtype) -> first hyper-parameters for an array, or None.
      of_squares: (sum of squares, shape, hyper) -> the same as ``log_density``, for a prior that
        sees an array through its sum of squares alone, and linearly: a normal given its scale.
    """

    name: str
    log_density: Callable[[Array, PyTree], Array]
    hyper: Callable[[tuple[int, ...], Any], PyTree] = _no_hyper
    of_squares: Callable[[Array, tuple[int, ...], PyTree], Array] | None = None


def normal_prior(
    name: str,
    of_squares: Callable[[Array, tuple[int, ...], PyTree], Array],
    hyper: Callable[[tuple[int, ...], Any], PyTree] = _no_hyper,
) -> Prior:
    """The prior that is normal with mean 0 given a scale, from its density of sums of squares."""

    def log_density(w: Array, hyper: PyTree) -> Array:
        return of_squares(jnp.sum(jnp.square(w)), w.shape, hyper)

    return Prior(name, log_density, hyper, of_squares)


def log_normal_of_squares(squares: Array, size: int, log_scale: Array | float) -> Array:
    """The sum of log N(w; 0, exp(log_scale)^2) over ``size`` elements with these squares."""
    return -0.5 * squares * jnp.exp(-2.0 * log_scale) - size * (log_scale + 0.5 * LOG_2PI)


def scale_rule(scale: float, fan_in: str | int | None) -> Callable[[tuple[int, ...]], float]:
    """The scale for an array of a given shape: ``scale``, or scale / sqrt(fan_in).

    ``fan_in="leading"`` counts all axes but the last as inputs, the layout (in, out) of JAX and
    Flax kernels; ``"trailing"`` all but the first, the layout (out, in) of Equinox and torch; a
    number is the fan-in itself. Vectors (biases) have no fan-in and keep ``scale``.
    """
    check.positive(scale=scale)
    if isinstance(fan_in, str):
        check.choice("fan_in", fan_in, FAN_INS)
    elif fan_in is not None:
        check.positive(fan_in=fan_in)

    def at(shape: tuple[int, ...]) -> float:
        if fan_in is None:
            return scale
        if not isinstance(fan_in, str):
            return scale / math.sqrt(fan_in)
        if len(shape) < 2:
            return scale
        inputs = shape[:-1] if fan_in == "leading" else shape[1:]
        return scale / math.sqrt(max(1, math.prod(inputs)))

    return at


def log_normal_density(w: Array, log_scale: Array | float) -> Array:
    """log N(w; 0, exp(log_scale)^2), elementwise."""
    return -0.5 * jnp.square(w * jnp.exp(-log_scale)) - log_scale - 0.5 * LOG_2PI


def log_half_cauchy(log_value: Array) -> Array:
    """log density of log(x) for x ~ half-Cauchy(1): log(2/pi) + log x - log(1 + x^2)."""
    return math.log(2.0 / math.pi) + log_value - jnp.logaddexp(0.0, 2.0 * log_value)
