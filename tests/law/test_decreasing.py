"""Polynomially decreasing steps: weighted by the steps, averages converge, and fastest.

On U = x²/2 with dt_n = h (1 + n / offset)^-power the variance after every step is known, so the
expectation of either average is, too. Draws of short steps are more alike than those of long ones.
Over a time that is long compared with that of the decay, n steps give averages of variance

    weights dt: 2 tau / sum(dt)      equal weights: 2 tau sum(1/dt) / n²

whose ratio tends to 1 / (1 - power²) (Teh, Thiery, Vollmer 2016 weight by the steps).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from battery import SIGMAS, Floats

import sundman
from sundman import clocks, integrators

H, OFFSET = 0.5, 20.0


def lengths(steps: int, power: float) -> Floats:
    return H * (1 + np.arange(steps) / OFFSET) ** -power


def squares(dt: Floats, T: float, first: float) -> Floats:
    """E[x_n²] of Euler-Maruyama on U = x²/2."""
    found = np.empty_like(dt)
    for n, h in enumerate(dt):
        found[n] = first
        first = (1 - h) ** 2 * first + 2 * T * h
    return found


def run(steps: int, power: float, T: float, start: float, chains: int) -> tuple[Floats, Floats]:
    """The weighted and the unweighted average of x² in each chain."""
    clock = clocks.polynomial(H, offset=OFFSET, power=power)
    draws = sundman.sample(
        lambda x: 0.5 * jnp.sum(x**2),
        sundman.compose(integrators.euler_maruyama(T), clock),
        key=jax.random.key(81),
        init=jnp.full(1, start),
        chains=chains,
        steps=steps,
        collect=lambda x: x[0] ** 2,
        stats=(),
    )
    np.testing.assert_allclose(draws.weight[0], lengths(steps, power), rtol=1e-4)
    return tuple(
        np.average(np.asarray(draws.values, np.float64), axis=1, weights=weight)
        for weight in (draws.weight.astype(np.float64), np.ones_like(draws.weight))
    )


@pytest.mark.parametrize("T", [0.3, pytest.param(1.0, marks=pytest.mark.slow)])
def test_the_weighted_average_converges(T: float) -> None:
    """Its expectation is known at any length, and comes closer to T like the steps."""
    steps, power = 10_000, 1.0 / 3.0
    weighted, equal = run(steps, power, T, start=2.0, chains=256)
    dt = lengths(steps, power)
    wanted = squares(dt, T, 4.0)
    for found, weight in ((weighted, dt), (equal, np.ones(steps))):
        error = found.std(ddof=1) / np.sqrt(len(found))
        assert abs(found.mean() - np.average(wanted, weights=weight)) < SIGMAS * error
    biases = []
    for length in (10**3, 10**4, 10**5):
        dt = lengths(length, power)
        biases.append(np.average(squares(dt, T, T), weights=dt) / T - 1)
    assert biases[2] > 0
    assert biases[1] / biases[2] == pytest.approx(10**power, rel=0.05)


@pytest.mark.slow
def test_equal_weights_waste_draws() -> None:
    """power .8: the variance is 2.0 times that of the weighted average here, 2.8 in the limit."""
    steps, power, chains = 10_000, 0.8, 512
    weighted, equal = run(steps, power, 1.0, start=0.0, chains=chains)
    dt = lengths(steps, power)
    predicted = dt.sum() * (1 / dt).sum() / steps**2
    ratio = equal.var(ddof=1) / weighted.var(ddof=1)
    # Of two nearly normal averages with the correlation of these, the log of the ratio of sample
    # variances has a standard deviation of at most 2 / sqrt(chains).
    assert abs(np.log(ratio / predicted)) < SIGMAS * 2 / np.sqrt(chains)
    assert ratio > 1.5
