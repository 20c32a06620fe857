"""Threefry against published answers and against JAX, and the keys it is given."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax import Array
from jax.extend.random import threefry_2x32

from sundman.noise import fold, key_words, threefry2x32

ONES = 0xFFFFFFFF
PI = (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344)

# rounds, counter and key, answer: from kat_vectors of Random123.
KNOWN_ANSWERS = [
    (13, (0, 0, 0, 0), (0x9D1C5EC6, 0x8BD50731)),
    (13, (ONES, ONES, ONES, ONES), (0xFD36D048, 0x2D17272C)),
    (13, PI, (0xBA3E4725, 0xF27D669E)),
    (20, (0, 0, 0, 0), (0x6B200159, 0x99BA4EFE)),
    (20, (ONES, ONES, ONES, ONES), (0x1CB996FC, 0xBB002BE7)),
    (20, PI, (0xC4923A9C, 0x483DF7A0)),
    (32, (0, 0, 0, 0), (0xCEE3D47E, 0xA23DFD5C)),
    (32, (ONES, ONES, ONES, ONES), (0x6E2FE0D0, 0xB1B76F82)),
    (32, PI, (0xE2827716, 0xC3C05CDF)),
]

WORD = st.integers(0, ONES)


@pytest.mark.parametrize(("rounds", "given_words", "answer"), KNOWN_ANSWERS)
def test_known_answers(rounds: int, given_words: tuple[int, ...], answer: tuple[int, int]) -> None:
    c0, c1, k0, k1 = (jnp.uint32(word) for word in given_words)
    left, right = threefry2x32((k0, k1), (c0, c1), rounds)
    assert (int(left), int(right)) == answer


@jax.jit
def twenty_rounds(key: Array, counters: Array) -> Array:
    """Our function with the calling convention of JAX's: the counters in two halves."""
    halves = jnp.split(counters, 2)
    return jnp.concatenate(threefry2x32((key[0], key[1]), (halves[0], halves[1]), 20))


@settings(max_examples=40, deadline=None, derandomize=True)
@given(st.tuples(WORD, WORD), st.lists(WORD, min_size=8, max_size=8))
def test_twenty_rounds_equal_jax(key: tuple[int, int], counters: list[int]) -> None:
    k, c = jnp.array(key, jnp.uint32), jnp.array(counters, jnp.uint32)
    np.testing.assert_array_equal(twenty_rounds(k, c), threefry_2x32(k, c))


def test_distinct_counters_give_distinct_words() -> None:
    index = jnp.arange(2**17, dtype=jnp.uint32)
    left, right = threefry2x32((jnp.uint32(1), jnp.uint32(2)), (index, jnp.uint32(3)))
    joined = np.asarray(left).astype(np.uint64) << 32 | np.asarray(right)
    assert np.unique(joined).size == index.size


def test_fold_gives_distinct_keys() -> None:
    number, purpose = (np.ravel(grid) for grid in np.mgrid[:1000, :8].astype(np.uint32))
    key = key_words(jax.random.key(0))
    keys = jax.jit(jax.vmap(lambda n, p: fold(key, n, p)))(number, purpose)
    assert np.unique(keys, axis=0).shape == (8000, 2)


def test_typed_and_raw_keys_agree() -> None:
    typed = jax.random.key(7, impl="threefry2x32")
    np.testing.assert_array_equal(key_words(typed), key_words(jax.random.key_data(typed)))


@pytest.mark.parametrize("implementation", ["threefry2x32", "rbg", "unsafe_rbg"])
def test_each_seed_has_its_own_words(implementation: str) -> None:
    keys = [key_words(jax.random.key(seed, impl=implementation)) for seed in range(20)]
    assert len({tuple(np.asarray(key).tolist()) for key in keys}) == 20


@pytest.mark.parametrize(
    "bad",
    [
        0,
        [1, 2],
        np.zeros(2, np.int64),
        jnp.zeros(2, jnp.float32),
        jnp.zeros(3, jnp.uint32),
        jnp.zeros((2, 2), jnp.uint32),
        jnp.uint32(1),
    ],
    ids=["int", "list", "int64", "float32", "three words", "two keys", "one word"],
)
def test_a_wrong_key_is_named(bad: Any) -> None:
    with pytest.raises(TypeError, match=r"key must be one JAX random key.*jax\.random\.key"):
        key_words(bad)


def test_a_batch_of_keys_is_refused() -> None:
    with pytest.raises(TypeError, match="key must be one JAX random key"):
        key_words(jax.random.split(jax.random.key(0), 3))
