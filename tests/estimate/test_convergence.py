import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sundman import estimate
from sundman.draws import Draws
from sundman.estimate.convergence import _stein_kernel


def make(values, weight=None):
    values = np.asarray(values, np.float32)
    weight = np.ones(values.shape[:2], np.float32) if weight is None else np.asarray(weight)
    lost = np.full(len(values), -1)
    return Draws(values=values, weight=weight, stats={}, diverged_at=lost, last=values[:, -1])


def bowl(x):
    return 0.5 * jnp.sum(x * x)


def test_rhat_is_one_for_chains_of_one_law():
    x = np.random.default_rng(0).normal(size=(4, 2000, 2))
    np.testing.assert_allclose(estimate.split_rhat(make(x)), 1.0, atol=0.01)


def test_rhat_sees_a_chain_elsewhere_and_a_drift():
    rng = np.random.default_rng(1)
    elsewhere = rng.normal(size=(4, 500)) + np.array([[0.0], [0.0], [0.0], [2.0]])
    drifting = rng.normal(size=(4, 500)) + np.linspace(-2, 2, 500)
    for x in (elsewhere, drifting):
        assert estimate.split_rhat(make(x)) > 1.2


def test_rhat_weighs_the_draws():
    x = np.random.default_rng(2).normal(size=(2, 4000))
    x[1] *= 3.0
    weight = np.ones_like(x)
    weight[1] = 3.0 * np.exp(-0.5 * x[1] ** 2 * (1 - 1 / 9))
    # W = (2 + 162) / 2, B = 64 / 3 for means 1, 1, 9, 9
    assert estimate.split_rhat(make(x**2)) == pytest.approx(np.sqrt(1 + 64 / 246), abs=0.02)
    assert estimate.split_rhat(make(x**2, weight)) == pytest.approx(1.0, abs=0.03)


def test_rhat_needs_draws():
    with pytest.raises(ValueError, match="4 draws"):
        estimate.split_rhat(make(np.ones((2, 3))))


def test_stein_kernel_has_zero_mean_under_its_law():
    y = jax.random.normal(jax.random.key(0), (200_000, 2))
    x = jnp.array([0.7, -1.1])
    values = jax.vmap(lambda other: _stein_kernel(x, -x, other, -other, 1.3))(y)
    error = values.std() / np.sqrt(len(y))
    assert abs(values.mean()) < 4 * error


def test_stein_discrepancy_separates_right_from_wrong():
    x = np.random.default_rng(3).normal(size=(2, 1000, 2))
    right = estimate.kernel_stein_discrepancy(make(x), bowl)
    for wrong in (x + 0.3, 1.3 * x):
        assert estimate.kernel_stein_discrepancy(make(wrong), bowl) > 2 * right


def test_stein_discrepancy_takes_weights_and_temperature():
    x = 1.5 * np.random.default_rng(4).normal(size=(1, 2000, 1))
    weight = np.exp(-0.5 * x[..., 0] ** 2 * (1 - 1 / 2.25))
    plain, weighted = (estimate.kernel_stein_discrepancy(make(x, w), bowl) for w in (None, weight))
    assert weighted < 0.4 * plain
    warm = estimate.kernel_stein_discrepancy(make(x), bowl, temperature=2.25)
    assert warm < 0.4 * plain
