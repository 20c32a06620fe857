"""Every monitor keeps the law: weighted averages right but for a bias that falls with the step.

The quartic well, and the star for the monitors that look at U itself; unweighted averages, which
sample pi/psi, show that the clock does adapt. With gradient noise, the noise-corrected norm gives
steps nearer to those of the exact gradient than the plain norm does.
"""

from __future__ import annotations

import dataclasses
from functools import cache

import jax.numpy as jnp
import numpy as np
import pytest
from battery import SIGMAS, average, mean_step, run

import sundman
from sundman import clocks
from sundman.contrib import monitors
from sundman.targets import gaussian, quartic, star

QUARTIC, STAR = quartic(), star()
DTAU = 0.08
# A monitor and its scale near the mean, so that zeta is near 1.
MONITORS = {
    "norm": (None, 1.5),
    "preconditioned": (monitors.preconditioned(decay=0.9), 1.0),
    "energy": (monitors.energy(QUARTIC.potential), 0.4),
    "curvature": (monitors.curvature(QUARTIC.potential), 2.4),
    "function": (clocks.monitors.function(lambda grads, params: jnp.sum(params**4)), 0.6),
    "noise_known": (monitors.noise_corrected(0.0, average=0.5), 1.5),
    "noise_estimated": (monitors.noise_corrected(average=0.5), 1.5),
}


def sampler(monitor, omega: float, dtau: float, **changes) -> sundman.Sampler:
    settings = {"alpha": 4.0, "m": 0.1, "M": 10.0, "r": 1.0, "psi": "scale_free", **changes}
    return sundman.sa_sgld(dtau, omega=omega, lag="guarded", monitor=monitor, **settings)


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[] if name == "noise_estimated" else [pytest.mark.slow])
        for name in MONITORS
    ],
)
def test_the_bias_on_the_quartic_falls_with_the_step(name: str) -> None:
    """E[x²] is 4 to 11% large at dtau = .08, 1.3 to 3% at .04, and within .7% at .016."""
    truth, found = QUARTIC.truth["x2"], []
    for part in (1, 2):
        draws = run(
            QUARTIC,
            sampler(*MONITORS[name], DTAU / part),
            {"x2": lambda x: x[..., 0] ** 2},
            steps=8000 * part,
            chains=128,
            seed=50 + part,
            thin=2 * part,
        )
        found.append(average(draws, "x2"))
    unweighted = average(dataclasses.replace(draws, weight=np.ones_like(draws.weight)), "x2")
    assert abs(unweighted.value - truth) > SIGMAS * unweighted.error
    (whole, whole_error), (half, half_error) = found
    assert whole - truth > SIGMAS * whole_error  # there is a bias to fall
    assert half - truth < 0.04 * truth
    limit, error = 2 * half - whole, SIGMAS * np.hypot(2 * half_error, whole_error)
    assert limit - truth < error  # it falls in proportion to the step, or faster,
    assert limit - truth > -0.5 * (whole - truth) - error  # as its square where that dominates


@pytest.mark.long
@pytest.mark.parametrize("name", ["curvature", pytest.param("energy", marks=pytest.mark.slow)])
def test_star(name: str) -> None:
    """x²y², with no more than the bias of SGLD at that step, which is +7% at 2e-4."""
    make, omega = {
        "energy": (monitors.energy(STAR.potential), 0.6),
        "curvature": (monitors.curvature(STAR.potential), 500.0),
    }[name]
    draws = run(
        STAR,
        sampler(make, omega, 1e-4, alpha=100.0, r=0.5),
        {"x2y2": lambda x: (x[..., 0] * x[..., 1]) ** 2},
        steps=30_000,
        seed=53,
    )
    value, error = average(draws, "x2y2")
    truth, dt = STAR.truth["x2y2"], mean_step(draws)
    assert error < 0.02 * truth
    assert abs(value - truth) < SIGMAS * error + 0.07 * truth * dt / 2e-4


@cache
def mean_dt(kind: str, sigma: float) -> float:
    """Of SA-SGLD on a Gaussian of ten dimensions, omega being E|grad U|² = 10."""
    known = {"plain": None, "known": monitors.noise_corrected(sigma)}
    monitor = known[kind] if kind in known else monitors.noise_corrected()
    draws = run(
        gaussian(10),
        sampler(monitor, 10.0, 0.01, alpha=1.0, r=0.5),
        {"x2": lambda x: (x**2).mean(axis=-1)},
        steps=4000,
        seed=54,
        sigma=sigma,
    )
    return mean_step(draws)


@pytest.mark.slow
def test_noise_does_not_shorten_the_corrected_step() -> None:
    """sigma = 3: |G|² is ten times |grad U|², mean steps .0100 (exact), .0040 (plain), .0100."""
    exact, plain = mean_dt("plain", 0.0), mean_dt("plain", 3.0)
    for kind in ("known", "estimated"):
        corrected = mean_dt(kind, 3.0)
        assert abs(corrected - exact) < 0.3 * abs(plain - exact)
