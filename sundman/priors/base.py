"""The prior contract: a log density for the elements of one parameter array.

A prior may have hyper-parameters of its own (scales), made for each array it is given to and
sampled together with the weights. They live on an unbounded scale, and their log density
includes the Jacobian of that scale unless a form says otherwise.

Priors are found by their names, too: by :func:`named` and by ``sundman bnn --prior``.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import SupportsIndex

import jax.numpy as jnp
from jax import Array
from jax.typing import DTypeLike

from sundman import check
from sundman._registry import Registry
from sundman._types import PyTree
from sundman.value import Number, Value

FAN_INS = ("leading", "trailing")
LOG_2PI = math.log(2.0 * math.pi)


class Prior(Value):
    """What a prior is. Subclass it for one of your own; ``log_density`` is all it needs."""

    @property
    def sees_squares(self) -> bool:
        """Whether it is normal given its scale: ``of_squares`` then says all of ``log_density``."""
        return False

    def hyper(self, shape: tuple[int, ...], dtype: DTypeLike) -> PyTree:
        """First hyper-parameters for an array, or None if there are none.

        Args:
          shape: of the array.
          dtype: of the array, and of the hyper-parameters.

        Returns:
          A pytree of arrays, sampled along with the parameters.
        """
        del shape, dtype

    def log_density(self, w: Array, hyper: PyTree) -> Array:
        """The sum of the log densities of the elements of ``w``, and of ``hyper``.

        Args:
          w: the array.
          hyper: its hyper-parameters like :meth:`hyper`, or None.

        Returns:
          The log density, a scalar.
        """
        if not self.sees_squares:
            raise NotImplementedError(f"{type(self).__name__} has no log_density(w, hyper)")
        return self.of_squares(jnp.sum(jnp.square(w)), w.shape, hyper)

    def of_squares(self, squares: Array, shape: tuple[int, ...], hyper: PyTree) -> Array:
        """``log_density`` of an array that is seen through its sum of squares alone.

        It must be linear in the sum of squares, which holds for a normal given its scale: the
        native kernels then add the prior's gradient in the pass that moves the array.

        Args:
          squares: the sum of the squares of the elements.
          shape: of the array.
          hyper: its hyper-parameters, or None.

        Returns:
          The log density, a scalar.
        """
        raise NotImplementedError(f"{type(self).__name__} is not normal given its scale")


def squares_suffice(prior: Prior) -> bool:
    """Whether ``of_squares`` may be used: not if a subclass has a ``log_density`` of its own."""
    for cls in type(prior).__mro__:
        if "of_squares" in vars(cls):
            return prior.sees_squares
        if "log_density" in vars(cls):
            break
    return False


def log_normal_of_squares(squares: Array, size: int, log_scale: Array | float) -> Array:
    """The sum of log N(w; 0, exp(log_scale)^2) over ``size`` elements with these squares.

    Args:
      squares: the sum of the squares of the elements.
      size: the number of elements.
      log_scale: the log of their standard deviation.

    Returns:
      The log density, a scalar.
    """
    return -0.5 * squares * jnp.exp(-2.0 * log_scale) - size * (log_scale + 0.5 * LOG_2PI)


def log_normal_density(w: Array, log_scale: Array | float) -> Array:
    """log N(w; 0, exp(log_scale)^2), elementwise."""
    return -0.5 * jnp.square(w * jnp.exp(-log_scale)) - log_scale - 0.5 * LOG_2PI


def log_half_cauchy(log_value: Array) -> Array:
    """log density of log(x) for x ~ half-Cauchy(1): log(2/pi) + log x - log(1 + x^2)."""
    return math.log(2.0 / math.pi) + log_value - jnp.logaddexp(0.0, 2.0 * log_value)


def checked_fan_in(fan_in: str | float | None) -> str | int | float | None:
    """``fan_in`` as a plain Python value: ``"leading"``, ``"trailing"``, a number or None."""
    check.choices_are_static(fan_in=fan_in)
    if isinstance(fan_in, str):
        check.choice("fan_in", fan_in, FAN_INS)
    elif fan_in is not None:
        check.positive(fan_in=fan_in)
        return operator.index(fan_in) if isinstance(fan_in, SupportsIndex) else float(fan_in)
    return fan_in


def scale_for(shape: tuple[int, ...], scale: Number, fan_in: str | float | None) -> Number:
    """The scale for an array of a given shape: ``scale``, or scale / sqrt(fan_in).

    Args:
      shape: of the array.
      scale: the scale for a fan-in of one.
      fan_in: ``"leading"`` counts all axes but the last as inputs, the layout (in, out) of JAX
        and Flax kernels; ``"trailing"`` all but the first, the layout (out, in) of Equinox and
        torch; a number is the fan-in itself. Vectors (biases) have no fan-in and keep ``scale``.

    Returns:
      The scale.
    """
    if fan_in is None:
        return scale
    if not isinstance(fan_in, str):
        return scale / math.sqrt(fan_in)
    if len(shape) < 2:
        return scale
    inputs = shape[:-1] if fan_in == "leading" else shape[1:]
    return scale / math.sqrt(max(1, math.prod(inputs)))


REGISTRY = Registry[Callable[..., Prior]]("prior")


def register(name: str, build: Callable[..., Prior]) -> None:
    """Let a prior be found by its name, with hyphens: by :func:`named` and by ``sundman bnn``.

    Args:
      name: its name, in lower case with hyphens.
      build: its constructor; it takes ``scale`` and ``fan_in``, and has defaults for the rest.
    """
    if isinstance(build, Prior) or not callable(build):
        raise TypeError(f"build must be a constructor of priors, got build={build!r}")
    REGISTRY.add(name, build, maker=build)


def names() -> tuple[str, ...]:
    """The names :func:`named` knows."""
    return REGISTRY.names()


def named(name: str, **settings: object) -> Prior:
    """The prior of that name, hyphens or underscores; settings go to its constructor."""
    return REGISTRY[name](**settings)
