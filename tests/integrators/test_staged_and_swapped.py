"""Stages around another integrator, and swaps of copies."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import clocks, integrators
from sundman.noise import Stream


def test_stages_around_an_integrator_that_needs_more():
    """Values, weights and copies of what is inside go through."""
    inner = integrators.contour(low=0.0, high=9.0, bins=3)
    staged = integrators.staged(inner, cycle=4, explore=2)
    assert staged.needs_value
    assert staged.has_weights
    sampler = sundman.compose(staged, clocks.cyclical(0.1, cycle=4, explore=2))
    x = jnp.array([1.0, -0.5])
    state = sampler.init(x, jax.random.key(3))
    step = jax.jit(lambda x, state: sampler.step(2 * x, state, x, jnp.sum(x**2)))
    for _ in range(8):
        x, state = step(x, state)
        assert np.isfinite(sampler.weight(state))
    assert float(state.motion.shares.sum()) == pytest.approx(1.0, rel=1e-5)


@pytest.mark.long
def test_the_hot_copies_are_hot_and_swap_with_their_neighbours():
    """On a flat potential every swap is taken; a step's update has the variance 2 T_r dt."""
    integrator = integrators.replica_exchange(0.5, ratios=(1.0, 4.0, 9.0), swap_rate=1e-9)
    x = jnp.zeros((3, 20_000))
    stream = Stream(jnp.array([1, 2], jnp.uint32), jnp.uint32(0))
    updates, _ = integrator.move(
        stream, x, integrator.init(x), x, jnp.float32(0.1), value=jnp.zeros(3)
    )
    np.testing.assert_allclose(np.var(updates, axis=1), [0.1, 0.4, 0.9], rtol=0.05)

    sampler = sundman.compose(
        integrators.replica_exchange(ratios=(1.0, 2.0, 3.0), swap_rate=1e13), clocks.constant(1e-12)
    )
    names = jnp.array([[1.0], [2.0], [3.0]])
    state = sampler.init(names, jax.random.key(1))
    step = jax.jit(lambda x, state: sampler.step(jnp.zeros_like(x), state, x, jnp.zeros(3)))
    for _ in range(20):
        after, state = step(names, state)
        changed = np.flatnonzero(np.abs(np.asarray(after - names))[:, 0] > 0.5)
        assert changed.tolist() in ([0, 1], [1, 2])
        assert sorted(np.round(np.asarray(after)[:, 0]).tolist()) == [1.0, 2.0, 3.0]
        names = after
    assert int(state.motion.tried.sum()) == int(state.motion.swapped.sum()) == 20
    assert (np.asarray(state.motion.tried) > 3).all()
