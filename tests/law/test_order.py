"""Weak order: how the bias of an average falls with the step.

Relative bias of E[x²] on the quartic, alpha = 5, psi `published`, m = .1, M = 10, r = .5; standard
errors of the last digits in brackets, slopes of log |bias| against log dtau:

    dtau                         .04        .02        .01        .005       slope
    SA-SGLD, leaving weights     .1537(5)   .0690(5)   .0330(6)   .0160(8)   1.06 from .02 on
    SA-SGLD, unweighted          .3031(7)   .1647(6)   .1084(7)   .0829(9)   does not vanish
    SA-LM, leaving weights      -.0261(2)  -.0126(2)  -.0059(3)              1.08(3)

So Leimkuhler-Matthews is second order at a fixed step only; on an adaptive clock it is first
order, with a constant five times smaller than Euler-Maruyama's.
"""

from __future__ import annotations

import dataclasses
import math

import linear
import numpy as np
import pytest
from battery import Expected, Floats, average, check_law, relative_bias, run
from transfer import leimkuhler_matthews

import sundman
from sundman.estimate import Estimate
from sundman.targets import Target, quartic
from sundman.targets.base import namespace
from sundman.targets.from_potential import by_quadrature

QUARTIC = quartic()
TRUTH = QUARTIC.truth["x2"]
CLOCK = {"alpha": 5.0, "m": 0.1, "M": 10.0, "r": 0.5, "psi": "published"}
X2 = {"x2": lambda x: x[..., 0] ** 2}


def slope(steps: list[float], biases: list[float]) -> float:
    return float(np.polyfit(np.log(steps), np.log(np.abs(biases)), 1)[0])


def quartic_biases(
    sampler: sundman.Sampler, chains: int = 256, steps: int = 60_000
) -> tuple[Estimate, Estimate]:
    """Relative bias of E[x²], weighted and not."""
    draws = run(QUARTIC, sampler, X2, steps=steps, chains=chains, seed=41, thin=6)
    unweighted = dataclasses.replace(draws, weight=np.ones_like(draws.weight))
    return relative_bias(draws, "x2", TRUTH), relative_bias(unweighted, "x2", TRUTH)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["gaussian", "three_point"])
def test_adaptive_euler_maruyama_is_first_order_when_weighted(noise: str) -> None:
    dtaus = [0.02, 0.01, 0.005]
    biases = [quartic_biases(sundman.sa_sgld(dtau, noise=noise, **CLOCK)) for dtau in dtaus]
    weighted, unweighted = zip(*biases, strict=True)
    assert slope(dtaus, [b.value for b in weighted]) == pytest.approx(1.0, abs=0.2)
    # In the limit the weighted bias is none and the unweighted one about 6%.
    limit = [2 * two[-1].value - two[-2].value for two in (weighted, unweighted)]
    error = 2 * unweighted[-1].error + unweighted[-2].error
    assert abs(limit[0]) < 5 * error
    assert limit[1] > 0.03 + 5 * error


@pytest.mark.slow
def test_adaptive_leimkuhler_matthews_is_first_order() -> None:
    """Slope 1.08(3) over these steps."""
    dtaus = [0.04, 0.02, 0.01]
    biases = [
        quartic_biases(sundman.sa_lm(dtau, **CLOCK), chains=512, steps=300_000)[0].value
        for dtau in dtaus
    ]
    assert slope(dtaus, biases) == pytest.approx(1.0, abs=0.2)
    euler = quartic_biases(sundman.sa_sgld(0.02, **CLOCK))[0].value
    assert abs(biases[1]) < euler / 4


def rippled() -> Target:
    """U = x²/2 + cos(2x)/2: its curvature is bounded, so fixed steps are safe and biased alike."""

    def potential(x):
        return x[0] ** 2 / 2 + namespace(x).cos(2 * x[0]) / 2

    return by_quadrature(
        "rippled",
        potential,
        lambda x: [x[0] - np.sin(2 * x[0])],
        {"ripple": lambda x: namespace(x).cos(2 * x[0])},
        temperature=1.0,
        start=[0.0],
        box=[(-9.0, 9.0)],
        longest=0.3,
    )


def ripple(x: Floats) -> Floats:
    return np.cos(2 * x)


def exact_leimkuhler_matthews(h: float) -> float:
    return leimkuhler_matthews(
        lambda x: x - np.sin(2 * x), lambda x: 1 - 2 * np.cos(2 * x), ripple, h
    )


@pytest.mark.slow
def test_fixed_leimkuhler_matthews_is_second_order() -> None:
    """E[cos 2x] is off by .0255, .0055, .00128 at h = .4, .2, .1; Euler-Maruyama by O(h)."""
    target = rippled()
    truth = target.truth["ripple"]
    fine = [exact_leimkuhler_matthews(h) - truth for h in (0.1, 0.05)]
    assert math.log2(fine[0] / fine[1]) == pytest.approx(2.0, abs=0.1)
    steps = [0.4, 0.28, 0.2]
    biases = []
    for h in steps:
        draws = run(
            target,
            sundman.lm(h),
            {"ripple": lambda x: ripple(x[..., 0])},
            steps=60_000,
            chains=256,
            seed=42,
            thin=4,
        )
        check_law(draws, {"ripple": Expected(exact_leimkuhler_matthews(h))})
        biases.append(average(draws, "ripple").value - truth)
    assert 1.6 < slope(steps, biases) < 2.4


def test_sghmc_is_second_order_on_a_gaussian():
    biases = [linear.sghmc(h, 1.0, 1.0, gamma=2.0) - 1.0 for h in (0.2, 0.1, 0.05)]
    assert slope([0.2, 0.1, 0.05], biases) == pytest.approx(2.0, abs=0.1)
