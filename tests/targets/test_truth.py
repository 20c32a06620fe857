"""The truths against published digits, closed forms and independent identities."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import kve, ndtr

from sundman import targets
from sundman.targets.wells import COVARIANCES, MEANS, WEIGHTS


def agrees(value: float, digits: str) -> bool:
    """Equal to the number as printed, to within one unit of its last digit."""
    mantissa, _, exponent = digits.partition("e")
    decimals = len(mantissa.partition(".")[2])
    unit = 10.0 ** (int(exponent or 0) - decimals)
    return abs(value - float(digits)) <= unit


STAR = {
    "x2": "0.129086681",
    "y2": "0.129086681",
    "U": "0.629086681",
    "x2y2": "3.70913319e-4",
    "grad2": "520.346724",
    "x4": "0.129457594",
    "abs_x": "0.221604363",
    "outer": "0.0568",
    "virial": "2.",
}
MULLER_BROWN = {
    1.0: {
        "U": "-12.8157386",
        "x": "-0.89970350",
        "y": "0.12266520",
        "grad2": "262.392188",
        "right": "0.03398605",
        "top": "0.23739388",
        "left": "0.72862007",
        "virial": "2.",
    },
    2.0: {
        "U": "-10.3424442",
        "grad2": "388.262823",
        "right": "0.12851253",
        "top": "0.27483233",
        "left": "0.59665515",
        "virial": "4.",
    },
}


@pytest.mark.parametrize("observable", STAR)
def test_star_digits(observable: str) -> None:
    assert agrees(targets.star().truth[observable], STAR[observable])


def test_star_normalizer_and_arm() -> None:
    star = targets.star()
    assert star.log_normalizer is not None
    assert agrees(math.exp(star.log_normalizer), "0.43274422")
    arm = star.grid_mass([-np.inf, -1, 1, np.inf], [-np.inf, np.inf])[:, 0]
    assert agrees(arm[0] + arm[2], "0.028405443")
    across = star.grid_mass([-np.inf, np.inf], [-np.inf, -1, 1, np.inf])[0]
    np.testing.assert_allclose(across, arm, rtol=1e-10)


@pytest.mark.parametrize("temperature", [0.01, 0.3, 1.0, 4.0])
def test_star_closed_form(temperature: float) -> None:
    """At temperature T, w = 1 / (2000 T) and x^2 = T u^2 with 1000 T in place of 1000."""
    star = targets.star(temperature=temperature)
    w = 1.0 / (2000.0 * temperature)
    ratio = kve(1, w) / kve(0, w)
    x2 = (ratio - 1.0) / 2000.0
    z = math.sqrt(math.pi * temperature / 1000.0) * kve(0, w)
    assert star.log_normalizer is not None
    closed = {
        "x2": x2,
        "r2": 2 * x2,
        "U": temperature / 2 + x2,
        "x2y2": (temperature - 2 * x2) / 2000.0,
        "grad2": 4 * temperature + 4000 * temperature * x2,
    }
    for name, value in closed.items():
        assert star.truth[name] == pytest.approx(value, rel=1e-9), name
    assert star.log_normalizer == pytest.approx(math.log(z), abs=1e-11)


@pytest.mark.parametrize("temperature", MULLER_BROWN)
def test_muller_brown_digits(temperature: float) -> None:
    target = targets.muller_brown(temperature=temperature)
    for name, digits in MULLER_BROWN[temperature].items():
        assert agrees(target.truth[name], digits), name
    assert target.log_normalizer is not None
    assert agrees(target.log_normalizer, {1.0: "12.0168769", 2.0: "5.99862876"}[temperature])


@pytest.mark.parametrize(
    ("x", "y", "U"),
    [
        (-0.944, -0.151, -14.15),
        (-1.05, 1.05, -13.63),
        (1.147, -0.497, -11.17),
        (0.229, -0.335, -6.06),
        (-1.408, 0.324, -4.43),
    ],
)
def test_muller_brown_stationary_points(x: float, y: float, U: float) -> None:
    """Within half a unit of the last digit of (x, y) lies a point of zero gradient."""
    potential = targets.muller_brown().potential
    point, step = np.array([x, y]), 1e-4
    shifts = step * np.array([[[i], [j]] for i in (-1, 0, 1) for j in (-1, 0, 1)])
    for _ in range(3):
        value = np.array([float(np.asarray(potential(point[:, None] + s))[0]) for s in shifts])
        grid = value.reshape(3, 3)
        slope = np.array([grid[2, 1] - grid[0, 1], grid[1, 2] - grid[1, 0]]) / (2 * step)
        cross = (grid[2, 2] - grid[2, 0] - grid[0, 2] + grid[0, 0]) / (4 * step**2)
        bend_x = (grid[2, 1] - 2 * grid[1, 1] + grid[0, 1]) / step**2
        bend_y = (grid[1, 2] - 2 * grid[1, 1] + grid[1, 0]) / step**2
        point = point - np.linalg.solve([[bend_x, cross], [cross, bend_y]], slope)
    np.testing.assert_allclose(point, [x, y], atol=6e-4)
    assert float(potential(point)) == pytest.approx(U, abs=6e-3)


def test_quartic_digits() -> None:
    assert agrees(targets.quartic().truth["x2"], "0.467919917")
    assert agrees(targets.quartic(quadratic=0.0).truth["x2"], "0.675978240")
    gamma = 2.0 * math.gamma(0.75) / math.gamma(0.25)
    assert targets.quartic(0.0, temperature=9.0).truth["x2"] == pytest.approx(3.0 * gamma)


@pytest.mark.parametrize("tilt", [0.0, 1.5, -3.0])
@pytest.mark.parametrize("temperature", [0.003, 0.3, 1.0, 50.0])
def test_double_well_against_scipy(temperature: float, tilt: float) -> None:
    target = targets.double_well(2.0, tilt, temperature=temperature)
    lowest = -abs(tilt)  # near the bottom, so that nothing overflows

    def moment(power: int, low: float = -10.0) -> float:
        def integrand(x: float) -> float:
            U = 2.0 * (x * x - 1) ** 2 + tilt * x
            return x**power * math.exp((lowest - U) / temperature)

        return quad(
            integrand, low, 10.0, points=[-1.1, -1.0, 0.0, 1.0, 1.1], epsabs=1e-13, limit=500
        )[0]

    mass = moment(0)
    for name, power in {"x": 1, "x2": 2, "x4": 4}.items():
        assert target.truth[name] == pytest.approx(moment(power) / mass, rel=1e-8, abs=1e-8)
    assert target.truth["right"] == pytest.approx(moment(0, 0.0) / mass, rel=1e-8, abs=1e-12)
    whole = math.log(mass) - lowest / temperature
    assert target.log_normalizer == pytest.approx(whole, rel=1e-8, abs=1e-8)


def test_mixture_closed_form() -> None:
    """At temperature 1 the moments are those of the components."""
    target = targets.mixture()
    second = np.diagonal(COVARIANCES, 0, 1, 2) + MEANS**2
    deviation = np.sqrt(COVARIANCES[:, 0, 0])
    closed = {
        "x": WEIGHTS @ MEANS[:, 0],
        "y": 0.0,
        "x2": WEIGHTS @ second[:, 0],
        "y2": WEIGHTS @ second[:, 1],
        "right": WEIGHTS @ ndtr(MEANS[:, 0] / deviation),
    }
    for name, value in closed.items():
        assert target.truth[name] == pytest.approx(float(value), abs=1e-11), name
    assert target.log_normalizer == pytest.approx(0.0, abs=1e-12)


@pytest.mark.long
@pytest.mark.parametrize("name", ["muller-brown", "mixture", "double-well", "quartic", "star"])
@pytest.mark.parametrize("temperature", [0.7, 1.5])
def test_truth_obeys_the_temperature_derivative(name: str, temperature: float) -> None:
    """E[U] = T^2 d(log Z)/dT ties the energy to the normalizer."""
    step = 1e-3 * temperature
    above = targets.named(name, temperature=temperature + step).log_normalizer
    below = targets.named(name, temperature=temperature - step).log_normalizer
    assert above is not None
    assert below is not None
    slope = (above - below) / (2 * step)
    energy = targets.named(name, temperature=temperature).truth["U"]
    assert temperature**2 * slope == pytest.approx(energy, abs=1e-4)


def test_gaussian_spectrum() -> None:
    target = targets.gaussian(5, 1e4, temperature=2.0)
    assert target.truth["x0_sq"] == pytest.approx(2.0)
    assert target.truth["softest"] == pytest.approx(2.0)
    assert target.truth["stiffest"] == pytest.approx(2e-4)
    assert target.truth["grad2"] == pytest.approx(2.0 * (1 + 10 + 100 + 1e3 + 1e4))
    assert target([0.0, 0.0, 0.0, 0.0, 1.0]) == pytest.approx(5e3, rel=1e-5)


def test_funnel_law_at_another_temperature() -> None:
    """log Z of two coordinates, by quadrature over v of the Gaussian integral over x."""
    temperature, s = 1.3, 1.5
    target = targets.funnel(dim=2, s=s, temperature=temperature)

    def integrand(v: float) -> float:
        return math.exp(-(v * v / (2 * s * s) + v / 2) / temperature + v / 2)

    z = math.sqrt(2 * math.pi * temperature) * quad(integrand, -40, 40, points=[0.0])[0]
    first = quad(lambda v: v * integrand(v), -40, 40, points=[0.0])[0]
    assert target.log_normalizer == pytest.approx(math.log(z))
    mean = first * math.sqrt(2 * math.pi * temperature) / z
    assert target.truth["v"] == pytest.approx(mean, abs=1e-9)
