"""The temperature along the stiffest directions, against what it exactly is."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import estimate, gradients, targets
from sundman.gradients import GradientEstimator
from sundman.noise import gaussian

TARGET = targets.gaussian(20, condition=1e4)
CHAINS = 16
OPTIONS = {"chains": CHAINS, "steps": 8000, "thin": 20}


def sample(target, sampler, key, **options):
    init = TARGET.exact(jax.random.key(1), CHAINS)
    return sundman.sample(target, sampler, key=key, init=init, **{**OPTIONS, **options})


@pytest.mark.long
def test_one_at_a_small_step(key):
    """SGLD on stiffness lambda has the temperature 1 / (1 - h lambda / 2), here 1.01."""
    draws = sample(TARGET, sundman.sgld(2e-6), key)
    value, error = estimate.stiff_temperature(draws, TARGET, directions=1)
    assert value.shape == error.shape == (1,)
    assert abs(value[0] - 1.01) < 4 * error[0]
    assert error[0] < 0.15
    independent = sundman.Draws(
        np.asarray(TARGET.exact(key, 1000)).reshape(10, 100, -1),
        np.ones((10, 100)), {}, np.full(10, -1), None,
    )  # fmt: skip
    value, error = estimate.stiff_temperature(independent, TARGET)
    assert value.shape == (4,)
    assert (abs(value - 1) < 4 * error).all()
    assert (error < 0.1).all()


def test_two_at_the_step_of_half_the_limit(key):
    """h lambda = 1: the stiffest direction is at 2, the mean of all near 1."""
    draws = sample(TARGET, sundman.sgld(1e-4), key)
    value, error = estimate.stiff_temperature(draws, TARGET, directions=1)
    assert abs(value[0] - 2) < 4 * error[0]
    assert error[0] < 0.15
    mean = estimate.configurational_temperature(draws[100:], TARGET.potential)
    assert mean.value < 1.25


class NoisyInOne(GradientEstimator):
    """The exact gradient, with noise in the last coordinate alone."""

    sigma: float

    def __call__(self, stream, position, batch=None):
        value, grads = jax.value_and_grad(TARGET.potential)(position)
        return value, grads.at[-1].add(self.sigma * gaussian(stream, jnp.zeros(1))[0])


@pytest.mark.long
def test_noise_of_the_gradient(key):
    """Noise of variance s^2 heats to (1 + h s^2 / 2) / (1 - h lambda / 2)."""
    h, sigma = 2e-5, 400.0
    draws = sample(NoisyInOne(sigma), sundman.sgld(h), key, steps=16_000)
    exact = (1 + h * sigma**2 / 2) / (1 - h * 1e4 / 2)
    for target in (TARGET, gradients.exact(TARGET.potential), NoisyInOne(sigma)):
        value, error = estimate.stiff_temperature(draws, target, directions=1)
        assert abs(value[0] - exact) < 4 * error[0]
        assert error[0] < 0.15 * exact


def test_rows_drawn_afresh_give_the_same(key):
    """A posterior's gradients on a few rows each: right on average, with a larger error."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 3)).astype(np.float32) * np.array([1.0, 1.0, 10.0], np.float32)
    y = (x @ np.ones(3) + rng.normal(size=100)).astype(np.float32)[:, None]
    posterior = sundman.Posterior(
        lambda w, x: (x @ w)[:, None], data=(x, y), likelihood=sundman.likelihoods.gaussian(1.0)
    )
    H = x.T.astype(np.float64) @ x + np.eye(3)
    mean = np.linalg.solve(H, x.T @ y[:, 0])
    w = mean + rng.normal(size=(4, 100, 3)) @ np.linalg.inv(np.linalg.cholesky(H))
    draws = sundman.Draws(w.astype(np.float32), np.ones((4, 100)), {}, np.full(4, -1), None)
    full = estimate.stiff_temperature(draws, posterior, most=400)
    some = estimate.stiff_temperature(draws, posterior, most=400, rows=20)
    for value, error in (full, some):
        assert (abs(value - 1) < 4 * error).all()
    assert (some.error > full.error).all()
    assert estimate.stiff_temperature(draws, posterior).value.shape == (3,)


def test_bad_calls(key):
    draws = sundman.sample(TARGET, sundman.sgld(1e-5), key=key, steps=3)
    with pytest.raises(ValueError, match="needs 4 draws per chain"):
        estimate.stiff_temperature(draws, TARGET)
    with pytest.raises(TypeError, match="target must be a potential"):
        estimate.stiff_temperature(draws, 3.0)
    with pytest.raises(ValueError, match="directions"):
        estimate.stiff_temperature(draws, TARGET, directions=0)
