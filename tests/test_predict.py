"""The predictive of weighted draws, against numpy; and the same average kept online."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import sundman
from sundman import NormalMixture, Position, likelihoods
from sundman.draws import Draws

RNG = np.random.default_rng(13)
X = RNG.normal(size=(5, 3)).astype(np.float32)
W = RNG.normal(size=(2, 3, 3, 4)).astype(np.float32)  # chain, draw, input, class
WEIGHT = RNG.uniform(0.1, 1.0, size=(2, 3)).astype(np.float32)


def make(values, weight=WEIGHT, **rest):
    return Draws(values, weight, {}, np.full(len(weight), -1), None, **rest)


def logits(w, x):
    return x @ w


def each_probability():
    return special.softmax(np.einsum("pi,cdik->cdpk", X, W), axis=-1)


def test_weighted_and_equal_averages():
    p = each_probability()
    weighted = np.einsum("cd,cdpk->pk", WEIGHT, p) / WEIGHT.sum()
    np.testing.assert_allclose(sundman.predict(make(W), logits, X), weighted, rtol=1e-5)
    equal = sundman.predict(make(W), logits, X, weighted=False)
    np.testing.assert_allclose(equal, p.mean(axis=(0, 1)), rtol=1e-5)
    assert np.abs(equal - weighted).max() > 1e-3


def test_members_keep_chains_in_order():
    members = sundman.predict(make(W), logits, X, members=True)
    np.testing.assert_allclose(members, each_probability().reshape(6, 5, 4), rtol=1e-5)


@pytest.mark.parametrize("weighted", [True, False])
def test_draws_of_weight_zero_count_for_nothing(weighted):
    values, weight = W.copy(), WEIGHT.copy()
    values[1, 1:], weight[1, 1:] = np.nan, 0.0
    found = sundman.predict(make(values, weight), logits, X, weighted=weighted)
    used = weight if weighted else (weight > 0).astype(float)
    wanted = np.einsum("cd,cdpk->pk", used, each_probability()) / used.sum()
    np.testing.assert_allclose(found, wanted, rtol=1e-5)
    members = sundman.predict(make(values, weight), logits, X, members=True)
    assert members.shape == (4, 5, 4)
    assert np.isfinite(members).all()


def test_nothing_to_predict_with():
    with pytest.raises(ValueError, match="all chains diverged"):
        sundman.predict(make(W, np.zeros_like(WEIGHT)), logits, X)
    with pytest.raises(AttributeError, match="collect="):
        sundman.predict(make(W, has_position=False), logits, X)
    with pytest.raises(TypeError, match="predict needs a Posterior or a function"):
        sundman.predict(make(W), "model", X)


def test_draws_come_first():
    posterior = sundman.Posterior(logits, data=(X, np.array([0, 1, 2, 3, 0])))
    for wrong in ((posterior, make(W), X), (logits, make(W), X), (W, logits, X)):
        with pytest.raises(TypeError, match=r"predict\(draws, posterior, x\); got"):
            sundman.predict(*wrong)


def test_bad_inputs_are_named():
    posterior = sundman.Posterior(logits, data=(X, np.array([0, 1, 2, 3, 0])))
    spoiled = X.copy()
    spoiled[3, 1] = np.nan
    for model in (logits, posterior):
        with pytest.raises(ValueError, match="x has a value that is not finite, first in row 3"):
            sundman.predict(make(W), model, spoiled)
        with pytest.raises(TypeError, match="x has dtype object"):
            sundman.predict(make(W), model, X.astype(object))
    with pytest.raises(ValueError, match="x has 2 features, the model was checked with 3 features"):
        sundman.predict(make(W), posterior, X[:, :2])
    with pytest.raises(ValueError, match=r"x has 2 features, the parameters .* the array \(3, 4\)"):
        sundman.predict(make(W), logits, X[:, :2])
    with pytest.raises(TypeError, match=r"likelihoods\.poisson is not called"):
        sundman.predict(make(W), logits, X, likelihood=likelihoods.poisson)


def test_a_predictive_of_ones_own_is_followed():
    class Sharp(sundman.Posterior):
        def predict(self, position, x):
            return super().predict(position, x) ** 2

    posterior = Sharp(logits, data=(X, np.array([0, 1, 2, 3, 0])))
    members = sundman.predict(make(W), posterior, X, members=True)
    np.testing.assert_allclose(members, each_probability().reshape(6, 5, 4) ** 2, rtol=1e-4)
    rate = sundman.predict(make(W), posterior, X, members=True, likelihood=likelihoods.poisson())
    wanted = np.exp(np.einsum("pi,cdik->cdpk", X, W)).reshape(6, 5, 4) ** 2
    np.testing.assert_allclose(rate, wanted, rtol=1e-4)


def test_low_precision_outputs():
    found = sundman.predict(make(W), lambda w, x: (x @ w).astype(jnp.bfloat16), X)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, rtol=0.02)


def test_a_likelihood_says_what_outputs_mean():
    rate = sundman.predict(make(W), logits, X, likelihood=likelihoods.poisson())
    each = np.exp(np.einsum("pi,cdik->cdpk", X, W))
    wanted = np.einsum("cd,cdpk->pk", WEIGHT, each) / WEIGHT.sum()
    np.testing.assert_allclose(rate, wanted, rtol=1e-4)


def test_a_learned_noise_is_that_of_each_draw():
    log_noise = RNG.normal(size=(2, 3)).astype(np.float32)
    position = Position(W[..., 0], {"likelihood": {"log_noise": log_noise}})
    mixture = sundman.predict(make(position), logits, X, likelihood=likelihoods.gaussian())
    assert isinstance(mixture, NormalMixture)
    mean = np.einsum("pi,cdi->cdp", X, W[..., 0]).reshape(6, 5)
    np.testing.assert_allclose(mixture.mean, mean, rtol=1e-4, atol=1e-6)
    wanted = np.broadcast_to(np.exp(log_noise).reshape(6, 1), (6, 5))
    np.testing.assert_allclose(mixture.sd, wanted, rtol=1e-5)
    np.testing.assert_allclose(mixture.weight, WEIGHT.ravel() / WEIGHT.sum(), rtol=1e-5)


def mixture():
    rng = np.random.default_rng(18)
    return NormalMixture(
        rng.normal(size=(4, 3)) * 2, rng.uniform(0.2, 1.5, size=(4, 3)), np.array([1, 3, 0.5, 2])
    )


def test_mixture_moments_and_intervals_by_monte_carlo():
    of = mixture()
    count = 400_000
    rng = np.random.default_rng(14)
    component = rng.choice(4, size=count, p=of.weight / of.weight.sum())
    draws = of.mean[component] + of.sd[component] * rng.normal(size=(count, 3))
    np.testing.assert_allclose(of.centre, draws.mean(axis=0), atol=0.02)
    np.testing.assert_allclose(of.spread, draws.std(axis=0), rtol=0.01)
    for level in (0.5, 0.9):
        low, high = of.interval(level)
        inside = np.mean((low <= draws) & (draws <= high), axis=0)
        np.testing.assert_allclose(inside, level, atol=0.005)
        np.testing.assert_allclose(np.mean(draws < low, axis=0), (1 - level) / 2, atol=0.005)


def test_a_mixture_of_one_is_normal():
    one = NormalMixture(np.array([[1.0, -2.0]]), np.array([[0.5, 3.0]]), np.array([2.0]))
    np.testing.assert_allclose(one.centre, [1.0, -2.0])
    np.testing.assert_allclose(one.spread, [0.5, 3.0])
    low, high = one.interval(0.9)
    wanted = stats.norm([1.0, -2.0], [0.5, 3.0]).interval(0.9)
    np.testing.assert_allclose([low, high], wanted, atol=1e-4)


def test_a_column_of_outputs_keeps_its_axis():
    of = mixture()
    column = NormalMixture(of.mean[..., None], of.sd[..., None], of.weight)
    for found, plain in zip(column.interval(0.8), of.interval(0.8), strict=True):
        np.testing.assert_array_equal(found, plain[:, None])
    np.testing.assert_array_equal(column.spread, of.spread[:, None])


def test_spread_far_from_zero_in_single_precision():
    mean = np.array([[1e4], [1e4 + 1]], np.float32)
    of = NormalMixture(mean, np.full((2, 1), 0.5, np.float32), np.ones(2, np.float32))
    np.testing.assert_allclose(of.spread, np.sqrt(0.5), rtol=1e-4)


@pytest.mark.long
def test_online_averages_are_the_predictive(key):
    """On one run: what is kept in constant memory is what the stored draws give."""
    y = np.array([0, 1, 2, 3, 0])
    posterior = sundman.Posterior(logits, data=(X, y))
    sampler = sundman.sa_sgld(0.01, alpha=50.0, m=0.1, M=10.0, r=0.5)
    draws = sundman.sample(
        posterior,
        sampler,
        init=np.zeros((3, 4), np.float32),
        key=key,
        chains=3,
        steps=40,
        thin=2,
        online=lambda position: posterior.predict(position, X),
    )
    assert draws.weight.std() > 0.05 * draws.weight.mean()
    of = draws.online
    np.testing.assert_allclose(of.weight, draws.weight.sum(axis=1), rtol=1e-5)
    np.testing.assert_array_equal(of.number, 20)
    joined = np.einsum("c,cpk->pk", of.weight, of.weighted) / of.weight.sum()
    np.testing.assert_allclose(joined, sundman.predict(draws, posterior, X), rtol=1e-4)
    equal = sundman.predict(draws, posterior, X, weighted=False)
    np.testing.assert_allclose(of.equal.mean(axis=0), equal, rtol=1e-4)


def test_online_averages_of_a_diverged_chain_are_not_given(key):
    with pytest.warns(sundman.DivergenceWarning):
        draws = sundman.sample(
            lambda x: -jnp.sum(x**4),
            sundman.sgld(0.1),
            init=jnp.array([1.0]),
            key=key,
            steps=12,
            online=jnp.abs,
        )
    assert draws.diverged_at[0] == 0
    assert np.isnan(draws.online.weighted).all()
    assert np.isnan(draws.online.number)


def test_online_averages_of_whole_numbers_are_fractions(key):
    draws = sundman.sample(
        lambda x: 0.5 * jnp.sum(x**2),
        sundman.sgld(0.5),
        init=jnp.zeros(1),
        key=key,
        steps=50,
        online=lambda x: {"positive": x[0] > 0, "sign": jnp.sign(x).astype(jnp.int32)},
    )
    found = draws.online.equal
    assert found["positive"][0] == pytest.approx(np.mean(draws.position > 0), rel=1e-5)
    assert found["sign"][0, 0] == pytest.approx(np.mean(np.sign(draws.position)), rel=1e-4)
