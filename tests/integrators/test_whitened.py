"""Whitened coordinates: the same path as in coordinates of unit size, whatever the scheme."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman import clocks, contrib, integrators, scaling

MATRIX = np.array([[2.0, 0.0], [-30.0, 100.0]], np.float32)
SCHEMES = {
    "euler_maruyama": integrators.euler_maruyama(0.7),
    "baoab": integrators.baoab(0.7, gamma=0.8),
    "obabo": integrators.obabo(0.7, gamma=0.8),
    "sghmc": integrators.sghmc(0.7, gamma=0.8),
    "sgnht": integrators.sgnht(0.7, gamma=0.8),
    "low_rank_baoab": integrators.low_rank_baoab(0.7, gamma=0.8, rank=1),
}


def unit(z):
    return 0.5 * jnp.sum(z**2) + 0.1 * jnp.sum(z**4)


def stretched(x):
    return unit(jnp.linalg.solve(jnp.asarray(MATRIX), x))


def path(potential, integrator, clock, start):
    sampler = sundman.compose(integrator, clock)
    draws = sundman.sample(potential, sampler, init=start, key=jax.random.key(1), steps=60)
    return draws


@pytest.mark.long
@pytest.mark.parametrize(
    "scheme",
    [
        pytest.param(s, marks=() if s in ("baoab", "low_rank_baoab") else pytest.mark.slow)
        for s in SCHEMES
    ],
)
def test_it_is_a_change_of_variables(scheme):
    start = np.array([0.3, -0.5], np.float32)
    plain = path(unit, SCHEMES[scheme], clocks.constant(0.2), start)
    scale = scaling.dense(MATRIX)
    inside = path(
        stretched,
        integrators.whitened(SCHEMES[scheme], scale),
        clocks.constant(0.2),
        MATRIX @ start,
    )
    np.testing.assert_allclose(
        inside.values @ np.linalg.inv(MATRIX).T, plain.values, rtol=2e-3, atol=2e-3
    )


def test_the_clock_sees_the_whitened_norm():
    start = np.array([0.3, -0.5], np.float32)
    scale = scaling.dense(MATRIX)
    plain = path(unit, SCHEMES["baoab"], clocks.scale_free(0.2, g_ref=2.0), start)
    monitor = clocks.monitors.whitened(scale)
    inside = path(
        stretched,
        integrators.whitened(SCHEMES["baoab"], scale),
        clocks.scale_free(0.2, g_ref=2.0, monitor=monitor),
        MATRIX @ start,
    )
    np.testing.assert_allclose(inside.stats["dt"], plain.stats["dt"], rtol=2e-3)


def test_a_diagonal_scale_is_a_pytree_with_numbers_or_arrays():
    params = {"a": jnp.zeros(3), "b": jnp.zeros((2, 2))}
    scale = scaling.diagonal({"a": jnp.array([1.0, 2.0, 3.0]), "b": 10.0})
    out = scale.outward(jax.tree.map(jnp.ones_like, params))
    np.testing.assert_array_equal(out["a"], [1.0, 2.0, 3.0])
    np.testing.assert_array_equal(out["b"], np.full((2, 2), 10.0))
    assert scale.shape == (4,)
    integrators.whitened(integrators.baoab(), scale).init(params)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: scaling.dense(jnp.zeros((2, 3))), "square"),
        (lambda: scaling.dense(jnp.full((2, 2), jnp.nan)), "not finite"),
        (lambda: scaling.diagonal(jnp.array([1.0, 0.0])), "positive"),
        (
            lambda: integrators.whitened(
                contrib.integrators.sgrld(
                    metric=sundman.contrib.metric_tensors.monge(lambda x: jnp.sum(x), 0.1)
                ),
                scaling.dense(jnp.eye(2)),
            ),
            "metric of its own",
        ),
        (
            lambda: integrators.whitened(integrators.baoab(), scaling.dense(jnp.eye(2))).init(
                jnp.zeros(3)
            ),
            "3",
        ),
        (
            lambda: integrators.whitened(integrators.baoab(), scaling.diagonal(jnp.ones(2))).init(
                jnp.zeros(3)
            ),
            "shape",
        ),
        (
            lambda: integrators.whitened(integrators.baoab(), scaling.diagonal(jnp.ones(2))).init(
                {"a": jnp.zeros(2)}
            ),
            "structure",
        ),
    ],
)
def test_bad_scales(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_sigma_may_be_a_number_for_each_coordinate():
    one = integrators.baoab(1.0, gamma=1.0, sigma=2.0)
    each = integrators.baoab(1.0, gamma=1.0, sigma=jnp.array([2.0, 2.0]))
    start = np.array([0.3, -0.5], np.float32)
    plain, other = (path(unit, which, clocks.constant(0.2), start) for which in (one, each))
    np.testing.assert_allclose(plain.values, other.values, rtol=1e-5, atol=1e-6)
