"""Runs on many rows without a setting, and ``gradient=``: the law, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.optimize

import sundman
from sundman import likelihoods, priors

ROWS, SIZE = 20_000, 5


def logistic(rows=ROWS, temperature=1.0):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(rows, SIZE)) @ (np.eye(SIZE) + 0.4 * rng.normal(size=(SIZE, SIZE)))
    x = x.astype(np.float32)
    y = (rng.random(rows) < 1 / (1 + np.exp(-x @ (0.4 * rng.normal(size=SIZE))))).astype(np.int32)
    return sundman.Posterior(
        lambda w, x: x @ w, data=(x, y), likelihood=likelihoods.bernoulli(),
        prior=priors.gaussian(2.0), temperature=temperature,
    )  # fmt: skip


def moments(posterior, temperature):
    """Mean and covariance in double precision: draws of Laplace's law, reweighted on all rows."""
    x, y = (np.asarray(part, np.float64) for part in posterior.data[:2])

    def potential(w):
        z = x @ w.T
        return (np.logaddexp(0, z) - y[:, None] * z).sum(axis=0) + (w**2).sum(axis=1) / 8

    def slope(w):
        return x.T @ (1 / (1 + np.exp(-x @ w)) - y) + w / 4

    w = scipy.optimize.minimize(
        lambda w: potential(w[None])[0], np.zeros(SIZE), jac=slope, options={"gtol": 1e-6}
    ).x
    p = 1 / (1 + np.exp(-x @ w))
    hessian = x.T @ (x * (p * (1 - p))[:, None]) + np.eye(SIZE) / 4
    L = np.linalg.cholesky(np.linalg.inv(hessian)) * np.sqrt(temperature)
    z = np.random.default_rng(1).normal(size=(4_000, SIZE))
    z = np.concatenate([z, -z])
    draws = w + z @ L.T
    U = np.concatenate([potential(part) for part in np.array_split(draws, 40)])
    log = -(U - potential(w[None])) / temperature + (z**2).sum(axis=1) / 2
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    mean = weight @ draws
    return mean, (draws - mean).T @ ((draws - mean) * weight[:, None])


@pytest.mark.long
@pytest.mark.parametrize("temperature", [1.0, 0.5])
def test_the_law_without_a_setting(temperature):
    posterior = logistic(temperature=temperature)
    draws = sundman.sample(posterior, init=jnp.zeros(SIZE), key=jax.random.key(1), steps=6_000)
    assert draws.tuning.control_variate is not None
    assert draws.settings["batch_size"] == draws.tuning.control_variate.batch_size
    assert draws.verdict.ok, draws.verdict
    mean, covariance = moments(posterior, temperature)
    x = np.asarray(draws.position).reshape(-1, SIZE)
    ess = np.asarray(draws.ess())
    assert ess.min() > 2_000
    sd = np.sqrt(np.diag(covariance))
    assert np.all(np.abs(x.mean(axis=0) - mean) < 5 * sd / np.sqrt(ess) + 0.01 * sd)
    root = np.linalg.inv(np.linalg.cholesky(covariance))
    values = np.linalg.eigvalsh(np.cov((x @ root.T).T))
    error = np.sqrt(2 * SIZE / ess.min())
    assert values[0] > 1 - 4 * error - 0.02
    assert values[-1] < 1 + 4 * error + 0.02


@pytest.mark.long
def test_a_sampler_of_ones_own_with_the_same_estimator():
    """SGLD, whose variances are nearly right with it, and far too large without."""
    posterior = logistic()
    mean, covariance = moments(posterior, 1.0)
    step = 0.1 * np.linalg.eigvalsh(covariance)[0]
    call = {"init": jnp.asarray(mean, jnp.float32), "key": jax.random.key(2), "chains": 4}
    draws = sundman.sample(
        posterior, sundman.sgld(float(step)), gradient="control_variate",
        burn_in=2_000, steps=40_000, **call,
    )  # fmt: skip
    x, ess = np.asarray(draws.position).reshape(-1, SIZE), np.asarray(draws.ess())
    assert ess.min() > 100
    ratio = x.var(axis=0) / np.diag(covariance)
    assert np.all(np.abs(ratio - 1) < 5 * np.sqrt(2 / ess) + 0.05)
    with pytest.warns(sundman.TrustWarning):  # the noise of 128 rows of 20,000
        plain = sundman.sample(
            posterior, sundman.sgld(float(step)), gradient="minibatch", batch_size=128,
            burn_in=2_000, steps=40_000, **call,
        )  # fmt: skip
    assert (
        np.asarray(plain.position).reshape(-1, SIZE).var(axis=0).min()
        > 1.5 * np.diag(covariance).min()
    )


def test_plain_minibatches_when_asked_for():
    draws = sundman.sample(
        logistic(6_000), init=jnp.zeros(SIZE), key=jax.random.key(1), chains=2, steps=200,
        batch_size=100, gradient="minibatch",
    )  # fmt: skip
    assert draws.tuning.control_variate is None
    assert draws.settings["batch_size"] == 100


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        ({"gradient": "control variate"}, ValueError, "gradient must be one of"),
        (
            {"target": sundman.targets.star(), "gradient": "control_variate"},
            (TypeError, ValueError),
            "sundman.Posterior",
        ),
    ],
)
def test_what_is_refused(call, error, said):
    call = {"target": logistic(200), "init": jnp.zeros(SIZE), **call}
    target = call.pop("target")
    if target is not None and "star" in repr(target).lower():
        call.pop("init")
    with pytest.raises(error, match=said):
        sundman.sample(target, key=jax.random.key(0), steps=200, **call)
