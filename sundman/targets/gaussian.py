"""The Gaussian, axis-aligned with a given condition number or with any covariance.

    U(x) = (x - mean)^T Sigma^{-1} (x - mean) / 2,    x ~ N(mean, T Sigma)

Computed as |W (x - mean)|^2 / 2 with W^T W = Sigma^{-1}, which in single precision keeps its
sign and its accuracy where the quadratic form of an ill-conditioned precision does not.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jax import Array
from numpy.typing import ArrayLike, NDArray

from sundman import check
from sundman.targets.base import Floats, Suggested, Target, squared_gradient, virial
from sundman.targets.quadrature import ridge_cells
from sundman.value import Value, array

Singles = NDArray[np.float32]
_OBSERVABLES = {
    "x0": lambda x: x[0],
    "x0_sq": lambda x: x[0] ** 2,
    "r2": lambda x: jnp.sum(x**2),
}


class GaussianPotential(Value):
    """U = |W (x - mean)|^2 / 2, with W a matrix, or a vector for its diagonal."""

    mean: Array | Singles = array()
    whiten: Array | Singles = array()

    def __call__(self, x: Array) -> Array:
        """U(x)."""
        offset, W = x - self.mean, self.whiten
        return jnp.sum((W * offset if W.ndim == 1 else W @ offset) ** 2) / 2.0


class SquareAlong(Value):
    """(direction . (x - mean))^2."""

    mean: Array | Singles = array()
    direction: Array | Singles = array()

    def __call__(self, x: Array) -> Array:
        """The squared distance from the mean along the direction."""
        return jnp.dot(self.direction, x - self.mean) ** 2


def _spectrum(dim: int, condition: float) -> Floats:
    check.count("dim", dim, least=1)
    check.positive(condition=condition)
    if condition < 1:
        raise ValueError(f"condition must be 1 or more, got condition={condition!r}")
    if dim == 1 and condition != 1:
        raise ValueError(f"one coordinate has condition number 1, got condition={condition!r}")
    return np.diag(np.geomspace(1.0, 1.0 / condition, int(dim)))


def _checked(covariance: ArrayLike, dim: int | None) -> Floats:
    sigma = np.asarray(covariance, np.float64)
    if sigma.ndim != 2 or sigma.shape[0] != sigma.shape[1] or not sigma.size:
        raise ValueError(f"covariance must be a square matrix, got shape {sigma.shape}")
    if dim is not None and dim != len(sigma):
        raise ValueError(f"covariance has shape {sigma.shape}, but dim={dim!r}")
    if not np.isfinite(sigma).all():
        raise ValueError(f"covariance must be finite, got covariance={covariance!r}")
    apart = float(np.abs(sigma - sigma.T).max())
    if apart > 1e-6 * float(np.abs(sigma).max()):
        raise ValueError(f"covariance must be symmetric, but differs from its transpose by {apart}")
    sigma = (sigma + sigma.T) / 2.0
    least = float(np.linalg.eigvalsh(sigma)[0])
    if not least > 0:
        raise ValueError(f"covariance must be positive definite, got least eigenvalue {least}")
    return sigma


def _cell_masses(mean: Floats, covariance: Floats, *edges: Floats) -> Floats:
    """Cells of x[0] alone, or of x[0] and x[1]: N(slope x[0], across^2) given x[0]."""
    deviation = math.sqrt(covariance[0, 0])
    along = edges[0] - mean[0]
    if len(edges) == 1:
        return np.diff(scipy.special.ndtr(along / deviation))
    slope = covariance[1, 0] / covariance[0, 0]
    across = math.sqrt(covariance[1, 1] - slope * covariance[1, 0])
    return ridge_cells(
        lambda x: np.exp(-0.5 * (x / deviation) ** 2) / (math.sqrt(2.0 * math.pi) * deviation),
        lambda x: slope * x,
        lambda x: np.full_like(x, across),
        np.clip(along, -9.6 * deviation, 9.6 * deviation),
        edges[1] - mean[1],
        deviation / max(2.0, deviation * abs(slope) / across),
    )


def gaussian(
    dim: int | None = None,
    condition: float | None = None,
    *,
    covariance: ArrayLike | None = None,
    mean: ArrayLike | None = None,
    temperature: float = 1.0,
) -> Target:
    """A Gaussian, started at its mean; every truth is in closed form.

    Observables: x0, x0_sq, r2 (|x|^2), softest and stiffest (the squared distance from the mean
    along the directions of largest and smallest variance), U, grad2, virial.

    Args:
      dim: the number of coordinates, 2 unless the covariance says otherwise.
      condition: the ratio of the largest to the smallest variance, by default 1. The
        coordinates are independent, their variances Sigma_ii log-spaced from 1 for x[0], the
        softest, to 1/condition for x[-1], the stiffest.
      covariance: Sigma, a symmetric positive definite matrix, in place of ``condition``.
      mean: by default the origin.
      temperature: T; variances are T Sigma.

    Returns:
      The target.
    """
    check.positive(temperature=temperature)
    T = float(temperature)
    if covariance is not None and condition is not None:
        raise TypeError(f"give covariance or condition, not both; got condition={condition!r}")
    if covariance is not None:
        sigma = _checked(covariance, dim)
    else:
        sigma = _spectrum(2 if dim is None else dim, 1.0 if condition is None else condition)
    dim = len(sigma)
    centre = np.zeros(dim) if mean is None else np.asarray(mean, np.float64)
    if centre.shape != (dim,) or not np.isfinite(centre).all():
        raise ValueError(f"mean must be {dim} finite numbers, got mean={mean!r}")

    diagonal = not np.any(sigma - np.diag(np.diagonal(sigma)))
    root = np.linalg.cholesky(sigma)
    whiten = (1.0 / np.diagonal(root) if diagonal else np.linalg.inv(root)).astype(np.float32)
    variances, directions = np.linalg.eigh(sigma)
    stiff, soft = directions[:, 0].astype(np.float32), directions[:, -1].astype(np.float32)
    middle = centre.astype(np.float32)

    potential = GaussianPotential(middle, whiten)

    def exact(key: Array, n: int) -> Array:
        z = jax.random.normal(key, (n, dim), jnp.float32)
        return jnp.asarray(middle) + z @ jnp.asarray(math.sqrt(T) * root.T, jnp.float32)

    reach = 3.5 * np.sqrt(T * np.diagonal(sigma))
    sides = [(float(c - r), float(c + r)) for c, r in zip(centre, reach, strict=True)]
    if dim == 1:
        sides.append((0.0, 1.1 / math.sqrt(2.0 * math.pi * T * sigma[0, 0])))
    return Target(
        name="gaussian",
        potential=potential,
        dim=dim,
        temperature=T,
        start=jnp.asarray(middle),
        observables={
            **_OBSERVABLES,
            "softest": SquareAlong(middle, soft),
            "stiffest": SquareAlong(middle, stiff),
            "U": potential,
            "grad2": squared_gradient(potential),
            "virial": virial(potential),
        },
        truth={
            "x0": float(centre[0]),
            "x0_sq": float(centre[0] ** 2 + T * sigma[0, 0]),
            "r2": float(centre @ centre + T * np.trace(sigma)),
            "softest": float(T * variances[-1]),
            "stiffest": float(T * variances[0]),
            "U": dim * T / 2.0,
            "grad2": float(T * np.sum(1.0 / variances)),
            "virial": dim * T,
        },
        window=(sides[0], sides[1]),
        exact=exact,
        log_normalizer=float(
            dim / 2.0 * math.log(2.0 * math.pi * T) + np.log(np.diagonal(root)).sum()
        ),
        cells=lambda *edges: _cell_masses(centre, T * sigma, *edges),
        suggested=Suggested(
            overdamped=0.1 * float(variances[0]), kinetic=0.15 * float(variances[0]) ** 0.5
        ),
    )
