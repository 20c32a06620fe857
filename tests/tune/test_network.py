"""Networks without settings: the digits network against its posterior by full-batch HMC."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import gradients, likelihoods, models, priors


@pytest.mark.slow
def test_a_small_network_has_the_temperature_of_its_law():
    """A regression network whose prior rules: E[z^2] of every weight is 1 where data say nothing.

    The last inputs are always 0, so their weights keep their prior: a ground truth.
    """
    rng = np.random.default_rng(3)
    x = rng.normal(size=(256, 6)).astype(np.float32)
    x[:, 3:] = 0.0
    y = (x[:, 0] > 0).astype(np.int32)
    posterior = sundman.Posterior(
        models.mlp_apply,
        data=(x, y),
        likelihood=likelihoods.categorical(),
        prior=priors.gaussian(1.0),
    )
    draws = sundman.sample(
        posterior,
        init=models.mlp_init(jax.random.key(0), (6, 12, 2)),
        key=jax.random.key(1),
        chains=4,
        steps=12_000,
        thin=40,
        batch_size=32,
        collect=lambda params: jnp.mean(params["layer_0"]["kernel"][3:] ** 2),
    )
    assert draws.tuning.chosen.method == "low_rank_baoab"
    assert draws.tuning.converged
    found = draws.mean()
    assert abs(found.value - 1.0) < 3.5 * found.error + 0.03
    assert found.error < 0.1


@pytest.mark.slow
def test_the_step_follows_the_noise_as_the_network_learns():
    """A regression whose level of noise is learned: the gradient noise at the end is not the first.

    What one step's noise adds to the energy, (h / 2)^2 s, is to be 0.1 T along the loudest
    direction; with the step of the second round it would be an order of magnitude off.
    """
    rng = np.random.default_rng(4)
    x = rng.normal(size=(1000, 4)).astype(np.float32)
    y = (np.sin(2 * x[:, 0]) * x[:, 1] + 0.05 * rng.normal(size=1000)).astype(np.float32)
    posterior = sundman.Posterior(
        models.mlp_apply,
        data=(x, y),
        likelihood=likelihoods.gaussian(log_noise_prior=(-2.0, 2.0)),
        prior=priors.gaussian(1.0),
    )
    draws = sundman.sample(
        posterior,
        init=models.mlp_init(jax.random.key(0), (4, 20, 1)),
        key=jax.random.key(1),
        chains=2,
        steps=12_000,
        thin=100,
        batch_size=100,
    )
    rounds = [window for window in draws.tuning.windows if window.stage == "round"]
    assert len(rounds) >= 3
    last = rounds[-1]
    assert 0.03 < (last.h / 2) ** 2 * last.noise < 0.3


@pytest.mark.long
@pytest.mark.parametrize(
    "method", [pytest.param("baoab", marks=pytest.mark.slow), "low_rank_baoab"]
)
def test_the_method_that_is_asked_for_is_taken(method):
    noisy = gradients.noisy(lambda x: 0.5 * jnp.sum(x**2), 3.0)
    draws = sundman.sample(
        noisy,
        sundman.auto(method=method, dense_up_to=0),
        init=jnp.zeros(8),
        key=jax.random.key(0),
        chains=4,
        steps=6000,
        thin=5,
    )
    assert draws.tuning.chosen.method == method
    found = draws.expectation(lambda x: jnp.mean(x**2))
    allowed = {"baoab": draws.tuning.bias, "low_rank_baoab": 0.3}[method]
    assert -0.05 - 3.5 * found.error < found.value - 1 < allowed + 0.05 + 3.5 * found.error
