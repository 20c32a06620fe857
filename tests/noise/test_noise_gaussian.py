"""The normals: their law, their tails, their extremes and their precision."""

from __future__ import annotations

import importlib
import math

import draws
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import quality
from jax import Array
from numpy.typing import NDArray

from sundman.noise import gaussian

Floats = NDArray[np.float64]

module = importlib.import_module("sundman.noise.gaussian")

LARGEST = 2**32 - 1
CORNERS = [0, 2**8, 2**23, 2**24, 2**30, 2**31, 3 * 2**30, 2**32 - 256, 2**32 - 128, LARGEST]
EXTREMES = np.unique(
    [np.clip(corner + side, 0, LARGEST) for corner in CORNERS for side in (-1, 0, 1)]
).astype(np.uint32)


def from_words(
    monkeypatch: pytest.MonkeyPatch, first: NDArray, second: NDArray, low: int = 0
) -> Array:
    """The normals that ``gaussian`` makes of the given words; doubles if they are enabled."""
    shape = np.shape(first)

    def words_at(_stream: object, _counter: object, **doubles: bool) -> tuple:
        given = (np.full(shape, low), np.full(shape, low)) if doubles else (first, second)
        return tuple(jnp.asarray(word, jnp.uint32) for word in given)

    monkeypatch.setattr(module, "words_at", words_at)
    return gaussian(draws.stream(), jnp.zeros(shape))


def test_moments(normals: Floats) -> None:
    assert np.all(np.abs(quality.moment_scores(normals, quality.normal_moments(12))) < 5.0)


@pytest.mark.long
def test_distribution_function(normals: Floats) -> None:
    assert quality.kolmogorov_smirnov(quality.uniforms(normals)) > 1e-5


@pytest.mark.long
@pytest.mark.parametrize("cells", [16, 1000, 100_000])
def test_equal_cells(normals: Floats, cells: int) -> None:
    assert quality.serial(quality.uniforms(normals), cells) > 1e-5


@pytest.mark.parametrize("threshold", [1.0, 2.0, 3.0, 4.0, 5.0])
def test_tail_counts(normals: Floats, threshold: float) -> None:
    assert quality.tail(normals, threshold) > 1e-5


def test_double_moments_and_tails() -> None:
    with jax.enable_x64(True):
        drawn = draws.elements(1_000_000, seed=5, dtype=jnp.float64)
    assert np.all(np.abs(quality.moment_scores(drawn, quality.normal_moments(12))) < 5.0)
    assert quality.kolmogorov_smirnov(quality.uniforms(drawn)) > 1e-5
    assert quality.tail(drawn, 4.0) > 1e-5


def test_reach_of_single_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    zero = np.zeros(2, np.uint32)
    high, low = np.asarray(from_words(monkeypatch, zero, np.array([0, 2**31], np.uint32)))
    assert high == -low == pytest.approx(math.sqrt(66.0 * math.log(2.0)), rel=1e-6)
    assert high > 6.5


def test_reach_of_double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    with jax.enable_x64(True):
        zero = np.zeros(1, np.uint32)
        (high,) = np.asarray(from_words(monkeypatch, zero, zero))
    assert high == pytest.approx(math.sqrt(130.0 * math.log(2.0)), rel=1e-12)


@pytest.mark.parametrize("x64", [False, True])
@pytest.mark.parametrize("low", [0, LARGEST])
def test_extreme_words_are_finite(monkeypatch: pytest.MonkeyPatch, x64: bool, low: int) -> None:
    first, second = np.meshgrid(EXTREMES, EXTREMES)
    with jax.enable_x64(x64):
        drawn = np.asarray(from_words(monkeypatch, first, second, low))
    assert drawn.dtype == (np.float64 if x64 else np.float32)
    assert np.all(np.isfinite(drawn))
    assert np.max(np.abs(drawn)) < 9.5


def test_logarithm_of_words() -> None:
    rng = np.random.default_rng(0)
    spread = rng.integers(0, 2**32, 10**6) >> rng.integers(0, 32, 10**6)
    word = np.concatenate([EXTREMES, spread]).astype(np.uint32)
    exact = np.log(np.float64(np.float32(word) + np.float32(0.5)) / 2.0**32)
    error = np.abs(np.asarray(jax.jit(module._log_fraction)(word)) - exact)
    assert np.all(error <= 2e-7 * np.abs(exact))


def test_cosine_of_words() -> None:
    word = np.random.default_rng(0).integers(0, 2**32, 10**6, dtype=np.uint32)
    word = np.concatenate([EXTREMES, word])
    exact = np.cos(2.0 * np.pi * (word / 2.0**32))
    assert np.max(np.abs(np.asarray(jax.jit(module._cosine_turn)(word)) - exact)) < 3e-7


def test_transform_has_no_bias() -> None:
    """Means over an even grid of words: E -2 log u = 2, of its square 8; cosine's moments."""
    grid = (np.arange(2**22) * 2**10 + 2**9).astype(np.uint32)
    square = -2.0 * np.asarray(jax.jit(module._log_fraction)(grid), np.float64)
    cosine = np.asarray(jax.jit(module._cosine_turn)(grid), np.float64)
    assert np.mean(square) == pytest.approx(2.0, abs=1e-6)
    assert np.mean(square**2) == pytest.approx(8.0, abs=2e-5)
    assert np.mean(cosine) == pytest.approx(0.0, abs=1e-7)
    assert np.mean(cosine**2) == pytest.approx(0.5, abs=1e-7)
    assert np.mean(cosine**4) == pytest.approx(0.375, abs=1e-7)


def test_single_precision_follows_double() -> None:
    count = 2_000_000
    single = draws.elements(count)
    with jax.enable_x64(True):
        double = draws.elements(count, dtype=jnp.float64)
    error = np.abs(single - double)
    assert np.quantile(error, 0.99) < 5e-7
    assert np.quantile(error, 0.9999) < 2e-6
    assert np.quantile(error, 0.99999) < 1e-5
    assert np.max(error) < 1e-3
