"""The banana: a Gaussian bent along a parabola (Rosenbrock's valley with a closed form).

    U(x, y) = x^2 / (2 s^2) + (y - b (x^2 - s^2))^2 / 2,    b = curvature, s = spread

At temperature T, x ~ N(0, T s^2) and y = b (x^2 - s^2) + e with e ~ N(0, T) independent of x.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman import check
from sundman.targets.base import Floats, Suggested, Target, squared_gradient, virial
from sundman.targets.quadrature import ridge_cells
from sundman.value import Number, Value

_MOMENTS = {
    "x": lambda x: x[0],
    "y": lambda x: x[1],
    "x2": lambda x: x[0] ** 2,
    "y2": lambda x: x[1] ** 2,
    "x2y": lambda x: x[0] ** 2 * x[1],
}


class BananaPotential(Value):
    """U, with b = curvature and s = spread."""

    curvature: Number
    spread: Number

    def __post_init__(self) -> None:
        self._settle(curvature=check.positive, spread=check.positive)

    def __call__(self, x: Array) -> Array:
        """U(x)."""
        b, s = self.curvature, self.spread
        return x[0] ** 2 / (2.0 * s**2) + (x[1] - b * (x[0] ** 2 - s**2)) ** 2 / 2.0


def banana(curvature: float = 0.5, spread: float = 2.0, *, temperature: float = 1.0) -> Target:
    """A curved valley, started at the bottom of the bend; every truth is in closed form.

    Observables: x, y, x2, y2, x2y, U, grad2, virial.
    """
    potential = BananaPotential(curvature, spread)
    check.positive(temperature=temperature)
    b, s, T = float(curvature), float(spread), float(temperature)
    sigma, noise = s * math.sqrt(T), math.sqrt(T)

    def cells(edges_x: Floats, edges_y: Floats) -> Floats:
        return ridge_cells(
            lambda x: np.exp(-0.5 * (x / sigma) ** 2) / (math.sqrt(2.0 * math.pi) * sigma),
            lambda x: b * (x**2 - s**2),
            lambda x: np.full_like(x, noise),
            np.clip(edges_x, -9.6 * sigma, 9.6 * sigma),
            edges_y,
            min(sigma / 2.0, noise / (20.0 * b * sigma)),
        )

    def exact(key: Array, n: int) -> Array:
        z = jax.random.normal(key, (n, 2), jnp.float32)
        x = sigma * z[:, 0]
        return jnp.stack([x, b * (x**2 - s**2) + noise * z[:, 1]], axis=-1)

    return Target(
        name="banana",
        potential=potential,
        dim=2,
        temperature=T,
        start=jnp.asarray([0.0, -b * s**2], jnp.float32),
        observables={
            **_MOMENTS,
            "U": potential,
            "grad2": squared_gradient(potential),
            "virial": virial(potential),
        },
        truth={
            "x": 0.0,
            "y": b * s**2 * (T - 1.0),
            "x2": T * s**2,
            "y2": T + b**2 * s**4 * (3.0 * T**2 - 2.0 * T + 1.0),
            "x2y": b * s**4 * T * (3.0 * T - 1.0),
            "U": T,
            "grad2": T / s**2 + 4.0 * b**2 * s**2 * T**2 + T,
            "virial": 2.0 * T,
        },
        window=(
            (-3.0 * sigma, 3.0 * sigma),
            (-b * s**2 - 3.0 * noise, b * (2.5**2 * sigma**2 - s**2) + 2.0 * noise),
        ),
        exact=exact,
        log_normalizer=math.log(2.0 * math.pi * T * s),
        cells=cells,
        suggested=Suggested(overdamped=0.02, kinetic=0.1),
    )
