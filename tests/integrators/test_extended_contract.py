"""What every integrator promises, for those of several copies, stages, or the potential's value."""

import cloudpickle
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import sundman
from sundman import clocks, integrators
from sundman.noise import Stream
from sundman.recipes import (
    contour_sgld,
    cyclical_sghmc,
    cyclical_sgld,
    replica_exchange_sgld,
)

BUILD = {
    "cyclical_sgld": lambda T: cyclical_sgld(0.1, T, cycle=8, explore=3),
    "cyclical_sghmc": lambda T: cyclical_sghmc(0.1, T, cycle=8, explore=3),
    "replica_exchange": lambda T: replica_exchange_sgld(0.05, T, ratios=(1.0, 2.0, 5.0)),
    "contour": lambda T: contour_sgld(0.05, T, low=0.0, high=10.0, bins=5),
}
every = pytest.mark.parametrize("name", BUILD)


def tree(dtype=jnp.float32, copies=1):
    one = {"w": jnp.ones((3, 2), dtype), "b": [jnp.zeros(2, dtype), jnp.asarray(0.5, dtype)]}
    if copies == 1:
        return one
    return jax.tree.map(lambda leaf: jnp.stack([leaf] * copies), one)


def potential(params):
    return sum(jnp.sum(jnp.square(leaf)) for leaf in jax.tree.leaves(params))


def run(sampler, params, steps=3):
    value_and_grad = jax.value_and_grad(potential)
    if sampler.integrator.replicas > 1:
        value_and_grad = jax.vmap(value_and_grad)

    def body(carry, _):
        params, state = carry
        value, grads = value_and_grad(params)
        params, state = sampler.step(grads, state, params, value)
        return (params, state), sampler.weight(state)

    return jax.jit(
        lambda params, key: lax.scan(body, (params, sampler.init(params, key)), length=steps)
    )(params, jax.random.key(3))


def shapes(state):
    return jax.tree.map(lambda leaf: (jnp.shape(leaf), jnp.result_type(leaf)), state)


@every
def test_structure_and_types(name, x64):
    """scan needs the state to keep its shapes and types; so must the position."""
    sampler = BUILD[name](1.0)
    for dtype in (jnp.float32, jnp.bfloat16, jnp.float64):
        params = tree(dtype, sampler.integrator.replicas)
        (moved, state), weights = run(sampler, params)
        assert shapes(moved) == shapes(params)
        assert shapes(state) == shapes(sampler.init(params, jax.random.key(3)))
        assert weights.dtype == (jnp.float64 if dtype == jnp.float64 else jnp.float32)
        assert (weights > 0).all()


@every
def test_zero_temperature_minimises(name):
    sampler = BUILD[name](0.0)
    (moved, _), _ = run(sampler, tree(copies=sampler.integrator.replicas), steps=2000)
    assert float(potential(moved)) < 1e-6


@every
def test_the_same_at_another_temperature(name):
    sampler = BUILD[name](1.0)
    cold = sampler.at(0.3)
    assert cold.settings == {**sampler.settings, "temperature": 0.3}
    assert cold.temperature == 0.3
    assert {"integrator", "temperature", "clock"} <= cold.settings.keys()
    params = tree(copies=sampler.integrator.replicas)
    for one, other in zip(
        jax.tree.leaves(run(cold, params)),
        jax.tree.leaves(run(BUILD[name](0.3), params)),
        strict=True,
    ):
        np.testing.assert_array_equal(one, other)


@every
def test_survives_a_pickle(name):
    sampler = BUILD[name](0.7)
    again = cloudpickle.loads(cloudpickle.dumps(sampler))
    assert again.settings == sampler.settings
    assert again.clock.stages == sampler.clock.stages
    assert again.integrator.replicas == sampler.integrator.replicas


def test_stages_around_an_integrator_that_needs_more():
    """Values, weights and copies of what is inside go through."""
    inner = integrators.contour(low=0.0, high=9.0, bins=3)
    staged = integrators.staged(inner, cycle=4, explore=2)
    assert staged.needs_value
    assert staged.weigh is inner.weigh
    sampler = sundman.compose(staged, clocks.cyclical(0.1, cycle=4, explore=2))
    (_, state), weights = run(sampler, tree(), steps=8)
    assert np.isfinite(weights).all()
    assert float(state.motion.shares.sum()) == pytest.approx(1.0, rel=1e-5)


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
