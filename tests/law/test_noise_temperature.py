"""Unknown white gradient noise: the thermostats keep the temperature, the others are heated.

The configurational temperature is the virial E[x . grad U] / d, which is T for the right law. Noise
of standard deviation sigma heats Euler-Maruyama by h sigma²/2 and kinetic Langevin of friction
gamma by about h sigma²/(2 gamma); SGNHT and SA-SGNHT answer by a friction that is larger by
h sigma²/2, and must take away all but 3% of the heat that SGHMC shows. On the Gaussian the heated
schemes are held to their exact law (:mod:`linear`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import linear
import numpy as np
import pytest
from battery import SIGMAS, Floats, average, observe

import sundman
from sundman.noise import gaussian as normals
from sundman.noise import substream
from sundman.targets import Target, gaussian, star
from sundman.value import as_value


class White(sundman.gradients.GradientEstimator):
    """grad U + sigma xi; sigma is a leaf, so that all sizes share one compilation."""

    potential: Callable
    sigma: jax.Array

    def __call__(self, stream, position, batch=None):
        value, grads = jax.value_and_grad(self.potential)(position)
        return value, grads + self.sigma * normals(substream(stream, 1), position)


class Case(NamedTuple):
    """A target, noise sizes, steps for overdamped and kinetic schemes, and its virial."""

    target: Target
    sigmas: tuple[float, float, float]
    h: float
    h_kinetic: float
    gamma: float
    virial: Callable[[Floats], Floats]
    burn_in: int  # until the friction has risen, and the positions have cooled again
    steps: int


@cache
def case(name: str) -> Case:
    if name == "gaussian":
        return Case(
            gaussian(10),
            (2.0, 4.0, 8.0),
            h=0.1,
            h_kinetic=0.1,
            gamma=2.0,
            virial=lambda x: np.square(x).mean(axis=-1),
            burn_in=1000,
            steps=4000,
        )

    def virial(x: Floats) -> Floats:
        return np.square(x).sum(axis=-1) + 2000 * (x[..., 0] * x[..., 1]) ** 2

    return Case(star(), (30.0, 45.0, 60.0), 4e-4, 5e-3, 5.0, virial, 6000, 8000)


@cache
def sampler(kind: str, name: str) -> sundman.Sampler:
    which = case(name)
    h, gamma = which.h_kinetic, which.gamma
    if kind == "sgld":
        return sundman.sgld(which.h)
    if kind == "sghmc":
        return sundman.sghmc(h, gamma=gamma)
    if kind == "sgnht":
        return sundman.sgnht(h, gamma=gamma)
    noise = which.sigmas[1] ** 2 * which.target.dim
    clock = {"alpha": 0.01 / h, "m": 0.25, "M": 4.0, "r": 0.25, "psi": "scale_free"}
    omega = which.target.truth["grad2"] + noise
    return sundman.sa_sgnht(h, gamma=gamma, omega=omega, lag="guarded", **clock)


def temperature(kind: str, name: str, sigma: float) -> tuple[float, float]:
    """The virial over d and its standard error."""
    which, chains = case(name), 128
    draws = sundman.sample(
        White(as_value(potential=which.target.potential), jnp.float32(sigma)),
        sampler(kind, name),
        init=which.target.exact(jax.random.key(3), chains),
        per_chain=True,
        key=jax.random.key(4),
        chains=chains,
        steps=which.steps,
        burn_in=which.burn_in,
        thin=10,
    )
    found = average(observe(draws, {"virial": which.virial}), "virial")
    return float(found.value), float(found.error)


@pytest.mark.slow  # quick ones are in test_gaussian_law.py
@pytest.mark.parametrize("name", ["gaussian", "star"])
@pytest.mark.parametrize("kind", ["sgld", "sghmc"])
def test_schemes_that_know_nothing_of_the_noise_are_heated(kind: str, name: str) -> None:
    which = case(name)
    before = 1.0
    for sigma in which.sigmas:
        T, error = temperature(kind, name, sigma)
        assert T - before > SIGMAS * error  # hotter than the truth, and than with less noise
        before = T
        if name == "gaussian" and kind == "sgld":
            wanted = linear.euler_maruyama(which.h, 1.0, 1.0, sigma)
        elif name == "gaussian":
            wanted = linear.sghmc(which.h_kinetic, 1.0, 1.0, sigma, gamma=which.gamma)
        else:
            continue
        assert abs(T - wanted) < SIGMAS * error


@pytest.mark.slow  # quick ones are in test_gaussian_law.py
@pytest.mark.parametrize("name", ["gaussian", "star"])
@pytest.mark.parametrize("kind", ["sgnht", "sa_sgnht"])
def test_thermostats_keep_the_temperature(kind: str, name: str) -> None:
    which = case(name)
    for sigma in which.sigmas:
        T, error = temperature(kind, name, sigma)
        heat = which.h_kinetic * sigma**2 / (2 * which.gamma)
        assert error < 0.03
        assert abs(T - 1.0) < SIGMAS * error + 0.03 * heat
