"""The scale of the bias that a tuned run states, against true biases."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import targets
from sundman.tune import windows


@pytest.mark.slow
@pytest.mark.parametrize("bias", [0.02, 0.06])
def test_true_biases_are_within_it(bias):
    """On nine of ten observables of four targets, beyond two standard errors; exact starts."""
    within = []
    for target in (targets.star(), targets.banana(), targets.quartic(), targets.gaussian(20, 1e4)):
        names = [name for name in target.observables if name in target.truth]

        def collect(x, target=target, names=names):
            return jnp.stack([jnp.float32(target.observables[name](x)) for name in names])

        draws = sundman.sample(
            target,
            sundman.auto(bias=bias),
            init=target.exact(jax.random.key(3), 128),
            per_chain=True,
            key=jax.random.key(5),
            chains=128,
            steps=20_000,
            thin=20,
            collect=collect,
        )
        found = draws.mean()
        off = np.abs(found.value - np.array([target.truth[name] for name in names]))
        within.extend(off - 2 * found.error < found.bias)
    assert np.mean(within) >= 0.9


@pytest.mark.long
def test_an_estimate_has_it():
    draws = sundman.sample(targets.star(), key=jax.random.key(0), chains=4, steps=2000)
    found = draws.mean()
    value, error = found
    assert found.bias.shape == value.shape == error.shape
    assert np.all(found.bias > 0)
    assert "bias within" in str(found)
    assert draws.settings["weighting"] == "symmetric"
    alone = sundman.estimate.step_bias(draws)
    sd = np.sqrt(draws.variance())
    usual = np.minimum(np.abs(alone.value) + alone.error, draws.tuning.bias * sd)
    np.testing.assert_allclose(
        found.bias, np.maximum(usual, np.abs(alone.value) - 2 * alone.error), rtol=1e-6
    )
    coarse = dataclasses.replace(draws, stats={})
    np.testing.assert_allclose(coarse.mean().bias / sd, draws.tuning.bias, rtol=1e-6)
    plain = sundman.sample(targets.star(), sundman.sgld(1e-3), key=jax.random.key(0), steps=500)
    assert plain.mean().bias is None
    assert "bias" not in str(plain.mean())


@pytest.mark.long
def test_diagnose_says_it():
    draws = sundman.sample(targets.star(), key=jax.random.key(0), chains=4, steps=2000)
    row = sundman.diagnose(draws, show=False)["bias of the step / sd"]
    assert row.value == draws.tuning.bias


@pytest.mark.slow
def test_the_noise_of_minibatches_counts():
    """The energy error alone would say a tenth of it."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 3)).astype(np.float32)
    posterior = sundman.Posterior(
        lambda w, x: x @ w,
        data=(x, (rng.random(300) < 0.5).astype(np.int32)),
        likelihood=sundman.likelihoods.bernoulli(),
        prior=sundman.priors.gaussian(1.0),
    )
    draws = sundman.sample(
        posterior, init=jnp.zeros(3), key=jax.random.key(0), chains=4, steps=400, batch_size=30
    )
    assert 0.01 < draws.tuning.bias < 0.03
    assert draws.tuning.bias > 3 * 0.35 * np.sqrt(draws.tuning.windows[-1].v)


def test_where_dt_varies_the_energy_error_is_smaller():
    """By the square of how much it varies; and repeated windows keep the warm-up below 15%."""
    lines = {"dt": np.array([0.8, 1.2]), "dt2": np.array([0.7, 1.52]), "jumps": np.zeros(2)}

    class Result:
        line = staticmethod(lines.get)

    varies = np.sqrt(np.mean(lines["dt2"]) - 1)
    assert windows._share(Result) == pytest.approx((0.14 / varies) ** 2)
    lines["dt2"] = lines["dt"] ** 2 - 0.03
    assert windows._share(Result) == 1.0
    lines["jumps"] = np.array([2e-4, 0.0])  # twice as many as there may be
    assert windows._share(Result) == pytest.approx(0.5)
    usual = windows.lengths(sundman.auto(), exact=True)
    assert sum(usual) + 130 + sum(windows._repeated(usual)) <= 0.15 * 20_000


def test_a_long_descent_is_paid_for_by_the_windows():
    """The whole warm-up stays below 15% of a usual run, if half of the usual windows are left."""
    usual = windows.lengths(sundman.auto(), exact=True)

    class Problem:
        auto, cost = sundman.auto(), 1

    class Spent:
        gradients = 150

    assert windows._affordable(Problem, Spent, usual) == usual
    Spent.gradients = 1800
    left = windows._affordable(Problem, Spent, usual)
    assert sum(usual) / 2 < sum(left) <= 1200 + 30
    Problem.auto = sundman.auto(warm_up=4000)
    assert windows._affordable(Problem, Spent, usual) == usual
