"""The battery can fail: deliberately wrong samplers do not pass the checks that right ones do."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import linear
import numpy as np
import pytest
from battery import Expected, check_law, observe, run

import sundman
from sundman.targets import gaussian, quartic

H, T = 0.1, 0.3
TARGET = gaussian(1, temperature=T)
VARIANCE = linear.euler_maruyama(H, 1.0, T)
OBSERVABLES = {"mean": lambda x: x[..., 0], "square": lambda x: x[..., 0] ** 2}
LAW = {"mean": Expected(0.0), "square": Expected(VARIANCE)}


class Wrong(sundman.integrators.euler_maruyama):
    """Euler-Maruyama with its drift and its noise multiplied by factors that should be 1."""

    drift: float = 1.0
    spread: float = 1.0

    def move(self, stream, grads, state, params, dt):
        eps = sundman.noise.gaussian(stream, params)
        return -self.drift * dt * grads + self.spread * jnp.sqrt(2 * self.T * dt) * eps, state


def euler_maruyama(drift: float = 1.0, spread: float = 1.0) -> sundman.integrators.Integrator:
    return Wrong(T, drift=drift, spread=spread)


def check(sampler: sundman.Sampler) -> None:
    check_law(run(TARGET, sampler, OBSERVABLES, steps=50_000, seed=1), LAW)


def test_a_right_sampler_passes() -> None:
    check(sundman.compose(euler_maruyama(), sundman.clocks.constant(H)))


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(euler_maruyama(spread=math.sqrt(1.1)), id="noise-5-percent-large"),
        pytest.param(euler_maruyama(drift=1.05), id="drift-5-percent-large"),
        pytest.param(euler_maruyama(spread=1 / math.sqrt(T)), id="temperature-ignored"),
    ],
)
def test_a_wrong_integrator_fails(wrong: sundman.integrators.Integrator) -> None:
    with pytest.raises(AssertionError, match="square"):
        check(sundman.compose(wrong, sundman.clocks.constant(H)))


@pytest.mark.long
def test_missing_weights_fail() -> None:
    """Away from the Gaussian an adaptive clock samples pi/psi until its weights are used."""
    target = quartic()
    sampler = sundman.sa_sgld(0.002, alpha=2.0, m=0.1, M=10.0, r=0.5, psi="published")
    draws = run(target, sampler, OBSERVABLES, steps=200_000, seed=2)
    truth = target.truth["x2"]
    # The first-order bias at this step is about 1%.
    law = {"mean": Expected(0.0), "square": Expected(truth, 0.02 * truth)}
    check_law(draws, law)
    unweighted = dataclasses.replace(draws, weight=np.ones_like(draws.weight))
    with pytest.raises(AssertionError, match="square"):
        check_law(unweighted, law)


def test_a_chain_that_stands_still_fails() -> None:
    frozen = sundman.compose(euler_maruyama(drift=0.0, spread=0.0), sundman.clocks.constant(H))
    draws = sundman.sample(TARGET, frozen, key=jax.random.key(0), chains=4, steps=100)
    with pytest.raises(AssertionError, match="square"):
        check_law(observe(draws, OBSERVABLES), LAW)
