import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import exp1

from sundman.priors.horseshoe import log_scaled_exp1

U = np.unique(np.concatenate([np.geomspace(1e-7, 1e8, 301), [0.999999, 1.0, 1.000001, 59.9, 60.1]]))


def scaled_exp1(u):
    """e^u E1(u): scipy's where e^u is in range, the asymptotic series beyond."""
    series = np.zeros_like(u)
    for n in range(12, -1, -1):
        series = 1.0 - (n + 1) / u * series
    return np.where(u < 200, np.exp(np.minimum(u, 200)) * exp1(u), series / u)


def slope(u):
    """1 - 1/(u e^u E1): its own series where that would cancel."""
    with np.errstate(over="ignore"):
        series = -(1 - 1 / u + 3 / u**2 - 13 / u**3 + 71 / u**4 - 461 / u**5) / u
    return np.where(u < 200, 1 - 1 / (u * scaled_exp1(u)), series)


@pytest.mark.parametrize("double", [False, True], ids=["single", "double"])
def test_value_and_derivative(double):
    with jax.enable_x64(double):
        u = jnp.asarray(U)
        exact = np.asarray(u, np.float64)
        value, derivative = jax.jit(jax.vmap(jax.value_and_grad(log_scaled_exp1)))(u)
    np.testing.assert_allclose(value, np.log(scaled_exp1(exact)), rtol=1e-6, atol=2e-6)
    np.testing.assert_allclose(derivative, slope(exact), rtol=1e-4)


def test_it_decreases_and_reaches_every_size():
    u = jnp.geomspace(1e-37, 1e37, 400, dtype=jnp.float32)
    value = np.asarray(log_scaled_exp1(u))
    assert np.isfinite(value).all()
    assert np.all(np.diff(value) < 0)
