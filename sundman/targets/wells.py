"""Wells: the quartic double well, the single quartic well, two modes far apart, Mueller-Brown.

The double well, of one coordinate:

    U(x) = barrier (x^2 - 1)^2 + tilt x

Without tilt: minima at -1 and 1 with U = 0, U = barrier between them. A positive tilt makes the
left well the deeper one, by about 2 tilt. Slopes of the wells reach 8 barrier / sqrt(27): a tilt
beyond that leaves one well only.

The quartic well, with or without its quadratic term:

    U(x) = x^4 / 4 + quadratic x^2 / 2

The drift grows like x^3, faster than explicit Euler steps of any fixed length can follow.

The mixture of two Gaussian modes, of two coordinates:

    U(x) = -log(.45 N(x; (-4, 0), diag(1.5, 1)) + .55 N(x; (4.5, 0), [[.5, .1], [.1, .3]]))

At temperature T the density is that of the mixture to the power 1/T: another law, no longer
a mixture of Gaussians.

The Mueller-Brown potential with modified constants, scaled by 1/20:

    U(x, y) = 1/20 sum_k C_k exp(a_k (x - u_k)^2 + b_k (x - u_k)(y - v_k) + c_k (y - v_k)^2)

Three wells and two saddles between them; the fourth term confines.

    minima    (-0.944, -0.151) U = -14.15    (-1.05, 1.05)   -13.63    (1.147, -0.497) -11.17
    saddles   (0.229, -0.335)       -6.06    (-1.408, 0.324)  -4.43

Mueller and Brown (1979), Theoretica Chimica Acta 53, 75-93.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from sundman import check
from sundman.targets.base import Field, Points, Suggested, Target, indicator, namespace
from sundman.targets.from_potential import by_quadrature
from sundman.targets.quadrature import DEPTH, support
from sundman.value import Number, Value

_DOUBLE_WELL_OBSERVABLES: dict[str, Field] = {
    "x": lambda x: x[0],
    "x2": lambda x: x[0] ** 2,
    "x4": lambda x: x[0] ** 4,
    "right": lambda x: indicator(x, x[0] > 0),
}


class DoubleWellPotential(Value):
    """U of one coordinate, in numpy and in jax."""

    barrier: Number
    tilt: Number

    def __post_init__(self) -> None:
        self._settle(barrier=check.positive, tilt=check.number)

    def __call__(self, x: Points) -> Points:
        """U(x)."""
        return self.barrier * (x[0] ** 2 - 1.0) ** 2 + self.tilt * x[0]

    def gradient(self, x: Points) -> list[Points]:
        """The components of grad U."""
        return [4.0 * self.barrier * x[0] * (x[0] ** 2 - 1.0) + self.tilt]


def double_well(barrier: float = 3.0, tilt: float = 0.0, *, temperature: float = 1.0) -> Target:
    """Two wells on a line; started in the left one.

    Observables: x, x2, x4, right (x > 0), U, grad2, virial.

    Args:
      barrier: the height between the wells.
      tilt: the slope that makes one of them the deeper one.
      temperature: T.

    Returns:
      The target.
    """
    potential = DoubleWellPotential(barrier, tilt)
    check.positive(temperature=temperature)
    if not abs(tilt) < (most := 8.0 * barrier / math.sqrt(27.0)):
        raise ValueError(
            f"tilt={tilt} leaves one well; with barrier={barrier} keep |tilt| < {most:.4g}"
        )
    heat, lean = temperature / barrier, abs(tilt) / barrier
    # |x| <= 1 + |x^2 - 1| bounds what the tilt can lower U by.
    reach = math.sqrt(1.0 + (lean + math.sqrt(lean**2 + 4.0 * DEPTH * heat)) / 2.0)

    return by_quadrature(
        "double-well",
        potential,
        potential.gradient,
        _DOUBLE_WELL_OBSERVABLES,
        temperature=float(temperature),
        start=[-1.0],
        box=[(-reach, reach)],
        cuts=[[0.0]],
        longest=min(heat**0.5, heat**0.25) / 2,
        suggested=Suggested(overdamped=0.01, kinetic=0.05),
    )


_QUARTIC_OBSERVABLES: dict[str, Field] = {
    "x": lambda x: x[0],
    "x2": lambda x: x[0] ** 2,
    "x4": lambda x: x[0] ** 4,
    "abs_x": lambda x: abs(x[0]),
}


class QuarticPotential(Value):
    """U of one coordinate, in numpy and in jax."""

    quadratic: Number

    def __post_init__(self) -> None:
        self._settle(quadratic=check.not_negative)

    def __call__(self, x: Points) -> Points:
        """U(x)."""
        return x[0] ** 4 / 4.0 + self.quadratic * x[0] ** 2 / 2.0

    def gradient(self, x: Points) -> list[Points]:
        """The components of grad U."""
        return [x[0] ** 3 + self.quadratic * x[0]]


def quartic(quadratic: float = 1.0, *, temperature: float = 1.0) -> Target:
    """One well on a line; ``quadratic=0`` leaves the pure quartic.

    Observables: x, x2, x4, abs_x, U, grad2, virial.
    """
    potential = QuarticPotential(quadratic)
    check.positive(temperature=temperature)
    width = temperature**0.25
    reach = (4.0 * DEPTH) ** 0.25 * width
    if quadratic > 0:
        gaussian_width = (temperature / quadratic) ** 0.5
        width, reach = min(width, gaussian_width), min(reach, 10.0 * gaussian_width)

    return by_quadrature(
        "quartic",
        potential,
        potential.gradient,
        _QUARTIC_OBSERVABLES,
        temperature=float(temperature),
        start=[0.0],
        box=[(-reach, reach)],
        cuts=[[0.0]],
        longest=width / 2,
        suggested=Suggested(overdamped=0.02, kinetic=0.1),
    )


WEIGHTS = np.array([0.45, 0.55])
MEANS = np.array([[-4.0, 0.0], [4.5, 0.0]])
COVARIANCES = np.array([[[1.5, 0.0], [0.0, 1.0]], [[0.5, 0.1], [0.1, 0.3]]])
PRECISIONS = np.linalg.inv(COVARIANCES)
LOG_PEAKS = np.log(WEIGHTS / (2.0 * math.pi * np.sqrt(np.linalg.det(COVARIANCES))))
_MIXTURE_PUBLISHED = {"dtau": 0.01, "alpha": 0.1, "m": 0.5, "M": 50.0, "r": 0.5}
_MIXTURE_OBSERVABLES: dict[str, Field] = {
    "x": lambda x: x[0],
    "y": lambda x: x[1],
    "x2": lambda x: x[0] ** 2,
    "y2": lambda x: x[1] ** 2,
    "right": lambda x: indicator(x, x[0] > 0),
}


def _pull(x: Points, k: int) -> tuple[Points, Points, Points]:
    """The log of component k at x, weight included, and minus its gradient."""
    P, (u, v) = PRECISIONS[k].tolist(), MEANS[k].tolist()
    dx, dy = x[0] - u, x[1] - v
    along_x, along_y = P[0][0] * dx + P[0][1] * dy, P[1][0] * dx + P[1][1] * dy
    return float(LOG_PEAKS[k]) - (dx * along_x + dy * along_y) / 2.0, along_x, along_y


def mixture_potential(x: Points) -> Points:
    """U of two coordinates, in numpy and in jax."""
    return -namespace(x).logaddexp(_pull(x, 0)[0], _pull(x, 1)[0])


def _mixture_gradient(x: Points) -> list[Points]:
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
        _mixture_gradient,
        _MIXTURE_OBSERVABLES,
        temperature=temperature,
        start=[-4.0, 0.0],
        box=support(mixture_potential, temperature, [(low[0], high[0]), (low[1], high[1])]),
        cuts=[[0.0], []],
        longest=max(0.5 * min(1.0, heat), 0.25 * heat),
        exact=_by_component if temperature == 1.0 else None,
        suggested=Suggested(overdamped=0.05, kinetic=0.1),
        published=_MIXTURE_PUBLISHED,
    )


# C, a, b, c, u, v of each term
TERMS = (
    (-267.0, -0.9, 0.0, -9.0, 1.35, -0.5),
    (-285.0, -0.9, 0.0, -9.0, -0.95, -0.15),
    (-275.0, -9.5, 10.0, -5.5, -1.05, 1.05),
    (2.5, 0.6, 0.1, 0.1, -1.0, 0.9),
)
RIGHT, TOP = 0.23, 0.4
_MULLER_BROWN_PUBLISHED = {
    "dtau": 0.01,
    "alpha": 0.07,
    "m": 0.1,
    "M": 10.0,
    "r": 0.25,
}  # m, M, dtau are ours
_MULLER_BROWN_OBSERVABLES: dict[str, Field] = {
    "x": lambda x: x[0],
    "y": lambda x: x[1],
    "right": lambda x: indicator(x, x[0] > RIGHT),
    "top": lambda x: indicator(x, (x[0] <= RIGHT) & (x[1] > TOP)),
    "left": lambda x: indicator(x, (x[0] <= RIGHT) & (x[1] <= TOP)),
}


def muller_brown_potential(x: Points) -> Points:
    """U of two coordinates, in numpy and in jax."""
    exp = namespace(x).exp
    total = 0.0
    for C, a, b, c, u, v in TERMS:
        dx, dy = x[0] - u, x[1] - v
        total = total + C / 20.0 * exp(a * dx * dx + b * dx * dy + c * dy * dy)
    return total


def _muller_brown_gradient(x: Points) -> list[Points]:
    exp = namespace(x).exp
    along_x, along_y = 0.0, 0.0
    for C, a, b, c, u, v in TERMS:
        dx, dy = x[0] - u, x[1] - v
        term = C / 20.0 * exp(a * dx * dx + b * dx * dy + c * dy * dy)
        along_x = along_x + term * (2.0 * a * dx + b * dy)
        along_y = along_y + term * (b * dx + 2.0 * c * dy)
    return [along_x, along_y]


def _muller_brown_box(temperature: float) -> list[tuple[float, float]]:
    """Where the confining term, against which the wells count 42 at most, is below DEPTH T."""
    C, a, b, c, u, v = TERMS[3]
    exponent = math.log((DEPTH * temperature + 42.0) * 20.0 / C)
    reach_x = math.sqrt(exponent / (a - b * b / (4.0 * c)))
    reach_y = math.sqrt(exponent / (c - b * b / (4.0 * a)))
    return [(u - reach_x, u + reach_x), (v - reach_y, v + reach_y)]


def muller_brown(*, temperature: float = 1.0) -> Target:
    """Three wells of the modified Mueller-Brown potential; started in the deepest.

    Observables: x, y, right (x > .23), top (x <= .23, y > .4), left (the rest), U, grad2,
    virial. The truth is a two-dimensional quadrature; exact draws come from a table of cells
    a sixth of the narrowest well wide, with exact masses and a bilinear density in each.
    """
    check.positive(temperature=temperature)
    temperature = float(temperature)
    return by_quadrature(
        "muller-brown",
        muller_brown_potential,
        _muller_brown_gradient,
        _MULLER_BROWN_OBSERVABLES,
        temperature=temperature,
        start=[-0.944, -0.151],
        box=support(muller_brown_potential, temperature, _muller_brown_box(temperature)),
        cuts=[[RIGHT], [TOP]],
        longest=0.12 * min(1.0, math.sqrt(temperature)),
        least_window=((-1.9, 1.9), (-0.9, 1.8)),
        suggested=Suggested(overdamped=2e-3, kinetic=0.03),
        published=_MULLER_BROWN_PUBLISHED,
    )
