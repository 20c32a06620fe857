"""SA-SGLD with a memoryless clock against its exact law on the quartic.

    dtau = .0125, E[x²]       leaving   arriving   unweighted   mean dt     truth .46792
    exact gradient            .47013    .54821     .81439       .062288
    sigma = 2                 .59945    .67536     .83970       .049529
    sigma = 2, lagged clock   .52829

The three weights differ by far more than any tolerance here, so a weight off by one step, or a
clock in another order than it says, cannot pass. Under gradient noise the same-step bias does
not vanish with dtau; the lagged one does.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from battery import Expected, check_law, mean_step, run
from transfer import Moments, lagged, leimkuhler_matthews, paper_psi, same_step

import sundman
from sundman.targets import quartic

TARGET = quartic()
TRUTH = TARGET.truth["x2"]
DTAU, SIGMA = 0.0125, 2.0
PSI = {"m": 0.1, "M": 10.0, "r": 0.5}
MEMORYLESS = 1e4  # alpha; omega = 1/alpha then makes zeta_{n+1} = g_n


def drift(x):
    return x**3 + x


def sampler(lag: str = "none") -> sundman.Sampler:
    return sundman.sa_sgld(
        DTAU, alpha=MEMORYLESS, omega=1 / MEMORYLESS, psi="published", lag=lag, **PSI
    )


@cache
def same_step_law(sigma: float, divide: int = 1) -> Moments:
    return same_step(drift, paper_psi(**PSI), DTAU / divide, sigma=sigma)


@cache
def lagged_law(divide: int = 1) -> tuple[float, float]:
    return lagged(drift, paper_psi(**PSI), DTAU / divide, sigma=SIGMA)


@pytest.mark.parametrize(
    ("sigma", "reference"),
    [
        (0.0, Moments(0.47013, 0.54821, 0.81439, 0.062288)),
        (SIGMA, Moments(0.59945, 0.67536, 0.83970, 0.0495289)),
    ],
)
def test_operator_reproduces_the_references(sigma: float, reference: Moments) -> None:
    assert same_step_law(sigma) == pytest.approx(reference, abs=1e-5)


def test_operator_of_the_lagged_clock() -> None:
    assert lagged_law()[0] == pytest.approx(0.52829, abs=1e-5)


@pytest.mark.long
def test_operators_agree_with_euler_maruyama_on_a_gaussian() -> None:
    """With psi constant every clock is a fixed step, whose law is known."""

    def constant(zeta):
        return np.ones_like(zeta)

    h, sigma = 0.05, 1.5
    exact = (1 + h * sigma**2 / 2) / (1 - h / 2)
    found = same_step(lambda x: x, constant, h, sigma=sigma, reach=8.0)
    assert found[:3] == pytest.approx([exact] * 3, rel=1e-6)
    found = lagged(lambda x: x, constant, h, sigma=sigma, reach=8.0)
    assert found == pytest.approx((exact, h), rel=1e-6)


def test_operator_of_leimkuhler_matthews_is_exact_on_a_gaussian() -> None:
    found = leimkuhler_matthews(lambda x: x, np.ones_like, np.square, 0.3)
    assert found == pytest.approx(1.0, rel=1e-7)


def test_exact_gradient_bias_vanishes_in_first_order() -> None:
    bias = [same_step_law(0.0, k).leaving / TRUTH - 1 for k in (4, 8)]
    assert np.log2(bias[0] / bias[1]) == pytest.approx(1.0, abs=0.1)


@pytest.mark.long
def test_same_step_bias_under_gradient_noise_does_not_vanish() -> None:
    bias = [same_step_law(SIGMA, k).leaving / TRUTH - 1 for k in (1, 2, 4)]
    assert bias == pytest.approx([0.281, 0.268, 0.262], abs=1e-3)
    assert 2 * bias[2] - bias[1] == pytest.approx(0.256, abs=2e-3)


@pytest.mark.slow
def test_lagged_bias_under_gradient_noise_vanishes() -> None:
    bias = [lagged_law(k)[0] / TRUTH - 1 for k in (1, 2, 4)]
    assert np.log2(bias[0] / bias[1]) == pytest.approx(1.0, abs=0.1)
    assert abs(2 * bias[2] - bias[1]) < 0.003


def check_sampler(lag: str, sigma: float, weighting: str, expected: float, mean_dt: float) -> None:
    draws = run(
        TARGET,
        sampler(lag),
        {"x": lambda x: x[..., 0], "x2": lambda x: x[..., 0] ** 2},
        steps=100_000,
        seed=21,
        thin=4,
        sigma=sigma,
        weighting=weighting,
    )
    check_law(draws, {"x": Expected(0.0), "x2": Expected(expected)})
    assert mean_step(draws) == pytest.approx(mean_dt, rel=0.01)


@pytest.mark.long
@pytest.mark.parametrize(
    "weighting",
    ["leaving", *(pytest.param(w, marks=pytest.mark.slow) for w in ("arriving", "equal"))],
)
@pytest.mark.parametrize("sigma", [pytest.param(0.0, marks=pytest.mark.slow), SIGMA])
def test_sampler_has_the_law_of_the_operator(sigma: float, weighting: str) -> None:
    law = same_step_law(sigma)
    check_sampler("none", sigma, weighting, getattr(law, weighting), law.mean_dt)


@pytest.mark.long
def test_lagged_sampler_has_the_law_of_the_operator() -> None:
    check_sampler("full", SIGMA, "leaving", *lagged_law())
