"""OBABO: the published steps with a varying dt, from one gradient a step."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from sundman import integrators
from sundman.noise import Stream, gaussian

STEPS = [0.3, 0.1, 0.4, 0.2, 0.25]
GAMMA, T = 1.5, 0.7


def grad(x):
    return x + 2.0 * x**3


def stream(step):
    return Stream(jnp.array([1, 2], jnp.uint32), jnp.uint32(step))


def test_the_published_order_with_a_step_that_varies():
    """O B A, then B O of the same step; the two O between gradients have one noise together."""
    integrator, x = integrators.obabo(T, gamma=GAMMA), jnp.array([0.4, -1.0])
    state, found = integrator.init(x), []
    for n, h in enumerate(STEPS):
        update, state = integrator.move(stream(n), grad(x), state, x, jnp.float32(h))
        x = x + update
        found.append(np.asarray(x, np.float64))
    x, p, before = np.array([0.4, -1.0]), np.zeros(2), 0.0
    for n, (h, wanted) in enumerate(zip(STEPS, found, strict=True)):
        p = p - before / 2 * grad(x)
        first, second = np.exp(-GAMMA * before / 2), np.exp(-GAMMA * h / 2)
        p = second * (first * p)
        p += np.sqrt((1 - (first * second) ** 2) * T) * np.asarray(gaussian(stream(n), x))
        p = p - h / 2 * grad(x)
        x, before = x + h * p, h
        np.testing.assert_allclose(wanted, x, rtol=1e-5, atol=1e-6)


def test_without_friction_and_noise_it_is_verlet_and_keeps_the_energy():
    integrator, x = integrators.obabo(0.0, gamma=1e-9), jnp.array([1.0])
    state = integrator.init(x)

    def body(n, carry):
        x, state = carry
        update, state = integrator.move(stream(n), grad(x), state, x, jnp.float32(0.01))
        return x + update, state

    x, state = jax.lax.fori_loop(0, 700, body, (x, state))
    p = state.momentum - 0.005 * grad(x)
    energy = float((p**2 / 2 + x**2 / 2 + x**4 / 2)[0])
    assert energy == pytest.approx(1.0, abs=1e-3)
    assert float(x[0]) != pytest.approx(1.0, abs=0.05)
