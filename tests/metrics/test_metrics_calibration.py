"""ECE and reliability against a slow loop, and what must hold for any predictions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from predictions import predictions, random_predictions

from sundman import metrics

schemes = pytest.mark.parametrize("scheme", ["width", "mass"])


def slow_ece(p: np.ndarray, y: np.ndarray, bins: int) -> float:
    """Guo and others (2017): one bin after the other, one point after the other."""
    total = 0.0
    for b in range(bins):
        inside = [i for i in range(len(y)) if b / bins < max(p[i]) <= (b + 1) / bins]
        if inside:
            right = sum(list(p[i]).index(max(p[i])) == y[i] for i in inside) / len(inside)
            confidence = sum(max(p[i]) for i in inside) / len(inside)
            total += len(inside) / len(y) * abs(right - confidence)
    return total


@given(predictions(), st.integers(1, 30))
def test_against_a_slow_loop(prediction, bins):
    p, y = prediction
    p = p.clip(max=1)  # a sum rounded up is one bin too far for the loop
    assert metrics.ece(p, y, bins) == pytest.approx(slow_ece(p, y, bins), abs=1e-12)


def test_edges_belong_to_the_bin_below():
    p = np.array([[0.8, 0.2], [0.6, 0.4], [0.5, 0.5], [1.0, 0.0]])
    found = metrics.reliability(p, [0, 0, 0, 0], bins=5)
    np.testing.assert_allclose(found.fraction, [0, 0, 0.5, 0.25, 0.25])
    np.testing.assert_allclose(found.confidence, [np.nan, np.nan, 0.55, 0.8, 1.0])
    np.testing.assert_allclose(found.accuracy, [np.nan, np.nan, 1, 1, 1])


def test_equal_mass():
    p, y = random_predictions(1, 1200, 4)
    found = metrics.reliability(p, y, bins=12, scheme="mass")
    np.testing.assert_allclose(found.fraction, 1 / 12)
    order = np.argsort(p.max(axis=1)).reshape(12, 100)
    np.testing.assert_allclose(found.confidence, p.max(axis=1)[order].mean(axis=1))
    np.testing.assert_allclose(found.accuracy, (p.argmax(axis=1) == y)[order].mean(axis=1))
    gap = np.abs(found.accuracy - found.confidence).mean()
    assert metrics.ece(p, y, bins=12, scheme="mass") == pytest.approx(gap)


@schemes
@given(predictions(), st.integers(1, 40))
def test_bounds_order_and_totals(scheme, prediction, bins):
    p, y = prediction
    value = metrics.ece(p, y, bins, scheme)
    assert 0 <= value <= 1
    order = np.random.default_rng(0).permutation(len(y))
    assert metrics.ece(p[order], y[order], bins, scheme) == pytest.approx(value, abs=1e-12)
    confidence, accuracy, fraction = metrics.reliability(p, y, bins, scheme)
    assert len(fraction) == bins
    assert fraction.sum() == pytest.approx(1)
    assert np.nansum(fraction * confidence) == pytest.approx(p.max(axis=1).mean())
    assert np.nansum(fraction * accuracy) == pytest.approx(metrics.accuracy(p, y))
    assert value >= abs(p.max(axis=1).mean() - metrics.accuracy(p, y)) - 1e-12


@schemes
@given(st.integers(1, 9), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_zero_for_a_calibrated_constant(scheme, tenths, bins, seed):
    right = max(tenths, 10 - tenths)
    p = np.tile([right / 10, 1 - right / 10], (50, 1))
    y = np.random.default_rng(seed).permutation(np.repeat([0, 1], [5 * right, 50 - 5 * right]))
    assert metrics.ece(p, y, bins, scheme) == pytest.approx(0, abs=1e-12)


def test_calibrated_labels_and_overconfident_ones():
    rng = np.random.default_rng(2)
    p, _ = random_predictions(3, 20_000, 3)
    y = (rng.random((len(p), 1)) > p.cumsum(axis=1)).sum(axis=1).clip(max=2)
    sharp = p**3 / (p**3).sum(axis=1, keepdims=True)
    assert metrics.ece(p, y) < 0.02
    assert metrics.ece(sharp, y) > 0.1


def test_bad_settings():
    p, y = random_predictions(0, 4, 3)
    with pytest.raises(ValueError, match="bins=0"):
        metrics.ece(p, y, bins=0)
    with pytest.raises(TypeError, match=r"bins=1\.5"):
        metrics.reliability(p, y, bins=1.5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match="scheme='equal'"):
        metrics.ece(p, y, scheme="equal")  # pyright: ignore[reportArgumentType]
