"""pSGLD and AdamSGLD: the wrong laws they have, as theory predicts them, and the right ones.

E[x^2] of the quartic U = x^4/4 + x^2/2 is .46792. pSGLD at eps = 1 and decay = .9:

    h                            .04          .01         as h -> 0
    without Gamma                .657(3)      .726(3)     .7847, of exp(-U) / P
    Gamma of the step            .614(2)      .684(3)     .7463, of exp(-U) / P^.9
    Gamma of the limit           .319(1)      .382(2)     .4679
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np
import pytest
from battery import Expected, average, check_law, relative_bias, run
from euler_operator import average as exact_average
from euler_operator import by_density, limit

import sundman
from sundman import contrib
from sundman.contrib import adam_sgld, curvature, psgld
from sundman.targets import gaussian, quartic, star

EPS = 1.0
QUARTIC = quartic()
X2 = {"x2": lambda x: x[..., 0] ** 2}


def square(x):
    return x**2


def scheme(target: sundman.targets.Target, correct: bool) -> Callable:
    """Memoryless pSGLD as a function of its noise."""
    known = curvature.exact(target.potential) if correct else None
    return lambda noise: contrib.integrators.psgld(
        target.temperature, decay=0.0, eps=EPS, curvature=known, noise=noise
    )


def predicted(T: float, power: float) -> float:
    """E[x^2] of exp(-U/T) / P^power on the quartic."""
    return by_density(
        lambda x: -(x**4 / 4 + x**2 / 2) / T + power * np.log(np.abs(x**3 + x) + EPS), square
    )


temperatures = pytest.mark.parametrize("T", [0.3, pytest.param(1.0, marks=pytest.mark.slow)])


@pytest.mark.long
@temperatures
@pytest.mark.parametrize(("correct", "power"), [(False, 1.0), (True, 0.0)])
def test_memoryless_psgld_tends_to_the_predicted_law(T, correct, power, x64):
    """At T = 1 without Gamma .7980, .7914 at h = .04, .02 and .78470 in the limit; .78473."""
    target = quartic(temperature=T)
    found = limit(scheme(target, correct), target.potential, square, 0.04)
    assert found == pytest.approx(predicted(T, power), rel=2e-3)
    if correct:
        assert found == pytest.approx(target.truth["x2"], rel=2e-3)
    else:
        assert found > 1.3 * target.truth["x2"]


@temperatures
def test_memoryless_psgld_with_gamma_is_right_on_a_gaussian(T, x64):
    target = gaussian(1, temperature=T)
    found = limit(scheme(target, True), target.potential, square, 0.04, reach=9.0 * T**0.5)
    assert found == pytest.approx(T, rel=2e-3)


@pytest.mark.long
@pytest.mark.parametrize("correct", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_chain_has_the_law_of_the_operator(correct):
    h = 0.1
    known = curvature.exact(QUARTIC.potential) if correct else None
    sampler = psgld(h, decay=0.0, eps=EPS, curvature=known)
    with jax.enable_x64(True):
        law = exact_average(scheme(QUARTIC, correct), QUARTIC.potential, square, h)
    check_law(
        run(QUARTIC, sampler, X2, steps=10_000, seed=3, thin=4),
        {"x2": Expected(law)},
    )


@pytest.mark.parametrize(
    ("settings", "power"),
    [
        ({}, 1.0),
        pytest.param(
            {"curvature": curvature.exact(QUARTIC.potential)}, 0.3, marks=pytest.mark.slow
        ),
        pytest.param(
            {"curvature": curvature.exact(QUARTIC.potential), "divergence": "limit"},
            0.0,
            marks=pytest.mark.slow,
        ),
    ],
)
def test_psgld_with_a_short_memory_tends_to_the_predicted_law(settings, power):
    """3% for what is left at this step of the memory: E[x^2] = .785, .549 and .468."""
    sampler = psgld(0.01, decay=0.3, eps=EPS, **settings)
    draws = run(QUARTIC, sampler, X2, steps=20_000, seed=5, thin=20)
    law = predicted(1.0, power)
    check_law(draws, {"x2": Expected(law, 0.03 * law)})


@pytest.mark.slow
def test_psgld_with_gamma_in_two_dimensions():
    """A correlated Gaussian, memoryless, from h and h/2."""
    target = gaussian(covariance=[[1.0, 0.6], [0.6, 0.5]], temperature=0.3)
    known = curvature.exact(target.potential)
    squares = {"squares": lambda x: np.stack([x[..., 0] ** 2, x[..., 0] * x[..., 1]], axis=-1)}
    found, errors = [], []
    for h in (0.04, 0.02):
        sampler = psgld(h, 0.3, decay=0.0, eps=2.0, curvature=known)
        draws = run(target, sampler, squares, steps=int(800 / h), seed=6, thin=int(0.4 / h))
        value, error = average(draws, "squares")
        found.append(value)
        errors.append(error)
    tends = 2 * found[1] - found[0]
    error = np.hypot(2 * errors[1], errors[0])
    np.testing.assert_array_less(np.abs(tends - 0.3 * np.array([1.0, 0.6])), 5 * error)


@pytest.mark.long
def test_adam_sgld_without_memory_has_the_law_of_the_operator():
    """beta1 = beta2 = 0: memoryless pSGLD without Gamma, whose wrong law is known exactly."""
    h = 0.1
    with jax.enable_x64(True):
        law = exact_average(scheme(QUARTIC, False), QUARTIC.potential, square, h)
    sampler = adam_sgld(h, beta1=0.0, beta2=0.0, eps=EPS)
    check_law(run(QUARTIC, sampler, X2, steps=10_000, seed=3, thin=4), {"x2": Expected(law)})


@pytest.mark.slow
def test_adam_sgld_is_biased():
    """On the quartic by more than 5 standard errors at two steps, and not less at the smaller."""
    biases = []
    for h in (0.04, 0.01):
        sampler = adam_sgld(h, beta1=0.9, beta2=0.9, eps=EPS)
        draws = run(QUARTIC, sampler, X2, steps=int(200 / h), seed=7, thin=int(0.2 / h))
        biases.append(relative_bias(draws, "x2", QUARTIC.truth["x2"]))
    for bias in biases:
        assert bias.value > 5 * bias.error
    assert biases[1].value > 0.4


@pytest.mark.slow
@pytest.mark.parametrize("corrected", [False, True])
def test_psgld_on_star_does_not_improve_with_the_step(corrected):
    """Relative bias of E[x^2 y^2] at decay = .99, eps = 1:

    h                     4e-3        1e-3        2.5e-4
    without Gamma         .039(5)     .147(3)     .443(4)
    Gamma of the step     .025(5)     .132(3)     .427(4)
    Gamma of the limit   -.508(4)    -.755(1)    -.804(1)
    """
    target = star()
    product = {"x2y2": lambda x: (x[..., 0] * x[..., 1]) ** 2}
    known = curvature.exact(target.potential) if corrected else None
    biases = []
    for h in (4e-3, 1e-3):
        sampler = psgld(h, decay=0.99, eps=1.0, curvature=known)
        draws = run(target, sampler, product, steps=int(800 / h), seed=8, thin=40)
        biases.append(relative_bias(draws, "x2y2", target.truth["x2y2"]))
    assert biases[1].value > 5 * biases[1].error
    assert biases[1].value - biases[0].value > 5 * np.hypot(biases[0].error, biases[1].error)
