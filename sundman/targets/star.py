"""The star: four arms along the axes, narrowing outwards.

    U(x, y) = x^2 + k x^2 y^2 + y^2,    k = 1000

Given y, x is Gaussian with variance v(y) = T / (2 (1 + k y^2)). With y = sinh(t) / sqrt(k),
dy / sqrt(1 + k y^2) = dt / sqrt(k), so t has the smooth density exp(-sinh(t)^2 / (k T)) / Z_t:
expectations are integrals over t alone, of what is closed form given y. At temperature 1,

    E[x^2] = (K_1(w) / K_0(w) - 1) / 2000,    Z = sqrt(pi / 1000) e^w K_0(w),    w = 1/2000
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman import check
from sundman.targets.base import Floats, Suggested, Target, indicator, squared_gradient, virial
from sundman.targets.quadrature import DEPTH, line_sampler, ridge_cells, rule

K = 1000.0
LONGEST = 0.2


def star_potential(x: Array) -> Array:
    """U of two coordinates."""
    x2, y2 = x[0] ** 2, x[1] ** 2
    return x2 + K * x2 * y2 + y2


_PUBLISHED = {"dtau": 1e-3, "alpha": 0.5, "m": 0.1, "M": 10.0, "r": 0.5, "omega": 100.0}
_OBSERVABLES = {
    "x2": lambda x: x[0] ** 2,
    "y2": lambda x: x[1] ** 2,
    "r2": lambda x: x[0] ** 2 + x[1] ** 2,
    "x4": lambda x: x[0] ** 4,
    "abs_x": lambda x: abs(x[0]),
    "x2y2": lambda x: (x[0] * x[1]) ** 2,
    "outer": lambda x: indicator(x, (abs(x[0]) > 1.0) | (abs(x[1]) > 1.0)),
    "U": star_potential,
    "grad2": squared_gradient(star_potential),
    "virial": virial(star_potential),
}


def star(*, temperature: float = 1.0) -> Target:
    """The star, started at its centre.

    Observables: x2, y2, r2, x4, abs_x, x2y2, outer (|x| > 1 or |y| > 1), U, grad2, virial.
    Exact draws take t from a table of 4096 cells and x from its Gaussian given y.
    """
    check.positive(temperature=temperature)
    T = float(temperature)
    end = math.asinh(math.sqrt(DEPTH * K * T))
    law = rule(lambda t: np.sinh(t[0]) ** 2 / K, T, [[-end, 0.0, end]], min(LONGEST, end / 8))

    def height(t: Floats) -> Floats:
        return np.sinh(t) / math.sqrt(K)

    def deviation(t: Floats) -> Floats:
        return math.sqrt(T / 2.0) / np.cosh(t)

    def density(t: Floats) -> Floats:
        return np.exp(-(height(t) ** 2) / T - law.log_normalizer)

    def cells(edges_x: Floats, edges_y: Floats) -> Floats:
        t = np.clip(np.arcsinh(edges_y * math.sqrt(K)), -end, end)
        return ridge_cells(density, np.zeros_like, deviation, t, edges_x, LONGEST).T

    y2 = law.mean(lambda t: height(t[0]) ** 2)
    truth = {
        "x2": y2,
        "y2": y2,
        "r2": 2.0 * y2,
        "x4": law.mean(lambda t: 3.0 * deviation(t[0]) ** 4),
        "abs_x": law.mean(lambda t: math.sqrt(2.0 / math.pi) * deviation(t[0])),
        "x2y2": law.mean(lambda t: (deviation(t[0]) * height(t[0])) ** 2),
        "outer": 1.0 - cells(np.array([-1.0, 1.0]), np.array([-1.0, 1.0])).item(),
        "U": T / 2.0 + y2,
        "grad2": 4.0 * T * (1.0 + K * y2),
        "virial": 2.0 * T,
    }
    draw_t = line_sampler(lambda t: density(t[0]), -end, end)

    def exact(key: Array, n: int) -> Array:
        first, second = jax.random.split(key)
        t = draw_t(first, n)[:, 0]
        x = math.sqrt(T / 2.0) / jnp.cosh(t) * jax.random.normal(second, (n,), jnp.float32)
        return jnp.stack([x, jnp.sinh(t) / math.sqrt(K)], axis=-1)

    side = (-2.5 * math.sqrt(T), 2.5 * math.sqrt(T))
    return Target(
        name="star",
        potential=star_potential,
        dim=2,
        temperature=T,
        start=jnp.zeros(2, jnp.float32),
        observables=_OBSERVABLES,
        truth=truth,
        window=(side, side),
        exact=exact,
        log_normalizer=law.log_normalizer + 0.5 * math.log(math.pi * T / K),
        cells=cells,
        suggested=Suggested(overdamped=4e-4, kinetic=0.008),
        published=_PUBLISHED,
    )
