"""A thermostat for each coordinate: gradient noise may differ from one to the next.

A single thermostat keeps the mean temperature right. With noise sigma_i in coordinate i it ends at
the friction xi = A + h mean(sigma²) / (2 T), and coordinate i at (A T + h sigma_i²/2) / xi.
"""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from battery import SIGMAS, Floats

import sundman
from sundman import clocks, integrators
from sundman.noise import gaussian, substream

H, A, NOISE = 0.1, 2.0, (0.0, 3.0)


class Uneven(sundman.gradients.GradientEstimator):
    """U = |x|²/2 with gradient noise in the second coordinate alone, whose size goes as sqrt T."""

    scale: float

    def __call__(self, stream, position, batch=None):
        noise = self.scale * jnp.array(NOISE) * gaussian(substream(stream, 1), position)
        return 0.5 * jnp.sum(position**2), position + noise


@cache
def temperatures(T: float, per_coordinate: bool) -> tuple[Floats, Floats]:
    """E[x_i²] / T and its error; thermostats of the inertia Q = T relax alike at every T."""
    integrator = integrators.sgnht(T, gamma=A, mass=T, per_coordinate=per_coordinate)
    draws = sundman.sample(
        Uneven(T**0.5),
        sundman.compose(integrator, clocks.constant(H)),
        key=jax.random.key(97),
        init=jnp.zeros(2),
        chains=128,
        steps=16_000,
        burn_in=500,
        thin=8,
        stats=(),
    )
    square = np.mean(np.asarray(draws.position, np.float64) ** 2, axis=1) / T
    return square.mean(axis=0), square.std(axis=0, ddof=1) / np.sqrt(len(square))


@pytest.mark.long
@pytest.mark.parametrize("T", [0.3, pytest.param(1.0, marks=pytest.mark.slow)])
def test_each_coordinate_has_the_right_temperature(T: float) -> None:
    """Allowance 1%: h² k / 4 of the splitting, and a tenth of the heat that was to be removed."""
    found, error = temperatures(T, True)
    assert (np.abs(found - 1.0) < SIGMAS * error + 0.01).all(), (found, error)
    assert (error < 0.01).all()


@pytest.mark.slow
@pytest.mark.parametrize("T", [1.0, 0.3])
def test_one_thermostat_is_right_on_average_only(T: float) -> None:
    found, error = temperatures(T, False)
    heat = H * np.array(NOISE) ** 2 / 2
    predicted = (A + heat) / (A + heat.mean())
    assert (np.abs(found - predicted) < SIGMAS * error + 0.03).all(), (found, predicted)
    assert found.mean() == pytest.approx(1.0, abs=SIGMAS * error.max() + 0.01)
    assert found[0] < 0.95
    assert found[1] > 1.05


@pytest.mark.slow
def test_one_coordinate_has_one_thermostat_either_way() -> None:
    one, each = (
        sundman.sample(
            lambda x: 0.5 * jnp.sum(x**2),
            sundman.compose(integrators.sgnht(per_coordinate=each), clocks.constant(0.1)),
            key=jax.random.key(1),
            init=jnp.ones(1),
            draws=40,
        )
        for each in (False, True)
    )
    np.testing.assert_allclose(one.values, each.values, rtol=1e-4, atol=1e-5)


def test_state_settings_and_bad_mass() -> None:
    integrator = integrators.sgnht(0.5, gamma=2.0, per_coordinate=True)
    tree = {"a": jnp.ones((2, 3), jnp.bfloat16), "b": jnp.ones(())}
    xi = integrator.init(tree).xi
    assert {name: (leaf.shape, leaf.dtype.name) for name, leaf in xi.items()} == {
        "a": ((2, 3), "float32"),
        "b": ((), "float32"),
    }
    assert integrator.with_temperature(0.2).settings == {**integrator.settings, "temperature": 0.2}
    with pytest.raises(ValueError, match=r"mass=0\.0"):
        integrators.sgnht(mass=0.0, per_coordinate=True)
