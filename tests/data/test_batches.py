"""The rows of minibatches: a permutation an epoch, the same backward, and with replacement."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from sundman.data.batches import (
    epoch_rows,
    permute,
    random_rows,
    symmetric_rows,
    take_rows,
)
from sundman.noise import Stream

KEY = jnp.array([123, 456], jnp.uint32)
MOST = 5000


def keys(count, seed=0):
    return jax.random.bits(jax.random.key(seed), (count, 2), jnp.uint32)


@partial(jax.jit, static_argnums=(2, 3))
def steps(key, first, size, batch_size, count=None):
    """Rows and mask of an epoch's steps from ``first`` on."""
    count = -(-size // batch_size) if count is None else count
    number = first + jnp.arange(count, dtype=jnp.uint32)
    return jax.vmap(lambda n: epoch_rows(Stream(key, n), size, batch_size))(number)


@pytest.mark.long
@given(st.integers(1, MOST), st.integers(0, 2**32 - 1))
@example(1, 0)
@example(2, 1)
@example(3, 2)
@example(4097, 3)
@settings(max_examples=8)
def test_permute_is_a_bijection(size, word):
    """For every size; step by step and at one length, so that nothing is compiled for each."""
    index = jnp.asarray(np.arange(MOST) % size)
    with jax.disable_jit():
        image = np.asarray(permute(index, jnp.array([word, 7], jnp.uint32), size))
    np.testing.assert_array_equal(np.sort(image[:size]), np.arange(size))


@pytest.mark.long
@pytest.mark.parametrize("size, batch_size", [(12, 4), (13, 4), (5, 1)])
def test_every_row_comes_once_an_epoch(size, batch_size):
    per_epoch = -(-size // batch_size)
    for epoch in (0, 1, 5):
        rows, mask = steps(KEY, jnp.uint32(epoch * per_epoch), size, batch_size)
        assert rows.shape == (per_epoch, batch_size)
        if size % batch_size == 0:
            assert mask is None
            seen = np.ravel(rows)
        else:
            assert mask[:-1].all()
            assert mask[-1].sum() == size % batch_size
            seen = np.asarray(rows)[np.asarray(mask)]
        np.testing.assert_array_equal(np.sort(seen), np.arange(size))
        assert np.all(np.asarray(rows) < size)


def test_epochs_and_keys_have_orders_of_their_own():
    orders = [
        np.ravel(steps(key, jnp.uint32(first), 100, 25)[0])
        for key in (KEY, KEY + jnp.uint32(1))
        for first in (0, 4, 8)
    ]
    for i, one in enumerate(orders):
        for other in orders[:i]:
            assert np.mean(one == other) < 0.08  # a hundredth by chance
    again = np.ravel(steps(KEY, jnp.uint32(4), 100, 25)[0])
    np.testing.assert_array_equal(again, orders[1])


def test_any_step_can_be_had_alone():
    rows, _ = steps(KEY, jnp.uint32(0), 100, 25)
    alone, _ = epoch_rows(Stream(KEY, jnp.uint32(2)), 100, 25)
    np.testing.assert_array_equal(alone, rows[2])


@pytest.mark.long
@pytest.mark.parametrize("size, batch_size", [(12, 4), (13, 4)])
def test_symmetric_order_is_an_epoch_and_its_mirror(size, batch_size):
    per_epoch = -(-size // batch_size)
    at = jax.vmap(lambda n: symmetric_rows(Stream(KEY, n), size, batch_size))
    rows, mask = at(jnp.arange(4 * per_epoch, dtype=jnp.uint32))
    real = np.ones(rows.shape, bool) if mask is None else np.asarray(mask)
    forward, backward, later = (np.asarray(rows)[i * per_epoch :][:per_epoch] for i in range(3))
    np.testing.assert_array_equal(np.sort(forward[real[:per_epoch]]), np.arange(size))
    np.testing.assert_array_equal(backward, forward[::-1])
    np.testing.assert_array_equal(real[per_epoch : 2 * per_epoch], real[:per_epoch][::-1])
    assert not np.array_equal(later, forward)  # the next pair has an order of its own


@pytest.mark.long
@pytest.mark.parametrize("size", [20, 37])
def test_orders_are_uniform(size):
    """Where a row goes, and where a pair of rows goes, over many keys."""
    orders = jax.jit(jax.vmap(lambda key: permute(jnp.arange(size), key, size)))
    image = np.asarray(orders(keys(40_000)), np.int64)
    for row in (0, 1, size - 1):
        assert stats.chisquare(np.bincount(image[:, row], minlength=size)).pvalue > 1e-4
    apart = (image[:, 1] - image[:, 0]) % size
    assert stats.chisquare(np.bincount(apart, minlength=size)[1:]).pvalue > 1e-4
    # Neighbours in a batch are no more alike than others: sum over a batch of a smooth function.
    batch = np.sin(2 * np.pi * image[:, : size // 2] / size).sum(axis=1)
    variance = 0.5 * (size // 2) * (size - size // 2) / (size - 1)
    assert np.var(batch) == pytest.approx(variance, rel=0.04)


def test_random_rows_are_uniform_and_independent_of_each_other():
    draw = jax.jit(jax.vmap(lambda n: random_rows(Stream(KEY, n), 37, 100)[0]))
    rows = np.asarray(draw(jnp.arange(1000, dtype=jnp.uint32)))
    assert rows.shape == (1000, 100)
    assert stats.chisquare(np.bincount(rows.ravel(), minlength=37)).pvalue > 1e-4
    pairs = rows[:, 0::2] * 37 + rows[:, 1::2]
    assert stats.chisquare(np.bincount(pairs.ravel(), minlength=37**2)).pvalue > 1e-4
    assert random_rows(Stream(KEY, jnp.uint32(0)), 37, 100)[1] is None


def test_take_rows_of_a_pytree():
    tree = {"a": jnp.arange(10), "b": jnp.arange(20).reshape(10, 2)}
    taken = take_rows(tree, jnp.array([3, 0]))
    np.testing.assert_array_equal(taken["a"], [3, 0])
    np.testing.assert_array_equal(taken["b"], [[6, 7], [0, 1]])
