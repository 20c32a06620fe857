"""Ridges, each a Gaussian across a curve or a line: the star, the banana and Neal's funnel.

The star has four arms along the axes, narrowing outwards:

    U(x, y) = x^2 + k x^2 y^2 + y^2,    k = 1000

Given y, x is Gaussian with variance v(y) = T / (2 (1 + k y^2)). With y = sinh(t) / sqrt(k),
dy / sqrt(1 + k y^2) = dt / sqrt(k), so t has the smooth density exp(-sinh(t)^2 / (k T)) / Z_t:
expectations are integrals over t alone, of what is closed form given y. At temperature 1,

    E[x^2] = (K_1(w) / K_0(w) - 1) / 2000,    Z = sqrt(pi / 1000) e^w K_0(w),    w = 1/2000

The banana is a Gaussian bent along a parabola (Rosenbrock's valley with a closed form):

    U(x, y) = x^2 / (2 s^2) + (y - b (x^2 - s^2))^2 / 2,    b = curvature, s = spread

At temperature T, x ~ N(0, T s^2) and y = b (x^2 - s^2) + e with e ~ N(0, T) independent of x.

In Neal's funnel a variance is itself random, from a narrow neck to a wide mouth:

    v = x[0] ~ N(0, s^2),    x[1:] ~ N(0, e^v) given v
    U(x) = v^2 / (2 s^2) + (dim - 1) v / 2 + e^{-v} sum x[1:]^2 / 2

At temperature T, integrating x[1:] out of exp(-U/T) leaves (T e^v)^{(dim-1)/2} against
e^{-(dim-1) v / (2T)}, so

    v ~ N(mu, s^2 T),    mu = s^2 (dim - 1)(T - 1) / 2,    x[1:] ~ N(0, T e^v) given v

Neal (2003), Annals of Statistics 31, 705-767.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array

from sundman import check
from sundman.targets.base import Floats, Suggested, Target, indicator, squared_gradient, virial
from sundman.targets.quadrature import DEPTH, line_sampler, ridge_cells, rule
from sundman.value import Number, Value

K = 1000.0
LONGEST = 0.2


def star_potential(x: Array) -> Array:
    """U of two coordinates."""
    x2, y2 = x[0] ** 2, x[1] ** 2
    return x2 + K * x2 * y2 + y2


_STAR_PUBLISHED = {"dtau": 1e-3, "alpha": 0.5, "m": 0.1, "M": 10.0, "r": 0.5, "omega": 100.0}
_STAR_OBSERVABLES = {
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
        observables=_STAR_OBSERVABLES,
        truth=truth,
        window=(side, side),
        exact=exact,
        log_normalizer=law.log_normalizer + 0.5 * math.log(math.pi * T / K),
        cells=cells,
        suggested=Suggested(overdamped=4e-4, kinetic=0.008),
        published=_STAR_PUBLISHED,
    )


_BANANA_OBSERVABLES = {
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

    Args:
      curvature: b.
      spread: s.
      temperature: T.

    Returns:
      The target.
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
            **_BANANA_OBSERVABLES,
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


LARGEST_EXPONENT = 87.0  # e to it and to minus it are single-precision numbers
_FUNNEL_PUBLISHED = {"dtau": 0.002, "alpha": 0.8, "m": 0.1, "M": 10.0, "r": 1.0}
_FUNNEL_OBSERVABLES = {
    "v": lambda x: x[0],
    "v2": lambda x: x[0] ** 2,
    "abs_x": lambda x: abs(x[1]),
    "log_x2": lambda x: 2.0 * jnp.log(abs(x[1])),
    "scaled_x2": lambda x: (x[1] * jnp.exp(-x[0] / 2.0)) ** 2,
}


class FunnelPotential(Value):
    """U of two coordinates or more."""

    s: Number

    def __post_init__(self) -> None:
        self._settle(s=check.positive)

    def __call__(self, x: Array) -> Array:
        """U(x)."""
        v, scaled = x[0], x[1:] * jnp.exp(-x[0] / 2.0)
        rest = x.shape[0] - 1
        return v**2 / (2.0 * self.s**2) + rest * v / 2.0 + jnp.sum(scaled**2) / 2.0


class Neck(Value):
    """Whether v < -s."""

    s: Number

    def __call__(self, x: Array) -> Array:
        """One in the neck, zero elsewhere."""
        return indicator(x, x[0] < -self.s)


def funnel(dim: int = 10, s: float = 3.0, *, temperature: float = 1.0) -> Target:
    """Neal's funnel, started at the origin; every truth is in closed form.

    Observables: v, v2, neck (v < -s), abs_x (|x[1]|), log_x2 (log x[1]^2), scaled_x2
    (x[1]^2 / e^v), U, virial. E[x[1]^2] = T e^{mu + s^2 T / 2} and E|grad U|^2 are finite too
    but left out: they rest on draws too rare to be averaged.

    Args:
      dim: the number of coordinates, v included.
      s: the standard deviation of v at temperature 1.
      temperature: T.

    Returns:
      The target.
    """
    check.count("dim", dim, least=2)
    potential = FunnelPotential(s)
    check.positive(temperature=temperature)
    dim, s, T = int(dim), float(s), float(temperature)
    sigma, noise, rest = s * math.sqrt(T), math.sqrt(T), dim - 1
    mu = s**2 * rest * (T - 1.0) / 2.0
    if abs(mu) + 6.0 * sigma > 2.0 * LARGEST_EXPONENT:
        raise ValueError(
            f"at dim={dim}, s={s}, temperature={T} the log-variance is v ~ N({mu:g}, {sigma:g}^2) "
            "and e^(v/2) leaves the range of single precision; take a temperature nearer 1"
        )

    def cells(edges_x: Floats, edges_y: Floats) -> Floats:
        return ridge_cells(
            lambda v: np.exp(-0.5 * ((v - mu) / sigma) ** 2) / (math.sqrt(2.0 * math.pi) * sigma),
            np.zeros_like,
            lambda v: noise * np.exp(v / 2.0),
            np.clip(edges_x, mu - 9.6 * sigma, mu + 9.6 * sigma),
            edges_y,
            min(sigma / 2.0, 0.25),
        )

    def exact(key: Array, n: int) -> Array:
        z = jax.random.normal(key, (n, dim), jnp.float32)
        v = mu + sigma * z[:, :1]
        return jnp.concatenate([v, noise * jnp.exp(v / 2.0) * z[:, 1:]], axis=-1)

    wide = 3.0 * noise * math.exp((mu + 1.5 * sigma) / 2.0)
    return Target(
        name="funnel",
        potential=potential,
        dim=dim,
        temperature=T,
        start=jnp.zeros(dim, jnp.float32),
        observables={
            **_FUNNEL_OBSERVABLES,
            "neck": Neck(s),
            "U": potential,
            "virial": virial(potential),
        },
        truth={
            "v": mu,
            "v2": mu**2 + sigma**2,
            "neck": float(scipy.special.ndtr((-s - mu) / sigma)),
            "abs_x": noise * math.sqrt(2.0 / math.pi) * math.exp(mu / 2.0 + sigma**2 / 8.0),
            "log_x2": mu + math.log(T / 2.0) - float(np.euler_gamma),
            "scaled_x2": T,
            "U": (mu**2 + sigma**2) / (2.0 * s**2) + rest * (mu + T) / 2.0,
            "virial": dim * T,
        },
        window=((mu - 3.0 * sigma, mu + 3.0 * sigma), (-wide, wide)),
        exact=exact,
        log_normalizer=rest / 2.0 * math.log(2.0 * math.pi * T)
        + 0.5 * math.log(2.0 * math.pi * sigma**2)
        + mu**2 / (2.0 * sigma**2),
        cells=cells,
        suggested=Suggested(overdamped=2e-3, kinetic=0.01, squared_gradient=100.0),
        published=_FUNNEL_PUBLISHED,
    )
