import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import estimate, targets
from sundman.draws import Draws


def make(values, weight=None):
    values = np.asarray(values, np.float32)
    weight = np.ones(values.shape[:2], np.float32) if weight is None else np.asarray(weight)
    lost = np.full(len(values), -1)
    return Draws(values=values, weight=weight, stats={}, diverged_at=lost, last=values[:, -1])


def autoregression(chains, n, phi, seed):
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(chains, n)) * np.sqrt(1 - phi**2)
    x = np.empty((chains, n))
    x[:, 0] = rng.normal(size=chains)
    for i in range(1, n):
        x[:, i] = phi * x[:, i - 1] + noise[:, i]
    return x


def test_weighted_mean_variance_and_covariance_against_numpy():
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=(3, 50, 2)), rng.uniform(0.1, 2.0, size=(3, 50))
    draws = make(x, w)
    flat, weights = x.reshape(-1, 2), w.ravel()
    average = np.average(flat, axis=0, weights=weights)
    np.testing.assert_allclose(estimate.mean(draws).value, average, rtol=1e-5)
    cov = np.cov(flat.T, aweights=weights, bias=True)
    np.testing.assert_allclose(estimate.covariance(draws), cov, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(estimate.variance(draws), np.diag(cov), rtol=1e-4)
    squares = estimate.mean(draws, lambda p: p[0] ** 2)
    assert squares.value == pytest.approx(np.average(flat[:, 0] ** 2, weights=weights), rel=1e-5)
    assert "±" in str(squares)


@pytest.mark.parametrize(
    ("phi", "n"), [(0.0, 500), (0.9, 2000), pytest.param(0.9, 20_000, marks=pytest.mark.slow)]
)
def test_standard_error_covers_the_truth(phi, n):
    hits, ratios = 0, []
    for seed in range(100):
        found = estimate.mean(make(autoregression(2, n, phi, seed)))
        hits += abs(found.value) < 1.96 * found.error
        ratios.append(found.error**2 * 2 * n * (1 - phi) / (1 + phi))
    assert 87 <= hits <= 100
    assert np.mean(ratios) == pytest.approx(1.0, abs=0.1)


def test_effective_size_of_an_autoregression():
    size = estimate.ess(make(autoregression(8, 4000, 0.8, 1)))
    assert size == pytest.approx(8 * 4000 * 0.2 / 1.8, rel=0.15)


def test_unequal_weights_cost_effective_size():
    rng = np.random.default_rng(2)
    x, w = rng.normal(size=(4, 5000)), rng.exponential(size=(4, 5000))
    expected = w.sum() ** 2 / (w**2).sum()
    assert estimate.ess(make(x, w)) == pytest.approx(expected, rel=0.1)


def test_chains_that_disagree_widen_the_error():
    x = np.random.default_rng(3).normal(size=(4, 1000)) + np.array([[-5.0], [5.0], [-5.0], [5.0]])
    assert estimate.mean(make(x)).error > 1.0


def test_draws_without_weight_do_not_count_even_if_not_finite():
    x = np.ones((2, 10))
    w = np.ones((2, 10))
    x[1, 4:], w[1, 4:] = np.nan, 0.0
    found = estimate.mean(make(x, w))
    assert found.value == 1.0
    assert found.error == 0.0
    with pytest.raises(ValueError, match="all chains diverged"):
        estimate.mean(make(x, 0 * w))


@pytest.mark.long
def test_histogram_and_total_variation():
    star = targets.star()
    x = np.asarray(star.exact(jax.random.key(0), 40_000))[None]
    edges = (np.linspace(-2, 2, 21), np.linspace(-2, 2, 21))
    counts = estimate.histogram(make(x), edges)
    by_hand = np.histogram2d(x[0, :, 0], x[0, :, 1], bins=edges)[0] / 40_000
    np.testing.assert_allclose(counts, by_hand, atol=1e-7)
    assert estimate.total_variation(make(x), star, edges) < 0.03
    assert estimate.total_variation(make(1.2 * x), star, edges) > 0.05
    with pytest.raises(ValueError, match="1 axes"):
        estimate.histogram(make(x), edges[:1])


@pytest.mark.parametrize("temperature", [1.0, 0.3])
def test_configurational_temperature(temperature):
    target = targets.gaussian(3, 10.0, temperature=temperature)
    x = np.asarray(target.exact(jax.random.key(1), 20_000))[None]
    found = estimate.configurational_temperature(make(x), target.potential)
    assert abs(found.value - temperature) < 4 * found.error
    assert found.error < 0.02


@pytest.mark.long
def test_configurational_temperature_of_a_pytree(key):
    def potential(p):
        return 0.5 * jnp.sum(p["a"] ** 2) + 2.0 * jnp.sum((p["b"] - 3.0) ** 2)

    draws = sundman.sample(
        potential,
        sundman.sgld(0.01, temperature=0.5),
        key=key,
        chains=32,
        steps=4000,
        burn_in=1000,
        init={"a": jnp.zeros(2), "b": jnp.full(3, 3.0)},
        thin=10,
    )
    found = estimate.configurational_temperature(draws, potential)
    assert found.value == pytest.approx(0.5, abs=4 * found.error + 0.01)
