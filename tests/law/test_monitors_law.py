"""Every monitor keeps the law: weighted averages right but for a bias that halves with the step.

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
from sundman.clocks import monitors
from sundman.targets import gaussian, quartic, star

QUARTIC, STAR = quartic(), star()
DTAU = 0.08
# A monitor and its scale near the mean, so that zeta is near 1.
MONITORS = {
    "norm": (None, 1.5),
    "preconditioned": (monitors.preconditioned(decay=0.9), 1.0),
    "energy": (monitors.energy(QUARTIC.potential), 0.4),
    "curvature": (monitors.curvature(QUARTIC.potential), 2.4),
    "function": (monitors.function(lambda grads, params: jnp.sum(params**4)), 0.6),
    "noise_known": (monitors.noise_corrected(0.0, average=0.5), 1.5),
    "noise_estimated": (monitors.noise_corrected(average=0.5), 1.5),
}


def sampler(monitor, omega: float, dtau: float, **changes) -> sundman.Sampler:
    settings = {"alpha": 4.0, "m": 0.1, "M": 10.0, "r": 1.0, "psi": "scale_free", **changes}
    return sundman.sa_sgld(dtau, omega=omega, lag="guarded", monitor=monitor, **settings)


@pytest.mark.parametrize("name", MONITORS)
def test_the_bias_on_the_quartic_is_of_first_order(name: str) -> None:
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
    (whole, whole_error), (half, half_error) = found
    print(
        f"{name}: bias {whole / truth - 1:+.4f}({whole_error / truth:.4f}) "
        f"{half / truth - 1:+.4f}({half_error / truth:.4f}) unweighted "
        f"{unweighted.value / truth - 1:+.3f} mean dt / dtau {mean_step(draws) / DTAU * 2:.2f}"
    )
    assert half_error < 0.01 * truth
    assert abs(half - truth) < SIGMAS * half_error + 0.02 * truth
    limit, error = 2 * half - whole, np.hypot(2 * half_error, whole_error)
    assert abs(limit - truth) < SIGMAS * error
    assert abs(unweighted.value - truth) > SIGMAS * unweighted.error


@pytest.mark.parametrize("name", ["energy", "curvature"])
def test_star(name: str) -> None:
    """x²y², at half the bias of SGLD at that step, which is +7% at 2e-4."""
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
    print(f"star {name}: {value / truth - 1:+.4f}({error / truth:.4f}) mean dt {dt:.3g}")
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


def test_noise_does_not_shorten_the_corrected_step() -> None:
    """sigma = 3: |G|² is ten times |grad U|²."""
    exact, plain = mean_dt("plain", 0.0), mean_dt("plain", 3.0)
    for kind in ("known", "estimated"):
        corrected = mean_dt(kind, 3.0)
        print(f"mean dt: exact {exact:.5f}, plain {plain:.5f}, {kind} {corrected:.5f}")
        assert abs(corrected - exact) < 0.3 * abs(plain - exact)
