"""Log probabilities against scipy, and targets that cannot be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

import sundman
from sundman import likelihoods

RNG = np.random.default_rng(4)
LOGITS = RNG.normal(size=(6, 3)) * 3
LABELS = np.array([0, 2, 1, 1, 0, 2])
ONE_HOT = np.eye(3)[LABELS]
OUT = RNG.normal(size=6)
REAL = RNG.normal(size=6)


def log_prob(likelihood, outputs, y, hyper=None):
    with jax.enable_x64(True):
        return np.asarray(likelihood.log_prob(jnp.asarray(outputs), jnp.asarray(y), hyper))


def as_column(values):
    return values[:, None]


def test_categorical():
    p = special.softmax(LOGITS, axis=1)
    wanted = [stats.multinomial(1, row).logpmf(y) for row, y in zip(p, ONE_HOT, strict=True)]
    likelihood = likelihoods.categorical()
    np.testing.assert_allclose(log_prob(likelihood, LOGITS, LABELS), wanted, rtol=1e-10)
    np.testing.assert_allclose(log_prob(likelihood, LOGITS, ONE_HOT), wanted, rtol=1e-10)
    np.testing.assert_allclose(likelihood.predict(LOGITS, None), p, rtol=1e-5)


def test_categorical_far_from_the_truth_is_finite():
    sure = jnp.array([[1e4, 0.0, -1e4]], jnp.float32)
    value, slope = jax.value_and_grad(
        lambda z: likelihoods.categorical().log_prob(z, jnp.array([2]), None).sum()
    )(sure)
    assert value == -2e4
    np.testing.assert_array_equal(slope, [[-1.0, 0.0, 1.0]])


@pytest.mark.parametrize("column", [False, True])
def test_bernoulli(column):
    y = np.array([0, 1, 1, 0, 1, 0])
    wanted = stats.bernoulli(special.expit(OUT)).logpmf(y)
    found = log_prob(likelihoods.bernoulli(), as_column(OUT) if column else OUT, y)
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    both = log_prob(likelihoods.bernoulli(), np.stack([OUT, -OUT], 1), np.stack([y, y], 1))
    np.testing.assert_allclose(both, wanted + stats.bernoulli(special.expit(-OUT)).logpmf(y))
    np.testing.assert_allclose(
        likelihoods.bernoulli().predict(OUT, None), special.expit(OUT), rtol=1e-5
    )


@pytest.mark.parametrize("column", [False, True])
def test_poisson(column):
    y = np.array([0, 1, 7, 3, 2, 40])
    found = log_prob(likelihoods.poisson(), as_column(OUT) if column else OUT, y)
    np.testing.assert_allclose(found, stats.poisson(np.exp(OUT)).logpmf(y), rtol=1e-10)
    np.testing.assert_allclose(likelihoods.poisson().predict(OUT, None), np.exp(OUT), rtol=1e-5)


@pytest.mark.parametrize("column", [False, True])
def test_gaussian_of_known_noise(column):
    outputs = as_column(OUT) if column else OUT
    likelihood = likelihoods.gaussian(0.3)
    np.testing.assert_allclose(
        log_prob(likelihood, outputs, REAL), stats.norm(OUT, 0.3).logpdf(REAL), rtol=1e-10
    )
    assert likelihood.hyper is None
    predictive = likelihood.predict(outputs, None)
    np.testing.assert_array_equal(predictive.mean, outputs)
    np.testing.assert_allclose(predictive.sd, np.full(outputs.shape, 0.3), rtol=1e-6)


def test_gaussian_of_several_outputs_adds_them_up():
    outputs, y = RNG.normal(size=(6, 2)), RNG.normal(size=(6, 2))
    found = log_prob(likelihoods.gaussian(0.3), outputs, y)
    np.testing.assert_allclose(found, stats.norm(outputs, 0.3).logpdf(y).sum(axis=1), rtol=1e-10)


def test_gaussian_of_learned_noise():
    likelihood = likelihoods.gaussian(log_noise_prior=(-2.0, 0.5))
    assert likelihood.hyper == {"log_noise": -2.0}
    hyper = {"log_noise": np.log(0.8)}
    np.testing.assert_allclose(
        log_prob(likelihood, OUT, REAL, hyper), stats.norm(OUT, 0.8).logpdf(REAL), rtol=1e-10
    )
    wanted = stats.norm(-2.0, 0.5).logpdf(np.log(0.8))
    with jax.enable_x64(True):
        assert likelihood.log_hyper(hyper) == pytest.approx(wanted, rel=1e-10)
    np.testing.assert_allclose(likelihood.predict(OUT, hyper).sd, np.full(6, 0.8), rtol=1e-6)


@pytest.mark.parametrize("column", [False, True])
def test_heteroscedastic_gaussian(column):
    outputs = np.stack([OUT, RNG.normal(size=6)], axis=1)
    wanted = stats.norm(OUT, np.exp(outputs[:, 1])).logpdf(REAL)
    likelihood = likelihoods.heteroscedastic_gaussian()
    y = as_column(REAL) if column else REAL
    np.testing.assert_allclose(log_prob(likelihood, outputs, y), wanted, rtol=1e-10)
    predictive = likelihood.predict(outputs, None)
    np.testing.assert_allclose(predictive.sd, np.exp(outputs[:, 1]), rtol=1e-5)


def test_a_function_is_a_likelihood():
    def laplace(outputs, y):
        return -jnp.abs(outputs - y) - jnp.log(2.0)

    likelihood = likelihoods.as_likelihood(laplace)
    assert likelihood.name == "laplace"
    np.testing.assert_allclose(
        log_prob(likelihood, OUT, REAL), stats.laplace(OUT).logpdf(REAL), rtol=1e-6
    )
    np.testing.assert_array_equal(likelihood.predict(OUT, None), OUT)
    assert likelihoods.as_likelihood(likelihood) is likelihood
    with pytest.raises(TypeError, match="likelihood must be"):
        likelihoods.as_likelihood("categorical")


@pytest.mark.parametrize(
    "bad", [lambda o, y: jnp.mean(-jnp.square(o - y)), lambda o, y: -jnp.square(o - y)[:, None]]
)
def test_a_function_must_give_one_number_per_example(bad):
    posterior = sundman.Posterior(lambda w, x: x @ w, likelihood=bad, data=(LOGITS, REAL))
    with pytest.raises(ValueError, match="one log probability per example"):
        posterior.position(jnp.ones(3))


BAD_TARGETS = {
    "label too large": (likelihoods.categorical(), [0, 3], (2, 3), ValueError, r"0\.\.2.* 0 to 3"),
    "label negative": (likelihoods.categorical(), [-1, 0], (2, 3), ValueError, r"0\.\.2"),
    "label not whole": (likelihoods.categorical(), [0.0, 1.0], (2, 3), TypeError, "float64"),
    "one-hot of two": (likelihoods.categorical(), np.eye(2), (2, 3), ValueError, "2 classes.* 3"),
    "one-hot sum": (likelihoods.categorical(), np.ones((2, 3)), (2, 3), ValueError, "sum to 1"),
    "one-hot sign": (likelihoods.categorical(), [[2, -1, 0]], (1, 3), ValueError, "negative"),
    "coin of 2": (likelihoods.bernoulli(), [0, 2], (2, 1), ValueError, "must be 0 or 1"),
    "coin shape": (likelihoods.bernoulli(), [[0], [1]], (2, 2), ValueError, r"\(1,\).*\(2,\)"),
    "count negative": (likelihoods.poisson(), [0, -2], (2,), ValueError, "whole numbers"),
    "count broken": (likelihoods.poisson(), [0, 0.5], (2,), ValueError, "whole numbers"),
    "real shape": (likelihoods.gaussian(1.0), [[0.0], [1.0]], (2,), ValueError, r"\(1,\).*\(\)"),
    "one output": (likelihoods.heteroscedastic_gaussian(), [0.0], (1, 1), ValueError, "mean and"),
}


@pytest.mark.parametrize("case", BAD_TARGETS)
def test_targets_that_cannot_be(case):
    likelihood, y, shape, error, message = BAD_TARGETS[case]
    with pytest.raises(error, match=message):
        likelihood.check_targets(np.asarray(y), jax.ShapeDtypeStruct(shape, jnp.float32))


@pytest.mark.parametrize("likelihood", [likelihoods.gaussian(1.0), likelihoods.bernoulli()])
@pytest.mark.parametrize("y, outputs", [((4,), (4, 1)), ((4,), (4,)), ((4, 2), (4, 2))])
def test_shapes_that_fit(likelihood, y, outputs):
    likelihood.check_targets(np.zeros(y), jax.ShapeDtypeStruct(outputs, jnp.float32))


@pytest.mark.parametrize("noise", [0.0, -1.0, float("nan")])
def test_noise_must_be_positive(noise):
    with pytest.raises(ValueError, match="noise"):
        likelihoods.gaussian(noise)
    with pytest.raises(ValueError, match="log_noise_prior"):
        likelihoods.gaussian(log_noise_prior=(0.0, noise))


@pytest.mark.parametrize("noise", ["0.1", True, [0.1]])
def test_noise_must_be_a_number(noise):
    with pytest.raises(TypeError, match="noise must be"):
        likelihoods.gaussian(noise)
    with pytest.raises(TypeError, match="log_noise_prior"):
        likelihoods.gaussian(log_noise_prior=(0.0, noise))
    with pytest.raises(TypeError, match="log_noise_prior must be a pair"):
        likelihoods.gaussian(log_noise_prior=1.0)


@pytest.mark.parametrize("name", ["categorical", "gaussian", "heteroscedastic_gaussian"])
def test_a_likelihood_that_is_not_called_is_named(name):
    uncalled = getattr(likelihoods, name)
    with pytest.raises(TypeError, match=f"likelihoods.{name} is not called: write .*{name}\\(\\)"):
        sundman.Posterior(lambda w, x: x @ w, likelihood=uncalled, data=(LOGITS, REAL))


def test_likelihoods_are_values():
    assert likelihoods.gaussian(0.5) == likelihoods.gaussian(np.float32(0.5))
    assert likelihoods.gaussian(0.1) != likelihoods.gaussian(0.2)
    assert likelihoods.gaussian() != likelihoods.gaussian(0.2)
    assert hash(likelihoods.gaussian(0.1)) == hash(likelihoods.gaussian(0.1))
    assert repr(likelihoods.gaussian(0.1)) == "likelihoods.gaussian(0.1)"
    assert likelihoods.gaussian(0.1).name == "gaussian"
    assert likelihoods.heteroscedastic_gaussian().name == "heteroscedastic_gaussian"
    assert likelihoods.gaussian(0.1).replace(noise=0.3) == likelihoods.gaussian(0.3)
    with pytest.raises(ValueError, match="noise"):
        likelihoods.gaussian(0.1).replace(noise=-1.0)


def test_another_noise_level_is_the_same_program():
    traced = []

    @jax.jit
    def total(likelihood):
        traced.append(likelihood)
        return jnp.sum(likelihood.log_prob(jnp.asarray(OUT), jnp.asarray(REAL), None))

    for noise in (0.3, 0.4):
        wanted = stats.norm(OUT, noise).logpdf(REAL).sum()
        assert total(likelihoods.gaussian(noise)) == pytest.approx(wanted, rel=1e-5)
    assert len(traced) == 1
    several = jax.vmap(lambda noise: total(likelihoods.gaussian(noise)))(jnp.array([0.3, 0.4]))
    np.testing.assert_allclose(several, [total(likelihoods.gaussian(s)) for s in (0.3, 0.4)], 1e-5)


def test_a_likelihood_of_ones_own():
    class Cauchy(likelihoods.Likelihood):
        width: float = 1.0

        def log_prob(self, outputs, y, hyper):
            return -jnp.log1p(jnp.square((outputs - y) / self.width))

    posterior = sundman.Posterior(lambda w, x: x @ w, likelihood=Cauchy(2.0), data=(LOGITS, REAL))
    position = posterior.position(jnp.ones(3, jnp.float32))
    wanted = -np.log1p(np.square((LOGITS.sum(axis=1) - REAL) / 2)).sum()
    assert posterior.log_likelihood(position) == pytest.approx(wanted, rel=1e-5)
    assert posterior.likelihood.name == "cauchy"
