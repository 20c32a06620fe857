"""The Mueller-Brown potential with modified constants, scaled by 1/20.

    U(x, y) = 1/20 sum_k C_k exp(a_k (x - u_k)^2 + b_k (x - u_k)(y - v_k) + c_k (y - v_k)^2)

Three wells and two saddles between them; the fourth term confines.

    minima    (-0.944, -0.151) U = -14.15    (-1.05, 1.05)   -13.63    (1.147, -0.497) -11.17
    saddles   (0.229, -0.335)       -6.06    (-1.408, 0.324)  -4.43

Mueller and Brown (1979), Theoretica Chimica Acta 53, 75-93.
"""

from __future__ import annotations

import math

from sundman import check
from sundman.targets.assemble import by_quadrature
from sundman.targets.base import Field, Points, Suggested, Target, indicator, namespace
from sundman.targets.quadrature import DEPTH, support

# C, a, b, c, u, v of each term
TERMS = (
    (-267.0, -0.9, 0.0, -9.0, 1.35, -0.5),
    (-285.0, -0.9, 0.0, -9.0, -0.95, -0.15),
    (-275.0, -9.5, 10.0, -5.5, -1.05, 1.05),
    (2.5, 0.6, 0.1, 0.1, -1.0, 0.9),
)
RIGHT, TOP = 0.23, 0.4
_PUBLISHED = {"dtau": 0.01, "alpha": 0.07, "m": 0.1, "M": 10.0, "r": 0.25}  # m, M, dtau are ours
_OBSERVABLES: dict[str, Field] = {
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


def _gradient(x: Points) -> list[Points]:
    exp = namespace(x).exp
    along_x, along_y = 0.0, 0.0
    for C, a, b, c, u, v in TERMS:
        dx, dy = x[0] - u, x[1] - v
        term = C / 20.0 * exp(a * dx * dx + b * dx * dy + c * dy * dy)
        along_x = along_x + term * (2.0 * a * dx + b * dy)
        along_y = along_y + term * (b * dx + 2.0 * c * dy)
    return [along_x, along_y]


def _box(temperature: float) -> list[tuple[float, float]]:
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
        _gradient,
        _OBSERVABLES,
        temperature=temperature,
        start=[-0.944, -0.151],
        box=support(muller_brown_potential, temperature, _box(temperature)),
        cuts=[[RIGHT], [TOP]],
        longest=0.12 * min(1.0, math.sqrt(temperature)),
        least_window=((-1.9, 1.9), (-0.9, 1.8)),
        suggested=Suggested(overdamped=2e-3, kinetic=0.03),
        published=_PUBLISHED,
    )
