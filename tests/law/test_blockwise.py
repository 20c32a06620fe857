"""One zeta per tensor is not a change of time: its averages stay biased as dtau -> 0.

U = (x² + y²)/2 + 2 x² y², x and y in tensors of their own. E[x²+y²] = 1.12382.
"""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from battery import average

import sundman
from sundman.estimate import Estimate

TRUTH = 1.1238152
CHAINS = 256


def potential(params: dict) -> jax.Array:
    x2, y2 = params["x"] ** 2, params["y"] ** 2
    return (x2 + y2) / 2 + 2 * x2 * y2


def exact(seed: int, n: int) -> dict:
    """Draws of N(0, I), kept with probability exp(-2 x² y²)."""
    random = np.random.default_rng(seed)
    points = random.normal(size=(4 * n, 2))
    kept = points[random.random(4 * n) < np.exp(-2 * points.prod(axis=1) ** 2)][:n]
    return {"x": jnp.asarray(kept[:, 0], jnp.float32), "y": jnp.asarray(kept[:, 1], jnp.float32)}


def second_moment(blockwise: bool, dtau: float, steps: int, **clock: float) -> Estimate:
    draws = sundman.sample(
        potential,
        sundman.sa_sgld(dtau, m=0.1, M=10.0, psi="published", blockwise=blockwise, **clock),
        init=exact(61, CHAINS),
        per_chain=True,
        key=jax.random.key(62),
        chains=CHAINS,
        steps=steps,
        thin=10,
    )
    x, y = (draws.position[name].astype(np.float64) for name in ("x", "y"))
    values = {"r2": x**2 + y**2}
    return average(dataclasses.replace(draws, values=values, has_position=False), "r2")


def limit(blockwise: bool, dtau: float, steps: int, **clock: float) -> Estimate:
    """The value as dtau -> 0, from dtau and dtau/2: the first-order bias taken away."""
    coarse, fine = (second_moment(blockwise, h, steps, **clock) for h in (dtau, dtau / 2))
    return Estimate(2 * fine.value - coarse.value, np.hypot(2 * fine.error, coarse.error))


def test_truth_by_quadrature() -> None:
    x, y = np.meshgrid(*[np.linspace(-8, 8, 801)] * 2)
    density = np.exp(-(x**2 + y**2) / 2 - 2 * x**2 * y**2)
    assert ((x**2 + y**2) * density).sum() / density.sum() == pytest.approx(TRUTH, abs=1e-7)


@pytest.mark.slow
def test_blockwise_clock_is_biased_and_the_scalar_clock_is_not() -> None:
    """Without memory the bias of either clock hardly changes below this dtau."""
    memoryless = {"alpha": 1e4, "omega": 1e-4, "r": 0.5}
    one, each = (second_moment(block, 0.005, 60_000, **memoryless) for block in (False, True))
    assert abs(one.value - TRUTH) < 5 * one.error + 0.005
    assert each.value == pytest.approx(1.070, abs=5 * each.error)
    assert each.value + 5 * each.error < TRUTH


@pytest.mark.slow
def test_limit_of_the_blockwise_clock_with_memory() -> None:
    one, each = (limit(block, 0.005, 600_000, alpha=5.0, r=1.0) for block in (False, True))
    assert abs(one.value - TRUTH) < 5 * one.error
    assert each.value == pytest.approx(1.09, abs=0.01)
    assert each.value + 5 * each.error < TRUTH
