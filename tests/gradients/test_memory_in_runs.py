"""What an estimator remembers follows its chain: by time, in turns, and back after a divergence."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import gradients
from sundman.run.schedule import Sizes

X = np.random.default_rng(2).normal(size=(30, 2)).astype(np.float32)


def run(model=lambda w, x: x @ w, **arguments):
    posterior = sundman.Posterior(
        model, likelihood=sundman.likelihoods.gaussian(1.0), data=(X, X @ np.ones(2))
    )
    settings = {"chains": 2, "key": jax.random.key(4), "init": jnp.zeros(2), "progress": False}
    estimator = gradients.svrg(posterior, 7, every=7)
    return sundman.sample(estimator, sundman.sgld(2**-8), **settings | arguments)


@pytest.mark.long
def test_draws_by_time_are_from_the_same_path():
    """Three steps of 2^-8 are the time between draws."""
    every, by_time = run(steps=61), run(thin_time=3 * 2**-8, draws=20)
    np.testing.assert_allclose(by_time.values, every.values[:, 3::3], rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_chains_in_turns_are_chains_side_by_side(monkeypatch):
    side_by_side = run(steps=40)
    monkeypatch.setattr("sundman.run.chain_mapping._LARGE_POSITION", 1)
    np.testing.assert_allclose(run(steps=40).values, side_by_side.values, rtol=1e-3, atol=1e-4)


@pytest.mark.long
def test_a_chain_that_was_put_back_has_the_memory_it_had_there(monkeypatch):
    """A snapshot whose gradient is not a number would stay and spoil later steps."""
    monkeypatch.setattr("sundman.run.schedule.sizes", lambda *args: Sizes(10, 10))

    def breaks(w, x):
        return x @ (w * jnp.where(w[0] > 1.4, jnp.nan, 1.0))

    with pytest.warns(sundman.DivergenceWarning):
        draws = run(breaks, steps=300, on_divergence="restart")
    lost = np.flatnonzero(draws.diverged)
    assert lost.size
    for chain in lost:
        after = draws.weight[chain, draws.diverged_at[chain] + 10 :]
        assert np.mean(after > 0) > 0.5
    assert np.isfinite(draws.values[draws.weight > 0]).all()
