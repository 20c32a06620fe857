"""95% intervals of single chains cover what the sampler's long-run average is, 95 times in 100.

How long a chain that takes is measured in effective draws (ESS). Of 1000 chains, the standard
error is right on average from an ESS of 50 on, but it is itself noisy: 1.96 of it cover 93% at 50,
94-95% from 250 on. Skewed observables (x^4, |grad U|^2, rare events) need an ESS of 1500 or more.
"""

import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman.estimate.moments import moments

STIFF = 10.0
H = 0.05
STAR = sundman.targets.star()
SA = sundman.sa_sgld(0.005, alpha=50.0, m=0.1, M=10.0, r=0.5)


def bowl(x):
    return 0.5 * (x[0] ** 2 + STIFF * x[1] ** 2)


def variance(stiffness):
    """Of the stationary law of Euler-Maruyama."""
    return 1.0 / (stiffness * (1.0 - 0.5 * H * stiffness))


GAUSSIAN = {
    "x": (lambda x: x[0], 0.0),
    "y": (lambda x: x[1], 0.0),
    "x2": (lambda x: x[0] ** 2, variance(1.0)),
    "y2": (lambda x: x[1] ** 2, variance(STIFF)),
    "U": (bowl, 0.5 * (variance(1.0) + STIFF * variance(STIFF))),
}
ON_STAR = ("x2", "y2", "r2", "abs_x", "x2y2", "U", "virial")


def coverage(target, sampler, functions, truth, *, chains, steps, thin, burn_in, key):
    """The share of chains, each alone, whose interval covers the truth; and their mean ESS."""
    draws = sundman.sample(
        target,
        sampler,
        init=jnp.zeros(2),
        key=key,
        chains=chains,
        burn_in=burn_in,
        steps=steps,
        thin=thin,
        collect=lambda x: jnp.stack([f(x) for f in functions]),
    )
    assert not draws.diverged.any()
    weight = draws.weight.astype(np.float64)
    if truth is None:
        truth = draws.mean().value
    found = [moments(draws.values[c : c + 1], weight[c : c + 1]) for c in range(chains)]
    mean, error, spread = (np.stack(part) for part in zip(*found, strict=True))
    return np.mean(np.abs(mean - truth) < 1.96 * error, axis=0), np.mean(spread / error**2, axis=0)


def on_gaussian(chains, steps, key):
    functions, truth = zip(*GAUSSIAN.values(), strict=True)
    return coverage(
        bowl,
        sundman.sgld(H),
        functions,
        np.array(truth),
        chains=chains,
        steps=steps,
        thin=5,
        burn_in=1000,
        key=key,
    )


def on_star(chains, steps, key):
    functions = [STAR.observables[name] for name in ON_STAR]
    return coverage(
        STAR, SA, functions, None, chains=chains, steps=steps, thin=20, burn_in=20_000, key=key
    )


def test_coverage_of_200_chains(key):
    share, size = on_gaussian(200, 10_000, key)
    assert (size > 200).all()
    np.testing.assert_allclose(share, 0.95, atol=4 * np.sqrt(0.95 * 0.05 / 200))


@pytest.mark.slow
def test_weighted_coverage_of_200_chains(key):
    share, size = on_star(200, 20_000, key)
    assert (size > 250).all()
    np.testing.assert_allclose(share, 0.95, atol=4 * np.sqrt(0.95 * 0.05 / 200))


@pytest.mark.slow
def test_coverage_of_1000_chains(key):
    share, _ = on_gaussian(1000, 20_000, key)
    assert ((share > 0.92) & (share < 0.98)).all(), share


@pytest.mark.slow
def test_weighted_coverage_of_1000_chains(key):
    share, _ = on_star(1000, 100_000, key)
    assert ((share > 0.92) & (share < 0.98)).all(), share
