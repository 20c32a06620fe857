"""Averages made during a run converge: single precision does not stop or bend them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import sundman
from sundman.draws import online

SA = sundman.sa_sgld(0.05, alpha=1.0, m=0.1, M=10.0, r=0.5)


def bowl(x):
    return 0.5 * jnp.sum(jnp.square(x))


def far_from_zero(x):
    return 1000.0 + x[0] ** 2


@pytest.mark.usefixtures("optimised")
def test_a_small_part_of_a_large_number(key):
    """A plain running mean in single precision is tens of standard errors off here."""
    draws = sundman.sample(
        bowl, SA, init=jnp.zeros(1), key=key, steps=100_000, online=far_from_zero, stats=()
    )
    values = np.asarray(jax.vmap(far_from_zero)(draws.position[0]), np.float64)
    weight = draws.weight[0].astype(np.float64)
    error = draws.expectation(far_from_zero).error
    wanted = np.average(values, weights=weight)
    assert abs(draws.online.weighted[0] - wanted) < 0.01 * error
    assert abs(draws.online.equal[0] - values.mean()) < 0.01 * error
    np.testing.assert_allclose(draws.online.weight[0], weight.sum(), rtol=1e-9)
    assert draws.online.number[0] == 100_000


def test_counting_and_summing_go_on_beyond_single_precision():
    """2^24 + 1 is not a number in single precision, and 1e9 + 1 is not a sum."""
    zero = jnp.zeros(())
    running = online.begin(zero)._replace(number=jnp.uint32(2**24), weight=(jnp.float32(1e9), zero))
    add = jax.jit(lambda r: online.add(r, jnp.float32(1.0), jnp.float32(1.0), {"potential": zero}))
    for _ in range(10):
        running = add(running)
    one_chain = jax.tree.map(lambda leaf: leaf[None], running)
    averages = online.averaged(one_chain)
    assert averages is not None
    assert averages.number[0] == 2**24 + 10
    assert averages.weight[0] == 1e9 + 10
