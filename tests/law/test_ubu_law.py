"""UBU: the published steps seen at their gradients, one a step; its law on a Gaussian."""

import jax.numpy as jnp
import linear
import numpy as np
import pytest

from sundman import integrators
from sundman.noise import Purpose, Stream, gaussian, substream

STEPS = [0.3, 0.1, 0.4, 0.2, 0.25]
GAMMA, T = 1.5, 0.7


def grad(x):
    return x + 2.0 * x**3


def stream(step):
    return Stream(jnp.array([1, 2], jnp.uint32), jnp.uint32(step))


def noises(n, x):
    """The noises of a step, in the order (eta, eps)."""
    own = substream(stream(n), Purpose.POSITION_NOISE)
    return np.array([gaussian(own, x), gaussian(stream(n), x)], np.float64)


def flow_noise(h, n, x):
    """Noise of position and momentum with the exact covariance of the flow without a force."""
    _, covariance = linear.free_flow(h, GAMMA, T)
    upper = np.linalg.cholesky(covariance[::-1, ::-1])[::-1, ::-1]  # the momentum has eps alone
    return upper @ noises(n, x)


def test_the_published_steps_between_their_gradients_with_a_step_that_varies():
    integrator, x = integrators.ubu(T, gamma=GAMMA), jnp.array([0.4, -1.0])
    state, found = integrator.init(x), []
    for n, h in enumerate(STEPS):
        update, state = integrator.move(stream(n), grad(x), state, x, jnp.float32(h))
        x = x + update
        found.append(np.asarray(x, np.float64))
    x, p, before = np.array([0.4, -1.0]), np.zeros(2), 0.0
    for n, (h, wanted) in enumerate(zip(STEPS, found, strict=True)):
        p = p - (before + h) / 2 * grad(x)
        matrix, _ = linear.free_flow(h, GAMMA, T)
        x, p = matrix @ np.stack([x, p]) + flow_noise(h, n, jnp.zeros(2))
        before = h
        np.testing.assert_allclose(wanted, x, rtol=1e-5, atol=1e-6)


@pytest.mark.long
@pytest.mark.parametrize("h", [1e-4, 1e-2, 0.5, 0.7, 20.0])
def test_the_noise_of_the_position_in_single_precision(h):
    """The variance given the momentum's noise is a small difference where gamma h is small."""
    integrator, x = integrators.ubu(T, gamma=GAMMA), jnp.zeros(4)
    update, _ = integrator.move(stream(0), x, integrator.init(x), x, jnp.float32(h))
    y = GAMMA * h / 2
    # z - tanh z = z^3/3 - ... to double precision, from the integral of tanh^2
    nodes, weights = np.polynomial.legendre.leggauss(60)
    difference = y / 2 * np.sum(weights * np.tanh(y / 2 * (nodes + 1)) ** 2)
    eta, eps = noises(0, x)
    wanted = np.tanh(y) / GAMMA * np.sqrt(T * -np.expm1(-4 * y)) * eps
    wanted = wanted + 2 * np.sqrt(T * difference) / GAMMA * eta
    np.testing.assert_allclose(update, wanted, rtol=2e-5)


@pytest.mark.parametrize("gamma", [0.1, 2.0])
def test_second_order_and_the_middles_are_nearer_than_the_ends(gamma):
    k, T = 3.0, 0.7
    for h in (0.04, 0.02):
        middle = linear.ubu(h, k, T, gamma=gamma) * k / T - 1.0
        end = linear.ubu_ends(h, k, T, gamma=gamma) * k / T - 1.0
        assert middle == pytest.approx(k * h**2 / 12, rel=0.01)
        assert end == pytest.approx(-k * h**2 / 6, rel=0.01)


@pytest.mark.long
def test_without_friction_and_noise_it_is_verlet():
    ubu, obabo = integrators.ubu(0.0, gamma=1e-6), integrators.obabo(0.0, gamma=1e-6)
    x = z = jnp.array([1.0])
    here, there = ubu.init(x), obabo.init(z)
    for n in range(20):
        update, here = ubu.move(stream(n), grad(x), here, x, jnp.float32(0.1))
        x = x + update
        update, there = obabo.move(stream(n), grad(z), there, z, jnp.float32(0.1))
        z = z + update
    np.testing.assert_allclose(x, z, rtol=1e-4)
