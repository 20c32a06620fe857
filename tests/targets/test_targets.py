"""What every target must obey: draws, gradients, cell masses and windows."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sundman import targets
from sundman.targets import Target

DRAWS = 100_000
TILTED = np.array([[2.0, 0.9, 0.1], [0.9, 0.5, 0.0], [0.1, 0.0, 1.0]])
BUILDERS: dict[str, Callable[[float], Target]] = {
    "star": lambda T: targets.star(temperature=T),
    "muller-brown": lambda T: targets.muller_brown(temperature=T),
    "funnel": lambda T: targets.funnel(temperature=T),
    "gaussian": lambda T: targets.gaussian(4, 100.0, temperature=T),
    "tilted": lambda T: targets.gaussian(covariance=TILTED, mean=[1.0, -2.0, 0.5], temperature=T),
    "mixture": lambda T: targets.mixture(temperature=T),
    "banana": lambda T: targets.banana(temperature=T),
    "double-well": lambda T: targets.double_well(temperature=T),
    "quartic": lambda T: targets.quartic(temperature=T),
    "line": lambda T: targets.gaussian(1, temperature=T),
}
PLANE = [name for name in BUILDERS if name not in ("funnel", "gaussian", "tilted")]
# The quick tests have every target at T = 1, and one of each kind of draws at another: by a
# formula and by a table.
COLD = ("tilted", "double-well")
CASES = [
    pytest.param(name, T, marks=() if T == 1.0 or name in COLD else pytest.mark.slow)
    for name in BUILDERS
    for T in (1.0, 0.3)
]


@cache
def drawn(name: str, temperature: float = 1.0) -> tuple[Target, jax.Array]:
    target = BUILDERS[name](temperature)
    assert target.exact is not None
    return target, jax.jit(partial(target.exact, n=DRAWS))(jax.random.key(7))


every_case = pytest.mark.parametrize(("name", "temperature"), CASES)
every_target = pytest.mark.parametrize("name", BUILDERS)


def test_every_registered_target_has_a_row() -> None:
    assert set(targets.names()) <= set(BUILDERS)


@every_case
def test_draws_have_the_true_moments(name: str, temperature: float) -> None:
    target, draws = drawn(name, temperature)
    assert draws.shape == (DRAWS, target.dim)
    assert draws.dtype == jnp.float32
    assert set(target.observables) == set(target.truth)
    values = jax.jit(jax.vmap(lambda x: {k: f(x) for k, f in target.observables.items()}))(draws)
    for observable, value in values.items():
        sample, truth = np.asarray(value, np.float64), target.truth[observable]
        error = sample.std() / np.sqrt(DRAWS) + 1e-6 * abs(truth) + 1e-7
        assert abs(sample.mean() - truth) < 5 * error, observable


@every_case
def test_window_holds_the_draws(name: str, temperature: float) -> None:
    target, draws = drawn(name, temperature)
    assert target.window is not None
    inside = np.ones(DRAWS, bool)
    for axis, (low, high) in enumerate(target.window[: target.dim]):
        inside &= (np.asarray(draws[:, axis]) > low) & (np.asarray(draws[:, axis]) < high)
    assert inside.mean() > 0.95


@every_case
def test_cell_masses_match_the_draws(name: str, temperature: float) -> None:
    target, draws = drawn(name, temperature)
    assert target.window is not None
    edges = [np.linspace(low, high, 21) for low, high in target.window[: min(target.dim, 2)]]
    mass = target.grid_mass(*edges)
    assert mass.shape == (20,) * len(edges)
    assert (mass > -1e-15).all()
    counts = np.histogramdd(np.asarray(draws[:, : len(edges)], np.float64), edges)[0]
    spread = np.sqrt(np.maximum(DRAWS * mass, 1.0))
    assert np.abs((counts - DRAWS * mass) / spread).max() < 6
    everywhere = [np.array([-np.inf, *e[1:-1], np.inf]) for e in edges]
    assert target.grid_mass(*everywhere).sum() == pytest.approx(1.0, abs=1e-9)


@pytest.mark.long
@every_target
def test_potential_is_a_single_precision_scalar(name: str) -> None:
    target, draws = drawn(name)
    assert target.start.dtype == jnp.float32
    assert target.start.shape == (target.dim,)
    for label, f in {"potential": target.potential, **target.observables}.items():
        value = jax.eval_shape(f, target.start)
        assert (value.shape, value.dtype) == ((), jnp.float32), label
    energy_and_slope = jax.jit(jax.value_and_grad(target.potential))
    for x in (target.start, draws[0], draws[1]):
        energy, slope = energy_and_slope(x)
        assert np.isfinite(energy)
        assert np.isfinite(slope).all()


@pytest.mark.long
@every_target
def test_gradient_against_differences(name: str) -> None:
    """Central differences in double precision, against single-precision autodiff."""
    target, draws = drawn(name)
    points, step = np.asarray(draws[:20], np.float64), 1e-6
    shifts = step * np.eye(target.dim)
    with jax.enable_x64(True):
        energy = jax.jit(jax.vmap(jax.vmap(target.potential)))
        ahead, behind = energy(points[:, None] + shifts), energy(points[:, None] - shifts)
        slopes = np.asarray(ahead - behind) / (2 * step)
    assert slopes.dtype == np.float64
    gradients = np.asarray(jax.jit(jax.vmap(target.gradient))(draws[:20]), np.float64)
    for gradient, slope in zip(gradients, slopes, strict=True):
        np.testing.assert_allclose(gradient, slope, atol=2e-4 * (np.abs(slope).max() + 1.0))


@pytest.mark.parametrize("temperature", [1.0, pytest.param(0.3, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", PLANE)
def test_density_is_normalized(name: str, temperature: float) -> None:
    """The density at a draw is the mass of a small cell around it over the cell's area."""
    target, draws = drawn(name, temperature)
    x, half = np.asarray(draws[0], np.float64), 1e-4
    mass = target.grid_mass(*[[c - half, c + half] for c in x]).item()
    density = float(target.density(x.astype(np.float32)))
    assert density == pytest.approx(mass / (2 * half) ** target.dim, rel=2e-3)


def test_targets_are_static_arguments() -> None:
    target = targets.star()
    energy = jax.jit(lambda t, x: t(x), static_argnums=0)
    assert energy(target, jnp.ones(2)) == 1002.0
    assert energy(targets.star(), jnp.ones(2)) == 1002.0
    assert energy._cache_size() == 1


@pytest.mark.long
def test_the_table_is_not_caught_in_a_trace() -> None:
    """A first draw under jit makes the table; later draws outside it use the same."""
    target = targets.double_well()
    assert target.exact is not None
    key = jax.random.key(3)
    traced = jax.eval_shape(partial(target.exact, n=50), key)
    drawn_later = target.exact(key, 50)
    assert traced.shape == drawn_later.shape == (50, 1)
    assert traced.dtype == drawn_later.dtype


def test_fine_grid_of_the_star_adds_up() -> None:
    """Cells wider than the arms and cells within them agree."""
    star = targets.star()
    fine = star.grid_mass(np.linspace(-3, 3, 61), np.linspace(-3, 3, 301))
    coarse = star.grid_mass(np.linspace(-3, 3, 13), np.linspace(-3, 3, 13))
    summed = fine.reshape(12, 5, 12, 25).sum(axis=(1, 3))
    np.testing.assert_allclose(summed, coarse, atol=1e-13)
    np.testing.assert_allclose(coarse, coarse.T, atol=1e-12)
