"""What every target must obey: draws, gradients, cell masses and windows."""

from __future__ import annotations

from collections.abc import Callable

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
CASES = [(name, T) for name in BUILDERS for T in (1.0, 0.3)]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0]}-{case[1]}")
def case(request: pytest.FixtureRequest) -> tuple[Target, jax.Array]:
    name, temperature = request.param
    target = BUILDERS[name](temperature)
    assert target.exact is not None
    return target, target.exact(jax.random.key(7), DRAWS)


def test_draws_have_the_true_moments(case: tuple[Target, jax.Array]) -> None:
    target, draws = case
    assert draws.shape == (DRAWS, target.dim) and draws.dtype == jnp.float32
    assert set(target.observables) == set(target.truth)
    values = jax.jit(jax.vmap(lambda x: {k: f(x) for k, f in target.observables.items()}))(draws)
    for name, value in values.items():
        sample = np.asarray(value, np.float64)
        error = sample.std() / np.sqrt(DRAWS) + 1e-6 * abs(target.truth[name]) + 1e-7
        assert abs(sample.mean() - target.truth[name]) < 5 * error, name


def test_window_holds_the_draws(case: tuple[Target, jax.Array]) -> None:
    target, draws = case
    assert target.window is not None
    inside = np.ones(DRAWS, bool)
    for axis, (low, high) in enumerate(target.window[: target.dim]):
        inside &= (np.asarray(draws[:, axis]) > low) & (np.asarray(draws[:, axis]) < high)
    assert inside.mean() > 0.95


def test_cell_masses_match_the_draws(case: tuple[Target, jax.Array]) -> None:
    target, draws = case
    assert target.window is not None
    edges = [np.linspace(low, high, 21) for low, high in target.window[: min(target.dim, 2)]]
    mass = target.grid_mass(*edges)
    assert mass.shape == (20,) * len(edges) and (mass > -1e-15).all()
    counts = np.histogramdd(np.asarray(draws[:, : len(edges)], np.float64), edges)[0]
    spread = np.sqrt(np.maximum(DRAWS * mass, 1.0))
    assert np.abs((counts - DRAWS * mass) / spread).max() < 6
    everywhere = [np.array([-np.inf, *e[1:-1], np.inf]) for e in edges]
    assert target.grid_mass(*everywhere).sum() == pytest.approx(1.0, abs=1e-9)


def test_potential_is_a_single_precision_scalar(case: tuple[Target, jax.Array]) -> None:
    target, draws = case
    assert target.start.dtype == jnp.float32 and target.start.shape == (target.dim,)
    for name, f in {"potential": target.potential, **target.observables}.items():
        value = jax.eval_shape(f, target.start)
        assert value.shape == () and value.dtype == jnp.float32, name
    energy_and_slope = jax.jit(jax.value_and_grad(target.potential))
    for x in (target.start, draws[0], draws[1]):
        energy, slope = energy_and_slope(x)
        assert np.isfinite(energy) and np.isfinite(slope).all()


def test_gradient_against_differences(case: tuple[Target, jax.Array]) -> None:
    """Central differences in double precision, against single-precision autodiff."""
    target, draws = case
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


def test_density_is_normalized(case: tuple[Target, jax.Array]) -> None:
    """The density at a draw is the mass of a small cell around it over the cell's area."""
    target, draws = case
    if target.dim > 2:
        pytest.skip("cells are of the first two coordinates only")
    x, half = np.asarray(draws[0], np.float64), 1e-4
    mass = target.grid_mass(*[[c - half, c + half] for c in x]).item()
    density = float(target.density(x.astype(np.float32)))
    assert density == pytest.approx(mass / (2 * half) ** target.dim, rel=2e-3)


def test_targets_are_static_arguments() -> None:
    target = targets.star()
    assert hash(target) != hash(targets.star()) and target == target
    energy = jax.jit(lambda t, x: t(x), static_argnums=0)
    assert energy(target, jnp.ones(2)) == 1002.0


def test_draws_under_jit_are_the_same_draws() -> None:
    target = targets.double_well()
    assert target.exact is not None
    key = jax.random.key(3)
    compiled = jax.jit(target.exact, static_argnums=1)(key, 50)
    np.testing.assert_allclose(compiled, target.exact(key, 50), rtol=1e-5, atol=1e-6)


def test_fine_grid_of_the_star_adds_up() -> None:
    """Cells wider than the arms and cells within them agree."""
    star = targets.star()
    fine = star.grid_mass(np.linspace(-3, 3, 61), np.linspace(-3, 3, 301))
    coarse = star.grid_mass(np.linspace(-3, 3, 13), np.linspace(-3, 3, 13))
    summed = fine.reshape(12, 5, 12, 25).sum(axis=(1, 3))
    np.testing.assert_allclose(summed, coarse, atol=1e-13)
    np.testing.assert_allclose(coarse, coarse.T, atol=1e-12)
