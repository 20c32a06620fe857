"""Draws do not depend on each other, whichever way one walks through a stream."""

from __future__ import annotations

from typing import Any

import draws
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import quality
from numpy.typing import NDArray

from sundman.noise import Stream, gaussian, substream, words

Floats = NDArray[np.float64]

LAGS = range(1, 51)
ROWS, COLUMNS = 2000, 1000


def assert_uncorrelated(scores: Floats) -> None:
    """Every correlation within five of its standard errors."""
    assert np.max(np.abs(scores)) < 5.0, f"worst z-score {scores[np.argmax(np.abs(scores))]}"


@pytest.fixture(scope="module", params=["steps", "seeds", "chains"])
def rows(request: pytest.FixtureRequest) -> Floats:
    """A matrix with one step, seed or chain per row and one element per column."""
    if request.param == "steps":
        return draws.by_step(ROWS, COLUMNS)
    keys = draws.seed_keys if request.param == "seeds" else draws.chain_keys
    return draws.by_key(keys(ROWS), COLUMNS)


def test_across_elements(normals: Floats) -> None:
    assert_uncorrelated(quality.lag_scores(normals, LAGS))


def test_squares_across_elements(normals: Floats) -> None:
    squares = quality.standard_squares(normals)
    assert_uncorrelated(quality.lag_scores(squares, LAGS))
    assert_uncorrelated(quality.cross_scores(normals, squares, [-3, -2, -1, 1, 2, 3]))


def test_same_element_across_rows(rows: Floats) -> None:
    assert_uncorrelated(quality.lag_scores(rows, LAGS, axis=0))


def test_squares_across_rows(rows: Floats) -> None:
    assert_uncorrelated(quality.lag_scores(quality.standard_squares(rows), LAGS, axis=0))


def test_other_elements_of_the_next_row(rows: Floats) -> None:
    assert_uncorrelated(quality.diagonal_scores(rows, LAGS))


def test_rows_have_the_normal_law(rows: Floats) -> None:
    assert np.all(np.abs(quality.moment_scores(rows, quality.normal_moments(12))) < 5.0)


@pytest.mark.long
def test_pairs_and_triples_fill_space(normals: Floats) -> None:
    uniform = quality.uniforms(normals)
    assert quality.serial(uniform.reshape(-1, 2), 64) > 1e-5
    assert quality.serial(uniform[: uniform.size // 3 * 3].reshape(-1, 3), 20) > 1e-5


def test_across_leaves() -> None:
    like = {name: jnp.zeros((500, 1000)) for name in "abc"}
    drawn = jax.jit(lambda stream: gaussian(stream, like))(draws.stream())
    a, b, c = (np.ravel(leaf).astype(np.float64) for leaf in drawn.values())
    for first, second in ((a, b), (b, c), (a, c)):
        assert_uncorrelated(quality.cross_scores(first, second, range(-50, 51)))
        squares = quality.standard_squares(first), quality.standard_squares(second)
        assert_uncorrelated(quality.cross_scores(*squares, range(-50, 51)))


@pytest.mark.parametrize("purpose", [1, 2])
def test_across_purposes(normals: Floats, purpose: int) -> None:
    def other(stream: Stream, like: Any) -> Any:
        return gaussian(substream(stream, purpose), like)

    second = draws.elements(10**6, noise=other)
    assert_uncorrelated(quality.cross_scores(normals[: 10**6], second, range(-50, 51)))


def test_low_words_are_new() -> None:
    def pairs(**low: Any) -> NDArray[np.uint32]:
        drawn = words(draws.stream(), (2**18,), **low)
        return np.stack([np.asarray(word) for word in drawn], axis=1)

    assert quality.worst(quality.bit_products(pairs(), pairs(low=True))) > 1e-5


@pytest.mark.long
def test_bits_of_one_and_of_neighbouring_elements_and_steps() -> None:
    now, later = (draws.word_pairs(2**19, step=step) for step in (0, 1))
    assert quality.worst(quality.bit_balance(now)) > 1e-5
    assert quality.worst(quality.bit_correlations(now)) > 1e-5
    assert quality.worst(quality.bit_products(now[:-1], now[1:])) > 1e-5
    assert quality.worst(quality.bit_products(now, later)) > 1e-5
    assert quality.hamming_weight(now) > 1e-5


def test_steps_and_elements_never_share_a_counter() -> None:
    """The counter is one to one in (element, step): no pair of words comes twice."""
    key = draws.stream().key
    steps = jnp.arange(500, dtype=jnp.uint32)
    left, right = jax.jit(jax.vmap(lambda step: words(Stream(key, step), (500,))))(steps)
    joined = np.asarray(left).astype(np.uint64) << 32 | np.asarray(right)
    assert np.unique(joined).size == 500 * 500


def test_pairs_are_two_independent_normals() -> None:
    """Elements whose counters differ in the bit 8 share their words: a point in the plane."""
    first = draws.elements(2**21, seed=11).reshape(-1, 2, 8)
    x, y = first[:, 0].ravel(), first[:, 1].ravel()
    n = len(x)
    radius = np.sort(-0.5 * (x**2 + y**2))
    turn = np.sort(np.arctan2(y, x) / (2 * np.pi) + 0.5)
    grid = (np.arange(n) + 0.5) / n
    for uniform in (np.exp(radius), turn):
        assert np.abs(uniform - grid).max() < 2.5 / np.sqrt(n)
    for p, q in [(1, 1), (2, 2), (1, 3), (4, 4), (3, 3)]:
        moments = quality.normal_moments(16)
        mean, square = (np.prod([moments[k * power] for power in (p, q)]) for k in (1, 2))
        score = (np.mean(x**p * y**q) - mean) / np.sqrt((square - mean**2) / n)
        assert abs(score) < 5.0, (p, q, score)
