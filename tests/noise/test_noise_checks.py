"""The checks themselves: silent on a good generator, loud on a broken one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import draws
import jax.numpy as jnp
import numpy as np
import pytest
import quality
from numpy.typing import NDArray

from sundman.noise import stream as stream_module
from sundman.noise import threefry2x32

Floats = NDArray[np.float64]

COUNT = 2_000_000
LAGS = range(1, 51)


def moments(normals: Floats) -> float:
    """P-value of the first six moments."""
    return quality.worst(quality.moment_scores(normals, quality.normal_moments(12)))


def lags(draws: Floats) -> float:
    """P-value of the autocorrelations, along the first axis of a matrix."""
    return quality.worst(quality.lag_scores(draws, LAGS, axis=0))


def squares(normals: Floats) -> float:
    """P-value of the autocorrelations of squares."""
    return lags(quality.standard_squares(normals))


def diagonals(normals: Floats) -> float:
    """P-value of the correlations with other elements of the next row."""
    return quality.worst(quality.diagonal_scores(normals, LAGS))


def distribution(normals: Floats) -> float:
    """P-value of the distribution function."""
    return quality.kolmogorov_smirnov(quality.uniforms(normals))


def cells(normals: Floats) -> float:
    """P-value of the counts in equal cells."""
    return quality.serial(quality.uniforms(normals), 1000)


def tail(normals: Floats) -> float:
    """P-value of the count beyond three sigma."""
    return quality.tail(normals, 3.0)


def pairs(normals: Floats) -> float:
    """P-value of the counts of successive pairs in square cells."""
    return quality.serial(quality.uniforms(normals).reshape(-1, 2), 16)


def sign_runs(normals: Floats) -> float:
    """P-value of the number of runs of one sign."""
    return quality.worst(np.array([quality.sign_changes(normals)]))


def turns(normals: Floats) -> float:
    """P-value of the number of local extrema."""
    return quality.worst(np.array([quality.turning_points(normals)]))


def of_words(check: Callable[[Any], Any]) -> Callable[[NDArray[np.uint32]], float]:
    """A check of z-scores of word pairs as a p-value."""
    return lambda words: quality.worst(check(words))


def next_bits(words: NDArray[np.uint32]) -> Floats:
    """z-scores of the bits of neighbouring elements."""
    return quality.bit_products(words[:-1], words[1:])


LAW = [moments, distribution, cells, tail]
ORDER = [lags, squares, pairs, sign_runs, turns]
BITS = {
    "balance": of_words(quality.bit_balance),
    "correlations": of_words(quality.bit_correlations),
    "next": of_words(next_bits),
    "weight": quality.hamming_weight,
    "birthdays": lambda words: quality.birthday_spacings(words[:, 0]),
    "gaps": lambda words: quality.gaps(words[:, 0] / 2.0**32, 0.125),
}


@pytest.fixture(scope="module")
def good() -> Floats:
    """Normals of NumPy, to be spoilt."""
    return np.random.default_rng(1).standard_normal(COUNT)


@pytest.fixture(scope="module")
def hasty() -> tuple[Floats, NDArray[np.uint32]]:
    """Normals and words of our generator with four rounds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stream_module, "DEFAULT_ROUNDS", 4)
        return draws.elements(COUNT), draws.word_pairs(2**19)


def alarm_rate(check: Callable[[Any], float], sample: Callable[[], Any], repeats: int) -> float:
    """How often a check's p-value falls below 0.05."""
    return float(np.mean([check(sample()) < 0.05 for _ in range(repeats)]))


@pytest.mark.long
@pytest.mark.parametrize("check", [*LAW, *ORDER])
def test_alarms_are_as_rare_as_claimed(check: Callable[[Floats], float]) -> None:
    rng = np.random.default_rng(2)
    assert 0.0 < alarm_rate(check, lambda: rng.standard_normal(20_000), 200) < 0.13


@pytest.mark.long
@pytest.mark.parametrize("name", BITS)
def test_alarms_on_words_are_as_rare_as_claimed(name: str) -> None:
    rng = np.random.default_rng(3)

    def sample() -> NDArray[np.uint32]:
        return rng.integers(0, 2**32, (2**13, 2), dtype=np.uint32)

    assert 0.0 < alarm_rate(BITS[name], sample, 200) < 0.13


@pytest.mark.long
@pytest.mark.parametrize("check", LAW)
def test_a_variance_one_percent_too_large_is_seen(check: Any, normals: Floats) -> None:
    assert check(normals * np.sqrt(1.01)) < 1e-6


@pytest.mark.parametrize("check", [moments, distribution, cells])
def test_skewness_is_seen(check: Any, good: Floats) -> None:
    assert check(good + 0.01 * (good**2 - 1.0)) < 1e-6


@pytest.mark.parametrize("check", [moments, lambda z: quality.tail(z, 4.0)])
def test_cut_tails_are_seen(check: Any, good: Floats) -> None:
    assert check(np.where(np.abs(good) < 3.5, good, 0.0)) < 1e-6


@pytest.mark.parametrize("check", [lags, turns, sign_runs])
def test_a_weak_correlation_is_seen(check: Any, good: Floats) -> None:
    mixed = (good[1:] + 0.02 * good[:-1]) / np.sqrt(1.0 + 0.02**2)
    assert moments(mixed) > 1e-5
    assert check(mixed) < 1e-6


def test_a_common_scale_of_neighbours_is_seen(good: Floats) -> None:
    scale = np.repeat(np.random.default_rng(4).choice([0.9, 1.1], COUNT // 4), 4)
    assert lags(good * scale) > 1e-5
    assert squares(good * scale) < 1e-6


@pytest.mark.parametrize("check", ORDER)
def test_four_rounds_are_too_few(check: Any, hasty: tuple[Floats, NDArray[np.uint32]]) -> None:
    assert check(hasty[0]) < 1e-6


@pytest.mark.parametrize("name", [name for name in BITS if name != "balance"])
def test_four_rounds_spoil_the_words(name: str, hasty: tuple[Floats, NDArray[np.uint32]]) -> None:
    assert BITS[name](hasty[1]) < 1e-6


def test_one_biased_bit_is_seen() -> None:
    words = draws.word_pairs(2**19)
    words[::50, 1] |= np.uint32(2**17)
    scores = quality.bit_balance(words)
    assert int(np.argmax(np.abs(scores))) == 32 + 17
    assert quality.worst(scores) < 1e-6


@pytest.mark.parametrize("arrange", ["steps", "seeds"])
def test_four_rounds_tie_rows_together(arrange: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "DEFAULT_ROUNDS", 4)
    seeds = arrange == "seeds"
    rows = draws.by_key(draws.seed_keys(1000), 1000) if seeds else draws.by_step(1000, 1000)
    assert lags(rows) < 1e-6


def test_eight_rounds_are_caught_by_squares_and_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_module, "DEFAULT_ROUNDS", 8)
    normals = draws.elements(COUNT)
    assert moments(normals) > 1e-5
    assert squares(normals) < 1e-6
    assert pairs(normals) < 1e-6


def test_a_counter_that_slides_with_the_step_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Element i + 1 of one step is element i of the next."""

    def sliding(key: Any, counter: Any, rounds: int) -> Any:
        return threefry2x32(key, (counter[0], jnp.uint32(0)), rounds)

    monkeypatch.setattr(stream_module, "threefry2x32", sliding)
    monkeypatch.setattr(stream_module, "_GOLDEN_RATIO", 1)
    assert diagonals(draws.by_step(300, 1000)) < 1e-6


def test_one_key_for_all_chains_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draws, "fold", lambda key, _chain, _purpose: key)
    assert lags(draws.by_key(draws.chain_keys(1000), 1000)) < 1e-6
