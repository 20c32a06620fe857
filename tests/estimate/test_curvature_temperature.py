"""The temperature by gradients and curvature, against laws in which it is known."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import estimate, likelihoods, models, priors


def exact_draws(values, target, temperature=1.0):
    n = len(jax.tree.leaves(values)[0])
    values = jax.tree.map(lambda leaf: np.asarray(leaf)[None], values)
    weight = np.ones((1, n))
    return sundman.Draws(values, weight, {}, np.array([-1]), None, {"temperature": temperature})


def stiff(position):
    return 0.5 * jnp.sum(jnp.array([1.0, 1e4]) * position["a"] ** 2) + 0.5 * position["b"] ** 2


@pytest.mark.parametrize("part", [None, "a", "b"])
def test_exact_draws_at_a_temperature(part):
    z = np.random.default_rng(0).normal(size=(2000, 3)).astype(np.float32) * np.sqrt(2.0)
    values = {"a": z[:, :2] / np.array([1.0, 100.0], np.float32), "b": z[:, 2]}
    found = estimate.curvature_temperature(exact_draws(values, stiff), stiff, part=part, most=2000)
    assert found.value == pytest.approx(2.0, abs=4 * found.error)
    assert found.error < 0.15


@pytest.mark.long
def test_a_step_that_heats_the_stiffest_direction():
    target = sundman.targets.gaussian(50, condition=1e4)
    draws = sundman.sample(
        target, sundman.sgld(1e-4), key=jax.random.key(0), steps=50_000, thin=50, burn_in=1000
    )
    assert estimate.configurational_temperature(draws).value < 1.3
    found = estimate.curvature_temperature(draws, target, most=1000)
    k = np.linalg.eigvalsh(np.asarray(jax.hessian(target.potential)(target.start)))
    expected = np.sum(k / (1 - 1e-4 * k / 2)) / np.sum(k)  # SGLD on a Gaussian
    assert expected > 1.4
    assert found.value == pytest.approx(expected, abs=4 * found.error)
    assert found.error < 0.1


def network():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(300, 4)).astype(np.float32)
    return sundman.Posterior(
        models.mlp_apply,
        data=(x, (x[:, 0] * x[:, 1] > 0).astype(np.int32)),
        likelihood=likelihoods.categorical(),
        prior=priors.gaussian(1.0),
    )


@pytest.mark.slow
def test_the_last_layer_of_a_network_on_all_rows_and_on_some():
    posterior = network()
    draws = sundman.sample(
        posterior,
        sundman.baoab(0.03, gamma=2.0),
        init=models.mlp_init(jax.random.key(0), (4, 8, 2)),
        key=jax.random.key(1),
        chains=4,
        burn_in=3000,
        steps=20_000,
        thin=40,
    )
    every = estimate.curvature_temperature(draws, posterior, part="layer_1", most=2000)
    some = estimate.curvature_temperature(draws, posterior, part="layer_1", most=2000, rows=100)
    assert every.value == pytest.approx(1.0, abs=4 * every.error + 0.01)
    assert every.error < 0.05
    assert some.value == pytest.approx(1.0, abs=4 * some.error + 0.01)
    assert some.error < 0.2


def test_a_part_that_is_not_there():
    draws = exact_draws({"a": np.zeros((8, 2)), "b": np.zeros(8)}, stiff)
    with pytest.raises(ValueError, match=r"no array of the position has 'c' in its path: a, b"):
        estimate.curvature_temperature(draws, stiff, part="c")
