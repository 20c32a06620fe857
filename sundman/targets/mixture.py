"""Two Gaussian modes far apart.

    U(x) = -log(.45 N(x; (-4, 0), diag(1.5, 1)) + .55 N(x; (4.5, 0), [[.5, .1], [.1, .3]]))

At temperature T the density is that of the mixture to the power 1/T: another law, no longer
a mixture of Gaussians.
"""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman import check
from sundman.targets.assemble import by_quadrature
from sundman.targets.base import Suggested, Target, indicator, namespace
from sundman.targets.quadrature import DEPTH, support

WEIGHTS = np.array([0.45, 0.55])
MEANS = np.array([[-4.0, 0.0], [4.5, 0.0]])
COVARIANCES = np.array([[[1.5, 0.0], [0.0, 1.0]], [[0.5, 0.1], [0.1, 0.3]]])
PRECISIONS = np.linalg.inv(COVARIANCES)
LOG_PEAKS = np.log(WEIGHTS / (2.0 * math.pi * np.sqrt(np.linalg.det(COVARIANCES))))
_PUBLISHED = {"dtau": 0.01, "alpha": 0.1, "m": 0.5, "M": 50.0, "r": 0.5}
_OBSERVABLES = {
    "x": lambda x: x[0],
    "y": lambda x: x[1],
    "x2": lambda x: x[0] ** 2,
    "y2": lambda x: x[1] ** 2,
    "right": lambda x: indicator(x, x[0] > 0),
}


def _pull(x: Any, k: int) -> tuple[Any, Any, Any]:
    """The log of component k at x, weight included, and minus its gradient."""
    P, (u, v) = PRECISIONS[k].tolist(), MEANS[k].tolist()
    dx, dy = x[0] - u, x[1] - v
    along_x, along_y = P[0][0] * dx + P[0][1] * dy, P[1][0] * dx + P[1][1] * dy
    return float(LOG_PEAKS[k]) - (dx * along_x + dy * along_y) / 2.0, along_x, along_y


def mixture_potential(x: Any) -> Any:
    """U of two coordinates, in numpy and in jax."""
    return -namespace(x).logaddexp(_pull(x, 0)[0], _pull(x, 1)[0])


def _gradient(x: Any) -> list[Any]:
    xp = namespace(x)
    (first, *pull_0), (second, *pull_1) = _pull(x, 0), _pull(x, 1)
    share = 0.5 * (1.0 + xp.tanh((first - second) / 2.0))
    return [share * a + (1.0 - share) * b for a, b in zip(pull_0, pull_1, strict=True)]


def _by_component(key: Array, n: int) -> Array:
    which, normal = jax.random.split(key)
    second = jax.random.bernoulli(which, WEIGHTS[1], (n,)).astype(int)
    roots = jnp.asarray(np.linalg.cholesky(COVARIANCES), jnp.float32)
    z = jax.random.normal(normal, (n, 2), jnp.float32)
    return jnp.asarray(MEANS, jnp.float32)[second] + jnp.einsum("nij,nj->ni", roots[second], z)


def mixture(*, temperature: float = 1.0) -> Target:
    """A wide mode on the left and a narrow, tilted one on the right; started in the left.

    Observables: x, y, x2, y2, right (x > 0), U, grad2, virial. Exact draws are by component at
    temperature 1, elsewhere from a table of cells with exact masses and a bilinear density.
    The truth is a quadrature, good to 9 digits up to T = 2 and to 7 at T = 10, where the
    line between the modes is a sharp fold.
    """
    check.positive(temperature=temperature)
    temperature = float(temperature)
    heat = math.sqrt(temperature)
    reach = np.sqrt(2.0 * (DEPTH + 4.0) * temperature * np.diagonal(COVARIANCES, 0, 1, 2))
    low, high = (MEANS - reach).min(axis=0), (MEANS + reach).max(axis=0)
    return by_quadrature(
        "mixture",
        mixture_potential,
        _gradient,
        _OBSERVABLES,
        temperature=temperature,
        start=[-4.0, 0.0],
        box=support(mixture_potential, temperature, [(low[0], high[0]), (low[1], high[1])]),
        cuts=[[0.0], []],
        longest=max(0.5 * min(1.0, heat), 0.25 * heat),
        exact=_by_component if temperature == 1.0 else None,
        suggested=Suggested(overdamped=0.05, kinetic=0.1),
        published=_PUBLISHED,
    )
