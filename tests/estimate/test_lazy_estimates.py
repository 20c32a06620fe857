"""Estimates of pytrees, and of draws on disk: the same numbers, a piece at a time."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import _chunks, estimate
from sundman.draws import Draws
from sundman.estimate import density, moments
from tests.lazy_arrays import OnDisk

RNG = np.random.default_rng(6)
CHAINS, DRAWS = 2, 301
WEIGHT = RNG.uniform(0.1, 2.0, (CHAINS, DRAWS)).astype(np.float32)
WEIGHT[1, 200:] = 0.0
TREE = {
    "a": (5.0 + RNG.normal(size=(CHAINS, DRAWS, 7, 3)).cumsum(axis=1)).astype(np.float32),
    "b": RNG.normal(size=(CHAINS, DRAWS, 2)).astype(np.float32),
}
TREE["a"][1, 200:] = np.nan
SIZE = sum(leaf.nbytes for leaf in TREE.values())


def make(values):
    return Draws(values, WEIGHT, {}, np.array([-1, 200]), None)


def bowl(p):
    return 0.5 * sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(p))


@pytest.fixture
def small(monkeypatch):
    """Blocks much smaller than the draws."""
    monkeypatch.setattr(_chunks, "BLOCK_BYTES", 2**10)
    monkeypatch.setattr(_chunks, "IN_MEMORY", 2**8)
    monkeypatch.setattr(_chunks, "ON_DISK", 2**8)
    monkeypatch.setattr(density, "IN_MEMORY", 2**8)
    monkeypatch.setattr(moments, "_ELEMENTS", 2**12)
    monkeypatch.setattr(moments, "_MOST_BATCHES", 100)


EDGES = (np.linspace(-3, 3, 5),) * 2
ESTIMATES = {
    "mean": estimate.mean,
    "variance": estimate.variance,
    "ess": estimate.ess,
    "covariance": estimate.covariance,
    "split_rhat": estimate.split_rhat,
    "quantile": lambda draws: estimate.quantile(draws, [0.05, 0.5]),
    "stein": lambda draws: estimate.kernel_stein_discrepancy(draws, bowl, most=20),
    "temperature": lambda draws: estimate.configurational_temperature(draws, bowl),
    "blocks": lambda draws: estimate.temperature_by_block(draws, 4, bowl),
    "histogram": lambda draws: estimate.histogram(draws, EDGES, lambda p: p["b"]),
    "function": lambda draws: estimate.mean(draws, lambda p: jnp.sum(p["a"])),
    "predict": lambda draws: sundman.predict(draws, lambda p, x: p["b"] * x, np.ones((3, 1))),
    "members": lambda draws: sundman.predict(
        draws, lambda p, x: p["b"] * x, np.ones((3, 1)), members=True
    ),
}


@pytest.mark.long
@pytest.mark.parametrize("name", ESTIMATES)
def test_on_disk_as_in_memory_a_piece_at_a_time(name, small, monkeypatch):
    stored = jax.tree.map(OnDisk, TREE)
    found = ESTIMATES[name](make(stored))
    assert 0 < max(leaf.largest for leaf in stored.values()) < 0.05 * SIZE
    monkeypatch.undo()
    monkeypatch.setattr(moments, "_MOST_BATCHES", 100)
    wanted = ESTIMATES[name](make(TREE))
    assert jax.tree.structure(found) == jax.tree.structure(wanted)
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_a_pytree_is_estimated_leaf_by_leaf():
    for name in ("mean", "variance", "ess", "split_rhat", "quantile"):
        whole, part = (ESTIMATES[name](make(values)) for values in (TREE, TREE["a"]))
        if name == "mean":
            whole, part = whole.error, part.error
        np.testing.assert_array_equal(whole["a"], part)
    flat = np.concatenate([TREE["a"].reshape(CHAINS, DRAWS, -1), TREE["b"]], axis=2)
    np.testing.assert_allclose(
        estimate.covariance(make(TREE)), estimate.covariance(make(flat)), rtol=1e-10
    )
    np.testing.assert_array_equal(estimate.evaluate(make(TREE))["b"], TREE["b"])


def test_error_of_many_components_at_once(monkeypatch):
    sums = RNG.normal(size=(2, 60, 50)).cumsum(axis=1)
    arguments = sums, RNG.uniform(0.5, 1.5, (2, 60)), sums.mean(axis=(0, 1))
    whole = moments.long_run_variance(*arguments)
    monkeypatch.setattr(moments, "_ELEMENTS", 1)
    np.testing.assert_allclose(moments.long_run_variance(*arguments), whole, rtol=1e-12)


def test_quantile_by_hand():
    x = np.array([[3.0, 1.0, 2.0, 9.0]])
    draws = Draws(x, np.array([[1.0, 2.0, 1.0, 0.0]]), {}, np.array([-1]), None)
    found = estimate.quantile(draws, [0.0, 0.5, 0.51, 0.75, 0.76, 1.0])
    np.testing.assert_array_equal(found, [1.0, 1.0, 2.0, 2.0, 3.0, 3.0])
    assert estimate.quantile(draws, 0.5) == 1.0
    for q in (1.2, -0.1, np.nan, [0.5, 2.0]):
        with pytest.raises(ValueError, match="q must be a number from 0 to 1"):
            estimate.quantile(draws, q)


def test_quantile_of_weighted_draws_is_that_of_the_law():
    """Draws of N(0, 3^2), weighted to be of N(0, 1)."""
    x = 3.0 * np.random.default_rng(7).normal(size=(4, 20_000))
    weight = np.exp(-0.5 * x**2 * (1 - 1 / 9))
    draws = Draws(x, weight, {}, np.full(4, -1), None)
    for q, wanted in ((0.05, -1.6449), (0.5, 0.0), (0.975, 1.9600)):
        share = draws.expectation(lambda v, at=wanted: v <= at)
        slope = np.exp(-0.5 * wanted**2) / np.sqrt(2 * np.pi)
        assert abs(draws.quantile(q) - wanted) < 4 * share.error / slope
    equal = dataclasses.replace(draws, weight=np.ones_like(weight))
    assert abs(equal.quantile(0.975) - 1.96) > 1.0


def test_temperatures_from_recorded_statistics():
    rng = np.random.default_rng(8)
    recorded = {name: rng.gamma(2.0, 0.5 * T, (4, 1000)) for name, T in TEMPERATURES.items()}
    x = np.zeros((4, 1000))
    draws = Draws(x, np.ones((4, 1000)), recorded, np.full(4, -1), None)
    for name, f in (
        ("virial", estimate.configurational_temperature),
        ("kinetic_temperature", estimate.kinetic_temperature),
    ):
        found = f(draws)
        assert found.error == pytest.approx(TEMPERATURES[name] / np.sqrt(2 * 4000), rel=0.15)
        assert abs(found.value - TEMPERATURES[name]) < 4 * found.error
        with pytest.raises(ValueError, match=f"no statistic '{name}'"):
            f(dataclasses.replace(draws, stats={}))


TEMPERATURES = {"virial": 0.7, "kinetic_temperature": 1.3}


def test_temperature_by_block_sees_a_drift():
    rng = np.random.default_rng(9)
    virial = rng.gamma(2.0, 0.5, (4, 1000)) * np.repeat([1.0, 2.0], 500)
    draws = Draws(virial, np.ones((4, 1000)), {"virial": virial}, np.full(4, -1), None)
    found = estimate.temperature_by_block(draws, 4)
    np.testing.assert_array_less(np.abs(found.value - [1, 1, 2, 2]), 4 * found.error)
    assert found.error[0] == pytest.approx(1 / np.sqrt(2 * 1000), rel=0.2)
    with pytest.raises(ValueError, match="blocks=2000 is more than the 1000 draws"):
        estimate.temperature_by_block(draws, 2000)
    weight = np.ones((4, 1000))
    weight[:, 500:] = 0.0
    lost = dataclasses.replace(draws, weight=weight, diverged_at=np.full(4, 500))
    np.testing.assert_array_equal(
        np.isnan(estimate.temperature_by_block(lost, 4).value), [0, 0, 1, 1]
    )
