"""Two-point and three-point noise: support, probabilities, moments, dependence."""

from __future__ import annotations

import importlib
import math

import draws
import jax.numpy as jnp
import numpy as np
import pytest
import quality
from numpy.typing import NDArray

from sundman.noise import Noise, three_point, two_point

module = importlib.import_module("sundman.noise.gaussian")

COUNT = 4_000_000
ROOT = float(np.float32(math.sqrt(3.0)))
SUPPORT = {two_point: [-1.0, 1.0], three_point: [-ROOT, 0.0, ROOT]}
LAW = {two_point: [1 / 2, 1 / 2], three_point: [1 / 6, 2 / 3, 1 / 6]}
MATCHED = {two_point: 3, three_point: 5}
BOTH = pytest.mark.parametrize("noise", [two_point, three_point])

_DRAWN: dict[Noise, NDArray[np.float64]] = {}


def drawn(noise: Noise) -> NDArray[np.float64]:
    """Four million draws, made once."""
    if noise not in _DRAWN:
        _DRAWN[noise] = draws.elements(COUNT, noise=noise)
    return _DRAWN[noise]


def exact_moments(noise: Noise, order: int) -> list[float]:
    """Moments 0 .. order from the support and the probabilities."""
    support, law = SUPPORT[noise], LAW[noise]
    return [sum(p * x**k for x, p in zip(support, law, strict=True)) for k in range(order + 1)]


@BOTH
def test_support_and_probabilities(noise: Noise) -> None:
    values, counts = np.unique(drawn(noise), return_counts=True)
    assert values.tolist() == SUPPORT[noise]
    assert quality.chi_square(counts, np.array(LAW[noise]) * COUNT) > 1e-5


@BOTH
def test_moments(noise: Noise) -> None:
    exact = exact_moments(noise, 2 * MATCHED[noise])
    assert np.all(np.abs(quality.moment_scores(drawn(noise), exact)) < 5.0)


@BOTH
def test_moments_match_the_normal(noise: Noise) -> None:
    order = MATCHED[noise]
    np.testing.assert_allclose(
        exact_moments(noise, order), quality.normal_moments(order), atol=1e-6
    )


@BOTH
def test_across_elements(noise: Noise) -> None:
    assert np.max(np.abs(quality.lag_scores(drawn(noise), range(1, 51)))) < 5.0


@BOTH
def test_thresholds(noise: Noise, monkeypatch: pytest.MonkeyPatch) -> None:
    """The words at which the value changes leave each value its exact share of 2^32 words."""
    sixth = 2**32 // 6
    edges = {two_point: [2**31], three_point: [sixth, 2**32 - sixth]}[noise]
    word = [0, *(edge + side for edge in edges for side in (-1, 0)), 2**32 - 1]
    given = jnp.array(word, jnp.uint32)
    monkeypatch.setattr(module, "words", lambda *_: (given, given))
    values = noise(draws.stream(), jnp.zeros(given.shape)).tolist()
    assert values == [value for value in reversed(SUPPORT[noise]) for _ in range(2)]
