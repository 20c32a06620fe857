"""Cyclical samplers: the exact law of a cycle on a Gaussian, and two wells.

On a Gaussian the variance after each step follows from the one before, with T = 0 while a cycle
explores: the weighted average over the draws is known exactly, transient and bias included.
"""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from battery import SIGMAS, Floats

import sundman
from sundman import cyclical_sghmc, cyclical_sgld
from sundman.estimate import Estimate
from sundman.targets import Target, double_well

H, CYCLE, EXPLORE, CYCLES, GAMMA = 0.8, 40, 15, 100, 2.0


def lengths() -> Floats:
    phase = np.arange(CYCLE) / CYCLE
    return H / 2 * (np.cos(np.pi * phase) + 1)


def one_step(name: str, h: float, T: float) -> tuple[Floats, Floats]:
    """Matrix and noise covariance of a step on U = x²/2; state x, or (x, p)."""
    if name == "sgld":
        return np.array([[1 - h]]), np.array([[2 * T * h]])
    c = math.exp(-GAMMA * h)
    drift = np.array([[1, h], [0, 1]])
    kick = np.array([[1, 0], [-math.sqrt(c) * h, c]])
    return drift @ kick, drift @ np.diag([0, (1 - c * c) * T]) @ drift.T


def mean_squares(name: str, T: float) -> tuple[float, float]:
    """E[x²] averaged over the sampling stages by dt, and equally; x = 1 at the first step."""
    size = 1 if name == "sgld" else 2
    second = np.zeros((size, size))
    second[0, 0] = 1.0
    squares, weights = [], []
    for _ in range(CYCLES):
        for n, h in enumerate(lengths()):
            if n >= EXPLORE:
                squares.append(second[0, 0])
                weights.append(h)
            A, noise = one_step(name, h, T if n >= EXPLORE else 0.0)
            second = A @ second @ A.T + noise
    return float(np.average(squares, weights=weights)), float(np.mean(squares))


def over_chains(values: Floats, weight: Floats) -> Estimate:
    """The mean of the chains' own weighted averages: chains are independent, cycles need not be."""
    means = (values * weight).sum(axis=1) / weight.sum(axis=1)
    return Estimate(means.mean(), means.std(ddof=1) / math.sqrt(len(means)))


@pytest.mark.long
@pytest.mark.parametrize("T", [0.3, pytest.param(1.0, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["sgld", "sghmc"])
def test_the_law_of_a_gaussian(name: str, T: float) -> None:
    settings = {"cycle": CYCLE, "explore": EXPLORE}
    sampler = (
        cyclical_sgld(H, T, **settings)
        if name == "sgld"
        else cyclical_sghmc(H, T, gamma=GAMMA, **settings)
    )
    draws = sundman.sample(
        lambda x: 0.5 * jnp.sum(x**2),
        sampler,
        key=jax.random.key(71),
        init=jnp.ones(1),
        chains=256,
        steps=CYCLES * CYCLE,
        stats=(),
    )
    assert len(draws) == CYCLES * (CYCLE - EXPLORE)
    np.testing.assert_allclose(
        draws.weight.reshape(-1, CYCLE - EXPLORE)[0], lengths()[EXPLORE:], rtol=1e-4
    )
    square = np.asarray(draws.position, np.float64)[..., 0] ** 2
    for wanted, weight in zip(
        mean_squares(name, T), (draws.weight, np.ones_like(draws.weight)), strict=True
    ):
        found = over_chains(square, weight.astype(np.float64))
        assert abs(found.value - wanted) < SIGMAS * found.error
        assert found.error < 0.01 * T


def right_share(target: Target, sampler: sundman.Sampler) -> Estimate:
    draws = sundman.sample(
        target, sampler, key=jax.random.key(72), chains=128, steps=8000, burn_in=500, stats=()
    )
    assert not draws.diverged.any()
    position = np.asarray(draws.position)[..., 0]
    return over_chains((position > 0).astype(np.float64), draws.weight.astype(np.float64))


@pytest.mark.slow
def test_both_wells_are_found_where_sgld_stays_in_one() -> None:
    """A barrier of 10 T. Steps of .045 leave a well, and no fixed step does that is stable:
    SGLD gets as many gradients, at the largest step of the sampling stages.
    """
    target = double_well(10.0)
    cyclical = right_share(target, cyclical_sgld(0.045, cycle=500, explore=0.8))
    assert abs(cyclical.value - 0.5) < SIGMAS * cyclical.error
    assert cyclical.error < 0.02
    assert right_share(target, sundman.sgld(0.0043)).value < 0.02


@pytest.mark.slow
def test_the_shares_of_the_wells_are_those_of_the_exploration() -> None:
    """As documented: at temperature 0 nothing knows that the left well is the deeper one."""
    target = double_well(10.0, tilt=1.0)
    found = right_share(target, cyclical_sgld(0.045, cycle=500, explore=0.8))
    assert target.truth["right"] < 0.15
    assert found.value > target.truth["right"] + 0.1 + SIGMAS * found.error


def test_weights_are_those_of_the_steps() -> None:
    draws = sundman.sample(
        double_well(10.0),
        cyclical_sgld(0.01, cycle=20, explore=0.5),
        key=jax.random.key(1),
        steps=60,
    )
    cosine = 0.005 * (np.cos(np.pi * np.arange(10, 20) / 20) + 1)
    np.testing.assert_allclose(draws.weight.reshape(3, 10), np.tile(cosine, (3, 1)), rtol=1e-5)
    unweighted = dataclasses.replace(draws, weight=np.ones_like(draws.weight))
    assert draws.mean().value != unweighted.mean().value
