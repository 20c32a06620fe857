"""Linear schemes on Gaussians: mean, every variance, energy and virial.

Fixed-step linear schemes are held to the exact law of the scheme itself, discretisation bias
included (:mod:`linear`), at steps where that bias is large. An adaptive scheme whose zeta varies
slowly has the law of its fixed-step relative at the mean step, and SGNHT that of BAOAB without
gradient noise, but for a second-order part: both get ALLOWANCE times the stiffness of each
direction, h precision (overdamped) or h² precision (kinetic), relative to its variance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import linear
import numpy as np
import pytest
from battery import Expected, Floats, Observable, check_law, mean_step, run
from samplers import SAMPLERS

import sundman
from sundman.targets import gaussian

ALLOWANCE = 0.05
SHARPNESS = {False: 0.5, True: 0.2}  # stiffness (its root if kinetic) at h, by row.adaptive
SHORT, FULL, LONG = 0.4, 1.0, 8.0  # of the number of steps of a case; the quick tests are short
GAMMA = 2.0  # of every kinetic row
SIGMA = 3.0

CENTRE = np.array([1.0, -2.0])
CORRELATED = np.array([[1.0, 0.6], [0.6, 0.5]])

Variance = Callable[..., float]
VARIANCE: dict[str, Variance] = {
    "sgld": linear.euler_maruyama,
    "sgld_three_point": linear.euler_maruyama,
    "sa_sgld": linear.euler_maruyama,
    "lm": linear.leimkuhler_matthews,
    "sa_lm": linear.leimkuhler_matthews,
    "sghmc": partial(linear.sghmc, gamma=GAMMA),
    "sa_sghmc": partial(linear.sghmc, gamma=GAMMA),
    "baoab": partial(linear.baoab, gamma=GAMMA),
    "samadams": partial(linear.baoab, gamma=GAMMA),
    "sgnht": partial(linear.baoab, gamma=GAMMA),
    "sa_sgnht": partial(linear.baoab, gamma=GAMMA),
    "sgnht_per_coordinate": partial(linear.baoab, gamma=GAMMA),
    "obabo": partial(linear.obabo, gamma=GAMMA),
    "sa_obabo": partial(linear.obabo, gamma=GAMMA),
    "ubu": partial(linear.ubu, gamma=GAMMA),
}


PRODUCTS = {"sa_obabo", "sgnht_per_coordinate"}  # their factors are in other rows
assert SAMPLERS.keys() >= PRODUCTS
every_scheme = pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] if n in PRODUCTS else []) for n in VARIANCE]
)


# The quick tests try each scheme on one Gaussian, most with noisy gradients: the other cases are
# the same schemes at other numbers, or products of what is tried.
IN_TWENTY = {"sgld"}
NOISY = {"sgld", "lm", "sghmc", "baoab", "samadams", "sgnht", "obabo", "ubu"}
KNOWN = {"samadams"}
FLAT = (("line", 1.0), ("plane", 0.3))
assert VARIANCE.keys() >= IN_TWENTY | NOISY | KNOWN


def quick_if(quick: bool, *values: object):
    return pytest.param(*values, marks=() if quick else pytest.mark.slow)


def short_if(quick: set[str], names: Iterable[str]) -> list:
    """Every name at full length among the slow tests, and some of them short among the quick."""
    slow = [pytest.param(name, FULL, marks=pytest.mark.slow) for name in names]
    return [*((name, SHORT) for name in names if name in quick), *slow]


class Case(NamedTuple):
    """A Gaussian target with its eigendecomposition."""

    target: sundman.targets.Target
    centre: Floats
    precisions: Floats
    directions: Floats
    steps: int


def case(kind: str, T: float) -> Case:
    if kind == "line":
        return Case(gaussian(1, temperature=T), np.zeros(1), np.ones(1), np.eye(1), 50_000)
    if kind == "plane":
        variances, directions = np.linalg.eigh(CORRELATED)
        target = gaussian(covariance=CORRELATED, mean=CENTRE, temperature=T)
        return Case(target, CENTRE, 1.0 / variances, directions, 50_000)
    target = gaussian(20, 1e3, temperature=T)
    return Case(target, np.zeros(20), np.geomspace(1.0, 1e3, 20), np.eye(20), 8_000)


def observables(case: Case) -> dict[str, Observable]:
    def along(x: Floats) -> Floats:
        return (x - case.centre) @ case.directions

    def virial(x: Floats) -> Floats:
        gradient = (along(x) * case.precisions) @ case.directions.T
        return (x * gradient).sum(axis=-1)

    return {
        "offset": lambda x: x - case.centre,
        "square": lambda x: along(x) ** 2,
        "U": lambda x: along(x) ** 2 @ case.precisions / 2,
        "virial": virial,
    }


def expected_law(case: Case, variances: Floats, allowances: Floats) -> dict[str, Expected]:
    """Averages of a Gaussian with these variances along the target's own directions."""
    heat, slack = case.precisions @ variances, case.precisions @ allowances
    return {
        "offset": Expected(0.0),
        "square": Expected(variances, allowances),
        "U": Expected(heat / 2, slack / 2),
        "virial": Expected(heat, slack),
    }


def check_gaussian(
    name: str,
    case: Case,
    T: float,
    *,
    sampler: Callable | None = None,
    sigma: float = 0.0,
    known: float = 0.0,
    longer: float = 1.0,
    seed: int = 11,
) -> None:
    row = SAMPLERS[name]
    stiffest = case.precisions.max()
    h = SHARPNESS[row.adaptive] / (np.sqrt(stiffest) if row.kinetic else stiffest)
    g_ref = case.target.truth["grad2"] + case.target.dim * sigma**2
    draws = run(
        case.target,
        (sampler or row.build)(h, T, g_ref),
        observables(case),
        steps=int(longer * case.steps),
        seed=seed,
        thin=8,
        drop=1000 if row.kinetic else 0,
        sigma=sigma,
    )
    dt = mean_step(draws)
    thermostat = "sgnht" in name
    told = {"known": known} if known else {}
    noise = 0.0 if thermostat else sigma
    variances = np.array([VARIANCE[name](dt, p, T, noise, **told) for p in case.precisions])
    allowances = np.zeros_like(variances)
    if row.adaptive or thermostat:
        stiffness = (dt**2 if row.kinetic else dt) * case.precisions
        allowances = ALLOWANCE * stiffness * variances
    if thermostat and sigma:
        # The thermostat must take away nine tenths of the heat an ignorant scheme would show.
        heated = np.array([VARIANCE[name](dt, p, T, sigma) for p in case.precisions])
        allowances += 0.1 * (heated - variances)
    check_law(draws, expected_law(case, variances, allowances))


@pytest.mark.parametrize(
    ("name", "kind", "T", "length"),
    [(name, "plane", 0.3, SHORT) for name in VARIANCE if name not in PRODUCTS | NOISY]
    + [quick_if(name in IN_TWENTY, name, "twenty", 1.0, FULL) for name in VARIANCE]
    + [quick_if(False, name, kind, T, FULL) for name in VARIANCE for kind, T in FLAT],
)
def test_exact_gradient(name: str, kind: str, T: float, length: float) -> None:
    check_gaussian(name, case(kind, T), T, longer=length)


@pytest.mark.slow
@pytest.mark.parametrize("T", [1.0, 0.3])
@pytest.mark.parametrize("kind", ["line", "plane", "twenty"])
@every_scheme
def test_exact_gradient_long(name: str, kind: str, T: float) -> None:
    check_gaussian(name, case(kind, T), T, longer=LONG, seed=12)


@pytest.mark.long
@pytest.mark.parametrize(("name", "length"), short_if(NOISY, VARIANCE))
def test_gradient_noise_heats_by_the_known_amount(name: str, length: float) -> None:
    """At sigma = 3: +25% to +63% for SGLD, +36% for BAOAB, and nothing for the thermostats."""
    check_gaussian(name, case("plane", 1.0), 1.0, sigma=SIGMA, longer=length)


@pytest.mark.parametrize(
    ("name", "length"), short_if(KNOWN, ("sghmc", "sa_sghmc", "baoab", "samadams", "ubu"))
)
def test_known_gradient_noise_is_corrected(name: str, length: float) -> None:
    def build(h: float, T: float, g_ref: float) -> sundman.Sampler:
        plain = SAMPLERS[name].build(h, T, g_ref)
        settings = {key: plain.integrator.settings[key] for key in ("temperature", "gamma")}
        integrator = getattr(sundman.integrators, plain.integrator.settings["integrator"])
        return sundman.compose(integrator(**settings, sigma=SIGMA), plain.clock)

    target = case("plane", 1.0)
    check_gaussian(name, target, 1.0, sampler=build, sigma=SIGMA, known=SIGMA, longer=length)


def test_euler_maruyama_variance_in_closed_form() -> None:
    h, precision, T, sigma = 0.3, 2.0, 0.7, 1.5
    closed = (T + h * sigma**2 / 2) / (precision * (1 - h * precision / 2))
    assert linear.euler_maruyama(h, precision, T, sigma) == pytest.approx(closed, rel=1e-12)


@pytest.mark.parametrize("scheme", [linear.leimkuhler_matthews, VARIANCE["baoab"]])
def test_second_order_schemes_are_exact_on_a_gaussian(scheme: Variance) -> None:
    assert scheme(0.3, 2.0, 0.7) == pytest.approx(0.35, rel=1e-12)
