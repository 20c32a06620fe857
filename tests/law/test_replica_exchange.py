"""Replica exchange: swaps keep the joint law exactly, and carry a chain over a barrier.

One swap, of copies drawn from the product of their laws, must leave every average of the first
copy where it was. That is tested with steps of no length, where a swap is all that happens:
exact energies, noisy ones with the correction, and noisy ones without.
"""

from __future__ import annotations

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from battery import SIGMAS, Floats

import sundman
from sundman import clocks, integrators, replica_exchange_sgld
from sundman.estimate import Estimate
from sundman.noise import Stream
from sundman.targets import Target, double_well

PAIRS = 400_000
RATIO = 3.0


def mean(values: Floats) -> Estimate:
    return Estimate(values.mean(), values.std(ddof=1) / math.sqrt(len(values)))


def after_a_swap(T: float, noise: float, told: float) -> tuple[Estimate, float]:
    """The change of E[U] of the first copy by one attempt, U = x²/2; and the rate of swaps."""
    integrator = integrators.replica_exchange(
        T, ratios=(1.0, RATIO), swap_rate=1e30, energy_variance=told**2
    )
    positions, errors = jax.random.split(jax.random.key(91))
    x = jax.random.normal(positions, (PAIRS, 2, 1)) * jnp.sqrt(T * jnp.array([[1.0], [RATIO]]))
    energy = 0.5 * x[..., 0] ** 2
    heard = energy + noise * jax.random.normal(errors, energy.shape)

    moved, swapped = _attempt(integrator, np.arange(PAIRS, dtype=np.uint32), x, heard)
    gained = np.asarray(0.5 * moved[:, 0, 0] ** 2 - energy[:, 0], np.float64)
    return mean(gained), float(np.mean(swapped))


@jax.jit
@functools.partial(jax.vmap, in_axes=(None, 0, 0, 0))
def _attempt(integrator, number, x, value):
    stream = Stream(jnp.array([5, 6], jnp.uint32), number)
    update, counts = integrator.move(
        stream, 0.0 * x, integrator.init(x), x, jnp.float32(1e-20), value=value
    )
    return x + update, counts.swapped[0]


def exact_rate() -> float:
    """E[min(1, exp(D (U_1 - U_2)))], from draws in numpy, to 2e-4."""
    rng = np.random.default_rng(0)
    U = 0.5 * rng.normal(size=(4_000_000, 2)) ** 2 * [1.0, RATIO]
    return float(np.minimum(1.0, np.exp((1 - 1 / RATIO) * (U[:, 0] - U[:, 1]))).mean())


@pytest.mark.long
@pytest.mark.parametrize("T", [0.3, pytest.param(1.0, marks=pytest.mark.slow)])
def test_a_swap_keeps_the_law(T: float) -> None:
    change, rate = after_a_swap(T, 0.0, 0.0)
    assert abs(change.value) < SIGMAS * change.error
    assert change.error < 0.002 * T
    assert rate == pytest.approx(exact_rate(), abs=SIGMAS * 0.5 / math.sqrt(PAIRS) + 0.001)


@pytest.mark.parametrize("T", [0.3, pytest.param(1.0, marks=pytest.mark.slow)])
def test_noisy_energies_heat_unless_corrected(T: float) -> None:
    """Noise of 1.5 T in U: one uncorrected attempt adds .097(2) T to E[U] = T/2."""
    corrected, rare = after_a_swap(T, 1.5 * T, 1.5 * T)
    naive, often = after_a_swap(T, 1.5 * T, 0.0)
    assert abs(corrected.value) < SIGMAS * corrected.error
    assert naive.value > 0.07 * T + SIGMAS * naive.error
    assert rare < often  # what the correction costs


def tilted(T: float) -> Target:
    """Two wells, a barrier of 10 T above the right one, and 1.2 T between their bottoms."""
    return double_well(10.0 * T, tilt=0.6 * T, temperature=T)


def averages(target: Target, sampler: sundman.Sampler, start: float) -> dict[str, Estimate]:
    """Of every chain by itself, then over the chains: they are independent."""
    draws = sundman.sample(
        target,
        sampler,
        key=jax.random.key(92),
        init=jnp.full(1, start),
        chains=128,
        steps=16_000,
        burn_in=8_000,
        thin=8,
        stats=(),
    )
    assert not draws.diverged.any()
    x = np.asarray(draws.position, np.float64)[..., 0]
    weight = draws.weight.astype(np.float64)
    return {
        name: mean(np.average(values, axis=1, weights=weight))
        for name, values in {"right": (x > 0).astype(float), "x2": x**2}.items()
    }


@pytest.mark.slow
@pytest.mark.parametrize("T", [1.0, 0.3])
def test_the_shares_of_two_wells(T: float) -> None:
    """Begun in the shallow well, with an allowance for the bias of the step.

    E[x²] is off by -.0077(3), -.0037(2), -.0019(2) at h = .004, .002, .001: first order, as SGLD.
    """
    target, h = tilted(T), 0.002 / T
    found = averages(target, replica_exchange_sgld(h, T, ratios=(1.0, 5.0), swap_every=3), 1.0)
    right, x2 = found["right"], found["x2"]
    assert abs(right.value - target.truth["right"]) < SIGMAS * right.error
    assert right.error < 0.02
    assert abs(x2.value - target.truth["x2"]) < SIGMAS * x2.error + 0.006


@pytest.mark.slow
def test_sgld_alone_stays_where_it_began() -> None:
    target = tilted(1.0)
    assert target.truth["right"] < 0.3
    assert averages(target, sundman.sgld(0.002), 1.0)["right"].value > 0.9


@pytest.mark.slow
def test_weighted_on_an_adaptive_clock() -> None:
    """dt follows the gradients of both copies; weighted by it the first has the law of its T.

    U = x²/2 + x⁴/4. Unweighted averages are off by more than the bias of the step.
    """

    def quartic(x):
        return 0.5 * jnp.sum(x**2) + 0.25 * jnp.sum(x**4)

    grid = np.linspace(-6, 6, 20_001)
    density = np.exp(-(grid**2) / 2 - grid**4 / 4)
    truth = np.average(grid**2, weights=density)
    sampler = sundman.compose(
        integrators.replica_exchange(ratios=(1.0, 3.0), swap_rate=20.0),
        clocks.sundman(0.02, alpha=5.0, m=0.1, M=10.0, r=0.5, psi="published"),
    )
    draws = sundman.sample(
        quartic,
        sampler,
        key=jax.random.key(93),
        init=jnp.zeros(1),
        chains=256,
        steps=12_000,
        burn_in=1_000,
        thin=4,
        stats=(),
    )
    square = np.asarray(draws.position, np.float64)[..., 0] ** 2
    weighted = mean(np.average(square, axis=1, weights=draws.weight.astype(np.float64)))
    unweighted = mean(square.mean(axis=1))
    assert draws.weight.std() > 0.2 * draws.weight.mean()
    assert abs(weighted.value / truth - 1) < SIGMAS * weighted.error / truth + 0.02
    assert unweighted.value / truth - 1 > 0.04


@pytest.mark.slow
def test_copies_may_have_steps_of_their_own() -> None:
    """Two and five times the step for the hot copies: the first keeps its law, within its bias."""
    sampler = replica_exchange_sgld(
        0.05, 0.5, ratios=(1.0, 2.0, 4.0), step_factors=(1.0, 2.0, 5.0), swap_every=2
    )
    draws = sundman.sample(
        lambda x: 0.5 * jnp.sum(x**2),
        sampler,
        key=jax.random.key(94),
        init=jnp.zeros(1),
        chains=128,
        steps=8_000,
        burn_in=200,
        thin=4,
        stats=(),
    )
    found = mean((np.asarray(draws.position, np.float64)[..., 0] ** 2).mean(axis=1))
    assert 0.5 - SIGMAS * found.error < found.value < 0.5 * 1.08 + SIGMAS * found.error


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"ratios": (2.0, 4.0)}, ValueError, r"the first 1; got ratios=\(2.0, 4.0\)"),
        ({"ratios": (1.0, 4.0, 3.0)}, ValueError, r"rising, .* got ratios=\(1.0, 4.0, 3.0\)"),
        ({"ratios": (1.0,)}, ValueError, r"two or more, .* got ratios=\(1.0,\)"),
        (
            {"ratios": (1.0, "hot")},
            TypeError,
            r"ratios\[1\] must be a number, got .*hot",
        ),
        ({"step_factors": (1.0,)}, ValueError, r"one for each of the 2 copies; got \(1.0,\)"),
        ({"step_factors": (1.0, 0.0)}, ValueError, r"step_factors\[1\]=0.0"),
        ({"energy_variance": -1.0}, ValueError, "energy_variance=-1.0"),
        ({"swap_every": 0.5}, ValueError, "swap_every=0.5"),
        ({"temperature": -1.0}, ValueError, "temperature=-1.0"),
    ],
)
def test_bad_settings_are_named(settings: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        replica_exchange_sgld(0.1, **settings)
